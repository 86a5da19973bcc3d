/* SPDX-License-Identifier: MIT */
/*
 * The checked build (SENNIT_CHECKED): no thread waits while it has what others need.
 *
 * Contract. In this build each of the following ends the process, with a message on stderr that
 * names the locks and the call, and a backtrace:
 *   - a lock is taken against the order of rank.h, or has no line there;
 *   - a system call that may wait is made while a lock is held, or on a thread that must not wait
 *     (the monitor), by the runtime or by code of the program that it calls (system_call.c);
 *   - such a thread sleeps on a futex of src/wait, except for the next lock;
 *   - a task parks, yields or ends with a lock held other than the one that its commit releases;
 *   - such a thread calls a callback of the program.
 * A thread that the end of the run waits for (sched/foreign.h) must not wait either.
 * In other builds nothing of this exists: the functions below are empty, and the macros vanish.
 *
 * A stretch of code that may wait although a lock is held stands between sn_checked_pass() and
 * sn_checked_pass_end(). Each has a comment that says why nothing is lost.
 *
 * What is not seen: a page fault; a wait by spinning; on machines other than x86_64, or where the
 * kernel has no system call user dispatch (before 5.11), system calls. What a signal handler does
 * while its thread holds a lock counts as done under the lock. That is intended.
 *
 * Everything is in thread-local storage, written by the thread alone. The functions are not
 * inlined, because a task that parks may be on another thread afterwards, while a compiler takes
 * the address of a thread-local to be the same for all of a function. No lock stays held across a
 * switch except that of an exclusive waiter (task/waiter.h), which is released on the same thread.
 */
#ifndef SENNIT_WAIT_CHECKED_H
#define SENNIT_WAIT_CHECKED_H

#include <stdbool.h>

#include "arch/compiler.h"
#include "wait/rank.h"

struct sn_lock;

#if SENNIT_CHECKED

/* Called before and after a lock is taken. The order is checked before, so that a deadlock becomes
 * a report instead of a hang. */
void sn_checked_lock(struct sn_lock *lock);
void sn_checked_locked(struct sn_lock *lock);
void sn_checked_unlock(struct sn_lock *lock);

/* The calling thread is about to sleep, or may be. what: in which call, for the message. */
void sn_checked_wait(const char *what);

/* A line is about to be written on stderr. Not with a lock held, even though there is no wait for
 * room: stderr may be a file on a slow device. */
void sn_checked_line(void);

/* Code of the program is about to be called, or returned to. */
void sn_checked_callback(const char *what);

/* The running task leaves its thread. The commit of its park then releases lock (NULL: none). */
void sn_checked_hand_over(struct sn_lock *lock);
void sn_checked_leave(void);

/* Begins and ends a stretch that may wait, on one thread, without a switch. Stretches nest. While a
 * lock is held that was taken within the stretch, waiting is an error again. */
void sn_checked_pass(void);
void sn_checked_pass_end(void);

/* From now on the calling thread must not wait: name is "the monitor" or the like. */
void sn_checked_thread(const char *name);

/* Whether system calls are checked on this machine. For tests. */
bool sn_checked_sees_calls(void);

/* Another thread waits for the calling one, without a bound: from now on, or no longer. Nests. */
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

/* From now on the calling thread's system calls are checked, or no longer. */
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
