/* SPDX-License-Identifier: MIT */
/*
 * Runs one library's work N times concurrently, in one of three ways: as hooked tasks, as threads,
 * or by the library's own asynchronous interface. A program is started as
 *
 *	PROGRAM WAY N WHERE
 *
 * and prints the seconds, the most threads, the processor's seconds and the most memory in KiB. The
 * memory is the most that the process had, including the library's. The time of `prepare` is not
 * included.
 */
#ifndef SENNIT_BENCH_WAYS_H
#define SENNIT_BENCH_WAYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

#include "check.h"

#define MOST 10000
#define STACK_SIZE ((size_t)256 << 10)

struct ways {
	int n;
	const char *where;
	bool tasks;                                  /* true: tasks; false: threads */
	void (*prepare)(const struct ways *ways);    /* may be NULL */
	void (*job)(const struct ways *ways, int i); /* blocks */
	void (*all)(const struct ways *ways);        /* the asynchronous interface, on one thread */
};

struct ways_job {
	const struct ways *ways;
	int i;
};

static struct ways_job ways_jobs[MOST];
static _Atomic bool ways_done;

static double ways_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long ways_status(const char *what)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long n = -1;

	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, what, strlen(what)) == 0)
			n = atol(line + strlen(what));
	if (status)
		fclose(status);
	return n;
}

/* Watches the number of threads, without this one. */
static void *ways_watch(void *arg)
{
	long *most = arg;

	while (!atomic_load(&ways_done)) {
		const long now = ways_status("Threads:") - 1;

		*most = now > *most ? now : *most;
		usleep(1000);
	}
	return NULL;
}

static int ways_task(void *arg)
{
	const struct ways_job *job = arg;

	job->ways->job(job->ways, job->i);
	return 0;
}

static void *ways_thread(void *arg)
{
	ways_task(arg);
	return NULL;
}

static void ways_tasks(int n)
{
	static sn_task *tasks[MOST];
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED, .stack_size = STACK_SIZE);

	for (int i = 0; i < n; i++)
		CHECK(sn_spawn(&tasks[i], ways_task, &ways_jobs[i], &attr) == 0);
	for (int i = 0; i < n; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
}

static void ways_threads(int n)
{
	static pthread_t threads[MOST];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (int i = 0; i < n; i++)
		CHECK(pthread_create(&threads[i], &attr, ways_thread, &ways_jobs[i]) == 0);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static int ways_run(void *arg)
{
	const struct ways *ways = arg;
	double time, cpu;
	long threads = 0;
	pthread_t watch;

	if (ways->prepare)
		ways->prepare(ways);
	CHECK(pthread_create(&watch, NULL, ways_watch, &threads) == 0);
	time = ways_now(CLOCK_MONOTONIC);
	cpu = ways_now(CLOCK_PROCESS_CPUTIME_ID);
	if (ways->tasks)
		ways_tasks(ways->n);
	else if (ways->job)
		ways_threads(ways->n);
	else
		ways->all(ways);
	time = ways_now(CLOCK_MONOTONIC) - time;
	cpu = ways_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	atomic_store(&ways_done, true);
	pthread_join(watch, NULL);
	printf("%.3f %ld %.3f %ld\n", time, threads, cpu, ways_status("VmHWM:"));
	return 0;
}

static int ways_main(int argc, char **argv, struct ways ways)
{
	struct rlimit files;

	CHECK(argc == 4);
	ways.n = atoi(argv[2]);
	ways.where = argv[3];
	CHECK(ways.n > 0 && ways.n <= MOST);
	for (int i = 0; i < ways.n; i++)
		ways_jobs[i] = (struct ways_job){&ways, i};
	CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	ways.tasks = strcmp(argv[1], "tasks") == 0;
	if (ways.tasks)
		return sn_run(ways_run, &ways);
	if (strcmp(argv[1], "threads") != 0)
		ways.job = NULL;
	return ways_run(&ways);
}

#endif
