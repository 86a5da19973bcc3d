/* SPDX-License-Identifier: MIT */
/*
 * A snapshot in Prometheus' text exposition format, 0.0.4. docs/relay-operation.md describes the
 * metrics, and so does the HELP line of each.
 */
#ifndef RELAY_METRICS_HPP
#define RELAY_METRICS_HPP

#include "snapshot.hpp"

#include <string>

namespace relay
{

inline constexpr const char *metrics_type = "text/plain; version=0.0.4; charset=utf-8";

std::string to_metrics(const snapshot &now);

} // namespace relay

#endif
