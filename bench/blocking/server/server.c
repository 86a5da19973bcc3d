/* SPDX-License-Identifier: MIT */
/*
 * A server in which some requests block the thread for 5 ms, with sennit. server.go and tokio/ are
 * the same server in Go and tokio; load.c generates their load, ../server.py compares them.
 *
 *	bench-blocking-server plain|bracket
 *
 * A request is one byte: 'f' is answered immediately, 's' after nanosleep(5 ms), called with or
 * without a bracket. The answer is the same byte. Prints the port that it listens on.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sennit/sennit.h>

static bool bracket;

static void slow(void)
{
	static const struct timespec nap = {.tv_nsec = 5000000};

	if (bracket)
		sn_enter_blocking_as("nanosleep");
	nanosleep(&nap, NULL);
	if (bracket)
		sn_exit_blocking();
}

static int session(void *arg)
{
	sn_tcp *peer = arg;
	char c;

	while (sn_tcp_read(peer, &c, 1) == 1) {
		if (c == 's')
			slow();
		if (sn_tcp_write_all(peer, &c, 1, NULL) < 0)
			break;
	}
	sn_tcp_close(peer);
	return 0;
}

static int serve(void *arg)
{
	sn_tcp_listener *listener;
	sn_tcp *peer;
	char address[SN_ADDRESS_MAX];
	int err = sn_tcp_listen(&listener, "127.0.0.1:0");

	(void)arg;
	if (err >= 0) {
		sn_tcp_listener_address(listener, address, sizeof address);
		printf("%s\n", strrchr(address, ':') + 1);
		fflush(stdout);
	}
	while (err >= 0 && (err = sn_tcp_accept(listener, &peer)) >= 0)
		err = sn_go(session, peer);
	return err;
}

int main(int argc, char **argv)
{
	if (argc != 2 || (strcmp(argv[1], "plain") != 0 && strcmp(argv[1], "bracket") != 0)) {
		fprintf(stderr, "usage: %s plain|bracket\n", argv[0]);
		return 2;
	}
	bracket = strcmp(argv[1], "bracket") == 0;
	fprintf(stderr, "%s\n", strerror(-sn_run(serve, NULL)));
	return 1;
}
