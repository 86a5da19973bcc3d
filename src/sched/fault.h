/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow reports: a fault in a stack's guard is told on stderr with the task's name and a
 * backtrace, before the process dies of SIGSEGV as it would have. All other faults go to whoever
 * handled them before.
 */
#ifndef SENNIT_SCHED_FAULT_H
#define SENNIT_SCHED_FAULT_H

#include <stdint.h>

/* Installs the handlers of SIGSEGV and SIGBUS, and puts the former ones back. */
void sn_fault_install(void);
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

#endif
