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
 * Reports an address that is used twice. An address without a host takes its port on every address
 * of the machine. Port 0 never conflicts, because it is a different port each time. Names are not
 * looked up.
 */
void check_addresses(complaints &to, const config &made, const toml::table &top,
		     const named_tables &tables);

/*
 * Reports backends that lead back to a listener: such a connection would be relayed again and
 * again, until no descriptors are left. The addresses must be well formed, and the groups must
 * exist.
 */
void check_circles(complaints &to, const config &made, const named_tables &tables);

} // namespace relay

#endif
