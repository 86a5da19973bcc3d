/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/compiler.h"

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

void sn_fatal(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	abort();
}
