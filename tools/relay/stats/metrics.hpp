/* SPDX-License-Identifier: MIT */
/*
 * A snapshot in Prometheus' text exposition format, 0.0.4. docs/relay-operation.md describes the
 * metrics, and so does the HELP line of each.
 */
#ifndef RELAY_METRICS_HPP
#define RELAY_METRICS_HPP

#include "stats/snapshot.hpp"

#include <string>

namespace relay
{

inline constexpr const char *metrics_type = "text/plain; version=0.0.4; charset=utf-8";

/*
 * There can be many backends, and each metric is a time series for each of them. usual: four
 * metrics of each backend, one more if it is a name, and states for each group; less than 100 KB
 * for 200 backends. full: all metrics.
 */
enum class metrics_detail : unsigned char { usual, full };

std::string to_metrics(const snapshot &now, metrics_detail detail = metrics_detail::usual);

} // namespace relay

#endif
