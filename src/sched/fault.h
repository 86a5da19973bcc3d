/* SPDX-License-Identifier: MIT */
/*
 * Reports of faults: SIGSEGV, SIGBUS and SIGABRT in a task are told on stderr, with the task, its stack,
 * how far outside of that the address lies, and a backtrace. So is a hit of a stack's guard by any thread.
 * Then the former action follows, be it a handler or the process's death; for all else at once.
 */
#ifndef SENNIT_SCHED_FAULT_H
#define SENNIT_SCHED_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the handlers, and puts the former ones back. tell_all: not only of overflows. */
void sn_fault_install(bool tell_all);
void sn_fault_uninstall(void);

struct sn_thread;

/*
 * Stall reports: catches the signal of SENNIT_STALL_SIGNAL, which makes a thread print its
 * backtrace; a signal that comes from elsewhere goes to the former handler. 0 or -EINVAL after a
 * line on stderr. Put back by sn_fault_uninstall().
 */
int sn_fault_catch_stalls(void);

/*
 * The monitor: makes the thread, which has been outside since its stays had that value, name its
 * task and print its backtrace. It does so itself, in the signal's handler: its task is its own.
 */
void sn_fault_report_stall(struct sn_thread *thread, uint32_t stay, int64_t stayed);

/* Of stalls; as sn_scan_own_signal(). */
int sn_fault_own_signal(void);

#endif
