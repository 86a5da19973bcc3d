/* SPDX-License-Identifier: MIT */
/*
 * For functions that replace those of another library: whether the caller is a task, and may park
 * (sennit/foreign.h).
 */
#include <sennit/foreign.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sched/foreign.h"
#include "sched/scan_serve.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/thread_list.h"

/*
 * The calling thread, if it runs code of a task outside the runtime; otherwise NULL. Only the
 * thread itself writes `inside`, so its answer is exact whatever the monitor does to the lease.
 *
 * Handlers of pthread_atfork() that were registered before the runtime's are called while it
 * holds its locks for the fork, in both processes. A hooked call that entered the runtime would
 * wait for these without a limit.
 */
static struct sn_thread *in_own_code(void)
{
	struct sn_thread *self = sn_thread_self();

	if (sn_likely(!self) || !self->task || self->forks ||
	    __atomic_load_n(&self->lease.inside, __ATOMIC_RELAXED))
		return NULL;
	return self;
}

struct sn_foreign *sn_foreign_self(void)
{
	struct sn_thread *self = in_own_code();

	return self ? &self->task->foreign : NULL;
}

int sn_private_is_runtime(void)
{
	return sn_private_self() || sn_scan_hidden || sn_foreign_is_marked();
}

/* Whether the signal mask is the one with which threads begin. It is not in a signal handler that
 * runs on the task's stack, which has at least its own signal blocked. */
static bool mask_is_the_first(void)
{
	const int saved = errno;
	uint64_t mask = 0;
	long err = syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, sizeof mask);

	errno = saved;
	return err == 0 && sn_threads_have_mask(mask);
}

int sn_foreign_tie(void)
{
	struct sn_thread *self = in_own_code();

	if (!self)
		return -ENOTSUP;
	return sn_tie(self);
}

int sn_foreign_untie(void)
{
	struct sn_thread *self = in_own_code();

	if (!self)
		return -ENOTSUP;
	return sn_untie(self);
}

int sn_foreign_may_park(void)
{
	struct sn_thread *self = in_own_code();
	const char *here = __builtin_frame_address(0);
	struct sn_stack stack;

	if (!self)
		return -ENOTSUP;
	if (self->pins > 0 || __atomic_load_n(&self->lease.blocking, __ATOMIC_RELAXED))
		return -EBUSY;
	/* A handler that has interrupted a call between sn_tie() and the end of sn_untie(): what it
	 * parks in would untie the task, and the home may end while it is parked, because it does
	 * not count the task. models/untie.pml models this. */
	if (!sn_tie_is_over(self->task))
		return -EINTR;
	stack = sn_task_stack(self->task);
	if (here < stack.low || here >= stack.high)
		return -EINTR;
	return mask_is_the_first() ? 0 : -EINTR;
}
