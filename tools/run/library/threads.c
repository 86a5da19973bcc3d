/* SPDX-License-Identifier: MIT */
/*
 * pthread_create(), pthread_join() and pthread_detach() of threads that are tasks.
 *
 * Contract. What POSIX says of threads holds, except that attributes of scheduling are ignored, and
 * that a stack of the program's own is not used: its size is. A task that joins parks, and
 * continues on its thread, as in a hooked call (sennit/hooks.h); if it holds a lock, or has changed
 * the signal mask, it keeps the thread for itself until then. Threads that are not tasks block.
 *
 * Robust mutexes that a task leaves locked are unlocked before it can be joined, as the kernel does
 * when a thread ends. The thread continues: tasks that are tied to it need it. Only the kernel can
 * hand over a mutex with priority inheritance, so the thread of a task that leaves such a one ends
 * with it, a moment later, and the tasks that are tied to it continue on others.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adopted.h"

/* The C library counts its own data and the guard as part of a thread's stack. What a hooked call
 * needs in addition to the call itself is not more than that. */
#define LEAST_STACK ((size_t)64 << 10)
#define MOST_STACK ((size_t)(sizeof(void *) == 8 ? 1 << 30 : 64 << 20))

/* ---- robust mutexes: those in the list that the C library keeps for the kernel ---- */

/* The lowest bit of a link says that the mutex which it leads to inherits priorities. */
static struct robust_list *without_bit(struct robust_list *link)
{
	return (struct robust_list *)((uintptr_t)link & ~(uintptr_t)1);
}

static bool has_inheriting(const struct robust_list_head *head)
{
	const struct robust_list *link = head->list.next;

	for (; without_bit((struct robust_list *)link) != &head->list;
	     link = without_bit((struct robust_list *)link)->next)
		if ((uintptr_t)link & 1)
			return true;
	return false;
}

/* What the kernel does with a mutex whose owner ends. The C library's robust mutexes are always
 * waited for as if they were shared between processes. */
static void abandon(_Atomic uint32_t *word, uint32_t owner)
{
	uint32_t value = atomic_load(word);

	do
		if ((value & FUTEX_TID_MASK) != owner)
			return;
	while (!atomic_compare_exchange_weak(word, &value,
					     (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED));
	if (value & FUTEX_WAITERS)
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The list of the thread has only the calling task's mutexes, because a task with a mutex keeps the
 * thread for itself. */
static void leave_robust_mutexes(void)
{
	struct robust_list_head *head = NULL;
	struct robust_list *link, *next;
	size_t size;

	if (syscall(SYS_get_robust_list, 0, &head, &size) < 0 || !head ||
	    head->list.next == &head->list)
		return;
	if (has_inheriting(head)) {
		/* The thread of a task that ends pinned ends, too. */
		if (sn_pin() < 0)
			dprintf(STDERR_FILENO, "sennit-run: a mutex whose owner has ended stays "
					       "locked: its thread cannot end\n");
		return;
	}
	link = head->list.next;
	head->list.next = &head->list;
	for (; link != &head->list; link = next) {
		next = link->next; /* the next owner changes it */
		abandon((_Atomic uint32_t *)((char *)link + head->futex_offset),
			(uint32_t)gettid());
	}
}

/* ---- creating ---- */

int sn_adopted_run(void *arg)
{
	struct sn_adopted *thread = arg;
	sigset_t mask;
	jmp_buf end;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	thread->stack_top = (uintptr_t)__builtin_frame_address(0);
	thread->end = &end;
	sn_adopted_set_self(thread);
	if (setjmp(end) == 0) {
		if (thread->start_c11)
			thread->result = (void *)(intptr_t)thread->start_c11(thread->arg);
		else
			thread->result = thread->start(thread->arg);
	}
	if (!sn_foreign_self()) /* in a child of fork() */
		sn_run_exit_last();
	sn_adopted_destroy_values(thread);
	leave_robust_mutexes();
	/* Signals that the program has left blocked would keep later tasks of the thread from
	 * parking, and would not reach them. */
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	sn_adopted_set_self(NULL);
	atomic_fetch_sub(&sn_run_counts.alive, 1);
	sn_semaphore_release(&thread->ended, 1);
	sn_adopted_leave(thread);
	sn_run_thread_ends();
	return 0;
}

/* In pages, as the C library maps stacks: pthread_getattr_np() says where they begin. */
static size_t stack_size(const pthread_attr_t *attr)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	pthread_attr_t defaults;
	size_t size = sn_run_options.stack_size, given = 0;

	/* An attribute that was only initialized has the default, too. */
	if (pthread_getattr_default_np(&defaults) == 0) {
		size_t normal = 0;

		pthread_attr_getstacksize(&defaults, &normal);
		pthread_attr_destroy(&defaults);
		if (!size)
			size = normal;
		if (attr && pthread_attr_getstacksize(attr, &given) == 0 && given != normal)
			size = given;
	}
	size = size < LEAST_STACK ? LEAST_STACK : size > MOST_STACK ? MOST_STACK : size;
	return (size + page - 1) / page * page;
}

int sn_adopted_create(pthread_t *handle, const pthread_attr_t *attr, void *(*start)(void *arg),
		      int (*start_c11)(void *arg), void *arg)
{
	struct sn_adopted *thread = sn_adopted_take();
	int state = PTHREAD_CREATE_JOINABLE;

	if (!thread)
		return EAGAIN;
	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	thread->start = start;
	thread->start_c11 = start_c11;
	thread->arg = arg;
	thread->stack_size = stack_size(attr);
	if (state == PTHREAD_CREATE_DETACHED) {
		atomic_store(&thread->joins, SN_ADOPTED_DETACHED);
		atomic_store(&thread->owners, 1);
	}
	pthread_getname_np(pthread_self(), thread->name, sizeof thread->name);
	*handle = (pthread_t)thread;
	atomic_fetch_add(&sn_run_counts.adopted, 1);
	atomic_fetch_add(&sn_run_counts.alive, 1);
	sn_run_thread_begins();
	if (sn_world_spawn(sn_adopted_run, thread) < 0) {
		atomic_fetch_sub(&sn_run_counts.adopted, 1);
		atomic_fetch_sub(&sn_run_counts.alive, 1);
		sn_run_thread_ends();
		atomic_store(&thread->owners, 1);
		sn_adopted_leave(thread);
		return EAGAIN;
	}
	return 0;
}

SN_RUN_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
				 void *(*start)(void *arg), void *arg)
{
	if (!sn_world_adopts())
		return sn_run_real()->pthread_create(thread, attr, start, arg);
	return sn_adopted_create(thread, attr, start, NULL, arg);
}

/* ---- joining ---- */

/* Waits for the end of the thread. Code that calls pthread_join() may keep what belongs to its
 * thread, so the task is tied to that; if it may not park at all, it is pinned. */
static int wait_for(struct sn_adopted *thread, int64_t deadline)
{
	const struct sn_foreign *task = sn_foreign_self();
	bool pinned = false;
	int err;

	if (deadline < 0)
		return sn_world_acquire(&thread->ended, deadline);
	if (!sn_run_own_process()) /* the thread is not in this process */
		return sn_semaphore_try_acquire(&thread->ended) < 0 ? -ESRCH : 0;
	if (task && (task->locks > 0 || sn_foreign_may_park() < 0))
		pinned = sn_pin() == 0;
	else if (task)
		sn_foreign_tie();
	if (task && !pinned)
		atomic_fetch_add_explicit(&sn_run_counts.parked, 1, memory_order_relaxed);
	err = sn_world_acquire(&thread->ended, deadline);
	if (pinned)
		sn_unpin();
	else if (task)
		sn_foreign_untie();
	return err;
}

int sn_adopted_join(struct sn_adopted *thread, int64_t deadline)
{
	int expected = SN_ADOPTED_JOINABLE, err;

	if (thread == sn_adopted_self() || thread == sn_adopted_was())
		return EDEADLK;
	if (atomic_load(&thread->owners) == 0)
		return ESRCH;
	if (!atomic_compare_exchange_strong(&thread->joins, &expected, SN_ADOPTED_JOINING))
		return EINVAL;
	err = wait_for(thread, deadline);
	if (err < 0) {
		atomic_store(&thread->joins, SN_ADOPTED_JOINABLE);
		return err == -EAGAIN ? EBUSY : -err;
	}
	return 0;
}

static int join(struct sn_adopted *thread, void **result, int64_t deadline)
{
	const int err = sn_adopted_join(thread, deadline);

	if (err)
		return err;
	if (result)
		*result = thread->result;
	sn_adopted_leave(thread);
	return 0;
}

bool sn_run_deadline(clockid_t clock, const struct timespec *until, int64_t *deadline)
{
	struct timespec now;
	int64_t left;

	if (until->tv_nsec < 0 || until->tv_nsec >= 1000000000 ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
		return false;
	clock_gettime(clock, &now);
	left = until->tv_sec < 0 ? -1 : until->tv_sec - now.tv_sec;
	left = left > INT32_MAX ? INT32_MAX : left < -1 ? -1 : left;
	left = left * 1000000000 + until->tv_nsec - now.tv_nsec;
	*deadline = sn_now() + (left > 0 ? left : 0);
	return true;
}

static int join_until(struct sn_adopted *thread, void **result, clockid_t clock,
		      const struct timespec *until)
{
	int64_t deadline = SN_NO_DEADLINE;

	if (until && !sn_run_deadline(clock, until, &deadline))
		return EINVAL;
	return join(thread, result, deadline);
}

SN_RUN_EXPORT int pthread_join(pthread_t handle, void **result)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	return thread ? join(thread, result, SN_NO_DEADLINE)
		      : sn_run_real()->pthread_join(handle, result);
}

SN_RUN_EXPORT int pthread_tryjoin_np(pthread_t handle, void **result)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	return thread ? join(thread, result, -1)
		      : sn_run_real()->pthread_tryjoin_np(handle, result);
}

SN_RUN_EXPORT int pthread_timedjoin_np(pthread_t handle, void **result,
				       const struct timespec *until)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	return thread ? join_until(thread, result, CLOCK_REALTIME, until)
		      : sn_run_real()->pthread_timedjoin_np(handle, result, until);
}

SN_RUN_EXPORT int pthread_clockjoin_np(pthread_t handle, void **result, clockid_t clock,
				       const struct timespec *until)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	return thread ? join_until(thread, result, clock, until)
		      : sn_run_real()->pthread_clockjoin_np(handle, result, clock, until);
}

SN_RUN_EXPORT int pthread_detach(pthread_t handle)
{
	struct sn_adopted *thread = sn_adopted_of(handle);
	int expected = SN_ADOPTED_JOINABLE;

	if (!thread)
		return sn_run_real()->pthread_detach(handle);
	if (atomic_load(&thread->owners) == 0)
		return ESRCH;
	if (!atomic_compare_exchange_strong(&thread->joins, &expected, SN_ADOPTED_DETACHED))
		return EINVAL;
	sn_adopted_leave(thread);
	return 0;
}

SN_RUN_EXPORT pthread_t pthread_self(void)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (!thread)
		thread = sn_adopted_was();
	return thread ? (pthread_t)thread : sn_run_real()->pthread_self();
}
