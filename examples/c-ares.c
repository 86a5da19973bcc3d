/* SPDX-License-Identifier: MIT */
/*
 * Looks up names with c-ares, all at the same time: each has a task and a channel of c-ares, and
 * none needs a thread.
 *
 *	example-c-ares example.org example.com
 *	example-c-ares -s 127.0.0.1:5353 host.test    (asks this server)
 *
 * c-ares says which sockets it waits for, and until when, and the task waits for these by
 * sn_fd_wait_any(). Programs that need only addresses can use sn_resolve() instead.
 */
#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <sennit/sennit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static const char *server;

struct lookup {
	const char *name;
	int status; /* ARES_SUCCESS and so on */
	bool done;
};

static void print_address(const char *name, const struct sockaddr *address)
{
	char text[INET6_ADDRSTRLEN] = "?";
	const void *number =
		address->sa_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)address)->sin_addr
			: (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;

	inet_ntop(address->sa_family, number, text, sizeof text);
	printf("%s: %s\n", name, text);
}

/* Called by c-ares from ares_process_fd() or ares_destroy(). */
static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *result)
{
	struct lookup *lookup = arg;

	(void)timeouts;
	lookup->status = status;
	lookup->done = true;
	for (struct ares_addrinfo_node *node = result ? result->nodes : NULL; node;
	     node = node->ai_next)
		print_address(lookup->name, node->ai_addr);
	if (result)
		ares_freeaddrinfo(result);
}

/* Fills fds with the sockets that c-ares waits for. Returns how many. */
static size_t sockets_of(ares_channel channel, struct pollfd *fds)
{
	ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
	/* ARES_GETSOCK_READABLE() and _WRITABLE() would shift a 1 into the sign. */
	unsigned which = (unsigned)ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
	size_t n = 0;

	for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
		short events = (short)((which >> i & 1 ? POLLIN : 0) |
				       (which >> (i + ARES_GETSOCK_MAXNUM) & 1 ? POLLOUT : 0));

		if (events)
			fds[n++] = (struct pollfd){.fd = sockets[i], .events = events};
	}
	return n;
}

/* Runs c-ares until the lookup is done. Returns 0, or an error of the wait, such as when the
 * scope was cancelled. */
static int process(ares_channel channel, const struct lookup *lookup)
{
	while (!lookup->done) {
		struct pollfd fds[ARES_GETSOCK_MAXNUM];
		size_t n = sockets_of(channel, fds);
		struct timeval room, *left = ares_timeout(channel, NULL, &room);
		int found = sn_fd_wait_any(fds, n,
					   left ? sn_now() + left->tv_sec * 1000000000ll +
							   left->tv_usec * 1000ll
						: SN_NO_DEADLINE);

		if (found < 0 && found != -ETIMEDOUT)
			return found;
		for (size_t i = 0; i < n && found > 0; i++)
			if (fds[i].revents)
				ares_process_fd(
					channel,
					fds[i].events & POLLIN ? fds[i].fd : ARES_SOCKET_BAD,
					fds[i].events & POLLOUT ? fds[i].fd : ARES_SOCKET_BAD);
		if (found == -ETIMEDOUT) /* c-ares asks again, or gives up */
			ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	}
	return 0;
}

static int look_up(void *arg)
{
	struct lookup lookup = {.name = arg};
	struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	ares_channel channel;
	int err = ares_init(&channel);

	if (err == ARES_SUCCESS) {
		if (server)
			err = ares_set_servers_ports_csv(channel, server);
		if (err == ARES_SUCCESS) {
			ares_getaddrinfo(channel, lookup.name, NULL, &hints, answered, &lookup);
			process(channel, &lookup);
		}
		ares_destroy(channel);
		if (err == ARES_SUCCESS)
			err = lookup.status;
	}
	if (err != ARES_SUCCESS)
		fprintf(stderr, "%s: %s\n", lookup.name, ares_strerror(err));
	return err != ARES_SUCCESS;
}

/* Returns how many names have no address. */
static int look_up_all(void *arg)
{
	int n = 0, failed = 0, result;
	char **names = arg;
	sn_task **tasks;

	while (names[n])
		n++;
	tasks = calloc((size_t)n, sizeof *tasks);
	if (!tasks)
		return -ENOMEM;
	for (int i = 0; i < n; i++)
		if (sn_spawn(&tasks[i], look_up, names[i], NULL) < 0)
			failed++;
	for (int i = 0; i < n; i++)
		if (tasks[i] && sn_join(tasks[i], &result) == 0)
			failed += result;
	free(tasks);
	return failed;
}

int main(int argc, char **argv)
{
	char **names = argv + 1;
	int failed;

	if (argc > 2 && strcmp(argv[1], "-s") == 0) {
		server = argv[2];
		names = argv + 3;
	}
	if (argc < 2 || !*names) {
		fprintf(stderr, "usage: %s [-s SERVER[:PORT]] NAME...\n", argv[0]);
		return 2;
	}
	/* This is not thread-safe, so it is called before any task runs. */
	failed = ares_library_init(ARES_LIB_INIT_ALL);
	if (failed != ARES_SUCCESS) {
		fprintf(stderr, "%s: %s\n", argv[0], ares_strerror(failed));
		return 1;
	}
	failed = sn_run(look_up_all, names);
	ares_library_cleanup();
	if (failed < 0)
		fprintf(stderr, "%s: %s\n", argv[0], strerror(-failed));
	return failed != 0;
}
