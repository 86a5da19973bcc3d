/* SPDX-License-Identifier: MIT */
/* The keys `tls` of listeners and groups in the configuration file. For config*.cc. */
#ifndef RELAY_CONFIG_TLS_HPP
#define RELAY_CONFIG_TLS_HPP

#include "config/config_section.hpp"

#include <string>

namespace relay
{

/* Each reads the key `tls`, if there is one. In a relay that is built without TLS the key is an
 * error. */
void read_listener_tls(complaints &to, section &in, listener_config &into);
void read_group_tls(complaints &to, section &in, group_config &into);

/* Whether the text can be the name of a protocol (ALPN). */
bool is_protocol(const std::string &text);

} // namespace relay

#endif
