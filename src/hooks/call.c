/* SPDX-License-Identifier: MIT */
#include "hooks/call.h"
#include "arch/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <sennit/clock.h>
#include <sennit/fd.h>
#include <sennit/scope.h>

/*
 * How often in a row a call is tried in vain on a descriptor that poll() keeps reporting as ready.
 * After that many attempts the descriptor is ready only for poll(): for example a datagram socket
 * that has room itself, but whose receiver has none. If another reader was merely faster, poll()
 * soon finds nothing, and the count begins again.
 */
#define MOST_ROUNDS 32

static _Atomic uint64_t parked, passed_held, passed_busy, passed_mask, passed_other, moved;
static _Atomic int process_hooks = SN_HOOKS_OFF;

/* Release: a program that has read the count may react to it, for example by closing the descriptor
 * that a task waits for. */
static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_release);
}

void sn_hook_leave_thread(void)
{
	sn_foreign_tie();
	count(&parked);
}

void sn_hook_back(void)
{
	if (sn_foreign_untie() > 0)
		count(&moved);
}

void sn_hook_count_pass(void)
{
	count(&passed_other);
}

/* ---- errno ---- */

/* Never inlined, so that no compiler takes the address of errno for constant across a park. */
sn_noinline int sn_hook_errno(void)
{
	__asm__ volatile("" : : : "memory");
	return errno;
}

sn_noinline int sn_hook_fail(int err)
{
	__asm__ volatile("" : : : "memory");
	errno = err;
	return -1;
}

sn_noinline bool sn_hook_would_block(void)
{
	const int err = sn_hook_errno();

	return err == EAGAIN || err == EWOULDBLOCK;
}

/* ---- times ---- */

int64_t sn_hook_deadline(int64_t ns)
{
	const int64_t now = sn_now();

	return ns < INT64_MAX - now ? now + ns : INT64_MAX;
}

int64_t sn_hook_ns(int64_t sec, int64_t nsec)
{
	if (sec < 0 || nsec < 0 || nsec >= 1000000000)
		return -1;
	return sec < INT64_MAX / 1000000000 - 1 ? sec * 1000000000 + nsec : INT64_MAX;
}

/* ---- who calls ---- */

bool sn_hook_is_wanted(void)
{
	const struct sn_foreign *task = sn_foreign_self();
	int hooks;

	if (!task)
		return false;
	hooks = task->hooks;
	if (hooks == SN_HOOKS_DEFAULT)
		hooks = atomic_load_explicit(&process_hooks, memory_order_relaxed);
	return hooks == SN_HOOKS_ON;
}

static _Atomic pid_t process;

static void note_process(void)
{
	atomic_store_explicit(&process, getpid(), memory_order_relaxed);
}

__attribute__((constructor)) static void begin_process(void)
{
	note_process();
	pthread_atfork(NULL, NULL, note_process);
}

/* Uses the system call, because a C library that caches the pid has the parent's pid in such a
 * child. */
bool sn_hook_own_process(void)
{
	return syscall(SYS_getpid) == atomic_load_explicit(&process, memory_order_relaxed);
}

/* Locks are checked here, and not before the attempt, so that only calls are counted that would
 * have blocked. */
bool sn_hook_may_park(void)
{
	const struct sn_foreign *task = sn_foreign_self();
	int err;

	if (task && task->locks > 0) {
		count(&passed_held);
		return false;
	}
	err = sn_hook_own_process() ? sn_foreign_may_park() : -EBUSY;
	if (err < 0)
		count(err == -EINTR ? &passed_mask : &passed_busy);
	return err == 0;
}

int sn_hooks_set(int hooks)
{
	struct sn_foreign *task = sn_foreign_self();
	int former;

	if (hooks < SN_HOOKS_DEFAULT || hooks > SN_HOOKS_OFF)
		return -EINVAL;
	if (!task)
		return -ENOTSUP;
	former = task->hooks;
	task->hooks = (uint8_t)hooks;
	return former;
}

int sn_hooks_set_default(int hooks)
{
	if (hooks != SN_HOOKS_ON && hooks != SN_HOOKS_OFF)
		return -EINVAL;
	atomic_store(&process_hooks, hooks);
	return 0;
}

int sn_hooks_stats(struct sn_hooks_stats *stats)
{
	struct sn_hooks_stats current = {
		.parked = atomic_load(&parked),
		.passed_held = atomic_load(&passed_held),
		.passed_busy = atomic_load(&passed_busy),
		.passed_mask = atomic_load(&passed_mask),
		.passed_other = atomic_load(&passed_other),
		.moved = atomic_load(&moved),
	};

	return SN_SIZED_GIVE(stats, &current);
}

/* ---- waiting ---- */

int sn_hook_flags(int fd)
{
	return sn_real.fcntl(fd, F_GETFL, 0L);
}

enum sn_hook_kind sn_hook_kind(int fd)
{
	struct stat about;

	if (fstat(fd, &about) < 0)
		return SN_HOOK_DEVICE;
	if (S_ISFIFO(about.st_mode))
		return SN_HOOK_PIPE;
	if (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode) || S_ISDIR(about.st_mode))
		return SN_HOOK_FILE;
	return about.st_mode & S_IFMT ? SN_HOOK_DEVICE : SN_HOOK_ANONYMOUS;
}

/* If a scope is cancelled, the call fails with the reason, on which the loops of libraries end.
 * EAGAIN or EINTR would make them try again. */
enum sn_hook_step sn_hook_ended(int err, int timed_out)
{
	const int cancelled = sn_cancelled();

	if (cancelled)
		sn_hook_fail(cancelled == -ETIMEDOUT ? ETIMEDOUT : ECANCELED);
	else if (err == -ETIMEDOUT)
		sn_hook_fail(timed_out);
	else if (err == -EBADF)
		sn_hook_fail(EBADF);
	else
		return SN_HOOK_PASS;
	return SN_HOOK_FAIL;
}

/* The end of the option's time limit. 0 means that there is none. */
static int64_t deadline_by_option(int fd, int option)
{
	struct timeval time = {0};
	socklen_t size = sizeof time;
	int64_t ns;

	if (!option || getsockopt(fd, SOL_SOCKET, option, &time, &size) < 0)
		return SN_NO_DEADLINE;
	ns = sn_hook_ns(time.tv_sec, (int64_t)time.tv_usec * 1000);
	return ns > 0 ? sn_hook_deadline(ns) : SN_NO_DEADLINE;
}

enum sn_hook_step sn_hook_begin(struct sn_hook_call *call)
{
	int flags;

	if (call->begun)
		return SN_HOOK_AGAIN;
	flags = sn_hook_flags(call->fd);
	/* Closed meanwhile, for its number may be in use again when the call is made. */
	if (flags < 0 && sn_hook_errno() == EBADF)
		return SN_HOOK_FAIL;
	if (flags < 0 || (flags & O_NONBLOCK)) {
		if (!call->tried)
			return SN_HOOK_PASS;
		sn_hook_fail(EAGAIN);
		return SN_HOOK_FAIL;
	}
	if (!sn_hook_may_park())
		return SN_HOOK_PASS;
	if (call->timeout)
		call->deadline = deadline_by_option(call->fd, call->timeout);
	call->begun = true;
	return SN_HOOK_AGAIN;
}

bool sn_hook_another_round(int *rounds, struct pollfd *fds, nfds_t n)
{
	if (*rounds > 0 && sn_real.poll(fds, n, 0) == 0)
		*rounds = 0;
	return (*rounds)++ < MOST_ROUNDS;
}

enum sn_hook_step sn_hook_wait(struct sn_hook_call *call)
{
	struct pollfd one = {.fd = call->fd, .events = call->events};
	enum sn_hook_step step = sn_hook_begin(call);
	int found;

	if (step != SN_HOOK_AGAIN)
		return step;
	if (!sn_hook_another_round(&call->rounds, &one, 1)) {
		count(&passed_other);
		return SN_HOOK_PASS;
	}
	sn_hook_leave_thread();
	found = sn_fd_wait(call->fd, call->events, call->deadline);
	sn_hook_back();
	if (found > 0) {
		call->revents = found;
		return SN_HOOK_AGAIN;
	}
	step = sn_hook_ended(found, EAGAIN);
	if (step == SN_HOOK_PASS)
		count(&passed_other);
	return step;
}

enum sn_hook_step sn_hook_await(int fd, short events)
{
	struct pollfd one = {.fd = fd, .events = events};
	struct sn_hook_call call = {.fd = fd, .events = events};

	if (sn_real.poll(&one, 1, 0) != 0)
		return SN_HOOK_PASS;
	return sn_hook_wait(&call) == SN_HOOK_FAIL ? SN_HOOK_FAIL : SN_HOOK_PASS;
}
