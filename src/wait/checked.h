/* SPDX-License-Identifier: MIT */
/*
 * The checked build (SENNIT_CHECKED): no thread waits while it has what others need.
 *
 * Contract. In this build each of the following ends the process, with a message on stderr that
 * names the locks and the call, and a backtrace:
 *   - a lock is taken against the order of rank.h, or has no line there;
 *   - a system call that may wait is made while a lock is held, or on a thread that must not wait
 *     (the monitor), by the runtime or by code of the program that it calls (system_call.c);
 *   - the thread sleeps on a futex of src/wait then, except for the next lock;
 *   - a task parks, yields or ends with a lock held other than the one that its commit releases;
 *   - a callback of the program is called then.
 * "Then" is also while the end of the run waits for the thread (sched/foreign.h).
 * In other builds nothing of this exists: the functions below are empty, and the macros vanish.
 *
 * A stretch that may wait in spite of it stands between sn_checked_pass() and
 * sn_checked_pass_end(). Each has a comment that says why nothing is lost.
 *
 * What is not seen: a page fault; a wait by spinning; on machines other than x86_64, or where the
 * kernel has no system call user dispatch (before 5.11), system calls. What a signal handler does
 * while its thread holds a lock counts as done under the lock, which is meant.
 *
 * Everything is in thread-local storage, written by the thread alone. The functions are not
 * inlined, because a task that parks may be on another thread afterwards, while a compiler takes
 * the address of a thread-local to be the same for all of a function. No lock stays held across a
 * switch but that of an exclusive waiter (task/waiter.h), which is released on the same thread.
 */
#ifndef SENNIT_WAIT_CHECKED_H
#define SENNIT_WAIT_CHECKED_H

#include <stdbool.h>

#include "arch/compiler.h"
#include "wait/rank.h"

struct sn_lock;

#if SENNIT_CHECKED

/* Around taking a lock: the order is checked before, so that a deadlock is a report. */
void sn_checked_lock(struct sn_lock *lock);
void sn_checked_locked(struct sn_lock *lock);
void sn_checked_unlock(struct sn_lock *lock);

/* The calling thread is about to sleep, or may: what says in what. */
void sn_checked_wait(const char *what);

/* A line is about to be written on stderr. Not with a lock held, even though there is no wait for
 * room: stderr may be a file on a slow device. */
void sn_checked_line(void);

/* Code of the program is about to be called, or returned to. */
void sn_checked_callback(const char *what);

/* The running task leaves its thread. Afterwards its commit releases lock (NULL: none). */
void sn_checked_hand_over(struct sn_lock *lock);
void sn_checked_leave(void);

/* A stretch that may wait, on one thread, without a switch. They nest. While a lock is held that
 * was taken in the stretch, it may not. */
void sn_checked_pass(void);
void sn_checked_pass_end(void);

/* From now on the calling thread must not wait: name is "the monitor" or the like. */
void sn_checked_thread(const char *name);

/* Whether system calls are seen here. For tests. */
bool sn_checked_sees_calls(void);

/* Another party waits for the calling thread, without a bound: from now on, or no longer. Nests. */
void sn_checked_needed(bool begins);

/* Prints the interrupted or calling code's backtrace; context is a ucontext_t. stack_high: the end
 * of the stack, as far as it is known to be there. Set by a layer above. */
extern void (*sn_checked_backtrace)(const void *context, const void *stack_high);

/* ---- for system_call.c ---- */

/* Whether the calling thread may wait now, or allocate memory. */
bool sn_checked_may_wait(void);
bool sn_checked_may_allocate(void);

/* The calling thread, for a message. */
const char *sn_checked_who(void);

/* Ends the process with the message; context: of the code to blame, NULL: the caller. */
_Noreturn void sn_checked_fail(const void *context, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* From now on the calling thread's system calls are looked at, or no longer. */
void sn_checked_watch(bool on);

#else

static inline void sn_checked_lock(struct sn_lock *lock)
{
	(void)lock;
}

static inline void sn_checked_locked(struct sn_lock *lock)
{
	(void)lock;
}

static inline void sn_checked_unlock(struct sn_lock *lock)
{
	(void)lock;
}

static inline void sn_checked_wait(const char *what)
{
	(void)what;
}

static inline void sn_checked_line(void) {}

static inline void sn_checked_callback(const char *what)
{
	(void)what;
}

static inline void sn_checked_hand_over(struct sn_lock *lock)
{
	(void)lock;
}

static inline void sn_checked_leave(void) {}

static inline void sn_checked_pass(void) {}

static inline void sn_checked_pass_end(void) {}

static inline void sn_checked_needed(bool begins)
{
	(void)begins;
}

static inline void sn_checked_thread(const char *name)
{
	(void)name;
}

#endif
#endif
