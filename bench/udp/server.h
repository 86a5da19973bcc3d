/* SPDX-License-Identifier: MIT */
/*
 * Shared by the servers in C: each prints its port, echoes datagrams, and ends when its standard
 * input does.
 */
#ifndef SENNIT_BENCH_UDP_SERVER_H
#define SENNIT_BENCH_UDP_SERVER_H

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "../check.h"

/* The most datagrams that one call of a batch takes. */
#define BATCH 64
#define ROOM 2048

static void *await_end(void *arg)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	_exit(0);
	return arg;
}

static inline void announce(unsigned port)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, await_end, NULL) == 0);
	printf("%u\n", port);
	fflush(stdout);
}

#endif
