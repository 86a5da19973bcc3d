/* SPDX-License-Identifier: MIT */
/*
 * The packets of a trace in Perfetto's format (perfetto_trace.proto), as far as the runtime writes
 * them (src/debug/perfetto.c): tracks, and events on them, in the order of the file.
 *
 * The bytes may be anything. Packets that are not understood are counted and left out. Reading ends
 * where packets cannot be separated any more. Memory and time are proportional to the bytes.
 */
#ifndef TRACE_PACKETS_HPP
#define TRACE_PACKETS_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tracing
{

enum class event_type : std::uint8_t { begin = 1, end = 2, instant = 3 };

/* What the number of an event means. */
enum class detail : std::uint8_t { none, task, processor, woken_by, spawned_by, count, value };

struct event {
	std::int64_t time = 0;    /* at least 0, and less than most_time */
	std::uint64_t flow = 0;   /* the number of the arrow that begins here, or ends; 0: none */
	std::uint64_t number = 0; /* of the detail */
	std::uint32_t track = 0;  /* an index */
	std::uint32_t name = 0;   /* an index */
	event_type type = event_type::instant;
	detail what = detail::none;
	bool is_users = false; /* made by the program */
};

/* 36 years. Times below this can be added and compared without overflow. */
inline constexpr std::int64_t most_time = std::int64_t{1} << 60;

struct track {
	std::uint64_t uuid = 0;
	std::uint64_t parent = 0; /* a uuid */
	std::uint32_t name = 0;
};

struct packets {
	std::vector<std::string_view> names; /* distinct ones; the first is "" */
	std::vector<track> tracks;
	std::vector<event> events;
	std::string_view process;
	std::uint64_t pid = 0;
	std::int64_t clock = 0;     /* the trace's clock when it was written; 0: not known */
	std::int64_t real_time = 0; /* at that time, since 1970 */
	std::size_t read = 0;       /* bytes that are packets */
	std::size_t count = 0;      /* packets */
	std::size_t damaged = 0;    /* packets that make no sense */
};

/* A hash for numbers that are given in order, or are chosen by whoever made the file. */
struct mixed {
	std::size_t operator()(std::uint64_t n) const
	{
		n = (n ^ n >> 32) * 0x9e3779b97f4a7c15;
		return static_cast<std::size_t>(n ^ n >> 29);
	}
};

/* Reads the packets, which refer to the bytes. */
packets read_packets(std::string_view bytes);

} // namespace tracing

#endif
