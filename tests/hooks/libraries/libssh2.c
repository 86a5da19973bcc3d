/* SPDX-License-Identifier: MIT */
/*
 * libssh2's blocking interface: WHERE is "PORT USER FOLDER". The folder has the keys "key" and
 * "key.pub", and a file "file". Each task runs a command that takes a while, and reads the file by
 * SFTP.
 */
#include <arpa/inet.h>
#include <libssh2.h>
#include <libssh2_sftp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "crowd.h"

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

static int run_command(LIBSSH2_SESSION *session, int number)
{
	LIBSSH2_CHANNEL *channel = libssh2_channel_open_session(session);
	char command[100], expected[40], answer[40];
	size_t n = 0;
	ssize_t got;

	snprintf(command, sizeof command, "sleep 0.2; echo answer %d; exit 3", number);
	snprintf(expected, sizeof expected, "answer %d\n", number);
	if (!channel || libssh2_channel_exec(channel, command) != 0)
		return 1;
	while (n < sizeof answer - 1 &&
	       (got = libssh2_channel_read(channel, answer + n, sizeof answer - 1 - n)) > 0)
		n += (size_t)got;
	answer[n] = 0;
	if (libssh2_channel_close(channel) != 0 || libssh2_channel_wait_closed(channel) != 0 ||
	    libssh2_channel_get_exit_status(channel) != 3 || strcmp(answer, expected) != 0)
		return 1;
	return libssh2_channel_free(channel);
}

static int read_file(LIBSSH2_SESSION *session)
{
	LIBSSH2_SFTP *sftp = libssh2_sftp_init(session);
	LIBSSH2_SFTP_HANDLE *file =
		sftp ? libssh2_sftp_open(sftp, place.file, LIBSSH2_FXF_READ, 0) : NULL;
	char buf[10000];
	size_t n = 0;
	ssize_t got = 0;

	while (file && (got = libssh2_sftp_read(file, buf, sizeof buf)) > 0 &&
	       n + (size_t)got <= place.size && memcmp(buf, place.bytes + n, (size_t)got) == 0)
		n += (size_t)got;
	if (!file || got != 0 || n != place.size)
		return 1;
	return libssh2_sftp_close(file) != 0 || libssh2_sftp_shutdown(sftp) != 0;
}

static int talk(LIBSSH2_SESSION *session, int fd, int number)
{
	if (libssh2_session_handshake(session, fd) == 0 &&
	    libssh2_userauth_publickey_fromfile(session, place.user, place.public_key, place.key,
						NULL) == 0 &&
	    run_command(session, number) == 0 && read_file(session) == 0)
		return libssh2_session_disconnect(session, "done");
	return 1;
}

static int work(const struct crowd *crowd, int number)
{
	const int fd = connect_to(place.port);
	LIBSSH2_SESSION *session = fd < 0 ? NULL : libssh2_session_init();
	char *why = NULL;
	int failed;

	(void)crowd;
	if (!session)
		return 1;
	failed = talk(session, fd, number) != 0;
	if (failed) {
		libssh2_session_last_error(session, &why, NULL, 0);
		fprintf(stderr, "%d: %s\n", number, why ? why : "no message");
	}
	libssh2_session_free(session);
	close(fd);
	return failed;
}

int main(int argc, char **argv)
{
	return crowd_main(argc, argv,
			  (struct crowd){.job = work, .before = prepare, .stack_size = 256 << 10});
}
