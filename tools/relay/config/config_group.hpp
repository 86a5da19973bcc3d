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

/* Registers the keys of tables that the file may lack, so that the message for a misplaced key
 * can name the table that it belongs to. */
void learn_keys(complaints &to);

/* Reports a group whose connections cannot be made ahead of the listener's clients. Call it
 * after the listener's tls and its groups have been read. */
void check_preconnect(section &in, const std::vector<group_config> &groups,
		      const listener_config &of);

} // namespace relay

#endif
