/* SPDX-License-Identifier: MIT */
/*
 * The keys of a listener of UDP: those that only it has, those that mean nothing there, and what
 * its groups cannot have.
 */
#ifndef RELAY_CONFIG_UDP_HPP
#define RELAY_CONFIG_UDP_HPP

#include "config/config_section.hpp"

#include <vector>

namespace relay
{

/* Of any listener, after its other keys. */
void read_udp(section &in, const std::vector<group_config> &groups, listener_config &into);

} // namespace relay

#endif
