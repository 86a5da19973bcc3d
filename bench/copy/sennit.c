/* SPDX-License-Identifier: MIT */
/*
 * bench-copy-sennit PORT SINK_PORT: relays one connection at a time in one direction with
 * sn_copy(). With SENNIT_PIPES=0 it takes the path through userspace.
 */
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, int err)
{
	fprintf(stderr, "bench-copy-sennit: %s: %s\n", what, strerror(-err));
	return 1;
}

static int serve(void *arg)
{
	char **argv = arg, listen_address[32], sink_address[32];
	sn_tcp_listener *listener;
	int err;

	snprintf(listen_address, sizeof listen_address, "127.0.0.1:%s", argv[1]);
	snprintf(sink_address, sizeof sink_address, "127.0.0.1:%s", argv[2]);
	err = sn_tcp_listen(&listener, listen_address);
	if (err < 0)
		return fail(listen_address, err);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct sn_copy_result result;
		sn_tcp *from, *to;

		err = sn_tcp_accept(listener, &from);
		if (err < 0)
			return fail("accept", err);
		err = sn_tcp_connect(&to, sink_address, SN_NO_DEADLINE);
		if (err < 0)
			return fail(sink_address, err);
		err = sn_copy(sn_tcp_stream(to), sn_tcp_stream(from), -1, NULL, NULL, &result);
		if (err < 0)
			return fail("copy", err);
		if (getenv("BENCH_COPY_PATHS"))
			fprintf(stderr, "userspace %llu spliced %llu\n",
				(unsigned long long)result.bytes_userspace,
				(unsigned long long)result.bytes_spliced);
		sn_tcp_close(from);
		sn_tcp_close(to);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench-copy-sennit PORT SINK_PORT\n");
		return 2;
	}
	/* Ignores SIGPIPE, as a server does. Otherwise each splice blocks the signal, which
	 * costs two more system calls. */
	if (!getenv("BENCH_COPY_HOLD_SIGPIPE"))
		signal(SIGPIPE, SIG_IGN);
	return sn_run(serve, argv);
}
