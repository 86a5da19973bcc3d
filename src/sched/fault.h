/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow reports: a fault in a stack's guard is told on stderr with the task's name and a
 * backtrace, before the process dies of SIGSEGV as it would have. All other faults go to whoever
 * handled them before.
 */
#ifndef SENNIT_SCHED_FAULT_H
#define SENNIT_SCHED_FAULT_H

/* Installs the handlers of SIGSEGV and SIGBUS, and puts the former ones back. */
void sn_fault_install(void);
void sn_fault_uninstall(void);

#endif
