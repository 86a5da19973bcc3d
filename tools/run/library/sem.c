/* SPDX-License-Identifier: MIT */
/*
 * Semaphores: a task that waits for one parks.
 *
 * Contract. As POSIX says, with these exceptions for a task that waits. No signal ends its wait
 * while it is parked; one that keeps its thread gets EINTR, as threads do. It does not notice that
 * CLOCK_REALTIME is set. It cannot be cancelled. When tasks and threads wait for the same
 * semaphore, tasks get the permits first, so that threads may wait for as long as tasks do.
 *
 * The value is in the C library's semaphore, where threads that are not tasks wait. So do tasks if
 * the semaphore is shared between processes, and tasks that may not park: with a lock held, or with
 * signals blocked. sem_post() may be called by anybody, also by a signal handler.
 *
 * Tasks that wait are in lists (waiters.h). One that enters is counted in the list's length, and
 * then tries to decrement the semaphore, under the list's lock. sem_post() increments the semaphore
 * and then reads the length. Both sides write before they read, so either the task takes the
 * permit, or the caller sees that a task waits, and sees to it that a permit is handed on: whoever
 * does so decrements the semaphore for the first waiter, and takes it out of the list, under the
 * lock. A waiter that is no longer in the list thus gets what it waited for, whether its time is
 * over or not. Nobody touches a semaphore for which no task is in a list, so it may be destroyed as
 * soon as the last wait has returned. models/sem.pml models this.
 *
 * A task hands on the permit itself, if it can have the lock immediately. It must not wait for
 * that, because a signal handler cannot always be distinguished from the code that it has
 * interrupted, and that may hold the lock. Everybody else notes in `posted` for which semaphore a
 * permit is to be handed on, and wakes a thread, which does it; that takes a few atomic
 * instructions and a system call. The thread starts with the runtime, before there are tasks,
 * because threads inherit what a task may have changed on its own (niceness, CPUs, filters). If it
 * cannot be started, tasks keep their threads while they wait.
 *
 * The thread does not wait for a list's lock either, because a handler may have interrupted a task
 * that holds it, and may take long. It leaves the note, says in the list that it is wanted, and
 * tries once more. Whoever releases the lock then reads `wanted`, and calls the thread again. Both
 * sides write before they read, so that the thread has the lock, or is called.
 *
 * A handler that runs with the first signal mask (SA_NODEFER), on a task's stack, thus calls
 * sn_semaphore_release(), which no other handler may. That is sound because sn_foreign_may_park()
 * refuses handlers that have interrupted the runtime, and because of what the runtime keeps to:
 *   - each of its locks is taken with lease.inside set, so the interrupted code holds none;
 *   - sn_tie() and sn_untie(), which run without it, take no lock, and sn_foreign_may_park()
 *     refuses handlers that have interrupted them (models/untie.pml);
 *   - a thread with a task that wakes others calls neither pthread_create() nor malloc()
 *     (src/sched/birth.h), so that the C library's locks may be held.
 *
 * Rejected: an eventfd instead of the thread. A program that closes all descriptors would close it,
 * and sem_post() would write into the file that gets its number.
 */
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "marks.h"
#include "waiters.h"

static struct sn_run_list lists[SN_RUN_LISTS] = {
	[0 ... SN_RUN_LISTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

/* Notes: each is for neighbouring lists. */
#define NOTES 256
#define LISTS_OF_NOTE (SN_RUN_LISTS / NOTES)
#define SEVERAL ((uintptr_t)1)
static _Atomic uintptr_t posted[NOTES]; /* a semaphore of one of the lists; 0: none */

#define STACK ((size_t)256 << 10) /* of the thread, which calls little */

static pthread_t server;       /* the thread; written before `serves` */
static _Atomic bool serves;    /* there is the thread; written where the runtime starts */
static _Atomic uint32_t calls; /* the thread sleeps while nobody has changed it */
static _Atomic bool ends;
static struct sn_run_mark shared; /* written before `serves` */

/* ---- handing on ---- */

/* Takes out the waiters for the semaphore, or for all of the list, for whom there are permits, and
 * decrements the semaphore for each. The list's lock is held. */
static void take_permits(struct sn_run_list *list, uintptr_t sem, struct sn_run_chain *woken)
{
	for (struct sn_run_waiter *waiter = list->first, *next; waiter; waiter = next) {
		next = waiter->next;
		if (sem != SEVERAL && (uintptr_t)waiter->object != sem)
			continue;
		if (sn_run_real()->sem_trywait((sem_t *)waiter->object) == 0)
			sn_run_move(list, waiter, woken);
		else if (sem != SEVERAL)
			return;
	}
}

static void call_thread(void)
{
	atomic_fetch_add(&calls, 1);
	syscall(SYS_futex, &calls, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void unlock(struct sn_run_list *list)
{
	pthread_mutex_unlock(&list->lock);
	atomic_thread_fence(memory_order_seq_cst); /* as in serve_list() */
	if (atomic_load(&list->wanted) && atomic_exchange(&list->wanted, false))
		call_thread();
}

/* Hands on permits. The list's lock is held, and is released. */
static void hand_on(struct sn_run_list *list, uintptr_t sem)
{
	struct sn_run_chain woken = {0};

	take_permits(list, sem, &woken);
	unlock(list);
	sn_run_wake(&woken);
}

static void leave_note(const struct sn_run_list *list, uintptr_t sem)
{
	_Atomic uintptr_t *place = &posted[(list - lists) / LISTS_OF_NOTE];
	uintptr_t noted = atomic_load(place), note;

	do
		note = noted == 0 || noted == sem ? sem : SEVERAL;
	while (!atomic_compare_exchange_weak(place, &noted, note));
}

/* If another thread has the lock, it calls this one when it releases that. */
static void serve_list(struct sn_run_list *list, uintptr_t sem)
{
	if (atomic_load(&list->length) == 0)
		return;
	if (pthread_mutex_trylock(&list->lock) != 0) {
		leave_note(list, sem);
		atomic_store(&list->wanted, true);
		atomic_thread_fence(memory_order_seq_cst); /* as in unlock() */
		if (pthread_mutex_trylock(&list->lock) != 0)
			return;
	}
	hand_on(list, sem);
}

/* Only this thread removes notes. */
static void serve_note(unsigned i)
{
	const uintptr_t sem = atomic_exchange(&posted[i], 0);

	if (sem != SEVERAL)
		serve_list(&lists[sn_run_list_of((void *)sem)], sem);
	else
		for (unsigned n = 0; n < LISTS_OF_NOTE; n++)
			serve_list(&lists[i * LISTS_OF_NOTE + n], SEVERAL);
}

static void *serve(void *arg)
{
	while (!atomic_load(&ends)) {
		const uint32_t seen = atomic_load(&calls);

		for (unsigned i = 0; i < NOTES; i++)
			if (atomic_load(&posted[i]))
				serve_note(i);
		syscall(SYS_futex, &calls, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	return arg;
}

/* The semaphore may be destroyed by now. A child that no handler of fork() knows of only leaves a
 * note. If it shares the memory (CLONE_VM), the thread finds that; otherwise the list is a copy,
 * and the tasks in it are the parent's. */
static void see_to(const sem_t *sem)
{
	struct sn_run_list *list = &lists[sn_run_list_of(sem)];

	if (sn_run_own_process() && sn_foreign_may_park() == 0 &&
	    pthread_mutex_trylock(&list->lock) == 0) {
		hand_on(list, (uintptr_t)sem);
		return;
	}
	leave_note(list, (uintptr_t)sem);
	call_thread();
}

SN_RUN_EXPORT int sem_post(sem_t *sem)
{
	const int err = sn_run_real()->sem_post(sem), before = errno;

	if (err)
		return err;
	atomic_thread_fence(memory_order_seq_cst); /* as in wait_until() */
	if (atomic_load(&lists[sn_run_list_of(sem)].length) > 0)
		see_to(sem);
	errno = before;
	return 0;
}

/* ---- the thread ---- */

static bool find_mark(void)
{
	sem_t plain, with_shared;

	/* The C library need not write all of it. */
	memset(&plain, 0, sizeof plain);
	memset(&with_shared, 0, sizeof with_shared);
	return sem_init(&plain, 0, 0) == 0 && sem_init(&with_shared, 1, 0) == 0 &&
	       sn_run_find_mark(&shared, &plain, &with_shared, sizeof plain);
}

/* Returns an error number. */
static int start_thread(size_t stack_size)
{
	sigset_t all, former;
	pthread_attr_t attr;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	if (stack_size)
		pthread_attr_setstacksize(&attr, stack_size);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	err = sn_run_real()->pthread_create(&server, &attr, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

void sn_sem_begin(void)
{
	int err = ENOTSUP;

	if (find_mark()) {
		err = start_thread(STACK);
		if (err == EINVAL) /* static thread-locals are on the stack, and may be large */
			err = start_thread(0);
	}
	atomic_store(&serves, !err);
	if (err && !sn_run_options.quiet)
		dprintf(STDERR_FILENO,
			"sennit-run: a thread for semaphores cannot be started (%s); tasks that "
			"wait for one keep their threads\n",
			strerror(err));
}

void sn_sem_end(void)
{
	atomic_store(&ends, true);
	call_thread();
}

void sn_sem_join(void)
{
	if (atomic_load(&serves) && atomic_load(&ends))
		sn_run_real()->pthread_join(server, NULL);
}

/* ---- waiting ---- */

static bool may_park(const sem_t *sem)
{
	const struct sn_foreign *task = sn_foreign_self();

	return task && task->locks == 0 && sn_adopted_self() && sn_foreign_may_park() == 0 &&
	       sn_run_own_process() && atomic_load(&serves) && !sn_run_is_marked(&shared, sem);
}

/* Returns 0 or what sn_run_wait() does. */
static int wait_until(sem_t *sem, int64_t deadline)
{
	struct sn_run_waiter self = {.object = sem, .woken = SN_SEMAPHORE_INIT(0)};
	struct sn_run_list *list = &lists[sn_run_list_of(sem)];
	bool got;

	pthread_mutex_lock(&list->lock);
	sn_run_count(list, 1);
	sn_run_link(list, &self);
	atomic_thread_fence(memory_order_seq_cst); /* as in sem_post() */
	got = sn_run_real()->sem_trywait(sem) == 0;
	if (got)
		sn_run_take_out(list, &self);
	unlock(list);
	return got ? 0 : sn_run_wait(list, &self, deadline, unlock);
}

SN_RUN_EXPORT int sem_wait(sem_t *sem)
{
	if (!sn_foreign_self())
		return sn_run_real()->sem_wait(sem);
	if (sn_run_real()->sem_trywait(sem) == 0 ||
	    (may_park(sem) && wait_until(sem, SN_NO_DEADLINE) == 0))
		return 0;
	return sn_run_real()->sem_wait(sem);
}

SN_RUN_EXPORT int sem_timedwait(sem_t *sem, const struct timespec *until)
{
	return sn_foreign_self() ? sem_clockwait(sem, CLOCK_REALTIME, until)
				 : sn_run_real()->sem_timedwait(sem, until);
}

SN_RUN_EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	int64_t deadline;
	int err = -EAGAIN;

	if (!sn_foreign_self())
		return sn_run_real()->sem_clockwait(sem, clock, until);
	if (!sn_run_deadline(clock, until, &deadline)) {
		errno = EINVAL;
		return -1;
	}
	if (sn_run_real()->sem_trywait(sem) == 0)
		return 0;
	if (may_park(sem))
		err = wait_until(sem, deadline);
	if (err == 0)
		return 0;
	if (err != -ETIMEDOUT) /* also when there was no memory for a timer */
		return sn_run_real()->sem_clockwait(sem, clock, until);
	errno = ETIMEDOUT;
	return -1;
}

/* ---- fork() ---- */

void sn_sem_forget(void)
{
	sn_run_forget_waiters(lists);
	for (int i = 0; i < NOTES; i++)
		atomic_store(&posted[i], 0);
}

void sn_sem_in_child(void)
{
	atomic_store(&serves, false);
	atomic_store(&ends, false);
}
