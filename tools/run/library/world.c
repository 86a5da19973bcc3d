/* SPDX-License-Identifier: MIT */
/*
 * The runtime of a program that knows nothing of it.
 *
 * Contract. The first pthread_create() of the process starts the runtime, on a thread of its own. A
 * program without threads therefore has none, and one that becomes a daemon by fork() before it
 * creates threads has its runtime in the child. The runtime's threads have the signal mask of the
 * thread that creates the first one, as that thread would have had. A child of fork() has no
 * runtime, until it creates a thread in its turn.
 *
 * Which threads become tasks: those that the process's first thread or a task creates. The runtime
 * creates its threads outside tasks: on threads of its own, and on the first thread where that is
 * `inside`: within sn_spawn(), and, if main() is a task, always. Threads of the C library's own
 * making, such as those of timers, create threads. If the runtime cannot be started, the program
 * gets threads, and stderr one line that says why. A task whose identity others must not have
 * (apart.c) creates threads, too, which inherit it.
 *
 * A task waits for a descriptor that never becomes ready. The runtime therefore takes it for no
 * deadlock that all tasks wait: main() may wake them. The first task waits until the runtime is to
 * end, which it does when main() has ended by pthread_exit() and all tasks have ended (exit.c): the
 * process ends with its last thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sennit/fd.h>

#include "adopted.h"

#define SN_NOINLINE __attribute__((noinline))

struct sn_run_counts sn_run_counts;

static enum { NONE, RUNS, FAILED } state; /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int never = -1; /* the descriptor of the first task */
static sem_t begun;
static int begin_error;
static sn_semaphore stop = SN_SEMAPHORE_INIT(0); /* a permit when the runtime is to end */

static _Atomic bool ends; /* main() has ended by pthread_exit() */

/* Of the calling thread. Signal handlers read all of them but the first. */
#define OWN static __thread __attribute__((tls_model("initial-exec")))
OWN bool ours;
OWN volatile bool inside;        /* its code outside tasks is the runtime's */
OWN volatile sig_atomic_t depth; /* see sn_world_is_inside() */

void sn_world_is_ours(void)
{
	ours = true;
}

/* ---- code that a signal handler may interrupt ---- */

bool sn_world_is_inside(void)
{
	return depth > 0 || (!sn_foreign_self() && (inside || sn_private_is_runtime()));
}

/* Not inlined: the address of `depth` is another thread's if it is taken before the task counts as
 * one with a lock, and a handler parks then. The limits are for what sn_world_enter() does not
 * exclude (adopted.h). */
static SN_NOINLINE void enter_depth(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (depth < SIG_ATOMIC_MAX)
		depth++;
	atomic_signal_fence(memory_order_seq_cst);
}

static SN_NOINLINE void leave_depth(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (depth > 0)
		depth--;
	atomic_signal_fence(memory_order_seq_cst);
}

/* A task does not leave its thread between these two, because it counts as one with a lock: not
 * even if a handler that interrupts it makes calls which park. */
SN_NOINLINE void sn_world_enter(void)
{
	struct sn_foreign *task = sn_foreign_self();

	if (task && task->locks < UINT16_MAX)
		task->locks++;
	enter_depth();
}

SN_NOINLINE void sn_world_leave(void)
{
	struct sn_foreign *task = sn_foreign_self();

	leave_depth();
	if (task && task->locks > 0)
		task->locks--;
}

void sn_world_lock(pthread_mutex_t *mutex)
{
	sn_world_enter();
	pthread_mutex_lock(mutex);
}

void sn_world_unlock(pthread_mutex_t *mutex)
{
	pthread_mutex_unlock(mutex);
	sn_world_leave();
}

/* A task is marked by the runtime itself, and may park in these calls. */
static bool enter_outside_tasks(void)
{
	const bool outside = !sn_foreign_self();

	if (outside)
		sn_world_enter();
	return outside;
}

static void leave_outside_tasks(bool outside)
{
	if (outside)
		sn_world_leave();
}

void sn_world_release(sn_semaphore *semaphore)
{
	const bool outside = enter_outside_tasks();

	sn_semaphore_release(semaphore, 1);
	leave_outside_tasks(outside);
}

int sn_world_acquire(sn_semaphore *semaphore, int64_t deadline)
{
	const bool outside = enter_outside_tasks();
	int err;

	if (deadline < 0)
		err = sn_semaphore_try_acquire(semaphore);
	else if (deadline == SN_NO_DEADLINE)
		err = sn_semaphore_acquire(semaphore);
	else
		err = sn_semaphore_acquire_until(semaphore, deadline);
	leave_outside_tasks(outside);
	return err;
}

/* ---- the runtime ---- */

static int wait_for_ever(void *arg)
{
	(void)arg;
	(void)!sn_fd_wait(never, POLLIN, SN_NO_DEADLINE);
	/* The program has closed the descriptor, as daemons close all, or has one of that
	 * number. */
	for (;;)
		sn_sleep(INT64_C(3600) * 1000000000);
	return 0;
}

static int first_task(void *arg)
{
	const int err = sn_go(wait_for_ever, NULL);

	(void)arg;
	if (err < 0)
		return err;
	sem_post(&begun);
	while (sn_semaphore_acquire(&stop) < 0)
		;
	return 0;
}

/* Its creator has blocked all signals, and waits with the lock: a handler that forks would wait for
 * that, too, until the thread counts as inside. The mask is for the runtime's threads. */
static void *run(void *mask)
{
	inside = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_sigmask(SIG_SETMASK, mask, NULL);
	begin_error = sn_run(first_task, NULL);
	sn_sem_join();
	sem_post(&begun);
	return NULL;
}

/* Its number is not one of the standard descriptors', to which a program may write that has closed
 * those. Returns a negative errno value if there is none. */
static int open_never(void)
{
	const int fd = eventfd(0, EFD_CLOEXEC);
	int moved, err;

	if (fd < 0)
		return -errno;
	if (fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	return moved < 0 ? -err : moved;
}

static int begin(void)
{
	sigset_t all, former;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (never < 0)
		never = open_never();
	if (never < 0)
		return never;
	sem_init(&begun, 0, 0);
	begin_error = 0;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	err = sn_run_real()->pthread_create(&thread, &attr, run, &former);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		return -err;
	while (sem_wait(&begun) < 0)
		;
	if (!begin_error) {
		sn_run_world_begins();
		sn_cond_begin();
		sn_sem_begin();
	}
	return begin_error;
}

bool sn_world_adopts(void)
{
	bool runs;
	int err;

	if (!sn_foreign_self() && (!ours || inside || atomic_load(&ends)))
		return false;
	if (sn_adopted_is_apart()) {
		atomic_fetch_add(&sn_run_counts.real, 1);
		return false;
	}
	sn_world_lock(&lock);
	if (state == NONE) {
		err = begin();
		state = err ? FAILED : RUNS;
		if (!err)
			sn_run_report_locals();
		if (err && !sn_run_options.quiet)
			dprintf(STDERR_FILENO,
				"sennit-run: the runtime cannot be started (%s); threads stay "
				"threads\n",
				strerror(-err));
	}
	runs = state == RUNS;
	sn_world_unlock(&lock);
	if (!runs)
		atomic_fetch_add(&sn_run_counts.real, 1);
	return runs;
}

int sn_world_spawn(sn_fn *fn, struct sn_adopted *thread)
{
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.name = "thread", .stack_size = thread->stack_size,
				  .flags = SN_TASK_HOOKED);
	const bool outside = ours;
	int err;

	if (outside)
		inside = true;
	err = sn_spawn(NULL, fn, thread, &attr);
	if (outside)
		inside = false;
	return err;
}

int sn_world_run_main(sn_fn *fn, void *arg)
{
	int err;

	ours = false;
	inside = true;
	state = RUNS;
	sn_cond_begin();
	sn_sem_begin();
	err = sn_run(fn, arg);
	sn_sem_join();
	return err;
}

void sn_world_main_ends(void)
{
	atomic_store(&ends, true);
}

void sn_world_stop(void)
{
	sn_sem_end();
	sn_world_release(&stop);
}

void sn_world_before_fork(void)
{
	sn_world_lock(&lock);
}

void sn_world_after_fork(bool child)
{
	if (child) {
		if (never >= 0)
			close(never);
		never = -1;
		state = NONE;
		ours = true;
		inside = false;
		ends = false;
		stop = (sn_semaphore)SN_SEMAPHORE_INIT(0);
		atomic_store(&sn_run_counts.alive, 0);
	}
	sn_world_unlock(&lock);
}
