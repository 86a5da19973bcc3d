/* SPDX-License-Identifier: MIT */
/*
 * Calls that block without a word: with one processor, other tasks run while a task sleeps in the
 * C library, reads an empty pipe, or computes. A task that loses its processor that way stays on
 * its thread, with its errno.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

static atomic_bool blocked, heard;
static int ends[2];

/* Beside it, the other task must have its turn before this one's call is over. */
static int sleeps(void *arg)
{
	const pthread_t thread = pthread_self();

	(void)arg;
	errno = 4321;
	atomic_store(&blocked, true);
	while (!atomic_load(&heard))
		CHECK(usleep(1000) == 0);
	CHECK(errno == 4321);
	CHECK(pthread_equal(pthread_self(), thread));
	return 0;
}

static int reads(void *arg)
{
	char byte;

	(void)arg;
	atomic_store(&blocked, true);
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
	return 0;
}

static int computes(void *arg)
{
	(void)arg;
	atomic_store(&blocked, true);
	while (!atomic_load(&heard))
		;
	return 0;
}

/* Runs beside a task that never calls sennit before it has been heard. */
static void beside(sn_fn *fn)
{
	sn_task *task;

	atomic_store(&blocked, false);
	atomic_store(&heard, false);
	CHECK(sn_spawn(&task, fn, NULL, NULL) == 0);
	while (!atomic_load(&blocked))
		CHECK(sn_sleep(MS) == 0);
	for (int i = 0; i < 5; i++)
		CHECK(sn_sleep(MS) == 0);
	atomic_store(&heard, true);
	CHECK(write(ends[1], "x", 1) == 1);
	CHECK(sn_join(task, NULL) == 0);
}

static int first(void *arg)
{
	struct sn_run_stats stats = SN_RUN_STATS_INIT();
	char byte;

	(void)arg;
	CHECK(pipe(ends) == 0);
	beside(sleeps);
	CHECK(read(ends[0], &byte, 1) == 1);
	beside(reads);
	beside(computes);
	CHECK(sn_run_stats(&stats) == 0);
	CHECK(stats.revocations >= 3);
	return 0;
}

int main(void)
{
	alarm(60);
	setenv("SENNIT_PROCS", "1", 1);
	return sn_run(first, NULL) != 0;
}
