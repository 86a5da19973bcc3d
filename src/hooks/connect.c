/* SPDX-License-Identifier: MIT */
/*
 * connect(), and the sockets that are young enough for it.
 *
 * There is no MSG_DONTWAIT for connect(): only O_NONBLOCK on the file description keeps it from
 * waiting. The hook sets that flag around the one system call that sends the first packet, and
 * clears it before the task waits. Then it calls connect() again, which reports the result and
 * leaves the socket as a blocking call would have. This is done only for TCP sockets that this
 * process has made by socket(), and has not duplicated, connected or passed on by fork() since. No
 * other process or number shares their description, and only a connect() can wait for them. Every
 * other connect() is passed through.
 *
 * Rejected: SO_SNDTIMEO, the only other limit that connect() has: the shortest is a tick of the
 * kernel's, 1 to 10 ms, for which the thread would be blocked. A helper thread for each call:
 * addresses that hang would need as many threads as calls.
 *
 * Such a socket is called young, from socket() on. It is noted in a byte for each descriptor
 * number, which says between which forks the socket was made. A number may be closed unnoticed, by
 * a system call, and used again. If socket() uses it, that makes a new note. If something else
 * does, it is not a TCP socket without a connection, and the old note does no harm.
 *
 * Who may write what: any thread writes young[], by relaxed accesses, because the program orders
 * its own uses of a number. epoch is written around fork().
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <sennit/fd.h>

#include "hooks/turn.h"

/* As many descriptors as sennit watches (io/watch.h). */
#define MOST_DESCRIPTORS 1048576

/* Sockets with higher numbers are never young. */
#define MOST_NOTES 65536

static _Atomic uint8_t young[MOST_NOTES]; /* 0, or the epoch in which the socket was made */
static _Atomic uint8_t epoch = 1;         /* changes with each fork(): never 0 */

static void note(int fd, uint8_t what)
{
	if (fd >= 0 && fd < MOST_NOTES &&
	    (what || atomic_load_explicit(&young[fd], memory_order_relaxed)))
		atomic_store_explicit(&young[fd], what, memory_order_relaxed);
}

static bool is_young(int fd)
{
	return fd >= 0 && fd < MOST_NOTES &&
	       atomic_load_explicit(&young[fd], memory_order_relaxed) == atomic_load(&epoch);
}

/*
 * After a fork both processes have the descriptions. Called before the fork, for the sockets that
 * exist, and after it, for those that other threads have made during it. When the epochs wrap
 * around, old notes would count again, so they are cleared.
 */
static void around_fork(void)
{
	uint8_t next = (uint8_t)(atomic_load(&epoch) + 1);

	if (next == 0) {
		next = 1;
		for (int fd = 0; fd < MOST_NOTES; fd++)
			note(fd, 0);
	}
	atomic_store(&epoch, next);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(around_fork, around_fork, around_fork);
}

SN_HOOK(int, socket, (int family, int type, int protocol))
{
	const int fd = sn_real.socket(family, type, protocol);

	if (fd >= 0)
		note(fd, (family == AF_INET || family == AF_INET6) &&
					 (type & ~(SOCK_CLOEXEC)) == SOCK_STREAM &&
					 (protocol == 0 || protocol == IPPROTO_TCP)
				 ? atomic_load(&epoch)
				 : 0);
	return fd;
}

/* Sends the first packet. Returns AGAIN if the connection is under way, PASS if nothing was done,
 * or FAIL if the call is over, with its result in *result. */
static enum sn_hook_step start(int fd, const struct sockaddr *to, socklen_t length, int *result)
{
	const int flags = sn_hook_flags(fd);

	if (flags < 0 || (flags & O_NONBLOCK) || !sn_hook_may_park() ||
	    sn_real.fcntl(fd, F_SETFL, (long)(flags | O_NONBLOCK)) < 0)
		return SN_HOOK_PASS;
	*result = sn_real.connect(fd, to, length);
	if (*result < 0) {
		const int err = sn_hook_errno();

		sn_real.fcntl(fd, F_SETFL, (long)flags);
		sn_hook_fail(err);
		return err == EINPROGRESS ? SN_HOOK_AGAIN : SN_HOOK_FAIL;
	}
	sn_real.fcntl(fd, F_SETFL, (long)flags);
	return SN_HOOK_FAIL; /* the call is over: the connection was made immediately */
}

SN_HOOK(int, connect, (int fd, const struct sockaddr *to, socklen_t length))
{
	struct sn_hook_call call = {.fd = fd, .events = POLLOUT, .timeout = SO_SNDTIMEO};
	enum sn_hook_step step;
	int result = -1, err;

	if (!sn_hook_caller() || !is_young(fd)) {
		note(fd, 0);
		return sn_real.connect(fd, to, length);
	}
	note(fd, 0);
	err = sn_hook_errno();
	step = start(fd, to, length, &result);
	if (step == SN_HOOK_FAIL)
		return result;
	if (step == SN_HOOK_AGAIN) {
		step = sn_hook_wait(&call);
		/* This is the error that the kernel gives when SO_SNDTIMEO has passed. */
		if (step == SN_HOOK_FAIL)
			return sn_hook_errno() == EAGAIN ? sn_hook_fail(EINPROGRESS) : -1;
	}
	return (int)sn_hook_kept(sn_real.connect(fd, to, length), err);
}

/*
 * ---- what ends a socket's youth, or a wait for it ----
 *
 * A close that does not pass here, such as a system call, or a close by a thread that runs no task,
 * is noticed by the wait itself (sennit/fd.h). closedir() has no hook, because nothing waits for
 * a directory.
 */

/* Whether to announce what the caller closes, because tasks may wait for it. */
static bool is_heard(void)
{
	return sn_unlikely(sn_private_self() != NULL) && sn_foreign_self() && sn_hook_own_process();
}

static void closing(int fd)
{
	note(fd, 0);
	sn_hook_turns_forget(fd);
	if (is_heard())
		sn_fd_closing(fd);
}

/* For calls with which the C library closes a file's descriptor without calling close(). A file may
 * have none. Leaves errno alone. */
static void closing_file(FILE *file)
{
	const int err = sn_hook_errno();
	const int fd = fileno(file);

	sn_hook_fail(err);
	if (fd >= 0)
		closing(fd);
}

/* Announces only numbers that the process may have. */
static void closing_all(unsigned first, unsigned last)
{
	const bool heard = is_heard();
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > MOST_DESCRIPTORS)
		limit.rlim_cur = MOST_DESCRIPTORS;
	for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++) {
		note((int)fd, 0);
		sn_hook_turns_forget((int)fd);
		if (heard)
			sn_fd_closing((int)fd);
	}
}

SN_HOOK(int, close, (int fd))
{
	closing(fd);
	return sn_real.close(fd);
}

SN_HOOK(int, fclose, (FILE * file))
{
	closing_file(file);
	return sn_real.fclose(file);
}

SN_HOOK(int, pclose, (FILE * file))
{
	closing_file(file);
	return sn_real.pclose(file);
}

SN_HOOK(FILE *, freopen, (const char *path, const char *mode, FILE *file))
{
	closing_file(file);
	return sn_real.freopen(path, mode, file);
}

SN_HOOK(FILE *, freopen64, (const char *path, const char *mode, FILE *file))
{
	closing_file(file);
	return sn_real.freopen64(path, mode, file);
}

/* Makes the system call if the C library has no close_range() (before glibc 2.34). */
static int close_all(unsigned first, unsigned last, int flags)
{
	return sn_real.close_range ? sn_real.close_range(first, last, flags)
				   : (int)syscall(SYS_close_range, first, last, flags);
}

SN_HOOK(int, close_range, (unsigned first, unsigned last, int flags))
{
	if (!(flags & ~(int)CLOSE_RANGE_UNSHARE) && first <= last)
		closing_all(first, last);
	return close_all(first, last, flags);
}

SN_HOOK(void, closefrom, (int first))
{
	const unsigned from = first > 0 ? (unsigned)first : 0;

	closing_all(from, UINT_MAX);
	if (sn_real.closefrom)
		sn_real.closefrom(first);
	else
		close_all(from, UINT_MAX, 0);
}

SN_HOOK(int, dup, (int fd))
{
	note(fd, 0);
	return sn_real.dup(fd);
}

/* dup2() and dup3() close `to` only if there is something to put in its place. */
static void replacing(int fd, int to)
{
	note(fd, 0);
	if (to != fd && sn_real.fcntl(fd, F_GETFD, 0L) >= 0)
		closing(to);
}

SN_HOOK(int, dup2, (int fd, int to))
{
	replacing(fd, to);
	return sn_real.dup2(fd, to);
}

SN_HOOK(int, dup3, (int fd, int to, int flags))
{
	if (!(flags & ~O_CLOEXEC))
		replacing(fd, to);
	return sn_real.dup3(fd, to, flags);
}

/* The third argument of fcntl() is missing, an int or a pointer: a long holds each of these. */
#define FCNTL(name)                                                                \
	SN_HOOK(int, name, (int fd, int command, ...))                             \
	{                                                                          \
		va_list list;                                                      \
		long argument;                                                     \
                                                                                   \
		va_start(list, command);                                           \
		argument = va_arg(list, long);                                     \
		va_end(list);                                                      \
		if (sn_unlikely(command == F_DUPFD || command == F_DUPFD_CLOEXEC)) \
			note(fd, 0);                                               \
		return sn_real.name(fd, command, argument);                        \
	}
FCNTL(fcntl)
FCNTL(fcntl64)
#if SN_HOOK_TIME64
FCNTL(__fcntl_time64)
#endif
