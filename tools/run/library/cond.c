/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: a task that waits for one parks.
 *
 * Contract. As POSIX says. Threads that are not tasks, the runtime among them, wait in the C
 * library's own variable. So do tasks if the variable is shared between processes, and tasks that
 * may not park: with another lock held, or with signals blocked. A signal wakes a task if one waits
 * here, and otherwise a thread; a broadcast wakes both.
 *
 * Tasks that wait are in lists by the address of the variable. A waiter enters its list before it
 * releases the mutex, so that whoever takes the mutex after it finds it there. The waker takes the
 * waiter out of the list and gives it a permit, both under the list's lock. A waiter whose time is
 * over looks under that lock whether it is still in the list; if not, it was woken, and a signal is
 * not lost. Every waiter takes the lock once more before it returns, because its semaphore is on
 * its stack: after that the waker no longer touches it.
 *
 * A waker reads the number of a list's waiters without the lock. It is at least as new as the
 * mutex, if the waker has held that since the waiter released it; otherwise either order is right.
 *
 * Rejected: a variable of sennit in the place of the C library's. It would have to fit, with all
 * initial values that a program may have compiled into it, and the runtime's own threads, which are
 * no tasks, would wait in it.
 */
#include <errno.h>

#include "adopted.h"

#define LISTS 256 /* the upper 8 of 32 bits choose one */

struct waiter {
	const void *cond;
	struct waiter *next, **link; /* link: NULL when it is in no list */
	sn_semaphore woken;
};

/* A line of the cache each. */
static struct list {
	pthread_mutex_t lock;
	_Atomic int length;          /* written under lock */
	struct waiter *first, **end; /* under lock; end: NULL while first is */
} lists[LISTS] __attribute__((aligned(64))) = {
	[0 ... LISTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

static struct list *list_of(const void *cond)
{
	return &lists[(uint32_t)((uintptr_t)cond >> 4) * UINT32_C(2654435761) >> 24];
}

/* ---- the lists, under their locks ---- */

static void append(struct list *list, struct waiter *waiter)
{
	if (!list->first)
		list->end = &list->first;
	waiter->next = NULL;
	waiter->link = list->end;
	*list->end = waiter;
	list->end = &waiter->next;
	atomic_fetch_add(&list->length, 1);
}

static void take_out(struct list *list, struct waiter *waiter)
{
	*waiter->link = waiter->next;
	if (waiter->next)
		waiter->next->link = waiter->link;
	else
		list->end = waiter->link;
	waiter->link = NULL;
	atomic_fetch_sub(&list->length, 1);
}

/* ---- waking ---- */

/* Wakes the first waiter of the variable, or all. Returns how many. */
static int wake(const void *cond, bool all)
{
	struct list *list = list_of(cond);
	int n = 0;

	if (atomic_load(&list->length) == 0)
		return 0;
	pthread_mutex_lock(&list->lock);
	for (struct waiter *waiter = list->first, *next; waiter && (all || n == 0); waiter = next) {
		next = waiter->next;
		if (waiter->cond != cond)
			continue;
		take_out(list, waiter);
		sn_semaphore_release(&waiter->woken, 1);
		n++;
	}
	pthread_mutex_unlock(&list->lock);
	return n;
}

SN_RUN_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	return wake(cond, false) ? 0 : sn_run_real()->pthread_cond_signal(cond);
}

SN_RUN_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	wake(cond, true);
	return sn_run_real()->pthread_cond_broadcast(cond);
}

/* ---- waiting ---- */

/* The C library's marks in the variable. */
#define SHARED 1u
#define MONOTONIC 2u

static unsigned marks_of(const pthread_cond_t *cond)
{
	return __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED);
}

/* Whether the caller is a task that may park once it has released the mutex. */
static bool may_park(const pthread_cond_t *cond)
{
	const struct sn_foreign *task = sn_foreign_self();

	return task && task->locks == 1 && !(marks_of(cond) & SHARED) && sn_adopted_self() &&
	       sn_foreign_may_park() == 0 && sn_run_own_process();
}

static int park(const void *cond, pthread_mutex_t *mutex, int64_t deadline)
{
	struct waiter self = {.cond = cond, .woken = SN_SEMAPHORE_INIT(0)};
	struct list *list = list_of(cond);
	bool in_time;
	int err;

	pthread_mutex_lock(&list->lock);
	append(list, &self);
	pthread_mutex_unlock(&list->lock);
	err = pthread_mutex_unlock(mutex);
	if (!err) {
		sn_foreign_tie();
		atomic_fetch_add_explicit(&sn_run_counts.parked, 1, memory_order_relaxed);
		if (deadline == SN_NO_DEADLINE)
			(void)!sn_semaphore_acquire(&self.woken);
		else
			(void)!sn_semaphore_acquire_until(&self.woken, deadline);
		sn_foreign_untie();
	}
	pthread_mutex_lock(&list->lock);
	in_time = !self.link;
	if (!in_time)
		take_out(list, &self);
	pthread_mutex_unlock(&list->lock);
	if (err)
		return err;
	err = pthread_mutex_lock(mutex);
	return err ? err : in_time || deadline == SN_NO_DEADLINE ? 0 : ETIMEDOUT;
}

static int park_until(const pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
		      const struct timespec *until)
{
	int64_t deadline;

	if (!sn_run_deadline(clock, until, &deadline))
		return EINVAL;
	return park(cond, mutex, deadline);
}

SN_RUN_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return may_park(cond) ? park(cond, mutex, SN_NO_DEADLINE)
			      : sn_run_real()->pthread_cond_wait(cond, mutex);
}

SN_RUN_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
					 const struct timespec *until)
{
	if (!may_park(cond))
		return sn_run_real()->pthread_cond_timedwait(cond, mutex, until);
	return park_until(cond, mutex,
			  marks_of(cond) & MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

SN_RUN_EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
					 clockid_t clock, const struct timespec *until)
{
	return may_park(cond) ? park_until(cond, mutex, clock, until)
			      : sn_run_real()->pthread_cond_clockwait(cond, mutex, clock, until);
}

/* ---- C11: the same objects ---- */

static int result_of(int err)
{
	return err == 0 ? thrd_success : err == ETIMEDOUT ? thrd_timedout : thrd_error;
}

SN_RUN_EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return result_of(pthread_cond_wait((void *)cond, (void *)mutex));
}

SN_RUN_EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until)
{
	return result_of(pthread_cond_timedwait((void *)cond, (void *)mutex, until));
}

SN_RUN_EXPORT int cnd_signal(cnd_t *cond)
{
	return result_of(pthread_cond_signal((void *)cond));
}

SN_RUN_EXPORT int cnd_broadcast(cnd_t *cond)
{
	return result_of(pthread_cond_broadcast((void *)cond));
}

/* ---- fork() ---- */

/* The lists' waiters are tasks of the parent. */
void sn_cond_in_child(void)
{
	for (int i = 0; i < LISTS; i++) {
		pthread_mutex_init(&lists[i].lock, NULL);
		atomic_store(&lists[i].length, 0);
		lists[i].first = NULL;
	}
}
