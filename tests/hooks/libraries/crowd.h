/* SPDX-License-Identifier: MIT */
/*
 * Many hooked tasks use a library as threads would; the program prints how many threads that takes.
 *
 * A program is started as PROGRAM WHERE TASKS, and prints
 *
 *	TASKS done, THREADS threads, MOST at most, PARKED parked, TIME s,
 *	CPU s of the processors, MEMORY MiB
 *
 * in one line. THREADS is the median of counts that are taken every other millisecond. MEMORY is
 * the most that the process had. It exits with 1 if a task failed.
 *
 * CROWD_WAY in the environment selects what tasks are compared with: "threads" for threads in their
 * place, if the job calls no function of sennit, and "async" for the library's own asynchronous
 * interface on one thread. It exits with 77 if the library has none.
 */
#ifndef CROWD_H
#define CROWD_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

#define CROWD_MOST 2000

struct crowd {
	const char *where;
	int tasks;
	size_t stack_size;
	/* The body of each task. Returns 0, or another value after it has reported a failure. */
	int (*job)(const struct crowd *crowd, int number);
	int (*before)(struct crowd *crowd); /* called in a hooked task, before the others; may be
	                                     * NULL */
	/* Does all jobs by the asynchronous interface. Returns how many have failed. */
	int (*all)(const struct crowd *crowd);
};

struct crowd_member {
	const struct crowd *crowd;
	int number;
};

static int crowd_job(void *arg)
{
	const struct crowd_member *member = arg;

	return member->crowd->job(member->crowd, member->number);
}

static struct {
	_Atomic int done;
	int seen[200000], n;
} crowd_threads;

static int crowd_status(const char *what)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	int n = -1;

	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, what, strlen(what)) == 0)
			n = atoi(line + strlen(what));
	if (status)
		fclose(status);
	return n;
}

static double crowd_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *crowd_watch(void *arg)
{
	while (!atomic_load(&crowd_threads.done) && crowd_threads.n < 200000) {
		crowd_threads.seen[crowd_threads.n++] = crowd_status("Threads:");
		usleep(2000);
	}
	return arg;
}

static int crowd_compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static struct crowd_member crowd_members[CROWD_MOST];

static void *crowd_thread(void *arg)
{
	return crowd_job(arg) == 0 ? NULL : arg;
}

static int crowd_in_threads(struct crowd *crowd)
{
	static pthread_t threads[CROWD_MOST];
	pthread_attr_t attr;
	int failed = 0;
	void *result;

	if (crowd->before && crowd->before(crowd) != 0)
		return 1;
	pthread_attr_init(&attr);
	if (crowd->stack_size)
		pthread_attr_setstacksize(&attr, crowd->stack_size);
	for (int i = 0; i < crowd->tasks; i++) {
		crowd_members[i] = (struct crowd_member){crowd, i};
		if (pthread_create(&threads[i], &attr, crowd_thread, &crowd_members[i]) != 0)
			return 1;
	}
	for (int i = 0; i < crowd->tasks; i++)
		failed += pthread_join(threads[i], &result) != 0 || result;
	if (failed)
		fprintf(stderr, "%d of %d threads failed\n", failed, crowd->tasks);
	return failed > 0;
}

static int crowd_in_loop(struct crowd *crowd)
{
	return (crowd->before && crowd->before(crowd) != 0) || crowd->all(crowd) != 0;
}

static int crowd_first(void *arg)
{
	struct crowd *crowd = arg;
	static sn_task *tasks[CROWD_MOST];
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED, .stack_size = crowd->stack_size);
	int failed = 0, result;

	sn_hooks_set(SN_HOOKS_ON);
	if (crowd->before && crowd->before(crowd) != 0)
		return 1;
	for (int i = 0; i < crowd->tasks; i++) {
		crowd_members[i] = (struct crowd_member){crowd, i};
		if (sn_spawn(&tasks[i], crowd_job, &crowd_members[i], &attr) < 0)
			return 1;
	}
	for (int i = 0; i < crowd->tasks; i++)
		if (sn_join(tasks[i], &result) < 0 || result != 0)
			failed++;
	if (failed)
		fprintf(stderr, "%d of %d tasks failed\n", failed, crowd->tasks);
	return failed > 0;
}

static int crowd_main(int argc, char **argv, struct crowd crowd)
{
	struct sn_hooks_stats counters = SN_HOOKS_STATS_INIT();
	const char *way = getenv("CROWD_WAY");
	struct rlimit files;
	pthread_t watch;
	double time, cpu;
	int status;

	if (argc != 3 || (crowd.tasks = atoi(argv[2])) < 1 || crowd.tasks > CROWD_MOST) {
		fprintf(stderr, "usage: %s WHERE TASKS\n", argv[0]);
		return 2;
	}
	crowd.where = argv[1];
	if (way && strcmp(way, "async") == 0 && !crowd.all)
		return 77;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (pthread_create(&watch, NULL, crowd_watch, NULL) != 0)
		return 1;
	time = crowd_now(CLOCK_MONOTONIC);
	cpu = crowd_now(CLOCK_PROCESS_CPUTIME_ID);
	if (way && strcmp(way, "threads") == 0)
		status = crowd_in_threads(&crowd);
	else if (way && strcmp(way, "async") == 0)
		status = crowd_in_loop(&crowd);
	else
		status = sn_run(crowd_first, &crowd);
	time = crowd_now(CLOCK_MONOTONIC) - time;
	cpu = crowd_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	atomic_store(&crowd_threads.done, 1);
	pthread_join(watch, NULL);
	sn_hooks_stats(&counters);
	qsort(crowd_threads.seen, (size_t)crowd_threads.n, sizeof(int), crowd_compare);
	printf("%d done, %d threads, %d at most, %" PRIu64
	       " parked, %.3f s, %.3f s of the processors, %d MiB\n",
	       crowd.tasks, crowd_threads.seen[crowd_threads.n / 2],
	       crowd_threads.seen[crowd_threads.n - 1], counters.parked, time, cpu,
	       crowd_status("VmHWM:") >> 10);
	if (getenv("CROWD_VERBOSE"))
		printf("held %" PRIu64 " busy %" PRIu64 " mask %" PRIu64 " other %" PRIu64 "\n",
		       counters.passed_held, counters.passed_busy, counters.passed_mask,
		       counters.passed_other);
	return status;
}

#endif
