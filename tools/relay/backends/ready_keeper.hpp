/* SPDX-License-Identifier: MIT */
/*
 * The keeper of a pool's ready connections (ready.hpp): keeps `preconnect` of them open to each
 * endpoint that clients are given.
 *
 * Each backend has a task (watcher.hpp). It wakes when a connection was taken, and otherwise about
 * once a second, to check the connections that wait. It closes those that the backend has closed or
 * written to, and those that have reached preconnect_age. The age is varied, so that connections
 * that were made together do not end together. It closes all connections of an endpoint that is
 * down, ejected, silent, drained or gone.
 *
 * At most most_at_once connections to an endpoint are made at a time. After a connection that could
 * not be made, or that the backend has closed within a second, the keeper pauses; the pause doubles
 * up to longest_pause until a connection turns out to be usable. A connection that could not be
 * made within longest_try does not count as a failure of the endpoint, because no client was
 * concerned: the endpoint is neither ejected nor down because of it. But its ready connections are
 * closed, because they may lead to a machine that is gone. A client that got one could not notice
 * that and would wait for an answer, while without a ready connection it would have been given
 * another endpoint.
 *
 * With TLS the handshake is made ahead, too, unless the group sends PROXY headers, which come
 * before it. The protocols that it offers (ALPN) are then the group's.
 */
#ifndef RELAY_READY_KEEPER_HPP
#define RELAY_READY_KEEPER_HPP

#include "backends/watcher.hpp"

#include <memory>

namespace relay
{

/* Starts the keeper. Returns null if the pool wants no ready connections. Call it in a task.
 * Throws if no task can be started. */
std::unique_ptr<watcher> watch_ready(std::shared_ptr<pool> of, ready_stock &stock);

} // namespace relay

#endif
