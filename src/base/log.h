/* SPDX-License-Identifier: MIT */
/*
 * Lines on standard error.
 *
 * Contract. Writing them never blocks for longer than the caller says, whatever standard error is:
 * a pipe that nobody reads would stop a thread that holds a processor, and with it its tasks, or
 * the monitor, and with it everything. What does not fit is dropped, and the next line says how
 * many lines were. Nothing raises SIGPIPE. Any thread, signal handlers, under any lock.
 *
 * O_NONBLOCK is no way to do this, because it would be set for all who share the description.
 *
 * sn_log() and sn_fatal() are declared in arch/compiler.h, for the layers below.
 */
#ifndef SENNIT_BASE_LOG_H
#define SENNIT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes all of it, waiting for room at most `patience` in all. Returns how many bytes were
 * written. Preserves errno. */
size_t sn_stderr_write(const char *text, size_t size, int64_t patience);

/*
 * Whether the kernel writes to a pipe without ever waiting (RWF_NOWAIT). Where it does not, room is
 * looked for first, and another process may take it before the write. Tries it on a pipe of its
 * own. False also when there is no descriptor left. Preserves errno.
 */
bool sn_stderr_never_waits(void);

#endif
