/* SPDX-License-Identifier: MIT */
/*
 * Shared by benchmark programs that do not use sennit: giving up, an address of this machine, the
 * time.
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program with errno's message, unless `good` is true. */
static inline void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* 127.0.0.1 with a port, in decimal digits. */
static inline struct sockaddr_in at(const char *port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)atoi(port)),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Nanoseconds of the monotonic clock. */
static inline int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

#endif
