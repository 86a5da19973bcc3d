/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads wait for condition variables, for run_test.py: what happens between the
 * release of the mutex and the wait. run_test.py preloads a library that calls a function of this
 * program there; without it nothing happens. Prints what does not hold, and its status is the
 * number of such lines.
 *
 *	windows collide  many other variables are signalled, some of which have the same list
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "collide") == 0)
		check_collisions();
	return failures;
}
