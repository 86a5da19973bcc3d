/* SPDX-License-Identifier: MIT */
/*
 * bench-unix unix|tcp CONNECTIONS SIZE SECONDS: clients that send a message each and wait for its
 * echo, and the tasks that answer, all in this process. Prints the number of round trips and how
 * many nanoseconds they took together. echo.go is the same in Go.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/sennit.h>

static int connections;
static size_t size;
static double seconds;
static int use_unix;

/* Written by the first task, and then read by all. */
static int64_t end;
static _Atomic long trips;

static void check(long n, const char *what)
{
	if (n >= 0)
		return;
	fprintf(stderr, "bench-unix: %s: %s\n", what, strerror((int)-n));
	exit(1);
}

static int answer(void *arg)
{
	sn_stream *conn = arg;
	char *buf = malloc(size);
	ssize_t n;

	while ((n = sn_stream_read(conn, buf, size)) > 0)
		check(sn_stream_write_all(conn, buf, (size_t)n, NULL), "answer");
	free(buf);
	return sn_stream_close(conn);
}

static int ask(void *arg)
{
	sn_stream *conn = arg;
	char *buf = calloc(1, size);
	long done = 0;

	while (sn_now() < end) {
		check(sn_stream_write_all(conn, buf, size, NULL), "write");
		check(sn_stream_read_full(conn, buf, size, NULL), "read");
		done++;
	}
	atomic_fetch_add(&trips, done);
	free(buf);
	return sn_stream_close(conn);
}

/* A connection, with its two ends. */
static void connect_unix(sn_unix_listener *listener, sn_stream *ends[2])
{
	char address[SN_UNIX_ADDRESS_MAX];
	sn_unix *near, *far;

	check(sn_unix_listener_address(listener, address, sizeof address), "address");
	check(sn_unix_connect(&near, address, SN_UNIX_STREAM, SN_NO_DEADLINE), "connect");
	check(sn_unix_accept(listener, &far), "accept");
	ends[0] = sn_unix_stream(near);
	ends[1] = sn_unix_stream(far);
}

static void connect_tcp(sn_tcp_listener *listener, sn_stream *ends[2])
{
	char address[SN_ADDRESS_MAX];
	sn_tcp *near, *far;

	check(sn_tcp_listener_address(listener, address, sizeof address), "address");
	check(sn_tcp_connect(&near, address, SN_NO_DEADLINE), "connect");
	check(sn_tcp_accept(listener, &far), "accept");
	ends[0] = sn_tcp_stream(near);
	ends[1] = sn_tcp_stream(far);
}

static int first_task(void *arg)
{
	sn_stream *(*all)[2] = calloc((size_t)connections, sizeof *all);
	sn_unix_listener *names = NULL;
	sn_tcp_listener *ports = NULL;
	sn_scope *scope;
	int64_t begin;

	(void)arg;
	check(use_unix ? sn_unix_listen(&names, "@", NULL) : sn_tcp_listen(&ports, "127.0.0.1:0"),
	      "listen");
	for (int i = 0; i < connections; i++)
		if (use_unix)
			connect_unix(names, all[i]);
		else
			connect_tcp(ports, all[i]);
	check(sn_scope_open(&scope, SN_NO_DEADLINE), "scope");
	begin = sn_now();
	end = begin + (int64_t)(seconds * 1e9);
	for (int i = 0; i < connections; i++) {
		check(sn_scope_go(scope, answer, all[i][1]), "spawn");
		check(sn_scope_go(scope, ask, all[i][0]), "spawn");
	}
	check(sn_scope_close(scope), "the end");
	printf("%ld %lld\n", atomic_load(&trips), (long long)(sn_now() - begin));
	sn_unix_listener_close(names);
	sn_tcp_listener_close(ports);
	free(all);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "bench-unix: expected unix|tcp CONNECTIONS SIZE SECONDS\n");
		return 2;
	}
	use_unix = strcmp(argv[1], "unix") == 0;
	connections = atoi(argv[2]);
	size = (size_t)atol(argv[3]);
	seconds = atof(argv[4]);
	return sn_run(first_task, NULL);
}
