/* SPDX-License-Identifier: MIT */
/*
 * The checked build (SENNIT_CHECKED), which finds threads that wait while others need them.
 *
 * Contract. In this build each of the following ends the process, with a message on stderr that
 * names the locks and the call, and a backtrace:
 *   - a thread takes a lock against the order of rank.h, or one that has no line there;
 *   - a thread that holds a lock or must not wait (the monitor) makes a system call that may wait,
 *     in the runtime or in code of the program that the runtime calls (system_call.c);
 *   - such a thread sleeps on a futex of src/wait, except for the next lock;
 *   - a task parks, yields or ends with a lock held other than the one that its commit releases;
 *   - such a thread calls a callback of the program.
 * A thread that the end of the run waits for (sched/foreign.h) must not wait either.
 * In other builds nothing of this exists: the functions below are empty, and the macros vanish.
 *
 * A stretch of code that may wait although a lock is held stands between sn_checked_pass() and
 * sn_checked_pass_end(). Each such stretch has a comment that says why that does no harm.
 *
 * The build does not see page faults and waits by spinning; nor system calls on machines other than
 * x86_64, or where the kernel has no system call user dispatch (before 5.11). What a signal handler
 * does while its thread holds a lock counts as done under the lock. That is intended.
 *
 * All state is in thread-local storage, which only the thread itself writes. The functions are not
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

/* The calling thread is about to make a call in which it may sleep. what: the name of the call, for
 * the message. */
void sn_checked_wait(const char *what);

/* The calling thread is about to write a line on stderr. It must not hold a lock, even though it
 * does not wait for room: stderr may be a file on a slow device. */
void sn_checked_line(void);

/* The calling thread is about to call code of the program. */
void sn_checked_callback(const char *what);

/* The running task is about to leave its thread; the commit of its park releases the lock (NULL:
 * none). sn_checked_leave() is called at the switch itself. */
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

/* A garbage collector is installed. From now on, the handler of its signal may suspend any thread,
 * because the collecting thread, for which it waits, takes no lock of the runtime meanwhile. */
void sn_checked_collector(void);

/* From now on another thread waits for the calling one without a bound (begins), or no longer does.
 * Calls nest. */
void sn_checked_needed(bool begins);

/* Prints the backtrace of a context, which is a ucontext_t. stack_high: an address up to which the
 * stack is known to be mapped. A layer above sets it. */
extern void (*sn_checked_backtrace)(const void *context, const void *stack_high);

/* ---- for system_call.c ---- */

/* Whether the calling thread may now wait, and whether it may allocate memory. */
bool sn_checked_may_wait(void);
bool sn_checked_may_allocate(void);

/* What the calling thread is, for a message: "the monitor" or the like. */
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

static inline void sn_checked_collector(void) {}

#endif
#endif
