/* SPDX-License-Identifier: MIT */
/*
 * How long the collector stops all threads, by the number of parked tasks and of threads in system
 * calls. The heap is almost empty, so this is the cost of stopping the threads and scanning the
 * tasks.
 *
 *	bench-gc [tasks...]	default: 0 1000 10000 100000
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sennit/gc.h>
#include <sennit/sennit.h>

#define GC_THREADS 1
#include <gc/gc.h>

#define COLLECTIONS 51
#define THREADS 100

static sn_semaphore gate;
static _Atomic long waiting;
static int pipe_ends[2];

static int park(void *arg)
{
	void *volatile mine = GC_MALLOC(64);

	(void)arg;
	waiting++;
	if (sn_semaphore_acquire(&gate) < 0 || !mine)
		abort();
	waiting--;
	return 0;
}

static int block(void *arg)
{
	char byte;

	(void)arg;
	waiting++;
	sn_enter_blocking();
	if (read(pipe_ends[0], &byte, 1) != 1)
		abort();
	sn_exit_blocking();
	waiting--;
	return 0;
}

static void until(long n)
{
	while (waiting != n)
		sn_sleep(1000000);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(long tasks, long threads)
{
	uint64_t ns[COLLECTIONS];
	struct sn_gc_stats stats = SN_GC_STATS_INIT();
	struct sn_gc_stats before = SN_GC_STATS_INIT();

	for (int i = 0; i < COLLECTIONS; i++) {
		sn_gc_stats(&before);
		GC_gcollect();
		sn_gc_stats(&stats);
		ns[i] = stats.stop_ns - before.stop_ns;
	}
	qsort(ns, COLLECTIONS, sizeof *ns, compare);
	printf("%7ld %7ld %10.0f %10.0f %10.0f %10.1f\n", tasks, threads, ns[0] / 1e3,
	       ns[COLLECTIONS / 2] / 1e3, ns[COLLECTIONS - 1] / 1e3,
	       (double)stats.root_bytes / 1024);
	fflush(stdout);
}

static void with_tasks(long n)
{
	for (long i = 0; i < n; i++)
		if (sn_go(park, NULL) < 0)
			abort();
	until(n);
	measure(n, 0);
	if (n > 0)
		sn_semaphore_release(&gate, (int)n);
	until(0);
}

static void with_threads(void)
{
	if (pipe(pipe_ends) < 0)
		abort();
	for (int i = 0; i < THREADS; i++)
		if (sn_go(block, NULL) < 0)
			abort();
	until(THREADS);
	sn_sleep(100000000); /* the last threads start in this time */
	measure(0, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (write(pipe_ends[1], "", 1) != 1)
			abort();
	until(0);
}

static int first(void *arg)
{
	const char **tasks = arg;
	static const char *defaults[] = {"0", "1000", "10000", "100000", NULL};

	if (!*tasks)
		tasks = defaults;
	printf("  tasks blocked    least us  median us    most us  roots KiB\n");
	for (; *tasks; tasks++)
		with_tasks(atol(*tasks));
	with_threads();
	return 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	if (sn_gc_init() < 0)
		return 1;
	return sn_run(first, argv + 1);
}
