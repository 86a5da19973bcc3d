/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as text that Prometheus reads (its exposition format, 0.0.4). The metrics, and what
 * they mean, are in docs/relay-operation.md, and in the HELP line of each.
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
