/* SPDX-License-Identifier: MIT */
/*
 * Asks the agent of each endpoint of a pool once per interval how its endpoint is (visitor.hpp,
 * agent_probe.hpp). The answer takes effect in the endpoint (agent_state.hpp, balance.hpp).
 *
 * If an agent cannot be asked, or gives no answer, its last answer stays in effect. The first such
 * failure is an event, and so is the next answer. Whether the backend itself is up is determined by
 * its checks.
 */
#ifndef RELAY_AGENTS_HPP
#define RELAY_AGENTS_HPP

#include "backends/agent_state.hpp"
#include "backends/watcher.hpp"
#include "config/config.hpp"
#include "stats/sessions.hpp"

#include <chrono>
#include <memory>

namespace relay
{

/* The agent of that backend; null if it has none. The endpoints of a name share it. */
agent_id agent_of(const group_config &group, const backend_config &of);

/* Starts asking. of_all and drain: as for watch_health(). Returns null if the pool has no
 * agents. Call it in a task. Throws if no task can be started. */
std::unique_ptr<watcher> watch_agents(std::shared_ptr<pool> of, sessions &of_all,
				      std::chrono::nanoseconds drain);

} // namespace relay

#endif
