/* SPDX-License-Identifier: MIT */
/*
 * pthread_exit() of a task: cleanup handlers run, C++ objects are destroyed, the task ends.
 *
 * Contract. As in the C library, the stack is unwound. pthread_cleanup_push() in C leaves a
 * structure on the stack, known to the task; it is entered when the unwinding has passed the frame
 * in which it lies, and continues by __pthread_unwind_next(). Where code has no tables for
 * unwinding, the structures are entered all the same, and only destructors of C++ are left out.
 *
 * main() that ends by pthread_exit() leaves the process to the other threads, by the C library's
 * own function: what it has pushed runs, and the values of its keys are destroyed. When the last
 * task has ended, the runtime ends, and with the last thread the process, with status 0. A child of
 * fork() in a task ends with its last task, and runs neither.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "adopted.h"

/* The program's structure has the registers, and no room for a signal mask, which is not saved. The
 * assembly hides from the compiler what the pointer points to, because it would miss the mask. */
static _Noreturn void enter(struct sn_adopted *thread)
{
	struct __jmp_buf_tag *registers = *thread->end;

	if (thread->cleanup)
		registers = (struct __jmp_buf_tag *)(void *)thread->cleanup->__cancel_jmp_buf;
	__asm__("" : "+r"(registers));
	longjmp(registers, 1);
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
				struct _Unwind_Exception *exception,
				struct _Unwind_Context *context, void *arg)
{
	struct sn_adopted *thread = arg;
	const uintptr_t frame = _Unwind_GetCFA(context);

	(void)version, (void)class, (void)exception;
	if ((actions & _UA_END_OF_STACK) || frame > (uintptr_t)thread->end ||
	    (thread->cleanup && frame > (uintptr_t)thread->cleanup))
		enter(thread);
	return _URC_NO_REASON;
}

static void not_rethrown(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
	(void)reason, (void)exception;
	dprintf(STDERR_FILENO, "sennit-run: a catch (...) ends pthread_exit()\n");
	abort();
}

static _Noreturn void unwind(struct sn_adopted *thread)
{
	thread->exception = (struct _Unwind_Exception){.exception_cleanup = not_rethrown};
	_Unwind_ForcedUnwind(&thread->exception, stop, thread);
	enter(thread); /* only if it cannot unwind */
}

/* ---- main() ---- */

static _Atomic uint64_t unfinished;
static enum { STAYS, LEAVES, WAITS } _Atomic main_state;
static sn_semaphore none_left = SN_SEMAPHORE_INIT(0);

void sn_run_thread_begins(void)
{
	atomic_fetch_add(&unfinished, 1);
}

/* Both sides write before they read, so one of them sees the other. */
void sn_run_thread_ends(void)
{
	int state;

	if (atomic_fetch_sub(&unfinished, 1) > 1)
		return;
	state = atomic_load(&main_state);
	if (state == LEAVES)
		sn_world_stop();
	else if (state == WAITS)
		sn_world_release(&none_left);
}

_Noreturn void sn_run_exit_last(void)
{
	atomic_store(&main_state, WAITS);
	while (atomic_load(&unfinished) > 0)
		if (sn_world_acquire(&none_left, SN_NO_DEADLINE) < 0)
			break;
	exit(0);
}

/* The runtime's threads end with the last task, so that the C library sees the last thread end. */
static void leave_main(void)
{
	sn_world_main_ends();
	atomic_store(&main_state, LEAVES);
	if (atomic_load(&unfinished) == 0)
		sn_world_stop();
}

void sn_run_exit_in_child(void)
{
	main_state = STAYS;
	unfinished = 0;
	none_left = (sn_semaphore)SN_SEMAPHORE_INIT(0);
}

SN_RUN_EXPORT _Noreturn void pthread_exit(void *result)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (thread) {
		thread->result = result;
		unwind(thread);
	}
	if (sn_adopted_was())
		sn_run_exit_last();
	if (getpid() == gettid())
		leave_main();
	sn_run_real()->pthread_exit(result);
	abort();
}

/* ---- pthread_cleanup_push() and pthread_cleanup_pop() ---- */

/* The first of the structure's spare words, which the C library uses for the same. */
#define OUTER(cleanup) ((cleanup)->__pad[0])

/* How the C library's header declares these on some machines (i386). */
#ifndef __cleanup_fct_attribute
#	define __cleanup_fct_attribute
#endif

SN_RUN_EXPORT __cleanup_fct_attribute void
__pthread_register_cancel(__pthread_unwind_buf_t *cleanup)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (!thread) {
		sn_run_real()->__pthread_register_cancel(cleanup);
		return;
	}
	OUTER(cleanup) = thread->cleanup;
	thread->cleanup = cleanup;
}

SN_RUN_EXPORT __cleanup_fct_attribute void
__pthread_unregister_cancel(__pthread_unwind_buf_t *cleanup)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (thread)
		thread->cleanup = OUTER(cleanup);
	else
		sn_run_real()->__pthread_unregister_cancel(cleanup);
}

/* pthread_cleanup_push_defer_np() and its sibling also change how a thread can be cancelled. A task
 * cannot be. */
SN_RUN_EXPORT __cleanup_fct_attribute void
__pthread_register_cancel_defer(__pthread_unwind_buf_t *cleanup)
{
	if (sn_adopted_self())
		__pthread_register_cancel(cleanup);
	else
		sn_run_real()->__pthread_register_cancel_defer(cleanup);
}

SN_RUN_EXPORT __cleanup_fct_attribute void
__pthread_unregister_cancel_restore(__pthread_unwind_buf_t *cleanup)
{
	if (sn_adopted_self())
		__pthread_unregister_cancel(cleanup);
	else
		sn_run_real()->__pthread_unregister_cancel_restore(cleanup);
}

SN_RUN_EXPORT __cleanup_fct_attribute void __pthread_unwind_next(__pthread_unwind_buf_t *cleanup)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (!thread)
		sn_run_real()->__pthread_unwind_next(cleanup);
	thread->cleanup = OUTER(cleanup);
	unwind(thread);
}
