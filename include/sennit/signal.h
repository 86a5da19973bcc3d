/* SPDX-License-Identifier: MIT */
/*
 * Waiting for signals in a task.
 *
 * Threads outside the runtime: none: they return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_SIGNAL_H
#define SENNIT_SIGNAL_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Catches a signal for sn_signal_wait() from now on, until sn_run() returns, which restores the
 * former disposition. Returns 0, -EINVAL for a signal that cannot be caught or that the runtime
 * needs (SIGSEGV, SIGBUS), -ENOTSUP outside a task. Does not park.
 */
SN_API int sn_signal_catch(int signum);

/*
 * Waits for a caught signal and returns its number. Each delivery wakes one waiter; deliveries of
 * one signal that nobody was waiting for merge into one. Errors: -ETIMEDOUT past the deadline,
 * -EBUSY when another task is waiting, -EINVAL when no signal was ever caught in this run, -ENOTSUP
 * outside a task. May park.
 */
SN_API int sn_signal_wait(int64_t deadline);

SN_END

#endif
