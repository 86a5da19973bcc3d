/* SPDX-License-Identifier: MIT */
/*
 * Active health checks of the backends of one pool, each backend in a task of its own
 * (watcher.hpp). A check connects. If an answer is expected, it also sends what is configured, and
 * the answer must begin as expected. Connecting and the answer together must not exceed the
 * timeout. For a backend that is given by name, each check uses one of its addresses in turn, and
 * tries the next one if it cannot be connected to.
 *
 * The first check starts at once. The next one starts an interval after the start of the previous
 * one, or as soon as that has ended if it took longer. A shortage of the relay's own resources
 * (descriptors, memory) does not count as a result, nor does a result that arrives after the checks
 * were stopped. The pool decides what a result means for the backend (balance.hpp).
 */
#ifndef RELAY_CHECKER_HPP
#define RELAY_CHECKER_HPP

#include "counters.hpp"
#include "watcher.hpp"

#include <memory>

namespace relay
{

/* Null when the pool has no checks. In a task. Throws when it cannot be started. */
std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts);

} // namespace relay

#endif
