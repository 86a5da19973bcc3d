/* SPDX-License-Identifier: MIT */
/*
 * An echo server that ends within 2 s of SIGTERM or ^C. It stops accepting immediately. Its
 * sessions have 1.5 s to finish by themselves, and are then cancelled; after 1.8 s the program no
 * longer waits for sessions that ignore that. Both times can be given in ms. Try (nc is in Debian's
 * netcat-openbsd):
 *
 *	example-shutdown 127.0.0.1:7000 1500 1800
 *	nc 127.0.0.1 7000                              (then ^C of the server)
 */
#include <errno.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000 /* nanoseconds */

struct server {
	const char *address;
	int64_t grace, limit;
	sn_scope *sessions;
};

static int session(void *arg)
{
	sn_tcp *peer = arg;
	char buf[4096];
	ssize_t n;

	/* -ETIMEDOUT when the server shuts down and the time is up. */
	while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
		if (sn_tcp_write_all(peer, buf, n, NULL) < 0)
			break;
	sn_tcp_close(peer);
	return 0; /* a client that has gone is no reason to cancel the others */
}

/* Accepts until its scope is cancelled. */
static int serve(void *arg)
{
	struct server *server = arg;
	sn_tcp_listener *listener;
	char address[64];
	sn_tcp *peer;
	int err = sn_tcp_listen(&listener, server->address);

	if (err < 0)
		return err;
	sn_tcp_listener_address(listener, address, sizeof address);
	printf("listening on %s\n", address);
	while ((err = sn_tcp_accept(listener, &peer)) == 0)
		if (sn_scope_go(server->sessions, session, peer) < 0)
			sn_tcp_close(peer);
	sn_tcp_listener_close(listener);
	return err;
}

static int give_up(void *arg)
{
	(void)arg;
	_exit(1); /* a task computes, or blocks its thread */
}

/* Accepts until a signal comes. Returns 0, or the error for which there can be no server. */
static int accept_until_signal(struct server *server)
{
	sn_scope *accepting;
	int closed, err = sn_scope_open(&accepting, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	err = sn_scope_go(accepting, serve, server);
	if (err == 0)
		err = sn_signal_wait(SN_NO_DEADLINE); /* also ends when serve() fails */
	if (err > 0)
		printf("shutting down\n");
	sn_scope_cancel(accepting);
	closed = sn_scope_close(accepting);
	if (err > 0)
		return 0;
	return closed == -ECANCELED ? err : closed;
}

static int run(void *arg)
{
	struct server *server = arg;
	sn_alarm limit = SN_ALARM_INIT;
	int err = sn_scope_open(&server->sessions, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	if ((err = sn_signal_catch(SIGTERM)) == 0 && (err = sn_signal_catch(SIGINT)) == 0)
		err = accept_until_signal(server);
	sn_alarm_start(&limit, sn_after(server->limit), 0, give_up, NULL);
	if (sn_scope_close_until(server->sessions, sn_after(server->grace)) == -ETIMEDOUT)
		printf("some sessions were cut\n");
	else if (err == 0)
		printf("all sessions had ended\n");
	sn_alarm_stop(&limit);
	return err;
}

int main(int argc, char **argv)
{
	struct server server = {
		.address = argc > 1 ? argv[1] : "127.0.0.1:7000",
		.grace = (argc > 2 ? atoll(argv[2]) : 1500) * MS,
		.limit = (argc > 3 ? atoll(argv[3]) : 1800) * MS,
	};
	int err;

	setvbuf(stdout, NULL, _IOLBF, 0);
	err = sn_run(run, &server);
	if (err < 0)
		fprintf(stderr, "shutdown: %s: %s\n", server.address, strerror(-err));
	return err < 0;
}
