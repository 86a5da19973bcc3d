/* SPDX-License-Identifier: MIT */
/*
 * The cost of a hooked call beyond that of the C library's own: on a thread without a task, in a
 * task that has no hooks, and in one that has them. Prints ns per call, medians of the rounds.
 *
 *	bench-hooks [rounds, default 15]
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

#include "check.h"
#include "hooks/real.h"

#define MOST_ROUNDS 15
#define CALLS 100000

static int pair[2];
static int rounds = MOST_ROUNDS;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Nothing waits, because the bytes to receive have been sent. A round makes two calls, one of each
 * kind. */
static void real_sockets(void)
{
	char byte = 0;

	CHECK(sn_real.send(pair[0], &byte, 1, 0) == 1 && sn_real.recv(pair[1], &byte, 1, 0) == 1);
}

static void hooked_sockets(void)
{
	char byte = 0;

	CHECK(send(pair[0], &byte, 1, 0) == 1 && recv(pair[1], &byte, 1, 0) == 1);
}

/* The cheapest call, so that the hook's own cost is most of the difference. */
static void real_read(void)
{
	char byte;

	CHECK(sn_real.read(-1, &byte, 1) < 0);
}

static void hooked_read(void)
{
	char byte;

	CHECK(read(-1, &byte, 1) < 0);
}

static void real_lock(void)
{
	sn_real.pthread_mutex_lock(&mutex);
	sn_real.pthread_mutex_unlock(&mutex);
}

static void hooked_lock(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double time_of(void (*call)(void))
{
	const int64_t begun = sn_now();

	for (int i = 0; i < CALLS; i++)
		call();
	return (double)(sn_now() - begun) / CALLS;
}

static void row(const char *what, void (*real)(void), void (*hooked)(void))
{
	double reals[MOST_ROUNDS], hookeds[MOST_ROUNDS];

	for (int i = 0; i < rounds; i++) {
		reals[i] = time_of(real);
		hookeds[i] = time_of(hooked);
	}
	qsort(reals, (size_t)rounds, sizeof *reals, compare);
	qsort(hookeds, (size_t)rounds, sizeof *hookeds, compare);
	printf("  %-30s %8.1f %8.1f %+8.1f\n", what, reals[rounds / 2], hookeds[rounds / 2],
	       hookeds[rounds / 2] - reals[rounds / 2]);
}

static void rows(const char *where)
{
	printf("%-32s %8s %8s %8s\n", where, "libc", "hooked", "more");
	row("read(-1), which fails", real_read, hooked_read);
	row("send() and recv()", real_sockets, hooked_sockets);
	row("lock and unlock a mutex", real_lock, hooked_lock);
}

/* Echoes bytes, so that each call waits. Measured between two tasks and between two threads. */
static int echo(void *arg)
{
	const int fd = *(int *)arg;
	char byte;

	while (recv(fd, &byte, 1, 0) == 1)
		CHECK(send(fd, &byte, 1, 0) == 1);
	return 0;
}

static void *echo_thread(void *arg)
{
	echo(arg);
	return NULL;
}

static double round_trips(int n)
{
	const int64_t begun = sn_now();
	char byte = 0;

	for (int i = 0; i < n; i++)
		CHECK(send(pair[0], &byte, 1, 0) == 1 && recv(pair[0], &byte, 1, 0) == 1);
	return (double)(sn_now() - begun) / n;
}

static void renew_pair(void)
{
	close(pair[0]);
	close(pair[1]);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
}

static int in_tasks(void *arg)
{
	sn_task *task;
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED);

	(void)arg;
	rows("in a task without hooks");
	sn_hooks_set(SN_HOOKS_ON);
	rows("in a task with hooks");
	CHECK(sn_spawn(&task, echo, &pair[1], &attr) == 0);
	printf("round trip between two tasks     %8.0f\n", round_trips(20000));
	shutdown(pair[0], SHUT_WR);
	CHECK(sn_join(task, NULL) == 0);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		rounds = atoi(argv[1]);
	CHECK(rounds > 0 && rounds <= MOST_ROUNDS);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	rows("on a thread without a task");
	CHECK(pthread_create(&thread, NULL, echo_thread, &pair[1]) == 0);
	printf("round trip between two threads   %8.0f\n", round_trips(20000));
	shutdown(pair[0], SHUT_WR);
	pthread_join(thread, NULL);
	renew_pair();
	return sn_run(in_tasks, NULL);
}
