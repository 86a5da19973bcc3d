/* SPDX-License-Identifier: MIT */
/*
 * Looks up the backends of a pool that are given by name (names.hpp), periodically.
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
