/* SPDX-License-Identifier: MIT */
/*
 * Reports a program's misuse of a call, with the task that made it, and aborts (arch/compiler.h).
 * This is not in base/log.c, because base/log.c is below tasks, so that all layers can log.
 */
#include <stdarg.h>
#include <stdio.h>

#include "arch/compiler.h"
#include "sched/task.h"
#include "sched/thread.h"

void sn_misuse(const char *format, ...)
{
	struct sn_thread *self = sn_thread_self();
	char what[384];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	if (self && self->task)
		sn_fatal("%s, in task %llu \"%s\"", what,
			 (unsigned long long)sn_task_id(self->task), sn_task_name(self->task));
	sn_fatal("%s, in a thread of the program's own", what);
}
