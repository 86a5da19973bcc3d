/* SPDX-License-Identifier: MIT */
/*
 * Waiting for signals (signal.h).
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SIGNAL_HPP
#define SENNIT_SIGNAL_HPP

#include <sennit/signal.h>
#include <sennit/time.hpp>

namespace sennit
{

/* As sn_signal_catch(). */
inline result<void> catch_signal(int signum)
{
	return detail::nothing_or_error(sn_signal_catch(signum));
}

/* The number of a caught signal, once there is one; as sn_signal_wait(). May park. */
inline result<int> wait_signal(deadline until = no_deadline)
{
	const int signum = sn_signal_wait(detail::to_ns(until));
	if (signum < 0)
		return failure{-signum};
	return signum;
}

} // namespace sennit

#endif
