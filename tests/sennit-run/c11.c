/* SPDX-License-Identifier: MIT */
/* What threads.c checks of the threads of C11. */
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include "check.h"

static tss_t own;
static sem_t done;

static int c11(void *arg)
{
	CHECK(tss_get(own) == NULL && tss_set(own, arg) == thrd_success);
	thrd_sleep(&(struct timespec){0, 1000000}, NULL);
	CHECK(tss_get(own) == arg);
	CHECK(thrd_equal(thrd_current(), thrd_current()));
	if (arg == &own)
		thrd_exit(-8);
	return 7;
}

static int c11_post(void *arg)
{
	sem_post(&done);
	return arg != NULL;
}

static cnd_t c11_changed;
static mtx_t c11_mutex;
static int c11_turn;

static int c11_wait(void *arg)
{
	struct timespec soon;

	mtx_lock(&c11_mutex);
	while (!c11_turn)
		cnd_wait(&c11_changed, &c11_mutex);
	timespec_get(&soon, TIME_UTC);
	soon.tv_nsec = soon.tv_nsec / 2;
	CHECK(cnd_timedwait(&c11_changed, &c11_mutex, &soon) == thrd_timedout);
	mtx_unlock(&c11_mutex);
	return arg ? 1 : 0;
}

static void check_c11_waits(void)
{
	thrd_t thread;
	int result;

	cnd_init(&c11_changed);
	mtx_init(&c11_mutex, mtx_plain);
	CHECK(thrd_create(&thread, c11_wait, &result) == thrd_success);
	mtx_lock(&c11_mutex);
	c11_turn = 1;
	cnd_signal(&c11_changed);
	mtx_unlock(&c11_mutex);
	CHECK(thrd_join(thread, &result) == thrd_success && result == 1);
	cnd_destroy(&c11_changed);
}

void check_c11(void)
{
	thrd_t thread;
	int result;

	sem_init(&done, 0, 0);
	CHECK(tss_create(&own, NULL) == thrd_success);
	CHECK(thrd_create(&thread, c11, &result) == thrd_success);
	CHECK(thrd_join(thread, &result) == thrd_success && result == 7);
	CHECK(thrd_create(&thread, c11, &own) == thrd_success);
	CHECK(thrd_join(thread, &result) == thrd_success && result == -8);
	CHECK(thrd_create(&thread, c11_post, NULL) == thrd_success);
	CHECK(thrd_detach(thread) == thrd_success);
	sem_wait(&done);
	tss_delete(own);
	check_c11_waits();
}
