/* SPDX-License-Identifier: MIT */
/*
 * Compares the addresses of a configuration: two listeners cannot have the same one, and
 * connections must not come back to a listener.
 */
#ifndef RELAY_CONFIG_ADDRESSES_HPP
#define RELAY_CONFIG_ADDRESSES_HPP

#include "config/config_section.hpp"

#include <string>
#include <utility>
#include <vector>

namespace relay
{

/* [listeners.NAME], in the order of config::listeners. */
using named_tables = std::vector<std::pair<std::string, const toml::table *>>;

/*
 * An address can be listened on only once, and every address of a port is all of them. Port 0 is a
 * different port each time. Names are not looked up.
 */
void check_addresses(complaints &to, const config &made, const toml::table &top,
		     const named_tables &tables);

/*
 * A connection that comes back is relayed again and again, until no descriptors are left. The
 * addresses must be well formed, and the groups must exist.
 */
void check_circles(complaints &to, const config &made, const named_tables &tables);

} // namespace relay

#endif
