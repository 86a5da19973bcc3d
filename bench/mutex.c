/* SPDX-License-Identifier: MIT */
/*
 * The cost of a lock and unlock of one contended mutex, with and without work while it is held, and
 * the longest wait for it.
 *
 *	bench-mutex [tasks, default 8] [processors..., default 1 2]
 *
 * Each row is the median of 5 runs of about 0.2 s: ns of elapsed time per lock and unlock, over all
 * tasks, the same for CPU time, and the longest wait of the last run. "work" is some 100 ns with
 * the lock held and 100 ns without it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <sennit/sennit.h>

#define RUNS 5
#define MOST_TASKS 1024

static struct {
	sn_mutex lock;
	int tasks, rounds, work;
	uint64_t counter;
	int64_t longest, elapsed;
} state;

static inline void work(int n)
{
	for (int i = 0; i < n; i++)
		__asm__ volatile("" : "+r"(i));
}

static int worker(void *arg)
{
	int64_t longest = 0;

	(void)arg;
	for (int i = 0; i < state.rounds; i++) {
		/* The clock is not read in every round, because that costs more than the lock. */
		int64_t began = i % 64 == 0 ? sn_now() : 0;

		if (sn_mutex_lock(&state.lock) < 0)
			return -1;
		if (began && sn_now() - began > longest)
			longest = sn_now() - began;
		state.counter++;
		work(state.work);
		sn_mutex_unlock(&state.lock);
		work(state.work);
	}
	if (sn_mutex_lock(&state.lock) < 0)
		return -1;
	if (longest > state.longest)
		state.longest = longest;
	sn_mutex_unlock(&state.lock);
	return 0;
}

static int first(void *arg)
{
	sn_task *tasks[MOST_TASKS];
	int64_t began = sn_now();

	(void)arg;
	for (int i = 0; i < state.tasks; i++)
		if (sn_spawn(&tasks[i], worker, NULL, NULL) < 0)
			return 1;
	for (int i = 0; i < state.tasks; i++)
		if (sn_join(tasks[i], NULL) < 0)
			return 1;
	state.elapsed = sn_now() - began;
	return state.counter == (uint64_t)state.tasks * (uint64_t)state.rounds ? 0 : 1;
}

static double cpu_ns(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return 1e9 * (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e3 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure(const char *processors, int work)
{
	double time[RUNS], cpu[RUNS];

	setenv("SENNIT_PROCS", processors, 1);
	state.work = work;
	state.rounds = (work ? 1000000 : 10000000) / state.tasks;
	for (int i = 0; i < RUNS; i++) {
		double before = cpu_ns(), n = (double)state.tasks * state.rounds;

		state.counter = 0;
		state.longest = 0;
		if (sn_run(first, NULL) != 0)
			return 1;
		time[i] = (double)state.elapsed / n;
		cpu[i] = (cpu_ns() - before) / n;
	}
	qsort(time, RUNS, sizeof *time, compare);
	qsort(cpu, RUNS, sizeof *cpu, compare);
	printf("%10s %5d %5s %10.1f %10.1f %12.1f\n", processors, state.tasks, work ? "yes" : "no",
	       time[RUNS / 2], cpu[RUNS / 2], (double)state.longest / 1e3);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const defaults[] = {"1", "2", NULL};
	const char *const *processors = argc > 2 ? (const char *const *)argv + 2 : defaults;

	state.tasks = argc > 1 ? atoi(argv[1]) : 8;
	if (state.tasks < 1 || state.tasks > MOST_TASKS) {
		fprintf(stderr, "bench-mutex: 1 to %d tasks\n", MOST_TASKS);
		return 2;
	}
	printf("%10s %5s %5s %10s %10s %12s\n", "processors", "tasks", "work", "ns", "CPU ns",
	       "longest us");
	for (; *processors; processors++)
		for (int with = 0; with < 2; with++)
			if (measure(*processors, with ? 100 : 0) != 0)
				return 1;
	return 0;
}
