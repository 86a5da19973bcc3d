/* SPDX-License-Identifier: MIT */
/*
 * The agents of the endpoints of one pool: each is asked once per interval (visitor.hpp,
 * agent_probe.hpp) how its endpoint is. What it says takes effect in the endpoint (agent_state.hpp,
 * balance.hpp).
 *
 * An agent that cannot be asked, or gives no answer, says nothing: its last answer stays. That is
 * an event once, and so is the next answer. Whether the backend itself is there is determined by
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

/* Of that backend; null: it has none. The endpoints of a name share it. */
agent_id agent_of(const group_config &group, const backend_config &of);

/* As watch_health() has them. Null when the pool has no agents. In a task. Throws when it cannot be
 * started. */
std::unique_ptr<watcher> watch_agents(std::shared_ptr<pool> of, sessions &of_all,
				      std::chrono::nanoseconds drain);

} // namespace relay

#endif
