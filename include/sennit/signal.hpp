/* SPDX-License-Identifier: MIT */
/*
 * Waiting for signals (signal.h).
 *
 * Only wait_signal() parks. A signal stays caught until the run ends, which restores the previous
 * dispositions. Of a channel that gets signals the runtime keeps a reference until stop_signals()
 * or the end of the run, so the caller's handle may go earlier. A signal that comes while no task
 * waits for it, and no channel gets it, is kept; several of the same number become one.
 *
 * All errors are results: operation_not_supported outside a task, and those of signal.h.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SIGNAL_HPP
#define SENNIT_SIGNAL_HPP

#include <initializer_list>

#include <sennit/channel.hpp>
#include <sennit/signal.h>
#include <sennit/time.hpp>

namespace sennit
{

/* Catches a signal; as sn_signal_catch(). */
inline result<void> catch_signal(int signum)
{
	return detail::nothing_or_error(sn_signal_catch(signum));
}

/* Waits for any caught signal and returns its number; as sn_signal_wait(). May park. */
inline result<int> wait_signal(time_limit until = no_deadline)
{
	const int signum = sn_signal_wait(detail::to_ns(until));
	if (signum < 0)
		return detail::failed(signum);
	return signum;
}

/* The same for some of the caught signals; as sn_signal_wait_for(). May park. */
inline result<int> wait_signal(std::initializer_list<int> signums, time_limit until = no_deadline)
{
	const int signum =
		sn_signal_wait_for(signums.begin(), signums.size(), detail::to_ns(until));
	if (signum < 0)
		return detail::failed(signum);
	return signum;
}

/* Catches the signals and sends each that arrives to the channel, for select() for example; as
 * sn_signal_send_to(). The channel has a buffer. */
inline result<void> send_signals(const channel<int> &to, std::initializer_list<int> signums)
{
	return detail::nothing_or_error(
		sn_signal_send_to(to.get(), signums.begin(), signums.size()));
}

/* Sends no more signals to the channel; as sn_signal_stop(). */
inline result<void> stop_signals(const channel<int> &to)
{
	return detail::nothing_or_error(sn_signal_stop(to.get()));
}

} // namespace sennit

#endif
