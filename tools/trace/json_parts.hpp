/* SPDX-License-Identifier: MIT */
/* The JSON that several answers have in common. Tasks are objects with an id, a name and a
 * group. */
#ifndef TRACE_JSON_PARTS_HPP
#define TRACE_JSON_PARTS_HPP

#include "find.hpp"
#include "json.hpp"
#include "trace.hpp"

#include <string_view>
#include <vector>

namespace tracing
{

/* "trace": what the answer is about. */
void put_trace(json &to, const trace &of);

/* The task, unless it is `none`. */
void put_task(json &to, std::string_view key, const trace &of, std::uint32_t task);

/* "woken_by": a task; or "woken_from": "timer", "network", "scheduler" or "thread". */
void put_waker(json &to, const trace &of, const stay &one);

/* "meanwhile": the tasks that ran on the processor, with "running_ns" of each; at most ten; and
 * "nobody_ns". */
void put_meanwhile(json &to, const trace &of, const stay &waited, const std::vector<share> &shares);

} // namespace tracing

#endif
