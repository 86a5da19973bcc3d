/* SPDX-License-Identifier: MIT */
/*
 * libssh2's blocking interface: WHERE is "PORT USER FOLDER". The folder has the keys "key" and
 * "key.pub", and a file "file". Each task runs a command that takes a while, and reads the file by
 * SFTP. The asynchronous interface is that of sessions which do not block.
 */
#include <arpa/inet.h>
#include <libssh2.h>
#include <libssh2_sftp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "crowd.h"
#include "loop.h"

static struct {
	int port;
	char user[64], folder[200], file[300], key[300], public_key[300];
	char *bytes; /* the contents of the file */
	size_t size;
} place;

static int prepare(struct crowd *crowd)
{
	FILE *file;

	if (sscanf(crowd->where, "%d %63s %199s", &place.port, place.user, place.folder) != 3)
		return 1;
	snprintf(place.key, sizeof place.key, "%s/key", place.folder);
	snprintf(place.public_key, sizeof place.public_key, "%s/key.pub", place.folder);
	snprintf(place.file, sizeof place.file, "%s/file", place.folder);
	place.bytes = malloc(1 << 20);
	file = fopen(place.file, "re");
	if (!file || !place.bytes)
		return 1;
	place.size = fread(place.bytes, 1, 1 << 20, file);
	fclose(file);
	return libssh2_init(0);
}

static int connect_to(int port)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons((uint16_t)port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	perror("connect");
	if (fd >= 0)
		close(fd);
	return -1;
}

struct client {
	struct loop_watch watch;
	int number, fd, step;
	LIBSSH2_SESSION *session;
	LIBSSH2_CHANNEL *channel;
	LIBSSH2_SFTP *sftp;
	LIBSSH2_SFTP_HANDLE *file;
	char answer[40];
	size_t n; /* how much of the answer or the file has come */
};

/*
 * The steps of a client. Each returns 0 when it has ended, and another value if it has failed. In a
 * session that does not block, it may return LIBSSH2_ERROR_EAGAIN; it is then called again when the
 * socket is ready.
 */

/* For calls that return a pointer: why it is NULL. */
static int status_of(const struct client *client, const void *made)
{
	const int error = libssh2_session_last_errno(client->session);

	return made ? 0 : error ? error : LIBSSH2_ERROR_BAD_USE;
}

static int shake_hands(struct client *client)
{
	return libssh2_session_handshake(client->session, client->fd);
}

static int authenticate(struct client *client)
{
	return libssh2_userauth_publickey_fromfile(client->session, place.user, place.public_key,
						   place.key, NULL);
}

static int open_channel(struct client *client)
{
	client->channel = libssh2_channel_open_session(client->session);
	return status_of(client, client->channel);
}

static int start_command(struct client *client)
{
	char command[100];

	snprintf(command, sizeof command, "sleep 0.2; echo answer %d; exit 3", client->number);
	return libssh2_channel_exec(client->channel, command);
}

static int read_answer(struct client *client)
{
	const size_t size = sizeof client->answer - 1;
	char expected[40];
	ssize_t got = 0;

	while (client->n < size &&
	       (got = libssh2_channel_read(client->channel, client->answer + client->n,
					   size - client->n)) > 0)
		client->n += (size_t)got;
	if (got < 0)
		return (int)got;
	snprintf(expected, sizeof expected, "answer %d\n", client->number);
	client->n = 0;
	return strcmp(client->answer, expected);
}

static int close_channel(struct client *client)
{
	return libssh2_channel_close(client->channel);
}

static int await_end(struct client *client)
{
	const int status = libssh2_channel_wait_closed(client->channel);

	return status != 0 ? status : libssh2_channel_get_exit_status(client->channel) != 3;
}

static int free_channel(struct client *client)
{
	return libssh2_channel_free(client->channel);
}

static int start_sftp(struct client *client)
{
	client->sftp = libssh2_sftp_init(client->session);
	return status_of(client, client->sftp);
}

static int open_file(struct client *client)
{
	client->file = libssh2_sftp_open(client->sftp, place.file, LIBSSH2_FXF_READ, 0);
	return status_of(client, client->file);
}

static int read_file(struct client *client)
{
	char buf[10000];
	ssize_t got;

	while ((got = libssh2_sftp_read(client->file, buf, sizeof buf)) > 0 &&
	       client->n + (size_t)got <= place.size &&
	       memcmp(buf, place.bytes + client->n, (size_t)got) == 0)
		client->n += (size_t)got;
	if (got < 0)
		return (int)got;
	return got != 0 || client->n != place.size;
}

static int close_file(struct client *client)
{
	return libssh2_sftp_close(client->file);
}

static int end_sftp(struct client *client)
{
	return libssh2_sftp_shutdown(client->sftp);
}

static int disconnect(struct client *client)
{
	return libssh2_session_disconnect(client->session, "done");
}

static int (*const steps[])(struct client *client) = {
	shake_hands,   authenticate, open_channel, start_command, read_answer,
	close_channel, await_end,    free_channel, start_sftp,    open_file,
	read_file,     close_file,   end_sftp,     disconnect};
#define STEPS ((int)(sizeof steps / sizeof *steps))

/* Makes the connection, and a session that blocks or does not. */
static int begin(struct client *client, int number, int blocks)
{
	client->number = number;
	client->fd = connect_to(place.port);
	client->session = client->fd < 0 ? NULL : libssh2_session_init();
	if (!client->session)
		return 1;
	libssh2_session_set_blocking(client->session, blocks);
	return 0;
}

/* Returns what the last step has returned. */
static int go_on(struct client *client)
{
	int status = 0;

	while (client->step < STEPS && (status = steps[client->step](client)) == 0)
		client->step++;
	return status;
}

/* Returns whether the client has failed. */
static int end(struct client *client, int status)
{
	char *why = NULL;

	if (status != 0) {
		libssh2_session_last_error(client->session, &why, NULL, 0);
		fprintf(stderr, "%d: step %d: %s\n", client->number, client->step,
			why ? why : "no message");
	}
	libssh2_session_free(client->session);
	close(client->fd);
	return status != 0;
}

static int work(const struct crowd *crowd, int number)
{
	struct client client = {.step = 0};

	(void)crowd;
	return begin(&client, number, 1) != 0 || end(&client, go_on(&client));
}

/* ---- the asynchronous interface ---- */

static struct client clients[CROWD_MOST];
static int clients_left, clients_failed;

static void ready(struct loop_watch *watch, uint32_t events)
{
	struct client *client = (struct client *)watch;
	const int status = go_on(client);
	int wanted;

	(void)events;
	if (status == LIBSSH2_ERROR_EAGAIN) {
		wanted = libssh2_session_block_directions(client->session);
		loop_wait_for(watch, client->fd,
			      (wanted & LIBSSH2_SESSION_BLOCK_INBOUND ? EPOLLIN : 0u) |
				      (wanted & LIBSSH2_SESSION_BLOCK_OUTBOUND ? EPOLLOUT : 0u));
		return;
	}
	loop_wait_for(watch, client->fd, 0);
	clients_failed += end(client, status);
	clients_left--;
}

static int work_all(const struct crowd *crowd)
{
	clients_left = crowd->tasks;
	for (int i = 0; i < crowd->tasks; i++) {
		if (begin(&clients[i], i, 0) != 0)
			return 1;
		clients[i].watch.ready = ready;
		ready(&clients[i].watch, 0);
	}
	loop_run(&clients_left, NULL);
	return clients_failed;
}

int main(int argc, char **argv)
{
	return crowd_main(
		argc, argv,
		(struct crowd){
			.job = work, .before = prepare, .all = work_all, .stack_size = 256 << 10});
}
