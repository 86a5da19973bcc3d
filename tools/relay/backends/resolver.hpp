/* SPDX-License-Identifier: MIT */
/*
 * Looks up the backends of a pool that are given by name, periodically. Each name has a task
 * (watcher.hpp), which waits for a lookup to end before it asks again. names.hpp says what a result
 * means; resolver.cc counts the answers that a name does not exist.
 */
#ifndef RELAY_RESOLVER_HPP
#define RELAY_RESOLVER_HPP

#include "backends/watcher.hpp"

#include <memory>

namespace relay
{

/* Starts the lookups. Returns null if no backend of the pool is given by name. Call it in a
 * task. Throws if no task can be started. */
std::unique_ptr<watcher> watch_names(std::shared_ptr<pool> of);

} // namespace relay

#endif
