/* SPDX-License-Identifier: MIT */
/*
 * Active health checks of the endpoints of one pool (visitor.hpp). A check connects. If an answer
 * is expected, it also sends what is configured, and the answer must begin as expected. Connecting
 * and the answer together must not exceed the timeout.
 *
 * A shortage of the relay's own resources (descriptors, memory) does not count as a result, nor
 * does a result that arrives after the checks were stopped. The pool decides what a result means
 * for the endpoint (balance.hpp).
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

/* of_all: those that end when their backend is down, if the pool's settings say so: at once, or
 * after the time to drain. Null when the pool has no checks. In a task. Throws when it cannot be
 * started. */
std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts, sessions &of_all,
				      std::chrono::nanoseconds drain);

} // namespace relay

#endif
