/* SPDX-License-Identifier: MIT */
/* A sleep that a lack of memory does not shorten. */
#ifndef RELAY_SLEEP_HPP
#define RELAY_SLEEP_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

namespace relay
{

/* Sleeps until then, or until the calling task is cancelled. sn_sleep_until() returns after a
 * millisecond at most if there is no memory for it. Call it in a task. May park. */
inline void sleep_fully_until(sn::deadline then) noexcept
{
	do
		sn_sleep_until(then.time_since_epoch().count());
	while (sn::now() < then && !sn::cancelled());
}

} // namespace relay

#endif
