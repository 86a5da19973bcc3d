/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/compiler.h"
#include "base/sigpipe.h"
#include "wait/checked.h"

#ifndef RWF_NOWAIT
#	define RWF_NOWAIT 8
#endif

/* The most that is written in one call after poll() reported room. A pipe that is writable has room
 * for PIPE_BUF, which is more; a terminal usually has room for this, too. */
#define AT_ONCE 512

static _Atomic unsigned dropped;
static _Atomic char last_written = '\n';

/*
 * Whether RWF_NOWAIT, which has failed with this error, says nothing about room. XFS and btrfs
 * return EAGAIN also for a file whose time of modification is about to change, which is almost
 * every line. Nobody has to read a file before there is room in it.
 */
static bool cannot_tell(int err)
{
	struct stat status;
	bool is_file;

	if (err != EAGAIN)
		return err == EOPNOTSUPP || err == ENOSYS || err == EINVAL;
	/* Does not wait: file systems that may have to ask a server do not know the flag. */
	sn_checked_pass();
	is_file = fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode);
	sn_checked_pass_end();
	return is_file;
}

/* Returns the number of bytes that were written, or -1 with errno, which is EAGAIN if there is no
 * room. */
static ssize_t write_now(const char *text, size_t size)
{
	struct iovec part = {(char *)text, size};
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t n = send(STDERR_FILENO, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	enum sn_sigpipe former;
	int err;

	if (n >= 0 || errno != ENOTSOCK)
		return n;
	former = sn_sigpipe_hold();
	/* The offset -1 stands for the file's position. Kernels before 6.4 do not support
	 * RWF_NOWAIT on pipes. */
	n = syscall(SYS_pwritev2, STDERR_FILENO, &part, 1, -1L, -1L, RWF_NOWAIT);
	if (n < 0 && cannot_tell(errno)) {
		if (size > AT_ONCE)
			size = AT_ONCE;
		/* This write may still wait: another process may take the room before it, on
		 * kernels before 6.4, and a file may wait for its disk. There is no better way. */
		if (poll(&room, 1, 0) > 0) {
			sn_checked_pass();
			n = write(STDERR_FILENO, text, size);
			sn_checked_pass_end();
		} else {
			n = -1;
			errno = EAGAIN;
		}
	}
	err = errno;
	sn_sigpipe_release(former, n, size);
	errno = err;
	return n;
}

bool sn_stderr_never_waits(void)
{
	char byte = 0;
	struct iovec part = {&byte, 1};
	const int saved = errno;
	bool never = false;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == 0) {
		never = syscall(SYS_pwritev2, ends[1], &part, 1, -1L, -1L, RWF_NOWAIT) == 1;
		close(ends[0]);
		close(ends[1]);
	}
	errno = saved;
	return never;
}

/* Returns false if there is no patience left. */
static bool wait_for_room(int64_t *patience)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
	int64_t begun;

	if (!patience || *patience <= 0)
		return false;
	begun = sn_now();
	poll(&room, 1, (int)(*patience / 1000000) + 1);
	*patience -= sn_now() - begun;
	return true;
}

size_t sn_stderr_write(const char *text, size_t size, int64_t *patience)
{
	const int saved = errno;
	size_t done = 0;

	while (done < size) {
		const ssize_t n = write_now(text + done, size - done);

		if (n > 0) {
			done += (size_t)n;
			atomic_store(&last_written, text[done - 1]);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			break;
		} else if (errno == EAGAIN && !wait_for_room(patience)) {
			break;
		}
	}
	errno = saved;
	return done;
}

/* Writes the line in one call, so that lines of several threads do not mix. */
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
	if (sn_stderr_write(line, (size_t)n, NULL) < (size_t)n)
		atomic_fetch_add(&dropped, 1);
}

void sn_stderr_count_dropped(const char *text, size_t size)
{
	unsigned n = 0;

	for (size_t i = 0; i < size; i++)
		n += text[i] == '\n';
	atomic_fetch_add(&dropped, n);
}

bool sn_stderr_say_dropped(int64_t *patience)
{
	char line[96];
	const unsigned n = atomic_exchange(&dropped, 0);
	size_t length;

	if (n == 0)
		return true;
	length = (size_t)snprintf(line, sizeof line,
				  "%ssennit: %u lines before this one were dropped: "
				  "stderr was full\n",
				  atomic_load(&last_written) == '\n' ? "" : "\n", n);
	if (sn_stderr_write(line, length, patience) == length)
		return true;
	atomic_fetch_add(&dropped, n);
	return false;
}

void sn_log(const char *format, ...)
{
	int saved = errno;
	va_list args;

	sn_checked_line();
	sn_stderr_say_dropped(NULL);
	va_start(args, format);
	say(format, args);
	va_end(args);
	errno = saved;
}

void sn_fatal(const char *format, ...)
{
	va_list args;

	sn_stderr_say_dropped(NULL);
	va_start(args, format);
	say(format, args);
	va_end(args);
	abort();
}
