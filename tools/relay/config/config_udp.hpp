/* SPDX-License-Identifier: MIT */
/*
 * UDP listeners: reads the keys that only they have, and reports the keys that mean nothing there,
 * and groups with settings that datagrams cannot have.
 */
#ifndef RELAY_CONFIG_UDP_HPP
#define RELAY_CONFIG_UDP_HPP

#include "config/config_section.hpp"

#include <vector>

namespace relay
{

/* For any listener, after its other keys have been read. */
void read_udp(section &in, const std::vector<group_config> &groups, listener_config &into);

} // namespace relay

#endif
