/* SPDX-License-Identifier: MIT */
/*
 * Reports of faults.
 *
 * Contract. SIGSEGV, SIGBUS and SIGABRT in a task are reported on stderr, with the task, its stack,
 * how far outside of the stack the address lies, and a backtrace. So is a hit of a stack's guard by
 * any thread. Then the previous disposition applies: the program's handler, or the default, which
 * ends the process. In all other cases it applies without a report.
 *
 * Who may write what: the previous actions, sn_fault_install(), while no thread of the run exists;
 * which of them are spent, and which signals were reported, any handler, atomically; the report,
 * the reporter (report.h).
 */
#ifndef SENNIT_DEBUG_FAULT_H
#define SENNIT_DEBUG_FAULT_H

#include <stdbool.h>

/* Install the handlers, and restore the previous ones. If not all_faults, only overflows are
 * reported. */
void sn_fault_install(bool all_faults);
void sn_fault_uninstall(void);

#endif
