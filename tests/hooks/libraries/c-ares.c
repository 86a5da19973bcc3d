/* SPDX-License-Identifier: MIT */
/*
 * c-ares with select(), as in its manual: WHERE is the port of a server for names in .test. Each
 * task has a channel, and asks for five names, one after another. The asynchronous interface is one
 * channel for all names, whose sockets are watched.
 */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/select.h>

#include "crowd.h"
#include "loop.h"

#define ROUNDS 5

struct found {
	int number; /* the number of the host */
	int status; /* -1: no answer yet */
};

/* The last name does not exist. */
static void write_name(char text[64], const struct found *found, int round)
{
	snprintf(text, 64, round + 1 < ROUNDS ? "host%d.test" : "none%d.test", found->number);
}

/* The server drops packets when many requests come, so each request is repeated many times. */
static const struct ares_options options = {.timeout = 2000, .tries = 20};

static void note(void *arg, int status, int timeouts, struct hostent *host)
{
	struct found *found = arg;
	char text[INET_ADDRSTRLEN], right[INET_ADDRSTRLEN];

	(void)timeouts;
	found->status = status;
	if (status != ARES_SUCCESS)
		return;
	snprintf(right, sizeof right, "192.0.2.%d", found->number);
	if (!inet_ntop(AF_INET, host->h_addr_list[0], text, sizeof text) ||
	    strcmp(text, right) != 0)
		found->status = ARES_EBADRESP;
}

/* Whether the answer is right. */
static int result_of(const struct found *found, int round)
{
	if (round + 1 < ROUNDS || found->status != ARES_ENOTFOUND)
		return found->status;
	return ARES_SUCCESS;
}

static void await(ares_channel channel, const struct found *found)
{
	while (found->status < 0) {
		fd_set readable, writable;
		struct timeval most;
		int count;

		FD_ZERO(&readable);
		FD_ZERO(&writable);
		count = ares_fds(channel, &readable, &writable);
		if (count == 0)
			return;
		select(count, &readable, &writable, NULL, ares_timeout(channel, NULL, &most));
		ares_process(channel, &readable, &writable);
	}
}

static int open_channel(const struct crowd *crowd, struct ares_options with, int more,
			ares_channel *channel)
{
	char text[64];
	const int status =
		ares_init_options(channel, &with, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | more);

	snprintf(text, sizeof text, "127.0.0.1:%s", crowd->where);
	return status == ARES_SUCCESS ? ares_set_servers_ports_csv(*channel, text) : status;
}

static int work(const struct crowd *crowd, int number)
{
	ares_channel channel;
	char text[64];
	int status = open_channel(crowd, options, 0, &channel);

	for (int i = 0; i < ROUNDS && status == ARES_SUCCESS; i++) {
		struct found found = {(number + i) % 50, -1};

		write_name(text, &found, i);
		ares_gethostbyname(channel, text, AF_INET, note, &found);
		await(channel, &found);
		status = result_of(&found, i);
	}
	if (status != ARES_SUCCESS)
		fprintf(stderr, "c-ares: %s\n", ares_strerror(status));
	ares_destroy(channel);
	return status != ARES_SUCCESS;
}

/* ---- the asynchronous interface ---- */

static struct client {
	struct found found;
	int number, round;
} clients[CROWD_MOST];

static int clients_left, clients_failed;
static ares_channel common;
static struct loop_watch watches[64]; /* by descriptor */

static void ready(struct loop_watch *watch, uint32_t events)
{
	ares_process_fd(common, events & ~(uint32_t)EPOLLOUT ? watch->fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? watch->fd : ARES_SOCKET_BAD);
}

static void watch_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
	(void)arg;
	if (fd >= 64) {
		fprintf(stderr, "c-ares has too many sockets\n");
		exit(1);
	}
	watches[fd].ready = ready;
	loop_wait_for(&watches[fd], fd, (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u));
}

static int time_left(void)
{
	struct timeval time;

	if (!ares_timeout(common, NULL, &time))
		return -1;
	return (int)(time.tv_sec * 1000 + (time.tv_usec + 999) / 1000);
}

static void time_out(void)
{
	ares_process_fd(common, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static void ask(struct client *client);

static void answered(void *arg, int status, int timeouts, struct hostent *host)
{
	struct client *client = arg;

	note(&client->found, status, timeouts, host);
	if (result_of(&client->found, client->round) != ARES_SUCCESS) {
		fprintf(stderr, "c-ares: %s\n", ares_strerror(client->found.status));
		clients_failed++;
		clients_left--;
	} else if (++client->round < ROUNDS) {
		ask(client);
	} else {
		clients_left--;
	}
}

static void ask(struct client *client)
{
	char text[64];

	client->found = (struct found){(client->number + client->round) % 50, -1};
	write_name(text, &client->found, client->round);
	ares_gethostbyname(common, text, AF_INET, answered, client);
}

static int work_all(const struct crowd *crowd)
{
	const struct loop_timer timer = {time_left, time_out};
	struct ares_options with = options;

	with.sock_state_cb = watch_socket;
	/* One socket for all answers: otherwise some are dropped when many come together. */
	with.socket_receive_buffer_size = 1 << 20;
	if (open_channel(crowd, with, ARES_OPT_SOCK_STATE_CB | ARES_OPT_SOCK_RCVBUF, &common) !=
	    ARES_SUCCESS)
		return 1;
	clients_left = crowd->tasks;
	for (int i = 0; i < crowd->tasks; i++) {
		clients[i].number = i;
		ask(&clients[i]);
	}
	loop_run(&clients_left, &timer);
	ares_destroy(common);
	return clients_failed;
}

int main(int argc, char **argv)
{
	int err = ares_library_init(ARES_LIB_INIT_ALL);

	if (err != ARES_SUCCESS) {
		fprintf(stderr, "c-ares: %s\n", ares_strerror(err));
		return 1;
	}
	err = crowd_main(argc, argv, (struct crowd){.job = work, .all = work_all});
	ares_library_cleanup();
	return err;
}
