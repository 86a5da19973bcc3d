/* SPDX-License-Identifier: MIT */
/*
 * A dump of many tasks beside a benchmark:
 *
 *	bench-dump [tasks]		default: 100000
 *
 * The tasks sleep at three stack depths; beside them pairs of tasks play ping-pong over channels.
 * Prints how long a dump takes, and the rate of round trips before, during and after a series of
 * dumps, and checks that all tasks still exist at the end.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

#define PAIRS 2
#define SECOND INT64_C(1000000000)

static _Atomic bool stop;
static _Atomic uint64_t trips[PAIRS];
static _Atomic uint64_t asleep, woken;
static sn_chan *bell;

static __attribute__((noinline)) int sleep_below(int depth)
{
	int item, err;

	if (depth > 0) {
		err = sleep_below(depth - 1);
		__asm__ volatile("" : "+r"(err)); /* no tail call */
		return err;
	}
	atomic_fetch_add(&asleep, 1);
	err = sn_chan_recv(bell, &item); /* parks until the channel is closed */
	atomic_fetch_add(&woken, 1);
	return err;
}

static int sleeper(void *arg)
{
	return sleep_below((int)(intptr_t)arg);
}

struct pair {
	sn_chan *there, *back;
	_Atomic uint64_t *trips;
};

static int echo(void *arg)
{
	struct pair *pair = arg;
	int item;

	while (sn_chan_recv(pair->there, &item) == 0)
		CHECK(sn_chan_send(pair->back, &item) == 0);
	return 0;
}

static int player(void *arg)
{
	struct pair *pair = arg;
	int item = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		CHECK(sn_chan_send(pair->there, &item) == 0);
		CHECK(sn_chan_recv(pair->back, &item) == 0);
		atomic_fetch_add_explicit(pair->trips, 1, memory_order_relaxed);
	}
	sn_chan_close(pair->there);
	return 0;
}

static uint64_t all_trips(void)
{
	uint64_t n = 0;

	for (int i = 0; i < PAIRS; i++)
		n += atomic_load(&trips[i]);
	return n;
}

/* Round trips per second while fn runs, or during one second. */
static double rate(void (*fn)(void))
{
	int64_t begun = sn_now();
	uint64_t before = all_trips();

	if (fn)
		fn();
	else
		sn_sleep(SECOND);
	return (double)(all_trips() - before) * 1e9 / (double)(sn_now() - begun);
}

static int dumps;
static int64_t longest;

static void dump_for_two_seconds(void)
{
	int64_t end = sn_now() + 2 * SECOND;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	do {
		int64_t begun = sn_now();

		CHECK(sn_dump(fd) == 0);
		if (sn_now() - begun > longest)
			longest = sn_now() - begun;
		dumps++;
	} while (sn_now() < end);
	close(fd);
}

static int run(void *arg)
{
	long n = *(long *)arg;
	struct pair pairs[PAIRS];
	sn_task *players[PAIRS], *echoes[PAIRS];
	double before, during, after;
	int64_t limit;

	CHECK(sn_chan_new(&bell, sizeof(int), 0) == 0);
	for (long i = 0; i < n; i++)
		CHECK(sn_go(sleeper, (void *)(intptr_t)(i % 3 * 5)) == 0);
	while (atomic_load(&asleep) < (uint64_t)n)
		sn_sleep(SECOND / 100);
	for (int i = 0; i < PAIRS; i++) {
		pairs[i].trips = &trips[i];
		CHECK(sn_chan_new(&pairs[i].there, sizeof(int), 0) == 0);
		CHECK(sn_chan_new(&pairs[i].back, sizeof(int), 0) == 0);
		CHECK(sn_spawn(&players[i], player, &pairs[i], NULL) == 0);
		CHECK(sn_spawn(&echoes[i], echo, &pairs[i], NULL) == 0);
	}
	rate(NULL);
	before = rate(NULL);
	during = rate(dump_for_two_seconds);
	after = rate(NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < PAIRS; i++) {
		CHECK(sn_join(players[i], NULL) == 0);
		CHECK(sn_join(echoes[i], NULL) == 0);
	}
	CHECK(sn_chan_close(bell) == 0);
	while (atomic_load(&woken) < (uint64_t)n)
		sn_sleep(SECOND / 100);

	printf("tasks       %ld, all of them there at the end\n", n);
	printf("dumps       %d, the longest took %.0f ms\n", dumps, (double)longest / 1e6);
	printf("round trips a second\n");
	printf("  before    %.0f\n", before);
	printf("  during    %.0f (%.0f %%)\n", during, 100 * during / before);
	printf("  after     %.0f (%.0f %%)\n", after, 100 * after / before);
	/* Two seconds per 100,000 tasks. */
	limit = n > 100000 ? 2 * SECOND * (n / 100000) : 2 * SECOND;
	return longest < limit && during > before / 2 ? 0 : 1;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 100000;
	int result = sn_run(run, &n);

	if (result)
		puts("it took too long, or more than half was lost");
	return result;
}
