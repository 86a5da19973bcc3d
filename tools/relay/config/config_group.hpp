/* SPDX-License-Identifier: MIT */
/*
 * The groups of the configuration file: [groups.NAME], with its backends and their checks.
 */
#ifndef RELAY_CONFIG_GROUP_HPP
#define RELAY_CONFIG_GROUP_HPP

#include "config/config_section.hpp"

#include <vector>

namespace relay
{

/* Takes all keys of the group's table. */
void read_group(complaints &to, section &in, group_config &group);

/* The keys of tables that a file may not have, for what is said of keys in other tables. */
void learn_keys(complaints &to);

/* Whether connections to the listener's groups can be made ahead of its clients. After its tls and
 * its groups have been read. */
void check_preconnect(section &in, const std::vector<group_config> &groups,
		      const listener_config &of);

} // namespace relay

#endif
