/* SPDX-License-Identifier: MIT */
/*
 * What a program asks of, or does to, a thread whose handle it has: signals, names, scheduling.
 *
 * Contract. A signal for another task goes to the process, because the task may be on any thread
 * and may be parked: a handler runs on some thread, and an action that ends or stops the process
 * does what it would have done. One that a task sends itself goes to its thread, and is handled
 * before the call returns. One that has ended gets none. A task cannot be cancelled: ENOSYS, unless
 * it has ended. Scheduling and affinity belong to the runtime's threads, so setting them for a task
 * has no effect, and reading them gives those of the calling thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "adopted.h"

/* The handle, or for a task the calling thread as the C library knows it. */
static pthread_t or_caller(pthread_t handle)
{
	return sn_adopted_of(handle) ? sn_run_real()->pthread_self() : handle;
}

/* Its handle is not valid any more. */
static bool has_ended(struct sn_adopted *thread)
{
	return atomic_load(&thread->owners) == 0;
}

/* It has ended, and is still to be joined: such a thread gets no signal. That is an error for
 * pthread_sigqueue(), and for pthread_kill() and pthread_cancel() none since version 2.34 of the C
 * library. */
static bool only_waits(struct sn_adopted *thread)
{
	return atomic_load(&thread->owners) == 1 &&
	       atomic_load(&thread->joins) != SN_ADOPTED_DETACHED;
}

SN_RUN_EXPORT int pthread_kill(pthread_t handle, int number)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	if (!thread || thread == sn_adopted_self())
		return sn_run_real()->pthread_kill(or_caller(handle), number);
	if (has_ended(thread))
		return ESRCH;
	return !only_waits(thread) && kill(getpid(), number) < 0 ? errno : 0;
}

SN_RUN_EXPORT int pthread_sigqueue(pthread_t handle, int number, const union sigval value)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	if (!thread || thread == sn_adopted_self())
		return sn_run_real()->pthread_sigqueue(or_caller(handle), number, value);
	if (has_ended(thread) || only_waits(thread))
		return ESRCH;
	return sigqueue(getpid(), number, value) < 0 ? errno : 0;
}

SN_RUN_EXPORT int pthread_cancel(pthread_t handle)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	if (!thread)
		return sn_run_real()->pthread_cancel(handle);
	if (has_ended(thread))
		return ESRCH;
	return only_waits(thread) ? 0 : ENOSYS;
}

SN_RUN_EXPORT int pthread_getcpuclockid(pthread_t handle, clockid_t *clock)
{
	return sn_run_real()->pthread_getcpuclockid(or_caller(handle), clock);
}

SN_RUN_EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	if (!thread)
		return sn_run_real()->pthread_setname_np(handle, name);
	if (strlen(name) >= sizeof thread->name)
		return ERANGE;
	strcpy(thread->name, name);
	if (thread == sn_adopted_self())
		sn_task_set_name(name); /* for sn_dump() and traces */
	return 0;
}

SN_RUN_EXPORT int pthread_getname_np(pthread_t handle, char *name, size_t size)
{
	struct sn_adopted *thread = sn_adopted_of(handle);

	if (!thread)
		return sn_run_real()->pthread_getname_np(handle, name, size);
	if (size <= strlen(thread->name))
		return ERANGE;
	strcpy(name, thread->name);
	return 0;
}

/* Of a task that has not begun, only the size of the stack is known. */
SN_RUN_EXPORT int pthread_getattr_np(pthread_t handle, pthread_attr_t *attr)
{
	struct sn_adopted *thread = sn_adopted_of(handle);
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t top;
	int err;

	if (!thread)
		return sn_run_real()->pthread_getattr_np(handle, attr);
	err = pthread_attr_init(attr);
	if (err)
		return err;
	pthread_attr_setdetachstate(attr, atomic_load(&thread->joins) == SN_ADOPTED_DETACHED
						  ? PTHREAD_CREATE_DETACHED
						  : PTHREAD_CREATE_JOINABLE);
	top = (thread->stack_top + page - 1) / page * page;
	if (top == 0)
		return pthread_attr_setstacksize(attr, thread->stack_size);
	return pthread_attr_setstack(attr, (void *)(top - thread->stack_size), thread->stack_size);
}

SN_RUN_EXPORT int pthread_getschedparam(pthread_t handle, int *policy, struct sched_param *param)
{
	return sn_run_real()->pthread_getschedparam(or_caller(handle), policy, param);
}

SN_RUN_EXPORT int pthread_setschedparam(pthread_t handle, int policy,
					const struct sched_param *param)
{
	return sn_adopted_of(handle) ? 0
				     : sn_run_real()->pthread_setschedparam(handle, policy, param);
}

SN_RUN_EXPORT int pthread_setschedprio(pthread_t handle, int priority)
{
	return sn_adopted_of(handle) ? 0 : sn_run_real()->pthread_setschedprio(handle, priority);
}

SN_RUN_EXPORT int pthread_getaffinity_np(pthread_t handle, size_t size, cpu_set_t *cpus)
{
	return sn_run_real()->pthread_getaffinity_np(or_caller(handle), size, cpus);
}

SN_RUN_EXPORT int pthread_setaffinity_np(pthread_t handle, size_t size, const cpu_set_t *cpus)
{
	return sn_adopted_of(handle) ? 0
				     : sn_run_real()->pthread_setaffinity_np(handle, size, cpus);
}
