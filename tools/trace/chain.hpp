/* SPDX-License-Identifier: MIT */
/*
 * Explains why something happened only then: the chain of what had to happen before, backwards from
 * a moment in a task's turn. Before it ran, the task waited for a processor. Before that, another
 * task woke it, in a turn of its own, and so on, until something came from outside: the network, a
 * timer, a thread of the program, or the beginning of the records.
 *
 * The chain passes a park in one of two ways. If the task waited for something from another task,
 * such as a message of a channel, the chain continues in the task that woke it. A lock is
 * different, because without it the task would have continued by itself: the chain shows what the
 * task that released the lock did during the park (each of these steps has a greater depth), and
 * then continues in the task that wanted the lock.
 */
#ifndef TRACE_CHAIN_HPP
#define TRACE_CHAIN_HPP

#include "find.hpp"
#include "trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracing
{

/* A stay, or the part of it that belongs to the chain. */
struct step {
	std::int64_t begin = 0;
	std::int64_t end = 0;
	const stay *is = nullptr;
	std::size_t depth = 0;
	std::uint32_t by = none; /* the task that has ended a park */
};

/* Where a chain begins. */
enum class origin { records, timer, network, scheduler, thread, spawn, event, unknown, longest };

/* The part of the chain's time that was spent on one thing. */
struct part {
	state is = state::running;
	std::string_view reason;
	std::int64_t time = 0;
	std::uint32_t by = none; /* the task that ended the first park */
	bool is_one = true;      /* that task ended all of the parks */
};

struct chain {
	std::uint32_t task = none;
	const mark *event = nullptr; /* nullptr: the chain ends at a time */
	std::int64_t begin = 0;
	std::int64_t end = 0;
	std::vector<step> steps; /* the latest first */
	origin from = origin::records;
	const stay *parked = nullptr; /* the park that the origin ended */
	std::int64_t length() const { return end - begin; }
};

/* Adds up the steps of depth 0. The largest part comes first. Time that no step explains is in
 * none of them. */
std::vector<part> add_up(const trace &in, const chain &of);

/* Follows the chain back from a task and a time. since: the name of an event; the chain goes
 * back through timers and the network until it reaches such an event. "": it ends at the first
 * timer or network event. */
chain follow(const trace &in, std::uint32_t task, std::int64_t time, std::string_view since);

/* The chain that the user asks for by EVENT, TASK, or one of them with @TIME. If there are
 * several such events, it is the longest chain. */
struct chosen {
	chain is;
	std::size_t among = 0; /* how many such events there are */
	std::int64_t median = 0;
	std::int64_t p99 = 0;
};
/* Throws not_found. */
struct not_found {
	std::string why;
};
chosen choose(const trace &in, const std::string &what, std::string_view since);

std::string to_text(const trace &in, const chosen &what);
std::string to_json(const trace &in, const chosen &what);

} // namespace tracing

#endif
