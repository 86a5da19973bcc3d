/* SPDX-License-Identifier: MIT */
/* bench-udp-sennit one|batch: one task echoes datagrams, singly or in batches. */
#include <string.h>

#include <sennit/sennit.h>

#include "server.h"

static void echo_singly(sn_udp *udp)
{
	static char buf[ROOM];
	struct sn_address peer;
	ssize_t n;

	for (;;) {
		n = sn_udp_recv(udp, buf, sizeof buf, &peer);
		CHECK(n >= 0);
		CHECK(sn_udp_send(udp, buf, (size_t)n, &peer) == n);
	}
}

static void echo_in_batches(sn_udp *udp)
{
	static char bufs[BATCH][ROOM];
	static struct sn_udp_message messages[BATCH];

	for (;;) {
		int n;

		for (int i = 0; i < BATCH; i++) {
			messages[i].data = bufs[i];
			messages[i].size = ROOM;
		}
		n = sn_udp_recv_messages(udp, messages, BATCH);
		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			messages[i].size = messages[i].length;
		CHECK(sn_udp_send_messages(udp, messages, (size_t)n) == n);
	}
}

static int serve(void *arg)
{
	struct sn_address at;
	sn_udp *udp;

	CHECK(sn_udp_open(&udp, "127.0.0.1:0", NULL) == 0);
	CHECK(sn_udp_local(udp, &at) == 0);
	announce(at.port);
	if (strcmp(arg, "batch") == 0)
		echo_in_batches(udp);
	else
		echo_singly(udp);
	return 0;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	return sn_run(serve, argv[1]);
}
