/* SPDX-License-Identifier: MIT */
/*
 * The cost of the runtime when there is little to do, so that only the monitor wakes by itself.
 *
 *	bench-blocking-idle [seconds for each, default 10]
 *
 * Prints the CPU time and the voluntary context switches of the process while its one task sleeps
 * throughout, while it wakes 100 times a second, and, for comparison, while a thread does that
 * without any runtime.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <sennit/sennit.h>

#define WAKES_PER_SECOND 100

static double seconds = 10;

struct usage {
	double cpu;
	long switches;
};

static struct usage usage(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (struct usage){
		.cpu = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
		       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6,
		.switches = r.ru_nvcsw,
	};
}

static void print(const char *what, struct usage before)
{
	struct usage now = usage();

	printf("%-40s %.3f %% of a CPU, %.0f wakes of threads a second\n", what,
	       100 * (now.cpu - before.cpu) / seconds,
	       (double)(now.switches - before.switches) / seconds);
	fflush(stdout);
}

static int run(void *arg)
{
	struct usage before;

	(void)arg;
	sn_sleep(500000000); /* lets the startup finish */
	before = usage();
	sn_sleep((int64_t)(seconds * 1e9));
	print("nothing runnable:", before);
	before = usage();
	for (int i = 0; i < (int)(seconds * WAKES_PER_SECOND); i++)
		sn_sleep(1000000000 / WAKES_PER_SECOND);
	print("100 wakes a second:", before);
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec nap = {.tv_nsec = 1000000000 / WAKES_PER_SECOND};
	struct usage before;

	if (argc > 1)
		seconds = strtod(argv[1], NULL);
	if (argc > 2 || seconds <= 0) {
		fprintf(stderr, "usage: %s [seconds]\n", argv[0]);
		return 2;
	}
	if (sn_run(run, NULL) < 0)
		return 1;
	before = usage();
	for (int i = 0; i < (int)(seconds * WAKES_PER_SECOND); i++)
		nanosleep(&nap, NULL);
	print("100 wakes a second of a thread:", before);
	return 0;
}
