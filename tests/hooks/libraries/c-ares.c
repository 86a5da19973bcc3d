/* SPDX-License-Identifier: MIT */
/* c-ares with select(), as in its manual. WHERE is the port of a server for names in .test. */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/select.h>

#include "crowd.h"

#define ROUNDS 5

struct found {
	int number; /* the number of the host */
	int status; /* -1: no answer yet */
};

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

static int work(const struct crowd *crowd, int number)
{
	struct ares_options with = options;
	ares_channel channel;
	char text[64];
	int status = ares_init_options(&channel, &with, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);

	if (status == ARES_SUCCESS) {
		snprintf(text, sizeof text, "127.0.0.1:%s", crowd->where);
		status = ares_set_servers_ports_csv(channel, text);
	}
	for (int i = 0; i < ROUNDS && status == ARES_SUCCESS; i++) {
		struct found found = {(number + i) % 50, -1};
		const int is_there = i + 1 < ROUNDS;

		snprintf(text, sizeof text, is_there ? "host%d.test" : "none%d.test", found.number);
		ares_gethostbyname(channel, text, AF_INET, note, &found);
		await(channel, &found);
		if (is_there || found.status != ARES_ENOTFOUND)
			status = found.status;
	}
	if (status != ARES_SUCCESS)
		fprintf(stderr, "c-ares: %s\n", ares_strerror(status));
	ares_destroy(channel);
	return status != ARES_SUCCESS;
}

int main(int argc, char **argv)
{
	int err = ares_library_init(ARES_LIB_INIT_ALL);

	if (err != ARES_SUCCESS) {
		fprintf(stderr, "c-ares: %s\n", ares_strerror(err));
		return 1;
	}
	err = crowd_main(argc, argv, (struct crowd){.job = work});
	ares_library_cleanup();
	return err;
}
