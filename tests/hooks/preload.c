/* SPDX-License-Identifier: MIT */
/*
 * A program with tasks that knows nothing of hooks: so many tasks receive from a socket each.
 * Prints how many threads there are then. preload_test.sh runs it with and without the hooks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* Without hooks each task needs a thread in the end; how soon depends on the machine. */
static int settled(int least)
{
	const int64_t end = sn_now() + (least ? 30 * INT64_C(1000000000) : 200000000);

	while (threads() < (least ? least : 10000) && sn_now() < end)
		sn_sleep(1000000);
	return threads();
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
	printf("%d\n", settled(*(int *)arg));
	for (int i = 0; i < TASKS; i++)
		if (send(pairs[i][1], "x", 1, 0) != 1)
			return 1;
	for (int i = 0; i < TASKS; i++)
		if (sn_join(tasks[i], &result) < 0 || result != 'x')
			return 1;
	return 0;
}

/* preload [LEAST]: waits until there are so many threads. */
int main(int argc, char **argv)
{
	int least = argc > 1 ? atoi(argv[1]) : 0;

	return sn_run(first, &least);
}
