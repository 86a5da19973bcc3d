/* SPDX-License-Identifier: MIT */
/*
 * Waiting for signals in a task, or receiving them from a channel, which may be a case of a select.
 *
 *	static const int quit[] = {SIGINT, SIGTERM}, reload[] = {SIGHUP};
 *	sn_chan_of(int) signals;
 *
 *	sn_chan_new_of(&signals, 4);
 *	sn_signal_send_to(sn_untyped(signals), quit, 2);
 *	sn_signal_send_to(sn_untyped(signals), reload, 1);
 *
 * A caught signal goes to each channel that was given to sn_signal_send_to() for it. If there is
 * none, it goes to the task that has waited for it for the longest time; if no task waits, it stays
 * pending until a task or a channel asks for it. Deliveries of one signal merge into one until it
 * has been passed on, as they do in the kernel.
 *
 * Threads outside the runtime: none: they return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_SIGNAL_H
#define SENNIT_SIGNAL_H

#include <signal.h> /* SIGTERM and the others */

#include <sennit/base.h>
#include <sennit/channel.h>

SN_BEGIN

/*
 * Catches a signal from now on, until sn_run() returns, which restores the previous disposition.
 * Returns 0, -EINVAL for a signal that cannot be caught or that the runtime needs (SIGSEGV,
 * SIGBUS); -EMFILE, -ENFILE or -ENOMEM, for the first signal of a run; -ENOTSUP outside a task.
 * Does not park.
 *
 * SIGILL, SIGFPE and SIGTRAP are caught as far as they are sent, by kill() for example. When an
 * instruction of this process causes one, no task learns of it: it goes to the previous handler,
 * and if there was none, the process ends. On x86 the SIGTRAP of an int3 is caught, too.
 */
SN_API int sn_signal_catch(int signum);

/*
 * Waits for any caught signal and returns its number. Several tasks may wait; each delivery wakes
 * one of them. Errors: -ETIMEDOUT past the deadline; -ECANCELED or another reason, when the task's
 * scope is cancelled (scope.h); -EINVAL when no signal was ever caught in this run; -ENOTSUP
 * outside a task. May park.
 */
SN_API int sn_signal_wait(int64_t deadline);

/* Waits for one of the given signals, which must have been caught. Also -EINVAL when n is 0, or one
 * of them has not been caught. May park. */
SN_API int sn_signal_wait_for(const int *signums, size_t n, int64_t deadline);

/*
 * Catches the signals, and from now on sends the number of each that arrives to the channel, in
 * addition to signals that the channel gets already. The channel's elements are ints, without
 * functions of their own, and it has a buffer: a signal that finds the buffer full is dropped for
 * this channel. Signals that are pending are sent to it immediately. The runtime keeps a reference
 * to the channel until sn_signal_stop(), or until sn_run() returns. Returns 0; -EINVAL for another
 * kind of channel, NULL, an n of 0, or a signal as above; -ENOMEM and others as sn_signal_catch(),
 * after which the channel gets none of them. Does not park.
 */
SN_API int sn_signal_send_to(sn_chan *chan, const int *signums, size_t n);

/* Sends no more signals to the channel. They stay caught. Returns 0, also when it got none; -EINVAL
 * for NULL. Does not park. */
SN_API int sn_signal_stop(sn_chan *chan);

SN_END

#endif
