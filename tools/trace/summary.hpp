/* SPDX-License-Identifier: MIT */
/*
 * A summary of a trace: how busy the processors were, and where tasks waited, were parked, kept a
 * processor, or lost one.
 */
#ifndef TRACE_SUMMARY_HPP
#define TRACE_SUMMARY_HPP

#include "find.hpp"
#include "trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracing
{

struct processor_row {
	std::string_view name;
	std::int64_t recorded = 0;
	std::int64_t running = 0;
	std::int64_t idle = 0;
	std::size_t turns = 0;
	std::size_t steals = 0;
	std::size_t revoked = 0;
};

/* The stays of one kind of the tasks of one group. */
struct stay_row {
	std::string_view group;
	std::string_view reason; /* what the park was for */
	std::size_t tasks = 0;
	std::size_t times = 0;
	std::int64_t total = 0;
	const stay *longest = nullptr;
};

struct wait_row {
	const stay *is = nullptr;
	std::vector<share> meanwhile;
};

struct event_row {
	std::string_view name;
	std::size_t times = 0;
	std::int64_t last = 0; /* when */
};

struct lengths {
	std::size_t times = 0;
	std::int64_t total = 0;
	std::int64_t median = 0;
	std::int64_t p99 = 0;
	std::int64_t longest = 0;
};

struct summary {
	std::size_t tasks = 0;
	std::size_t turns = 0;
	std::size_t wakes = 0;
	std::size_t spawns = 0;
	std::size_t steals = 0;
	std::size_t revocations = 0;
	std::size_t lent = 0;
	std::vector<processor_row> processors;
	lengths waits;
	std::vector<wait_row> longest_waits;
	std::vector<stay_row> parks;         /* those with the largest total first */
	std::vector<stay_row> longest_parks; /* those with the longest single one first */
	std::size_t park_rows = 0;           /* how many rows there are */
	std::vector<const stay *> longest_turns;
	std::vector<stay_row> runners;
	std::vector<const stay *> longest_away;
	lengths away;
	std::vector<event_row> events;
};

/* top: the most rows of each list. The summary refers to the trace. */
summary summarize(const trace &of, std::size_t top);

std::string to_text(const trace &of, const summary &what);
std::string to_json(const trace &of, const summary &what);

} // namespace tracing

#endif
