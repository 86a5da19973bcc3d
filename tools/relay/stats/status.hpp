/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as JSON, for the web page and for scripts. docs/relay-operation.md describes names and
 * units. Fields are added, not renamed.
 */
#ifndef RELAY_STATUS_HPP
#define RELAY_STATUS_HPP

#include "stats/snapshot.hpp"

#include <string>

namespace relay
{

inline constexpr const char *status_type = "application/json";

/* The snapshot as one line, with a line end. */
std::string to_json(const snapshot &now);

} // namespace relay

#endif
