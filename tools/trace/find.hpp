/* SPDX-License-Identifier: MIT */
/* Finds things in a trace, such as a task by the name that the user gives, or what ran at a
 * time. */
#ifndef TRACE_FIND_HPP
#define TRACE_FIND_HPP

#include "trace.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracing
{

/* What a task can be parked for. */
enum class park_kind { lock, channel, io, time, tasks, other };
park_kind kind_of(std::string_view reason);
const char *to_text(park_kind kind);

/* Finds a task by its id, or by its name with the id; or all tasks of a group, by the name without
 * the id. */
std::vector<std::uint32_t> find_tasks(const trace &in, std::string_view name);

/* The last stay of a task that begins before the time, as an index into its stays; nothing if
 * none does. */
std::optional<std::size_t> stay_before(const trace &in, std::uint32_t task, std::int64_t time);

/* A task, and how long it ran. */
struct share {
	std::uint32_t task = none;
	std::int64_t time = 0;
};

/* The tasks that the processor ran between the times, the one that ran for longest first. */
std::vector<share> ran_meanwhile(const trace &in, std::uint32_t processor, std::int64_t from,
				 std::int64_t until);

/* For how much of a wait the processor ran no task. If this is long, the wake-up was later than
 * it seems (times are not exact while a task computes), or the processor's thread was slow to
 * wake. */
std::int64_t nobody_ran(const stay &waited, const std::vector<share> &meanwhile);

/* "hog 5 2.9 ms, session 8 100 µs, nobody 50 µs"; at most so many tasks. */
std::string to_text(const trace &in, const stay &waited, const std::vector<share> &meanwhile,
		    std::size_t most);

/* "processor 0" */
std::string processor_text(const trace &in, std::uint32_t processor);

/* The task's name in a form that can be shown; "" for no task. */
std::string name_of(const trace &in, std::uint32_t task);

/* The name of the task that has woken a task, or the origin of the wake-up. */
std::string waker_of(const trace &in, const stay &one);

/* The origin of a wake-up that no task has made: "a timer", "the network", "another thread". */
std::string root_text(const trace &in, const wake &one);

/* The rank, from 0, of the 99th percentile among n > 0 values. */
std::size_t p99_rank(std::size_t n);

/* The sum of two numbers that are not negative, or the largest number if it overflows. */
std::int64_t add(std::int64_t a, std::int64_t b);

} // namespace tracing

#endif
