/* SPDX-License-Identifier: MIT */
/*
 * Why something happened only then: the chain of what had to happen before, backwards from a moment
 * in a task's turn. Before it ran, the task waited for a processor; before that, it was woken by
 * another task, in a turn of that one, and so on, until something came from outside: the network, a
 * timer, a thread of the program's, or the beginning of the records.
 *
 * A park is passed in one of two ways. What a task gets from another, as from a channel, comes from
 * there: the chain continues in the task that has woken it. A lock is different, because the task
 * would have gone on by itself: the chain shows what the one that released it did during the park
 * (a step of greater depth for each), and then continues in the task that wanted it.
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

/* The chain's time that went to one thing. */
struct part {
	state is = state::running;
	std::string_view reason;
	std::int64_t time = 0;
	std::uint32_t by = none; /* the task that ended the first park */
	bool is_one = true;      /* and all others */
};

struct chain {
	std::uint32_t task = none;
	const mark *event = nullptr; /* nullptr: it is that of a time */
	std::int64_t begin = 0;
	std::int64_t end = 0;
	std::vector<step> steps; /* the last one first */
	origin from = origin::records;
	const stay *parked = nullptr; /* what the origin has ended */
	std::int64_t length() const { return end - begin; }
};

/* Of steps of depth 0; the largest first. What no step explains is not in it. */
std::vector<part> add_up(const trace &in, const chain &of);

/* since: the name of an event; the chain goes back through timers and the network until there is
 * one. "": only to the first of them. */
chain follow(const trace &in, std::uint32_t task, std::int64_t time, std::string_view since);

/* What the user asks for: EVENT, TASK, or one of them with @TIME. Of several such events, the one
 * with the longest chain. */
struct chosen {
	chain is;
	std::size_t among = 0; /* so many events */
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
