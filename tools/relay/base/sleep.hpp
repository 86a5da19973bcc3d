/* SPDX-License-Identifier: MIT */
/*
 * Sleeps that a lack of memory does not shorten. sn_sleep() returns after a millisecond at most if
 * there is no memory for it, and sn::sleep() then throws, which would end a task that only wanted
 * to try again a little later. Nothing in the relay calls these two, except base/untimed.cc. And
 * waits for the end of a task, which throws in the same way.
 */
#ifndef RELAY_SLEEP_HPP
#define RELAY_SLEEP_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>

namespace relay
{

/* Sleeps until then, or until the calling task is cancelled. Call it in a task. May park. */
void sleep_fully_until(sn::deadline then) noexcept;

/* The same for that time from now. */
inline void sleep_fully(std::chrono::nanoseconds time) noexcept
{
	sleep_fully_until(sn::after(time));
}

/*
 * Waits for the end of a task, at most until then: true when it has ended. Without memory for a
 * timer, it looks ten times a second. Throws when the calling task is cancelled. May park.
 */
bool ends_by(sn::task<void> &which, sn::deadline until);

} // namespace relay

#endif
