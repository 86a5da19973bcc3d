/* SPDX-License-Identifier: MIT */
/*
 * The relay's open listeners and servers, and those that were replaced and have not ended yet.
 * serve() (server.hpp) owns this object. Only the task that has the turn to change the
 * configuration uses it.
 */
#ifndef RELAY_SERVING_HPP
#define RELAY_SERVING_HPP

#include "admin/admin.hpp"
#include "backends/watcher.hpp"
#include "sessions/listener.hpp"
#include "stats/events.hpp"

#include <memory>
#include <vector>

namespace relay
{

using listeners = std::vector<std::unique_ptr<listening>>;
using watchers = std::vector<std::unique_ptr<watcher>>;

/* The listeners and servers that serve now, and those that were replaced but have not ended yet. */
struct serving {
	listeners open;
	listeners retired;
	std::unique_ptr<admin_server> admin;   /* may be none */
	std::unique_ptr<admin_server> control; /* likewise */
	controller *control_by = nullptr;      /* carries out what the control server asks for */
	std::vector<std::unique_ptr<admin_server>> retired_admins;
	watchers watching; /* checks, agents, lookups, keepers */
	watchers retired_watching;
};

/* The kind of event when something cannot be opened: at the start the relay cannot serve without
 * it; later the reload fails. */
inline event_kind fault_of(const shared &all)
{
	return all.registry.ready() ? event_kind::config_error : event_kind::cannot_serve;
}

} // namespace relay

#endif
