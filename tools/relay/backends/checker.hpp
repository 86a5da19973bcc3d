/* SPDX-License-Identifier: MIT */
/*
 * Active health checks of the endpoints of one pool (visitor.hpp). A check connects. If an answer
 * is expected, the check also sends the configured text, and the answer must begin as expected. All
 * of this must end within the timeout.
 *
 * A shortage of the relay's own resources (descriptors, memory) does not count as a result, nor
 * does a result that arrives after the checks were stopped. A first check for which clients may be
 * waiting is tried again soon after a shortage. The pool decides what a result means for the
 * endpoint (balance.hpp).
 */
#ifndef RELAY_CHECKER_HPP
#define RELAY_CHECKER_HPP

#include "backends/watcher.hpp"
#include "stats/counters.hpp"
#include "stats/sessions.hpp"

#include <chrono>
#include <memory>

namespace relay
{

/* Starts the checks. of_all: the sessions; if the pool's settings say so, those of a backend
 * that is down end, immediately or after `drain`. Returns null if the pool has no checks. Call
 * it in a task. Throws if no task can be started. */
std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts, sessions &of_all,
				      std::chrono::nanoseconds drain);

} // namespace relay

#endif
