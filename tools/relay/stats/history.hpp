/* SPDX-License-Identifier: MIT */
/*
 * The last hour in a few numbers, one sample every two seconds (rounds.hpp), so that the web page
 * also shows the time before it was opened. The oldest sample is replaced, so it takes at most
 * `most` samples of memory, some 115 KiB, which the kernel provides as they are written.
 *
 * Totals are kept as totals, so a reader can compute the rate between any two samples, and a
 * missing one distorts nothing. A total can fall when a reload removes a listener; that is no
 * negative rate. A new process, also after a handover, begins with nothing.
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
	std::uint64_t failed = 0;         /* total: ended for one of the causes below */
	std::uint64_t to_backend = 0;     /* total: bytes */
	std::uint64_t to_client = 0;      /* total: bytes */
	std::uint64_t connect_p99_us = 0; /* since the sample before; 0: none connected */
};

/* The causes for which the client was not served, or not to the end, through no fault of its own.
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

	/* Without memory the sample is missing. */
	void add(const history_sample &now) noexcept;

	/* The samples after that time, oldest first. 0: all. */
	std::vector<history_sample> since(std::uint64_t uptime_ms) const;

private:
	mutable std::mutex lock_; /* held for microseconds */
	std::vector<history_sample> ring_;
	std::size_t oldest_ = 0; /* once the ring is full */
};

/* One line of JSON: an array for each field, all of the same length. */
std::string to_json(const std::vector<history_sample> &samples);

} // namespace relay

#endif
