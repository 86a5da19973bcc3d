/* SPDX-License-Identifier: MIT */
/*
 * What the servers in C and C++ do beside echoing, and their arguments:
 *
 *	PROCESSORS [usleep|compute MS PERIOD_MS OFFSET_MS ITERATIONS]
 *
 * Two hogs call usleep() or compute for MS of each PERIOD_MS; the second one's periods begin
 * OFFSET_MS later. ITERATIONS is how many rounds of hog_compute() take a millisecond here, so that
 * all servers do the same amount of work.
 */
#ifndef BENCH_STALL_HOG_H
#define BENCH_STALL_HOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct hog_plan {
	int processors, hogs;
	bool compute;
	int64_t length, period, offset, start; /* in ns */
	uint64_t iterations;                   /* per ms */
	volatile uint64_t sum;
} hog_plan;

static inline int64_t hog_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Fills the plan. Returns false if the arguments are wrong. */
static inline bool hog_arguments(int argc, char **argv, hog_plan *plan)
{
	memset(plan, 0, sizeof *plan);
	if (argc != 2 && argc != 7)
		return false;
	plan->processors = atoi(argv[1]);
	if (argc == 2)
		return plan->processors > 0;
	plan->hogs = 2;
	plan->compute = strcmp(argv[2], "compute") == 0;
	plan->length = (int64_t)(atof(argv[3]) * 1e6);
	plan->period = (int64_t)(atof(argv[4]) * 1e6);
	plan->offset = (int64_t)(atof(argv[5]) * 1e6);
	plan->iterations = strtoull(argv[6], NULL, 10);
	return plan->processors > 0 && (plan->compute || strcmp(argv[2], "usleep") == 0) &&
	       plan->length > 0 && plan->period > plan->length && plan->iterations > 0;
}

static inline void hog_start(hog_plan *plan)
{
	plan->start = hog_now();
}

/* When the hog's next period begins. */
static inline int64_t hog_next(const hog_plan *plan, int index)
{
	int64_t first = plan->start + index * plan->offset, gone = hog_now() - first;

	return gone < 0 ? first : first + (gone / plan->period + 1) * plan->period;
}

/* A chain of dependent operations, without calls and without memory. */
static inline uint64_t hog_compute(uint64_t iterations)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < iterations; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

/* What a hog does in each period. It says nothing of the call to the runtime. */
static inline void hog_work(hog_plan *plan)
{
	if (plan->compute)
		plan->sum = hog_compute((uint64_t)(plan->length / 1000000) * plan->iterations);
	else
		usleep((useconds_t)(plan->length / 1000));
}

#endif
