/* SPDX-License-Identifier: MIT */
/*
 * The checks and the agents of the configuration file: [groups.NAME.check], [groups.NAME.agent].
 */
#ifndef RELAY_CONFIG_CHECK_HPP
#define RELAY_CONFIG_CHECK_HPP

#include "config/config_section.hpp"

namespace relay
{

/* Takes all keys of the table. */
void read_check(section in, check_config &into);

/* The same of agents. */
void read_agent(section in, agent_config &into);

/* Takes port and address, where a check connects to. */
void read_check_place(section &in, check_place &into);

/* Takes what an agent is to be sent; false: nothing. */
bool read_agent_send(section &in, std::string &into);

} // namespace relay

#endif
