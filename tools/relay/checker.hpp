/* SPDX-License-Identifier: MIT */
/*
 * Asks the backends of one pool whether they are well, each from a task of its own (watcher.hpp). A
 * question is a connect; with something to expect, also what is sent, and an answer that begins with
 * it. Connect and answer together may take the timeout. Of a backend by name each question is for one
 * of its addresses, in turn, and for the next one when that cannot be connected to.
 *
 * The first question is asked at once, the next one an interval after the last one began, or as soon
 * as that is over if it took longer. A shortage of the relay's own (descriptors, memory) is no
 * answer, nor is one that comes after the end. What an answer means for the backend is the pool's
 * (balance.hpp).
 */
#ifndef RELAY_CHECKER_HPP
#define RELAY_CHECKER_HPP

#include "counters.hpp"
#include "watcher.hpp"

#include <memory>

namespace relay
{

/* None when the pool has no checks. In a task. Throws when it cannot be started. */
std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts);

} // namespace relay

#endif
