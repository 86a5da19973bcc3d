/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads wait for condition variables, for run_test.py: what happens between the
 * release of the mutex and the wait. run_test.py preloads a library that calls a function of this
 * program there; without it nothing happens. Prints what does not hold, and its status is the
 * number of such lines.
 *
 *	windows collide      many other variables are signalled, some of which have the same list
 *	windows random SEED  items are put, for the waiter and for others; variables are signalled;
 *	                     time passes. Prints how often
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int failures;

/* Calls the function whenever a mutex has been released. */
static void call_after_unlock(void (*fn)(pthread_mutex_t *mutex))
{
	void (**after)(pthread_mutex_t * mutex) = dlsym(RTLD_DEFAULT, "test_after_unlock");

	if (after)
		*after = fn;
}

/* ---- variables with the same list ---- */

#define VARIABLES 16384 /* four for each list */
#define RETURNS 20
#define SHORT_NS 20000000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t others[VARIABLES];

static void signal_others(pthread_mutex_t *released)
{
	if (released != &mutex)
		return;
	for (int i = 0; i < VARIABLES; i++)
		pthread_cond_signal(&others[i]);
}

/* A return without a cause is allowed, but not again and again: the deadline must come. */
static void *wait_beside_others(void *arg)
{
	struct timespec until;
	int err = 0, returns = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += SHORT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	for (; err == 0 && returns < RETURNS; returns++)
		err = pthread_cond_timedwait(&changed, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	CHECK(err == ETIMEDOUT);
	return arg;
}

static void check_collisions(void)
{
	for (int i = 0; i < VARIABLES; i++)
		pthread_cond_init(&others[i], NULL);
	call_after_unlock(signal_others);
	CHECK(pthread_join(start(wait_beside_others, NULL), NULL) == 0);
}

/* ---- whatever happens there ---- */

#define BOXES 4
#define TAKERS 2  /* of each box */
#define ITEMS 100 /* for each of them */

static struct box {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int items, put; /* under the mutex */
} boxes[BOXES];

static pthread_key_t key;      /* in a taker, the mutex that its wait is about to release */
static _Atomic uint32_t state; /* of the random numbers */
static _Atomic int happened;

static unsigned choose(unsigned n)
{
	uint32_t now = state, next;

	do
		next = now * UINT32_C(1664525) + UINT32_C(1013904223);
	while (!atomic_compare_exchange_weak(&state, &now, next));
	return (next >> 16) % n;
}

/* Puts an item if the last one was taken, so that no later signal makes up for one that is lost.
 * Returns whether there are more to put. */
static bool put(struct box *box)
{
	const unsigned how = choose(3);
	bool puts, more;

	pthread_mutex_lock(&box->mutex);
	more = box->put < TAKERS * ITEMS;
	puts = more && box->items == 0;
	box->items += puts;
	box->put += puts;
	if (puts && how == 0)
		pthread_cond_signal(&box->changed);
	pthread_mutex_unlock(&box->mutex);
	if (puts && how == 1)
		pthread_cond_signal(&box->changed);
	else if (puts && how == 2)
		pthread_cond_broadcast(&box->changed);
	return more;
}

static void do_anything(pthread_mutex_t *released)
{
	if (pthread_getspecific(key) != released)
		return;
	pthread_setspecific(key, NULL);
	happened++;
	switch (choose(20)) {
	case 0: /* without a cause */
		pthread_cond_signal(&boxes[choose(BOXES)].changed);
		break;
	case 1 ... 5:
		usleep(choose(100));
		break;
	case 6 ... 10:
		put(&boxes[choose(BOXES)]);
		break;
	case 11 ... 16:
		for (int i = 0; i < BOXES; i++)
			if (released == &boxes[i].mutex)
				put(&boxes[i]);
		break;
	default:
		break;
	}
}

static void *take(void *arg)
{
	struct box *box = arg;

	for (int i = 0; i < ITEMS; i++) {
		pthread_mutex_lock(&box->mutex);
		while (box->items == 0) {
			pthread_setspecific(key, &box->mutex);
			pthread_cond_wait(&box->changed, &box->mutex);
			pthread_setspecific(key, NULL);
		}
		box->items--;
		pthread_mutex_unlock(&box->mutex);
	}
	return arg;
}

static void *put_the_rest(void *arg)
{
	for (int i = 0; i < BOXES; i++)
		while (put(&boxes[i]))
			usleep(choose(100));
	return arg;
}

/* If a signal is lost, a taker waits until the alarm ends the program. */
static void check_randomly(uint32_t seed)
{
	pthread_t threads[BOXES * TAKERS + 1];

	alarm(60);
	state = seed;
	pthread_key_create(&key, NULL);
	call_after_unlock(do_anything);
	for (int i = 0; i < BOXES; i++) {
		pthread_mutex_init(&boxes[i].mutex, NULL);
		pthread_cond_init(&boxes[i].changed, NULL);
	}
	for (int i = 0; i < BOXES * TAKERS; i++)
		threads[i] = start(take, &boxes[i % BOXES]);
	threads[BOXES * TAKERS] = start(put_the_rest, NULL);
	for (int i = 0; i <= BOXES * TAKERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < BOXES; i++)
		CHECK(boxes[i].items == 0);
	printf("%d\n", happened);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "collide") == 0)
		check_collisions();
	else if (argc > 2 && strcmp(argv[1], "random") == 0)
		check_randomly((uint32_t)strtoul(argv[2], NULL, 10));
	return failures;
}
