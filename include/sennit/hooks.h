/* SPDX-License-Identifier: MIT */
/*
 * Hooks: the C library's blocking calls park the task, for libraries that know nothing of sennit.
 *
 * In a library of its own, libsennit-hooks (pkg-config sennit-hooks; sennit::hooks in CMake). A
 * program links it before the C library, or is started with it:
 *
 *	LD_PRELOAD=libsennit-hooks.so SENNIT_HOOKS=1 program
 *
 * The program has to use either the shared libsennit, or the static forms of both libraries. The C
 * library has to be the shared one.
 *
 * In a task that has hooks these calls park where they would block: connect, accept, accept4, read,
 * readv, write, writev, send, sendto, sendmsg, sendmmsg, sendfile, recv, recvfrom, recvmsg,
 * recvmmsg, poll, ppoll, select, pselect, epoll_wait, sleep, usleep, nanosleep, clock_nanosleep,
 * thrd_sleep  and getaddrinfo.
 *
 * Every other call blocks its thread, as without hooks. That costs a thread for that time, but
 * never a stall, so the hooks need not be complete.
 *
 * A call keeps its meaning. No descriptor is made non-blocking, except for the moment of one system
 * call in connect(), on a socket that this process has just made (docs/hooks.md). Its result and
 * errno are those of the C library's call, with four exceptions:
 *   - in a scope that is cancelled, a call that would have to wait fails: with ETIMEDOUT if the
 *     scope's deadline has cancelled it, otherwise with ECANCELED. A call that has moved some bytes
 *     returns their number; sleep() returns 0, and nothing is left of other sleeps;
 *   - a descriptor that another task closes while this one waits for it gives EBADF;
 *   - signals interrupt no call that is parked, so there is no EINTR;
 *   - other tasks may have run on the thread in between, and have changed its thread-locals.
 * After the call the task is on the same thread, so what a library remembers of the thread stays
 * valid: the address of errno or of a thread-local, pthread_self(). Only a thread that is blocked
 * or busy for SENNIT_HOOKS_STAY milliseconds (1,000) loses such tasks to other threads, which the
 * counter `moved` counts. With SENNIT_HOOKS_STAY=0 tasks continue on any thread (docs/hooks.md).
 *
 * The call is passed through, which blocks the thread, where parking would be wrong or of no use:
 * outside tasks; on files, and on descriptors that are non-blocking; while the task holds a pthread
 * mutex, rwlock or spin lock, an mtx_t, or a file by flockfile(), is in a function of
 * pthread_once() or call_once(), is pinned or in a blocking bracket (blocking.h); in signal
 * handlers, unless they are registered with SA_NODEFER and an empty mask, and while the thread's
 * signal mask is changed; in the runtime's own calls; in a child of fork(). docs/hooks.md has the
 * whole table, and says how to find out whether a library works with hooks.
 *
 * Which tasks have hooks: those that have asked for them, by sn_hooks_set() or by SN_TASK_HOOKED in
 * the flags of struct sn_task_attr (foreign.h); and, with SENNIT_HOOKS=1 in the environment or
 * after sn_hooks_set_default(SN_HOOKS_ON), all that have not refused them. A task does not inherit
 * its parent's choice.
 *
 * Threads outside the runtime: sn_hooks_set_default() and sn_hooks_stats(); sn_hooks_set()
 * returns -ENOTSUP. Signal handlers: none. The calls that are replaced may be made wherever the C
 * library allows it.
 */
#ifndef SENNIT_HOOKS_H
#define SENNIT_HOOKS_H

#include <sennit/base.h>
#include <sennit/foreign.h>

SN_BEGIN

/*
 * Sets whether the calling task has hooks: SN_HOOKS_ON, SN_HOOKS_OFF, or SN_HOOKS_DEFAULT to follow
 * the process (enum sn_hooks_mode). Returns the previous setting, so that a bracket can restore it:
 *
 *	int former = sn_hooks_set(SN_HOOKS_OFF);
 *
 *	n = SSL_read(ssl, buf, size);
 *	sn_hooks_set(former);
 *
 * Does not park. Errors: -EINVAL for another value; -ENOTSUP outside a task.
 */
SN_API int sn_hooks_set(int hooks);

/* Turns hooks on or off for all tasks that have SN_HOOKS_DEFAULT. Any thread. */
SN_API int sn_hooks_set_default(int hooks);

/* How often hooked calls of tasks that have hooks would have blocked, and what was done. */
struct sn_hooks_stats {
	/* Set by SN_HOOKS_STATS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_hooks_stats);
	uint64_t parked; /* times that a task waited without its thread */
	/* Calls that were passed through, by the reason: */
	uint64_t passed_held;  /* the task held a lock */
	uint64_t passed_busy;  /* it was pinned, or in a bracket */
	uint64_t passed_mask;  /* it was in a signal handler, or had changed the signal mask */
	uint64_t passed_other; /* the wait was not possible, or did not help (docs/hooks.md) */
	uint64_t moved; /* of parked: continued on another thread, because their own was stuck */
};

/* struct sn_hooks_stats with its size, and the fields that are given, as .name = value. */
#define SN_HOOKS_STATS_INIT(...) SN_SIZED_INIT(struct sn_hooks_stats, __VA_ARGS__)

/* Fills *stats, which count since the process began. Any thread. Returns 0; -EINVAL for NULL. */
SN_API int sn_hooks_stats(struct sn_hooks_stats *stats);

SN_END

#endif
