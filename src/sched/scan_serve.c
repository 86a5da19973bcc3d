/* SPDX-License-Identifier: MIT */
#include "sched/scan_serve.h"

#include <errno.h>

#include "sched/scan.h"
#include "sched/thread.h"
#include "wait/checked.h"
#include "wait/futex.h"

__thread int sn_scan_depth __attribute__((tls_model("initial-exec")));
_Atomic uint32_t sn_scan_pending_count;
__thread struct sn_private_lease *sn_scan_hidden __attribute__((tls_model("initial-exec")));

/* Both are out of line. A task that waits for an answer may be on another thread afterwards, but
 * the compiler could keep the address of a thread-local of the first thread. */
sn_noinline struct sn_private_lease *sn_scan_hide(void)
{
	struct sn_private_lease *lease = sn_private_current;

	/* NULL if a callback scans: the lease is hidden already. */
	if (lease)
		sn_scan_hidden = lease;
	sn_compiler_barrier(); /* so that a signal handler finds the lease in one of the two */
	sn_private_current = NULL;
	sn_compiler_barrier();
	return lease;
}

sn_noinline void sn_scan_unhide(struct sn_private_lease *lease)
{
	sn_compiler_barrier();
	sn_private_current = lease;
	sn_compiler_barrier();
	if (lease)
		sn_scan_hidden = NULL;
}

void sn_scan_call(sn_task_scan_fn *fn, const struct sn_scan *scan, void *arg)
{
	struct sn_private_lease *lease = sn_scan_hide();
	int saved = errno;

	sn_scan_depth++;
	fn(scan, arg);
	sn_scan_depth--;
	errno = saved;
	sn_scan_unhide(lease);
}

void sn_scan_describe_saved(struct sn_task *task, struct sn_scan_saved *saved)
{
	if (task->context.sp)
		sn_registers_saved(task->context.sp, &saved->registers);
	else
		saved->registers = (struct sn_registers){0}; /* the task has not begun */
	saved->scan = (struct sn_scan){.task = sn_task_handle(task),
				       .stack_low = task->context.sp,
				       .stack_high = task->stack.high,
				       .own_low = &task->arg,
				       .own_high = task + 1,
				       .registers = saved->registers.at,
				       .register_count = SN_REGISTERS};
}

static void call_waited_for(struct sn_scan_sync *sync, const struct sn_scan *scan)
{
	if (scan)
		sn_scan_call(sync->fn, scan, sync->arg);
	else
		sync->result = -ESRCH;
}

void sn_scan_complete(struct sn_scan_sync *sync)
{
	int saved = errno;

	if (!sync)
		return;
	atomic_store_explicit(&sync->done, 1, memory_order_release);
	/* From here on sync may be gone. The wake-up uses only its address. */
	sn_futex_wake(&sync->done, 1);
	errno = saved;
}

struct sn_scan_sync *sn_scan_serve(struct sn_task *task, const struct sn_scan *scan)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	struct sn_scan_sync *sync;
	sn_task_scan_fn *fn;
	void *arg;

	do {
		if (!(seen & SN_SCAN_ASKED))
			return NULL;
	} while (!atomic_compare_exchange_weak(
		word, &seen, (seen & ~(uint32_t)SN_SCAN_ASKED) | SN_SCAN_SERVING));
	fn = task->scan_fn;
	arg = task->scan_arg;
	sync = fn ? NULL : arg;
	SN_RACE_WINDOW();
	/* Before the call, because the waiting task may make another request as soon as the call is
	 * done. */
	atomic_fetch_and(word, ~(uint32_t)SN_SCAN_SERVING);
	if (sync)
		call_waited_for(sync, scan);
	else
		sn_scan_call(fn, scan, arg);
	atomic_fetch_sub(&sn_scan_pending_count, 1);
	return sync;
}

struct sn_scan_sync *sn_scan_serve_saved(struct sn_task *task)
{
	struct sn_scan_saved saved;

	if (!(atomic_load(&task->word.scan) & SN_SCAN_ASKED))
		return NULL;
	sn_scan_describe_saved(task, &saved);
	return sn_scan_serve(task, &saved.scan);
}

void sn_scan_serve_here(struct sn_task *task, const ucontext_t *context, bool interrupted)
{
	struct sn_registers registers;
	struct sn_stack stack = task->stack;
	struct sn_scan scan = {.task = sn_task_handle(task),
			       .stack_high = stack.high,
			       .own_low = &task->arg,
			       .own_high = task + 1,
			       .registers = registers.at,
			       .register_count = SN_REGISTERS,
			       .interrupted = interrupted};
	const char *sp;

	sn_registers_interrupted(context, &registers);
	sp = (const char *)registers.at[SN_REGISTER_SP];
	/* If the task runs on another stack, such as an alternate one of the program's, the request
	 * is left for another time. */
	if (sp < stack.low || sp >= stack.high)
		return;
	scan.stack_low = interrupted && sp - stack.low > SN_RED_ZONE ? sp - SN_RED_ZONE : sp;
	sn_scan_complete(sn_scan_serve(task, &scan));
}

sn_noinline void sn_scan_serve_own(struct sn_thread *self)
{
	ucontext_t context;

	atomic_store(&self->asked, 0);
	if (!(atomic_load(&self->task->word.scan) & SN_SCAN_ASKED))
		return;
	/* The context is on the task's own stack, so all registers are as well. */
	if (sn_registers_here(&context))
		sn_scan_serve_here(self->task, &context, false);
}
