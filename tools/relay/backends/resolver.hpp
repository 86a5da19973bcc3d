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

/* Null when no backend of the pool is given by name. In a task. Throws when it cannot be
 * started. */
std::unique_ptr<watcher> watch_names(std::shared_ptr<pool> of);

} // namespace relay

#endif
