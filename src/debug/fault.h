/* SPDX-License-Identifier: MIT */
/*
 * Reports of faults: SIGSEGV, SIGBUS and SIGABRT in a task are told on stderr, with the task, its stack,
 * how far outside of that the address lies, and a backtrace. So is a hit of a stack's guard by any thread.
 * Then the former action follows, be it a handler or the process's death; for all else at once.
 */
#ifndef SENNIT_DEBUG_FAULT_H
#define SENNIT_DEBUG_FAULT_H

#include <stdbool.h>

/* Installs the handlers, and puts the former ones back. tell_all: not only of overflows. */
void sn_fault_install(bool tell_all);
void sn_fault_uninstall(void);

#endif
