/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "sched/task.h"
#include "sched/thread.h"

/* One write, so that lines of several threads do not mix. */
static void say(const char *format, va_list args)
{
	char line[512] = "sennit: ";
	int head = 8, n = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);

	if (n < 0)
		return;
	n += head;
	if ((size_t)n > sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	while (write(STDERR_FILENO, line, (size_t)n) < 0 && errno == EINTR)
		continue;
}

void sn_log(const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	errno = saved;
}

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

void sn_fatal(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	abort();
}
