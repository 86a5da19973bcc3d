/* SPDX-License-Identifier: MIT */
/*
 * Many tasks that block in the kernel at the same time, without a bracket:
 *
 *	bench-blocking-crowd [tasks, default 10000] [SENNIT_MAX_THREADS of a second run, default 100]
 *
 * Each sleeps in nanosleep() for one second. Prints when all were done, how many threads that took,
 * how soon the threads were released, and how much memory stayed in use. A second run, of at most
 * 1,000 tasks that sleep for 20 ms, shows what happens at the limit of threads: work queues up.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sennit/sennit.h>

static long tasks = 10000;
static struct timespec nap = {.tv_sec = 1};
static _Atomic long done;

static int sleeper(void *arg)
{
	(void)arg;
	nanosleep(&nap, NULL);
	done++;
	return 0;
}

static double resident_mib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtod(line + 6, NULL);
	if (file)
		fclose(file);
	return kib / 1024;
}

static int run(void *arg)
{
	double before = resident_mib(), during = 0;
	int64_t began = sn_now(), all_done;
	uint64_t most = 0;
	struct sn_run_stats stats = SN_RUN_STATS_INIT();

	(void)arg;
	for (long i = 0; i < tasks; i++) {
		int err = sn_go(sleeper, NULL);

		if (err < 0) {
			fprintf(stderr, "task %ld: %s\n", i, strerror(-err));
			return 1;
		}
	}
	do {
		double mib = resident_mib();

		sn_sleep(20000000);
		sn_run_stats(&stats);
		if (stats.threads > most)
			most = stats.threads;
		if (mib > during)
			during = mib;
	} while (done < tasks);
	all_done = sn_now();
	printf("%ld tasks in nanosleep(%.2f s) at once: done after %.2f s, on up to %" PRIu64
	       " threads\n",
	       tasks, (double)nap.tv_sec + (double)nap.tv_nsec / 1e9,
	       (double)(all_done - began) / 1e9, most);
	printf("revocations %" PRIu64 ", threads refused at the limit %" PRIu64 "\n",
	       stats.revocations, stats.thread_limit_hits);
	fflush(stdout);
	do {
		sn_sleep(10000000);
		sn_run_stats(&stats);
	} while (stats.threads > 2 * stats.processors + 4 && sn_now() - all_done < 30000000000);
	printf("%" PRIu64 " threads are left %.2f s later; resident %.1f MiB, at most %.1f MiB, "
	       "before %.1f MiB\n",
	       stats.threads, (double)(sn_now() - all_done) / 1e9, resident_mib(), during, before);
	return 0;
}

int main(int argc, char **argv)
{
	const char *limit = argc > 2 ? argv[2] : "100";
	int result;

	if (argc > 1)
		tasks = strtol(argv[1], NULL, 10);
	if (argc > 3 || tasks < 1) {
		fprintf(stderr, "usage: %s [tasks] [SENNIT_MAX_THREADS]\n", argv[0]);
		return 2;
	}
	setenv("SENNIT_PROCS", "2", 0);
	result = sn_run(run, NULL);
	if (result != 0)
		return 1;
	printf("\nSENNIT_MAX_THREADS=%s:\n", limit);
	fflush(stdout);
	setenv("SENNIT_MAX_THREADS", limit, 1);
	done = 0;
	if (tasks > 1000)
		tasks = 1000;
	nap = (struct timespec){.tv_nsec = 20000000};
	return sn_run(run, NULL) == 0 ? 0 : 1;
}
