/* SPDX-License-Identifier: MIT */
/*
 * Finding the program's mistakes: foreign locks, dumps, faults and deadlocks.
 *
 * Foreign locks. A pthread mutex, or a std::mutex, belongs to the thread that has locked it. A task
 * that parks while it holds one may continue on another thread. While it is parked, other tasks run
 * on its thread, and block the thread if they want the mutex: an error at best, a deadlock at
 * worst. The library cannot see such locks by itself, because only the lock knows its owner. Once
 * it is notified of them, builds with SENNIT_DEBUG end the program, with the call's name, when a
 * task parks with one.
 *
 * LD_PRELOAD=libsennit-lock-check.so, which is installed beside the library, reports all pthread
 * mutexes and rwlocks of a dynamically linked program to it; wrappers of other locks can do so,
 * too.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_DEBUG_H
#define SENNIT_DEBUG_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Tells the library that the calling thread has locked (by = 1) or unlocked (by = -1) that many
 * locks that belong to threads. Any thread; does not park. Without SENNIT_DEBUG in the library it
 * does nothing.
 */
SN_API void sn_debug_foreign_locks(int by);

/*
 * Writes to a descriptor what every task does: its id, name, state and for how long, what it waits
 * for, its labels (sn_label() in profile.h), where it was spawned, and a backtrace with names.
 * Tasks at the same place in the same state are printed together, with the first SENNIT_DUMP_TASKS
 * (default 20) of them listed, so that a million can be printed. Nothing is stopped: each task is
 * kept from running for the microseconds that its backtrace takes. A task in foreign code is
 * interrupted by a signal (scan.h), and printed without a backtrace when it does not answer within
 * a tenth of a second. On 32-bit ARM, compile C with -funwind-tables, or the backtrace ends at the
 * first function without them.
 *
 * SIGQUIT, which a terminal sends for ctrl-\, does the same to stderr, also when foreign code keeps
 * every processor, and the program continues. SENNIT_DUMP_SIGNAL sets another number; 0: none. A
 * signal that the program itself handles or ignores when sn_run() is called is left alone. But a
 * signal that was ignored already when the program began is caught, because a script that starts a
 * program with `&` has SIGQUIT ignored there. So is an ignored signal that SENNIT_DUMP_SIGNAL
 * names. Until sn_run() returns, programs that this one executes then start with the default action
 * for the signal, instead of ignoring it.
 *
 * Any thread; does not park, but takes some 10 us a task. Allocates nothing from the heap. Returns
 * 0; -EBUSY when another dump is under way; -ENOMEM; -ESRCH when no runtime runs; -EDEADLK in a
 * scan's callback; or the error of write().
 */
SN_API int sn_dump(int fd);

/*
 * Writes to a descriptor what the library asks of the kernel, a line for each feature: which way
 * the library takes in this process and, where that is a fallback, which one it would take on a
 * newer kernel, or without a filter of system calls. docs/kernels.md says what each costs. Tries
 * some system calls for that, with arguments that change nothing, so a filter that kills the
 * process for an unknown call does so here. It also makes the choices that a first sn_run() would
 * make.
 *
 * Any thread, with and without a run; does not park. Returns 0 or the error of write().
 */
SN_API int sn_kernel_report(int fd);

/*
 * Faults. SIGSEGV, SIGBUS and SIGABRT (abort(), std::terminate()) in a task are reported on stderr:
 * the task, its stack, how far outside it the address lies and whose stack that is, where the task
 * was spawned, and a backtrace. Then follows what would have happened without sennit: the handler
 * that the program, or a sanitizer, had when sn_run() was called, with all that the kernel
 * reported, or the process's death. In a run, only the first of each of the three signals is
 * reported, because a program that survives them handles them on purpose; every stack overflow is
 * reported. SENNIT_FAULT_REPORTS=0 leaves only the overflows. A handler that is installed while
 * sn_run() runs replaces the report. On threads of the program's own nothing is reported, unless
 * they hit the guard of a task's stack. One report is made at a time. If another thread's report
 * does not end for five seconds, a single line names the signal and the task instead.
 *
 * If a task ends its thread by pthread_exit(), or another thread ends it by pthread_cancel(), the
 * state that the runtime keeps there would be destroyed. That is reported with the task's name, and
 * the process aborts. (exit() and _exit() are fine. A system call of exit that bypasses the C
 * library is not noticed: a task that joins this one waits forever.)
 */

/*
 * Deadlocks. The runtime detects that every task is parked and that nothing is left that could wake
 * one: no timer, no descriptor or signal waited for, no call into foreign code, and no thread or
 * signal handler of the program's own, which might do so. After some tenths of a second it says so
 * on stderr, dumps all tasks and ends the process with status 2. SENNIT_DEADLOCK=0 in the
 * environment turns that off. Nothing is reported while a task is pinned.
 */
typedef void sn_deadlock_hook(void *arg);

/*
 * Has a deadlock call fn(arg) instead, on a thread that is made for it, with all signals blocked;
 * NULL restores the default. fn may wake tasks; if it does not, the tasks stay as they are, and fn
 * is not called again. fn may block. The end of the run waits a second for it, and then leaves its
 * thread behind. Any thread, also before sn_run().
 */
SN_API void sn_on_deadlock(sn_deadlock_hook *fn, void *arg);

SN_END

#endif
