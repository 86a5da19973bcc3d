/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: a task that waits for one parks.
 *
 * Contract. As POSIX says. Threads that are not tasks, the runtime among them, wait in the C
 * library's own variable. So do tasks if the variable is shared between processes, and tasks that
 * may not park: with another lock held, or with signals blocked. A signal wakes a task if one waits
 * here, and otherwise a thread; a broadcast wakes both. So threads may wait for as long as there
 * are tasks that wait for the same variable. A handler of a signal must not signal a variable: it
 * may have interrupted code that holds a list's lock, and POSIX does not allow it either. Nor must
 * a child that shares the memory of its parent (vfork(), CLONE_VM): it wakes no task, because it
 * has the thread-locals of one, in another process. If there is no memory for a timer, a wait with
 * a deadline ends early, as if something had woken it.
 *
 * Tasks that wait are in lists (waiters.h). A waiter enters its list while it has the mutex, marked
 * as one that enters, and begins to wait when it has released the mutex. Whoever takes the mutex
 * after it finds the length not 0, and looks into the list. A signal takes out the first waiter of
 * the variable that waits. If there is none, those of the variable that enter have missed the
 * signal, and return as if they had been woken without a cause. A broadcast reaches them in the
 * same way. Waiters of other variables are left alone: while one variable is signalled without a
 * pause, a waiter of another one in the same list would otherwise return again and again. If the
 * mutex cannot be released, because the caller does not own it, the waiter has taken a signal from
 * nobody, because it never waited. A waiter whose time is over, but which was taken out, was woken,
 * and a signal is not lost. A broadcast does not touch the variable once it has woken a task,
 * because that may destroy it. models/cond.pml models this.
 *
 * A waker reads the number of a list's waiters without the lock. It is at least as new as the
 * mutex, if the waker has held that since the waiter released it; otherwise either order is right.
 *
 * Rejected: a waiter that waits as soon as it is in the list. One that then cannot release the
 * mutex would have to pass on a signal. Holding the list's lock while the mutex is released: the
 * next owner of the mutex, which that wakes, would wait for the lock if it waits for the variable,
 * too, and block its thread.
 *
 * Rejected: a variable of sennit in the place of the C library's. It would have to fit, with all
 * initial values that a program may have compiled into it, and the runtime's own threads, which are
 * no tasks, would wait in it.
 */
#include <errno.h>
#include <string.h>

#include <sennit/clock.h>

#include "marks.h"
#include "waiters.h"

static struct sn_run_list lists[SN_RUN_LISTS] = {
	[0 ... SN_RUN_LISTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

/* Of a waiter. It goes from ENTERS to WAITS itself, and wakers, under the lock, to MISSED. */
enum { ENTERS, WAITS, MISSED };

/* ---- waking ---- */

/* Returns whether the waiter waits. If it does not yet, it will not: it has missed a signal. */
static bool waits_or_misses(struct sn_run_waiter *waiter)
{
	int state = ENTERS;

	return !atomic_compare_exchange_strong(&waiter->state, &state, MISSED) && state == WAITS;
}

static bool waits(struct sn_run_waiter *waiter)
{
	return atomic_load(&waiter->state) == WAITS;
}

/* Takes out the first waiter of the variable of which that is so, or all. The lock is held. */
static void take_out(struct sn_run_list *list, const pthread_cond_t *cond, bool all,
		     bool (*is_so)(struct sn_run_waiter *waiter), struct sn_run_chain *woken)
{
	for (struct sn_run_waiter *waiter = list->first, *next; waiter && (all || !woken->first);
	     waiter = next) {
		next = waiter->next;
		if (waiter->object == cond && is_so(waiter))
			sn_run_move(list, waiter, woken);
	}
}

/* Wakes the first waiter of the variable, or all. If none is there, a signal goes to a thread,
 * under the lock: a waiter that has missed it needs that to return, and may then destroy the
 * variable. Returns whether a signal has gone to a task or a thread. */
static bool wake(pthread_cond_t *cond, bool all)
{
	struct sn_run_list *list = &lists[sn_run_list_of(cond)];
	struct sn_run_chain woken = {0};

	/* In a child of _Fork() or clone() the list may be a copy, with the parent's tasks. */
	if (atomic_load(&list->length) == 0 || !sn_run_own_process())
		return false;
	pthread_mutex_lock(&list->lock);
	if (!all)
		take_out(list, cond, false, waits, &woken);
	if (!woken.first)
		take_out(list, cond, all, waits_or_misses, &woken);
	if (!all && !woken.first)
		sn_run_real()->pthread_cond_signal(cond);
	pthread_mutex_unlock(&list->lock);
	sn_run_wake(&woken);
	return true;
}

SN_RUN_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	return wake(cond, false) ? 0 : sn_run_real()->pthread_cond_signal(cond);
}

SN_RUN_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	/* In this order: wake() needs only the address. */
	const int err = sn_run_real()->pthread_cond_broadcast(cond);

	wake(cond, true);
	return err;
}

/* ---- marks of the C library ---- */

/* Written before there are tasks. */
static struct sn_run_mark shared, monotonic;
static bool knows_marks; /* if not, tasks wait as threads do */

void sn_cond_begin(void)
{
	pthread_cond_t plain, with_shared, with_monotonic;
	pthread_condattr_t attr;

	/* The C library need not write all of it. */
	memset(&plain, 0, sizeof plain);
	memset(&with_shared, 0, sizeof with_shared);
	memset(&with_monotonic, 0, sizeof with_monotonic);
	pthread_cond_init(&plain, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&with_monotonic, &attr);
	pthread_condattr_destroy(&attr);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&with_shared, &attr);
	pthread_condattr_destroy(&attr);
	knows_marks = sn_run_find_mark(&shared, &plain, &with_shared, sizeof plain) &&
		      sn_run_find_mark(&monotonic, &plain, &with_monotonic, sizeof plain);
}

/* ---- waiting ---- */

/* Whether the caller is a task that may park once it has released the mutex. */
static bool may_park(const pthread_cond_t *cond)
{
	const struct sn_foreign *task = sn_foreign_self();

	return task && task->locks == 1 && knows_marks && !sn_run_is_marked(&shared, cond) &&
	       sn_adopted_self() && sn_foreign_may_park() == 0 && sn_run_own_process();
}

static void unlock(struct sn_run_list *list)
{
	pthread_mutex_unlock(&list->lock);
}

/* Enters the list and releases the mutex. Returns 0; -EAGAIN if a signal was missed; or an error
 * number if the mutex cannot be released. Unless it returns 0, the waiter is in no list. */
static int enter(struct sn_run_list *list, struct sn_run_waiter *self, pthread_mutex_t *mutex)
{
	int err, state = ENTERS;

	pthread_mutex_lock(&list->lock);
	sn_run_count(list, 1);
	sn_run_link(list, self);
	pthread_mutex_unlock(&list->lock);
	err = pthread_mutex_unlock(mutex);
	if (!err && atomic_compare_exchange_strong(&self->state, &state, WAITS))
		return 0;
	pthread_mutex_lock(&list->lock);
	sn_run_take_out(list, self);
	pthread_mutex_unlock(&list->lock);
	return err ? err : -EAGAIN;
}

static int park(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline)
{
	struct sn_run_waiter self = {.object = cond, .woken = SN_SEMAPHORE_INIT(0)};
	struct sn_run_list *list = &lists[sn_run_list_of(cond)];
	int err, ended = 0;

	err = enter(list, &self, mutex);
	if (err > 0)
		return err;
	if (err == 0)
		ended = sn_run_wait(list, &self, deadline, unlock);
	err = pthread_mutex_lock(mutex);
	if (err || ended == 0 || deadline == SN_NO_DEADLINE)
		return err;
	return ended == -ETIMEDOUT || sn_now() >= deadline ? ETIMEDOUT : 0;
}

static int park_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
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
			  sn_run_is_marked(&monotonic, cond) ? CLOCK_MONOTONIC : CLOCK_REALTIME,
			  until);
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

void sn_cond_in_child(void)
{
	sn_run_forget_waiters(lists);
}
