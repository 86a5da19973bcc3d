/* SPDX-License-Identifier: MIT */
/* The history of a task, or of several: each turn, wait and park, the tasks that they woke, and
 * their events. */
#ifndef TRACE_HISTORY_HPP
#define TRACE_HISTORY_HPP

#include "trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tracing
{

/* The history in the order of time. tasks: the result of find_tasks(); at least one. */
std::string history_text(const trace &of, const std::vector<std::uint32_t> &tasks);
std::string history_json(const trace &of, const std::vector<std::uint32_t> &tasks);

} // namespace tracing

#endif
