/* SPDX-License-Identifier: MIT */
/*
 * An echo server, one task per connection. Try (nc is in Debian's netcat-openbsd):
 *
 *	example-echo &
 *	nc 127.0.0.1 7000
 */
#include <sennit/sennit.h>
#include <stdio.h>
#include <string.h>

static int session(void *arg)
{
	sn_tcp *peer = arg;
	char buf[4096];
	ssize_t n;

	while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
		if (sn_tcp_write_all(peer, buf, n, NULL) < 0)
			break;
	sn_tcp_close(peer);
	return 0;
}

static int serve(void *arg)
{
	sn_tcp_listener *listener;
	sn_tcp *peer;
	int err = sn_tcp_listen(&listener, "127.0.0.1:7000");

	(void)arg;
	if (err >= 0)
		puts("listening on 127.0.0.1:7000");
	while (err >= 0 && (err = sn_tcp_accept(listener, &peer)) >= 0)
		err = sn_go(session, peer);
	return err;
}

int main(int argc, char **argv)
{
	int err;

	if (argc > 1) {
		fprintf(stderr, "usage: %s\n", argv[0]);
		return 2;
	}
	setlinebuf(stdout);
	err = sn_run(serve, NULL); /* starts the runtime, runs the first task */
	fprintf(stderr, "echo: %s\n", strerror(-err));
	return 1;
}
