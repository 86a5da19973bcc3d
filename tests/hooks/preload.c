/* SPDX-License-Identifier: MIT */
/*
 * A program with tasks that does not know the hooks: each of many tasks receives from a socket.
 * Prints how many threads there are then. preload_test.sh runs it with and without the hooks, and,
 * where a program can choose the width of time_t, for each width.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <sennit/sennit.h>

#define TASKS 100

static int pairs[TASKS][2];
static sn_waitgroup begun = SN_WAITGROUP_INIT;

static int receive(void *arg)
{
	const int *pair = arg;
	char byte;

	sn_waitgroup_done(&begun);
	return recv(pair[0], &byte, 1, 0) == 1 ? byte : -1;
}

static int threads(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	int n = -1;

	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, "Threads:", 8) == 0)
			n = atoi(line + 8);
	if (status)
		fclose(status);
	return n;
}

/* Without hooks each task needs a thread eventually; how soon depends on the machine. */
static int settled(int least)
{
	const int64_t end = sn_now() + (least ? 30 * INT64_C(1000000000) : 200000000);

	while (threads() < (least ? least : 10000) && sn_now() < end)
		sn_sleep(1000000);
	return threads();
}

#define PAUSE_NS 10000000

#define CHECK(condition)                                                                      \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

/* Makes every call that takes a time in a structure: each takes at least the pause, and none a
 * thousand times as long. */
static int take_times(void *arg)
{
	const struct timespec pause = {0, PAUSE_NS};
	struct timeval tv = {0, PAUSE_NS / 1000}, limit = {0, PAUSE_NS / 1000};
	struct timespec point;
	struct pollfd one = {.fd = pairs[0][0], .events = POLLIN};
	struct iovec iov = {&one, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	const int64_t begun = sn_now();
	fd_set set;
	int n = 0;

	CHECK(nanosleep(&pause, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	CHECK(thrd_sleep(&pause, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	clock_gettime(CLOCK_MONOTONIC, &point);
	point.tv_nsec += PAUSE_NS;
	if (point.tv_nsec >= 1000000000) {
		point.tv_nsec -= 1000000000;
		point.tv_sec++;
	}
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &point, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	CHECK(ppoll(&one, 1, &pause, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	FD_ZERO(&set);
	FD_SET(one.fd, &set);
	CHECK(select(one.fd + 1, &set, NULL, NULL, &tv) == 0 && tv.tv_sec == 0 && tv.tv_usec == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	FD_SET(one.fd, &set);
	CHECK(pselect(one.fd + 1, &set, NULL, NULL, &pause, NULL) == 0);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	CHECK(setsockopt(one.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	CHECK(recvmsg(one.fd, &message, 0) == -1);
	CHECK(sn_now() - begun >= ++n * (int64_t)PAUSE_NS);
	limit.tv_usec = 0;
	CHECK(setsockopt(one.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	CHECK(sn_now() - begun < 1000 * n * (int64_t)PAUSE_NS);
	return arg != NULL;
}

static int first(void *arg)
{
	sn_task *tasks[TASKS];
	int result;

	sn_waitgroup_add(&begun, TASKS);
	for (int i = 0; i < TASKS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) < 0 ||
		    sn_spawn(&tasks[i], receive, pairs[i], NULL) < 0)
			return 1;
	if (sn_waitgroup_wait(&begun) < 0)
		return 1;
	take_times(NULL);
	printf("%d\n", settled(*(int *)arg));
	for (int i = 0; i < TASKS; i++)
		if (send(pairs[i][1], "x", 1, 0) != 1)
			return 1;
	for (int i = 0; i < TASKS; i++)
		if (sn_join(tasks[i], &result) < 0 || result != 'x')
			return 1;
	return 0;
}

/* preload [LEAST]: waits until there are at least so many threads. */
int main(int argc, char **argv)
{
	int least = argc > 1 ? atoi(argv[1]) : 0;

	return sn_run(first, &least);
}
