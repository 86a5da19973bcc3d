/* SPDX-License-Identifier: MIT */
/*
 * A worker pool: tasks take jobs from a bounded queue and store their results. Try:
 *
 *	example-worker-pool [workers, default 4] [jobs, default 20]
 *
 * Each job counts the primes below its number times 1000. The queue is made of a mutex and two
 * condition variables, a wait group counts the jobs that are left, a ticker shows the progress, and
 * the scope ends the workers.
 */
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 8

struct pool {
	sn_mutex lock; /* guards the queue and done */
	sn_cond filled, emptied;
	int queue[ROOM], first, count, done;
	sn_waitgroup left;
	int jobs, *found;
};

static int put(struct pool *pool, int job)
{
	int err = sn_mutex_lock(&pool->lock);

	if (err < 0)
		return err;
	while (pool->count == ROOM && err == 0)
		err = sn_cond_wait(&pool->emptied, &pool->lock);
	if (err == 0) {
		pool->queue[(pool->first + pool->count++) % ROOM] = job;
		sn_cond_signal(&pool->filled);
	}
	sn_mutex_unlock(&pool->lock);
	return err;
}

static int take(struct pool *pool)
{
	int err = sn_mutex_lock(&pool->lock), job = -1;

	if (err < 0)
		return err;
	while (pool->count == 0 && err == 0)
		err = sn_cond_wait(&pool->filled, &pool->lock);
	if (err == 0) {
		job = pool->queue[pool->first];
		pool->first = (pool->first + 1) % ROOM;
		pool->count--;
		sn_cond_signal(&pool->emptied);
	}
	sn_mutex_unlock(&pool->lock);
	return err < 0 ? err : job;
}

static int primes_below(int n)
{
	int primes = 0;

	for (int i = 2; i < n; i++) {
		int divisor = 2;

		while (divisor * divisor <= i && i % divisor)
			divisor++;
		primes += divisor * divisor > i;
	}
	return primes;
}

/* Works until the scope is cancelled, which ends the wait for a job. */
static int worker(void *arg)
{
	struct pool *pool = arg;
	int job;

	while ((job = take(pool)) >= 0) {
		pool->found[job] = primes_below(job * 1000);
		if (sn_mutex_lock(&pool->lock) == 0) {
			pool->done++;
			sn_mutex_unlock(&pool->lock);
		}
		sn_waitgroup_done(&pool->left);
	}
	return 0;
}

static int progress(void *arg)
{
	struct pool *pool = arg;
	sn_ticker ticker = SN_TICKER_INIT;
	int err = sn_ticker_start(&ticker, sn_after(200000000), 200000000);

	while (err >= 0 && sn_ticker_wait(&ticker) > 0) {
		err = sn_mutex_lock(&pool->lock);
		if (err == 0) {
			fprintf(stderr, "%d of %d jobs are done\n", pool->done, pool->jobs);
			sn_mutex_unlock(&pool->lock);
		}
	}
	sn_ticker_stop(&ticker);
	return 0;
}

static int work(struct pool *pool, int workers)
{
	sn_scope *scope;
	int err = sn_scope_open(&scope, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	sn_waitgroup_add(&pool->left, pool->jobs);
	err = sn_scope_go(scope, progress, pool);
	for (int i = 0; i < workers && err == 0; i++)
		err = sn_scope_go(scope, worker, pool);
	for (int job = 0; job < pool->jobs && err == 0; job++)
		err = put(pool, job);
	if (err == 0)
		err = sn_waitgroup_wait(&pool->left);
	sn_scope_cancel(scope);
	sn_scope_close(scope); /* returns -ECANCELED, because it was cancelled */
	return err;
}

static int first(void *arg)
{
	char **argv = arg;
	int workers = argv[1] ? atoi(argv[1]) : 4, err;
	struct pool pool = {.jobs = argv[1] && argv[2] ? atoi(argv[2]) : 20};

	if (workers < 1 || pool.jobs < 1 || pool.jobs > 1000) {
		fprintf(stderr, "worker-pool: at least 1 worker, 1 to 1000 jobs\n");
		return 2;
	}
	pool.found = calloc((size_t)pool.jobs, sizeof *pool.found);
	if (!pool.found)
		return 1;
	err = work(&pool, workers);
	for (int job = 0; job < pool.jobs && err == 0; job++)
		printf("%d primes below %d\n", pool.found[job], job * 1000);
	if (err < 0)
		fprintf(stderr, "worker-pool: %s\n", strerror(-err));
	free(pool.found);
	return err < 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	return sn_run(first, argv);
}
