/* SPDX-License-Identifier: MIT */
/*
 * For the programs that run_test.py runs: what does not hold is printed and counted; and what
 * several of them need.
 */
#ifndef TESTS_SENNIT_RUN_CHECK_H
#define TESTS_SENNIT_RUN_CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

extern int failures; /* written by any thread: the program is about to fail */

#define CHECK(what)                                                                     \
	do {                                                                            \
		if (!(what)) {                                                          \
			printf("%s:%d does not hold: %s\n", __FILE__, __LINE__, #what); \
			failures++;                                                     \
		}                                                                       \
	} while (0)

static inline pthread_t start(void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;
	const int err = pthread_create(&thread, NULL, fn, arg);

	if (err) {
		fprintf(stderr, "pthread_create(): %s\n", strerror(err));
		exit(100);
	}
	return thread;
}

/* A thread: waits for as many descriptors as the integer says, 1 ms for each. Each has a number of
 * its own, so that the runtime registers it. */
static inline void *wait_for_descriptors(void *number)
{
	const struct timeval soon = {.tv_usec = 1000};
	const int n = *(const int *)number;
	int(*fds)[2] = malloc((size_t)n * sizeof *fds);
	char byte;

	for (int i = 0; i < n; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]) == 0);
		setsockopt(fds[i][0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
		CHECK(recv(fds[i][0], &byte, 1, 0) < 0);
	}
	for (int i = 0; i < 2 * n; i++)
		close(fds[i / 2][i % 2]);
	free(fds);
	return NULL;
}

/* Waits until the thread of main() has ended, and the process continues without it. */
static inline void await_end_of_main(void)
{
	char state = 0;

	while (state != 'Z') {
		FILE *file = fopen("/proc/self/stat", "r");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
			fprintf(stderr, "/proc/self/stat cannot be read\n");
			exit(100);
		}
		fclose(file);
		usleep(1000);
	}
}

/* ---- c11.c ---- */

/* Threads, values and condition variables of C11. */
void check_c11(void);

#endif
