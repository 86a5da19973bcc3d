/* SPDX-License-Identifier: MIT */
/*
 * The keys of the configuration file that listeners and groups have in common: keepalive and
 * bandwidth.
 */
#ifndef RELAY_CONFIG_LIMITS_HPP
#define RELAY_CONFIG_LIMITS_HPP

#include "config/config_section.hpp"

#include <string_view>

namespace relay
{

/* Reads `keepalive`. A duration instead of a table is the idle time. */
void read_keepalive(complaints &to, section &in, keepalive_config &into);

/* Reads a bandwidth. A number of bytes is the limit of each direction; a table has one for each. */
void read_bandwidth(complaints &to, section &in, std::string_view key, bandwidth_config &into);

} // namespace relay

#endif
