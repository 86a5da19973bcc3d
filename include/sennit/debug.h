/* SPDX-License-Identifier: MIT */
/*
 * What a program can tell the library, for it to find the program's mistakes.
 *
 * Foreign locks. A pthread mutex, or a std::mutex, belongs to the thread that has locked it. A task
 * that parks while it holds one may go on on another thread, and meanwhile lets tasks run that block
 * this one when they want the mutex: an error at best, a deadlock at worst. The library cannot see
 * such locks by itself: their owner is known only to themselves. When it is told, builds with
 * SENNIT_DEBUG end the program, with the call's name, when a task parks with one.
 *
 * LD_PRELOAD=libsennit-lock-check.so, which is installed beside the library, tells it of all pthread
 * mutexes and rwlocks in a program that is linked dynamically; wrappers of other locks can do so too.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_DEBUG_H
#define SENNIT_DEBUG_H

#include <sennit/base.h>

SN_BEGIN

/*
 * The calling thread has locked (by = 1) or unlocked (by = -1) so many locks that belong to threads.
 * Any thread; does not park. Without SENNIT_DEBUG in the library it does nothing.
 */
SN_API void sn_debug_foreign_locks(int by);

/*
 * Writes what every task does to a descriptor: its id, name, state and for how long, what it waits for,
 * where it was spawned, and a backtrace with names. Tasks that stand at the same place in the same state
 * are told together, with the first SENNIT_DUMP_TASKS (default 20) of them listed, so that a million can
 * be told. Nothing is stopped: each task is kept from running for the microseconds that its backtrace
 * takes; one in foreign code is interrupted by a signal (scan.h), and told without a backtrace when it
 * does not answer within a tenth of a second. On 32-bit ARM, compile C with -funwind-tables, or the
 * backtrace ends at the first function without.
 *
 * SIGQUIT, which a terminal sends for ctrl-\, does the same to stderr, also when every processor is kept
 * by foreign code, and the program goes on. SENNIT_DUMP_SIGNAL gives another number, 0: none. A signal that
 * the program has a handler for, or has itself ignored, when sn_run() is called is left alone. One that was
 * ignored already when the program began is caught: a script that starts a program with `&` has SIGQUIT
 * ignored there. So is an ignored one that SENNIT_DUMP_SIGNAL names. Until sn_run() returns, what the
 * program executes starts with the default action instead of ignoring it.
 *
 * Any thread; does not park, but takes some 10 us a task. Allocates nothing from the heap. Returns 0;
 * -EBUSY when another dump is under way; -ENOMEM; -ESRCH when no runtime runs; -EDEADLK in a scan's
 * callback; or the error of write().
 */
SN_API int sn_dump(int fd);

/*
 * Faults. SIGSEGV, SIGBUS and SIGABRT (abort(), std::terminate()) in a task are told on stderr: the task, its
 * stack, how far outside of it the address lies and whose stack that is, where the task was spawned, and a
 * backtrace. Then follows what would have without sennit: the handler that the program, or a sanitizer, had
 * when sn_run() was called, with all that the kernel has told, or the process's death. Of each of the three
 * signals only the first is told in a run, as a program that lives on handles them on purpose, and every
 * overflow of a stack. SENNIT_FAULT_REPORTS=0 leaves only the overflows. A handler that is installed while
 * sn_run() runs takes the place of the report. On threads of the program's own nothing is told, unless they
 * hit the guard of a task's stack.
 *
 * A task that ends its thread, by pthread_exit(), or whose thread another ends by pthread_cancel(), takes with
 * it what the runtime has there: that is told with the task's name, and the process aborted. (exit() and
 * _exit() are fine. A system call of exit that goes round the C library is not noticed: who joins the task
 * waits for ever.)
 */

/*
 * Deadlocks. When every task is parked and nothing is left that could wake one (no timer, no descriptor or
 * signal waited for, no call into foreign code, no thread and no signal handler of the program's own, which
 * might do so), the
 * runtime says so on stderr after some tenths of a second, dumps all tasks and ends the process with
 * status 2. SENNIT_DEADLOCK=0 in the environment lets it be. Where a task is pinned nothing is reported.
 */
typedef void sn_deadlock_hook(void *arg);

/*
 * Calls fn(arg) instead, on the runtime's monitor thread; NULL: no longer. It may wake tasks; if it does
 * not, they stay as they are, and it is not called again. Any thread, also before sn_run().
 */
SN_API void sn_on_deadlock(sn_deadlock_hook *fn, void *arg);

SN_END

#endif
