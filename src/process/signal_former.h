/* SPDX-License-Identifier: MIT */
/*
 * What the library's signal handler does with a signal of an instruction. Both functions are for
 * that handler.
 */
#ifndef SENNIT_PROCESS_SIGNAL_FORMER_H
#define SENNIT_PROCESS_SIGNAL_FORMER_H

#include <signal.h>
#include <stdbool.h>

/* Whether the kernel sends it for an instruction of the interrupted thread, not for a call such as
 * kill(). */
bool sn_signal_is_of_an_instruction(int signum, const siginfo_t *info);

/* Gives it to the action that was there before the library's. */
void sn_signal_give_back(const struct sigaction *action, int signum, siginfo_t *info,
			 void *context);

#endif
