/* SPDX-License-Identifier: MIT */
#include "sched/abandon.h"

#include "arch/arch.h"
#include "arch/compiler.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "stack/sanitizer.h"

void sn_abandon(struct sn_thread *self)
{
	struct sn_task *task = self->task;

	/* Atomic, because a thread that requests a scan reads which thread has the task. */
	__atomic_store_n(&self->task, NULL, __ATOMIC_RELAXED);
	if (self->cxx)
		*self->cxx = self->idle.cxx;
#if SN_ASAN || SN_TSAN
	sn_sanitizer_switch(&task->context, &self->idle, true);
#else
	sn_arch_switch(&task->context.sp, self->idle.sp);
#endif
	sn_fatal("a task that had been abandoned was resumed");
}
