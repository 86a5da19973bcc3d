/* SPDX-License-Identifier: MIT */
/*
 * The checks and the agents of the configuration file: [groups.NAME.check], [groups.NAME.agent].
 */
#ifndef RELAY_CONFIG_CHECK_HPP
#define RELAY_CONFIG_CHECK_HPP

#include "config/config_section.hpp"

namespace relay
{

/* Takes all keys of [groups.NAME.check]. */
void read_check(section in, check_config &into);

/* Takes all keys of [groups.NAME.agent]. */
void read_agent(section in, agent_config &into);

/* Takes `port` and `address`, the place that a check connects to. */
void read_check_place(section &in, check_place &into);

/* Takes the text to send to an agent. Returns false if there is none. */
bool read_agent_send(section &in, std::string &into);

} // namespace relay

#endif
