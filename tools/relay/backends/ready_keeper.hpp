/* SPDX-License-Identifier: MIT */
/*
 * The keeper of a pool's ready connections (ready.hpp): it has `preconnect` of them to each
 * endpoint that clients are given.
 *
 * Each backend has a task (watcher.hpp). It wakes when a connection was taken, and otherwise about
 * once a second, to look at those that wait: what the backend has closed or written to is closed,
 * and so are those that have reached preconnect_age. They reach it at different times, also if they
 * were made at the same. It closes all of an endpoint that is down, ejected, silent, drained or
 * gone.
 *
 * At most most_at_once connections to an endpoint are made at a time. After one that could not be
 * made, or that the backend has closed within a second, there is a pause, which doubles up to
 * longest_pause until a connection turns out to be of use. What could not be made, within
 * longest_try, is no failure of the endpoint, because no client was concerned: nothing is ejected
 * or down by it. But those that are ready are closed, because they may lead to a machine that is
 * gone, and no client could tell: it would wait for an answer where without them it would have been
 * given another endpoint.
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

/* Null when the pool wants none. In a task. Throws when it cannot be started. */
std::unique_ptr<watcher> watch_ready(std::shared_ptr<pool> of, ready_stock &stock);

} // namespace relay

#endif
