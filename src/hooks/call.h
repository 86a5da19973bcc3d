/* SPDX-License-Identifier: MIT */
/*
 * What all hooks share: whether the caller is a task with hooks, and how it waits.
 *
 * Contract. If sn_hook_caller() is false, because the caller is not a task's own code or the task
 * has no hooks, a hook only calls the real function. Otherwise it tries the call without blocking.
 * If the call would block, sn_hook_wait() decides whether to try again, to make the blocking call
 * (for example because the task holds a lock), or to fail.
 *
 * errno. A task is tied to its thread while it is parked, because compilers take the address of
 * errno for constant within a function, and libraries keep other things that belong to the thread.
 * In rare cases the task is moved to another thread all the same (foreign.h), so hooks read and
 * write errno only by the functions below.
 */
#ifndef SENNIT_HOOKS_CALL_H
#define SENNIT_HOOKS_CALL_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include <sennit/blocking.h>
#include <sennit/foreign.h>
#include <sennit/hooks.h>

#include "arch/compiler.h"
#include "hooks/real.h"

/* Defines a replacement under libc's name, which only the assembler sees. libc declares some calls
 * with attributes, or under other names in programs with 64-bit offsets, and a second declaration
 * would contradict that. */
#define SN_HOOK(result, name, parameters)                                          \
	SN_API result sn_hook_##name parameters __asm__(#name) sn_hook_attributes; \
	result sn_hook_##name parameters
#define sn_hook_attributes __attribute__((used))

/* What to do about a call that would have blocked. */
enum sn_hook_step {
	SN_HOOK_AGAIN, /* the descriptor was ready: try again */
	SN_HOOK_PASS,  /* make the call as it is, which may block the thread */
	SN_HOOK_FAIL,  /* return -1: errno is set */
};

/* One call of a task that may wait several times. */
struct sn_hook_call {
	int fd;
	short events;     /* POLLIN or POLLOUT */
	bool tried;       /* the descriptor itself has returned EAGAIN */
	bool begun;       /* the fields below are set */
	int timeout;      /* the socket option that limits the call, such as SO_RCVTIMEO; 0: none */
	int64_t deadline; /* the end of that limit, or the caller's; 0: none */
	int rounds;       /* failed attempts, see sn_hook_another_round() */
	int revents;      /* what the last wait reported */
};

/* Whether the caller is a task that has hooks: the part of sn_hook_caller() that is not inline. */
bool sn_hook_is_wanted(void) sn_hidden;

static inline bool sn_hook_caller(void)
{
	return sn_unlikely(sn_private_self() != NULL) && sn_hook_is_wanted();
}

/* Whether the task may park in this call. If not, counts the reason. */
bool sn_hook_may_park(void) sn_hidden;

/* False in a child of vfork(), which shares the memory of its parent. */
bool sn_hook_own_process(void) sn_hidden;

/* Counts locks that the task has taken (by > 0) or released (by < 0), and that it must not hold
 * while it parks. Does nothing outside a task. */
void sn_hook_hold(int by) sn_hidden;

/* Waits until the descriptor is ready, no longer than the call may take. May park. */
enum sn_hook_step sn_hook_wait(struct sn_hook_call *call) sn_hidden;

/* Reads, once for each call, what only a call that blocks has to know, such as the socket's time
 * limit. Returns AGAIN if the call may wait. */
enum sn_hook_step sn_hook_begin(struct sn_hook_call *call) sn_hidden;

/* Called after a failed attempt on descriptors that poll() has reported as ready. Returns whether
 * to wait once more. An attempt counts only if they are still ready; otherwise another reader or
 * writer was faster. */
bool sn_hook_another_round(int *rounds, struct pollfd *fds, nfds_t n) sn_hidden;

/* For a file, or a device that is always ready: waits until the call can be made. Returns PASS
 * to make it, or FAIL. */
enum sn_hook_step sn_hook_await(int fd, short events) sn_hidden;

/* Counts a call that blocks its thread because a wait was not possible or did not help. */
void sn_hook_count_pass(void) sn_hidden;

/* What a hook does after a wait has returned a negative err. timed_out: the errno for a timeout. */
enum sn_hook_step sn_hook_ended(int err, int timed_out) sn_hidden;

/* These three use the errno of the thread that the task is on now. */
int sn_hook_errno(void) sn_hidden;
int sn_hook_fail(int err) sn_hidden; /* sets errno, and returns -1 */
bool sn_hook_would_block(void) sn_hidden;

/* A call that succeeds leaves errno as it was, as in the C library: a caller may look at it after
 * several calls. Attempts before that have changed it. err: what it was when the call began. */
static inline ssize_t sn_hook_kept(ssize_t result, int err)
{
	if (result >= 0)
		sn_hook_fail(err);
	return result;
}

/* The deadline ns from now; ns may be huge. */
int64_t sn_hook_deadline(int64_t ns) sn_hidden;
/* A time in ns. INT64_MAX if it is too large, -1 if it is invalid. */
int64_t sn_hook_ns(int64_t sec, int64_t nsec) sn_hidden;

/* fcntl(F_GETFL). */
int sn_hook_flags(int fd) sn_hidden;

/* The kinds of descriptors that are not sockets. */
enum sn_hook_kind {
	SN_HOOK_PIPE,
	SN_HOOK_ANONYMOUS, /* an eventfd, a timerfd, an inotify descriptor and so on */
	SN_HOOK_FILE,      /* or a disk: poll() calls it ready, but a call may take long */
	SN_HOOK_DEVICE,    /* such as a terminal; or not open */
};
enum sn_hook_kind sn_hook_kind(int fd) sn_hidden;

/* Whether the error means that RWF_NOWAIT cannot be used: with this kernel, this descriptor, or in
 * this sandbox. */
static inline bool sn_hook_lacks_flag(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == EPERM;
}

/* Whether read() or write() of n bytes may wait. One of more than SSIZE_MAX fails, in its own way;
 * but a 64-bit kernel cuts the size of a 32-bit program's call instead, and then waits. */
static inline bool sn_hook_may_wait(size_t n)
{
	return n > 0 && (sizeof n < 8 || n <= SSIZE_MAX);
}

/* The same for readv() and writev(). These fail if one size is negative as a signed number, in a
 * 32-bit program, too. A large sum is cut by the kernel. */
static inline bool sn_hook_pieces_may_wait(const struct iovec *iov, int count)
{
	bool some = false;

	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX)
			return false;
		some |= iov[i].iov_len > 0;
	}
	return some;
}

/* n, or the most bytes that the kernel transfers in one call: INT_MAX, cut to whole pages. A call
 * that is made in parts must not transfer more. */
static inline size_t sn_hook_at_once(size_t n)
{
	size_t most;

	if (sn_likely(n <= INT_MAX / 2))
		return n;
	most = INT_MAX & ~((size_t)sysconf(_SC_PAGESIZE) - 1);
	return n < most ? n : most;
}

/*
 * Some descriptors are never read, or never written: they are open only for the other direction, or
 * are of such a kind. They may never be ready, either, so their call must not wait. Reading or
 * writing no bytes finds that out, and moves no data. `result` is what that has returned.
 * Returns AGAIN if the call may wait, PASS to make it, which fails immediately, or FAIL: errno is
 * set. FAIL is for a descriptor that is not open, or not for this direction: its number may be in
 * use again before a second call. Other errors say nothing about the call: a sandbox may refuse
 * readv() and allow read().
 */
static inline enum sn_hook_step sn_hook_probed(ssize_t result)
{
	const int err = result < 0 ? sn_hook_errno() : 0;

	if (err == EBADF)
		return SN_HOOK_FAIL;
	return err == EINVAL || err == EISDIR ? SN_HOOK_PASS : SN_HOOK_AGAIN;
}

/* Called before and after a part that may park. The task is tied to its thread, and continues on
 * it. */
void sn_hook_leave_thread(void) sn_hidden;
void sn_hook_back(void) sn_hidden;

#endif
