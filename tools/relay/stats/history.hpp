/* SPDX-License-Identifier: MIT */
/*
 * The last hour in a few numbers, one sample every two seconds (rounds.hpp), so that the web page
 * also shows the time before it was opened. The oldest sample is replaced, so the history takes the
 * memory of `most` samples, about 115 KiB, which the kernel provides as they are written.
 *
 * Totals are kept as totals, so a reader can compute the rate between any two samples, and a
 * missing sample distorts nothing. A total can fall when a reload removes a listener; readers must
 * not take that for a negative rate. A new process, also after a handover, begins with an empty
 * history.
 *
 * One task adds; any task may read.
 */
#ifndef RELAY_HISTORY_HPP
#define RELAY_HISTORY_HPP

#include "wire/termination.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace relay
{

struct history_sample {
	std::uint64_t uptime_ms = 0;      /* as in a snapshot: it does not jump with the clock */
	std::uint64_t active = 0;         /* open connections */
	std::uint64_t queued = 0;         /* clients that wait for a place at a backend */
	std::uint64_t accepted = 0;       /* total */
	std::uint64_t failed = 0;         /* total: ended by one of history_failures */
	std::uint64_t to_backend = 0;     /* total: bytes */
	std::uint64_t to_client = 0;      /* total: bytes */
	std::uint64_t connect_p99_us = 0; /* since the last sample; 0: none connected */
};

/* The causes by which a client was not served, or not to the end, through no fault of its own.
 * docs/relay-operation.md and page.js have the same list. */
inline constexpr std::array history_failures = {
	termination::connect_failed, termination::no_backend,   termination::server_reset,
	termination::backend_down,   termination::queue_full,   termination::queue_timeout,
	termination::refused_limit,  termination::refused_rate, termination::no_memory,
};

class history
{
public:
	static constexpr std::size_t most = 1800;

	/* Adds a sample. If there is no memory, the sample is left out. */
	void add(const history_sample &now) noexcept;

	/* The samples after that time, oldest first; all if it is 0. */
	std::vector<history_sample> since(std::uint64_t uptime_ms) const;

private:
	mutable std::mutex lock_; /* held for microseconds */
	std::vector<history_sample> ring_;
	std::size_t oldest_ = 0; /* its index, once the ring is full */
};

/* One line of JSON: an array for each field, all of the same length. */
std::string to_json(const std::vector<history_sample> &samples);

} // namespace relay

#endif
