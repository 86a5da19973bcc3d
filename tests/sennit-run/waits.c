/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads wait, for run_test.py. Prints what does not hold, and its status is the
 * number of such lines.
 *
 *	waits KIND N      N threads wait at the same time, and then all go on; KIND is one of
 *	                  semaphores, condition, barrier, mutex, rwlock. For the first two it is one
 *	                  more thread that wakes them, once all are there. Prints how many threads the
 *	                  process had while they waited
 *	waits refused     a thread that does not own the mutex does not wait
 *	waits memory      two threads wait until a time
 *	waits destroy     a thread that a broadcast has woken destroys the variable
 *	waits execute P   a thread ends, and the program P takes the place of this one
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "count_threads.h"

int failures;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *nothing(void *arg)
{
	return arg;
}

/* ---- many that wait ---- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static _Atomic int arrived;
static bool open;

static void *wait_for_semaphore(void *arg)
{
	arrived++;
	while (sem_wait(&semaphore) < 0)
		;
	return arg;
}

static void *wait_for_condition(void *arg)
{
	pthread_mutex_lock(&mutex);
	arrived++;
	while (!open)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *wait_for_barrier(void *arg)
{
	int err;

	arrived++;
	err = pthread_barrier_wait(&barrier);
	CHECK(err == 0 || err == PTHREAD_BARRIER_SERIAL_THREAD);
	return arg;
}

static void *wait_for_mutex(void *arg)
{
	arrived++;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *wait_for_rwlock(void *arg)
{
	arrived++;
	pthread_rwlock_wrlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	return arg;
}

static int wanted, seen;

/* Of those that have arrived, only the ones that run now may not wait yet. */
static void await_all(void)
{
	while (arrived < wanted)
		usleep(1000);
	seen = count_threads();
}

/* The threads that wait keep this one from starting if there cannot be enough of them. */
static void *wake_all(void *arg)
{
	await_all();
	pthread_mutex_lock(&mutex);
	open = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < wanted; i++)
		sem_post(&semaphore);
	return arg;
}

static void check_many(void *(*wait)(void *arg), int n)
{
	const bool by_main = wait == wait_for_mutex || wait == wait_for_rwlock;
	pthread_t *threads = calloc((size_t)n + 1, sizeof *threads);

	wanted = n;
	sem_init(&semaphore, 0, 0);
	pthread_barrier_init(&barrier, NULL, (unsigned)n);
	if (by_main) {
		pthread_mutex_lock(&mutex);
		pthread_rwlock_wrlock(&rwlock);
	}
	for (int i = 0; i < n; i++)
		threads[i] = start(wait, NULL);
	threads[n] = start(by_main || wait == wait_for_barrier ? nothing : wake_all, NULL);
	if (by_main) {
		await_all();
		pthread_rwlock_unlock(&rwlock);
		pthread_mutex_unlock(&mutex);
	}
	if (wait == wait_for_barrier) {
		while (arrived < n)
			usleep(1000);
		seen = count_threads();
	}
	for (int i = 0; i <= n; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	free(threads);
	printf("%d\n", seen);
}

/* ---- a mutex that the caller does not own ---- */

static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

/* With one lock, as many as a caller of pthread_cond_wait() has, but the wrong one. */
static void *fail_to_wait(void *arg)
{
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_cond_wait(&changed, &checked) == EPERM);
	pthread_mutex_unlock(&mutex);
	return arg;
}

/* ---- no memory for a timer: the waits are as long as they should be ---- */

#define SHORT_NS 20000000

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void *wait_without_memory(void *arg)
{
	const int64_t end = now() + SHORT_NS;
	const struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
				       .tv_nsec = (long)(end % 1000000000)};
	int err = 0;

	pthread_mutex_lock(&mutex);
	while (err == 0) /* it may also be woken without a cause */
		err = pthread_cond_clockwait(&changed, &mutex, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&mutex);
	CHECK(err == ETIMEDOUT && now() >= end);
	return arg;
}

static void *wait_for_permit_without_memory(void *arg)
{
	const int64_t end = now() + SHORT_NS;
	const struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
				       .tv_nsec = (long)(end % 1000000000)};

	CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) < 0 && errno == ETIMEDOUT);
	CHECK(now() >= end);
	return arg;
}

/* ---- a variable that is destroyed ---- */

static pthread_cond_t *own;
static bool waits;

static void *wait_and_destroy(void *arg)
{
	pthread_mutex_lock(&mutex);
	waits = true;
	while (!open)
		pthread_cond_wait(own, &mutex);
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(own);
	munmap(own, (size_t)sysconf(_SC_PAGESIZE));
	return arg;
}

static void *open_all(void *arg)
{
	bool ready = false;

	while (!ready) {
		pthread_mutex_lock(&mutex);
		ready = open = waits;
		pthread_mutex_unlock(&mutex);
		usleep(1000);
	}
	CHECK(pthread_cond_broadcast(own) == 0);
	return arg;
}

static void check_destroying(void)
{
	pthread_t threads[2];

	own = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_cond_init(own, NULL);
	threads[0] = start(wait_and_destroy, NULL);
	threads[1] = start(open_all, NULL);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void *(*wait)(void *arg);
	} kinds[] = {
		{"semaphores", wait_for_semaphore}, {"condition", wait_for_condition},
		{"barrier", wait_for_barrier},      {"mutex", wait_for_mutex},
		{"rwlock", wait_for_rwlock},
	};
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (argc > 2 && strcmp(what, kinds[i].name) == 0)
			check_many(kinds[i].wait, atoi(argv[2]));
	if (strcmp(what, "refused") == 0) {
		CHECK(pthread_join(start(fail_to_wait, NULL), NULL) == 0);
	} else if (strcmp(what, "memory") == 0) {
		sem_init(&semaphore, 0, 0);
		CHECK(pthread_join(start(wait_without_memory, NULL), NULL) == 0);
		CHECK(pthread_join(start(wait_for_permit_without_memory, NULL), NULL) == 0);
	} else if (strcmp(what, "destroy") == 0) {
		check_destroying();
	} else if (strcmp(what, "execute") == 0 && argc > 2) {
		CHECK(pthread_join(start(nothing, NULL), NULL) == 0);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		failures++;
	}
	return failures;
}
