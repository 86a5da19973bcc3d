/* SPDX-License-Identifier: MIT */
/*
 * An echo server in which two tasks block their threads, or compute, without saying so; with
 * sennit. peers/ has the same server with Go, tokio and Photon; hog.h describes the arguments.
 * Prints the port that it listens on.
 *
 *	bench-stall-server PROCESSORS [usleep|compute MS PERIOD_MS OFFSET_MS ITERATIONS]
 *	bench-stall-server calibrate            prints ITERATIONS for this machine
 */
#include <stdio.h>
#include <string.h>

#include <sennit/sennit.h>

#include "hog.h"

static hog_plan plan;

static int hog(void *arg)
{
	int index = (int)(intptr_t)arg;

	for (;;) {
		int err = sn_sleep_until(hog_next(&plan, index));

		if (err < 0)
			return err;
		hog_work(&plan);
	}
}

static int session(void *arg)
{
	sn_tcp *peer = arg;
	char buf[4096];
	ssize_t n;

	while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
		if (sn_tcp_write_all(peer, buf, (size_t)n, NULL) < 0)
			break;
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
	hog_start(&plan);
	for (intptr_t i = 0; err >= 0 && i < plan.hogs; i++)
		err = sn_go(hog, (void *)i);
	if (err >= 0) {
		sn_tcp_listener_address(listener, address, sizeof address);
		printf("%s\n", strrchr(address, ':') + 1);
		fflush(stdout);
	}
	while (err >= 0 && (err = sn_tcp_accept(listener, &peer)) >= 0)
		err = sn_go(session, peer);
	return err;
}

/* The fastest of some tries, because other programs can only make one slower. */
static int calibrate(void)
{
	const uint64_t tried = 4000000;
	int64_t best = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t began = hog_now(), took;

		plan.sum = hog_compute(tried);
		took = hog_now() - began;
		if (took < best)
			best = took;
	}
	printf("%.0f\n", (double)tried * 1e6 / (double)best);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "calibrate") == 0)
		return calibrate();
	if (!hog_arguments(argc, argv, &plan)) {
		fprintf(stderr,
			"usage: %s calibrate | PROCESSORS [usleep|compute MS PERIOD_MS "
			"OFFSET_MS ITERATIONS]\n",
			argv[0]);
		return 2;
	}
	setenv("SENNIT_PROCS", argv[1], 1);
	fprintf(stderr, "%s\n", strerror(-sn_run(serve, NULL)));
	return 1;
}
