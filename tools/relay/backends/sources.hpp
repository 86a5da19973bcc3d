/* SPDX-License-Identifier: MIT */
/*
 * Limits by source and by rate: the exact number of connections of each source address, and
 * connections per second.
 *
 * Any task calls; none parks. An address is stored only while it has connections, so a million
 * clients that came and went take no memory. The addresses are spread over several locks, each of
 * which is held only for one search.
 */
#ifndef RELAY_SOURCES_HPP
#define RELAY_SOURCES_HPP

#include "backends/rate_limit.hpp"
#include "backends/source_bandwidth.hpp"
#include "base/ip.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace relay
{

class sources
{
public:
	/* Counts one more connection of that address. Returns false, and does not count it, if
	 * the address already has `most`, which is at least 1. */
	bool enter(const ip_address &source, std::uint64_t most)
	{
		shard &at = shard_of(source);
		const std::lock_guard lock(at.lock);
		std::uint64_t &now = at.active[source];
		if (now >= most)
			return false;
		now++;
		return true;
	}

	/* Call it once for each enter() that has returned true. */
	void leave(const ip_address &source) noexcept
	{
		shard &at = shard_of(source);
		const std::lock_guard lock(at.lock);
		const auto found = at.active.find(source);
		if (--found->second == 0)
			at.active.erase(found);
	}

private:
	struct hash {
		std::size_t operator()(const ip_address &of) const noexcept
		{
			return keyed_hash(of);
		}
	};
	struct shard {
		std::mutex lock; /* guards active */
		std::unordered_map<ip_address, std::uint64_t, hash> active;
	};
	shard &shard_of(const ip_address &source) noexcept
	{
		return shards_[hash()(source) % shards_.size()];
	}

	std::array<shard, 16> shards_;
};

/* Counts as a connection of a source for as long as it lives; an empty one counts nowhere. Also
 * has the source's share of bandwidth. */
class source_ticket
{
public:
	source_ticket() = default;
	source_ticket(sources &at, const ip_address &source) noexcept : at_(&at), source_(source) {}
	source_ticket(source_ticket &&other) noexcept
	    : at_(std::exchange(other.at_, nullptr)), source_(other.source_),
	      bandwidth_(std::move(other.bandwidth_))
	{
	}
	source_ticket &operator=(source_ticket &&other) noexcept
	{
		std::swap(at_, other.at_);
		std::swap(source_, other.source_);
		bandwidth_ = std::move(other.bandwidth_);
		return *this;
	}
	~source_ticket()
	{
		if (at_)
			at_->leave(source_);
	}

	void set_bandwidth(source_bandwidths::use share) noexcept { bandwidth_ = std::move(share); }
	buckets *bandwidth() const noexcept { return bandwidth_.shared(); }

private:
	sources *at_ = nullptr;
	ip_address source_;
	source_bandwidths::use bandwidth_;
};

/*
 * Limits connections to a number per second, evenly, and a burst together after a pause. This is
 * the generic cell rate algorithm, with one number as its state, which is updated by
 * compare-and-swap. A refused connection does not count. Rate and burst are at most 10^9, so that
 * nothing overflows.
 *
 * When a reload changes the limit, that number is one of the old limit: a burst of 600 at one
 * connection per second has its effect for ten minutes. The first call with another limit therefore
 * shortens it to what a whole burst of the new one would leave. Later calls do not: one task's time
 * may be a moment older than another's, and each such call would extend the limit by that moment.
 */
class rate
{
public:
	bool enter(std::int64_t now, std::uint64_t per_second, std::uint64_t burst) noexcept
	{
		const rate_limit limit{per_second, burst};
		const std::int64_t latest = limit.latest(now);
		if (limit_.load(std::memory_order_relaxed) != limit.id() &&
		    limit_.exchange(limit.id(), std::memory_order_relaxed) != limit.id())
			shorten(latest);
		std::int64_t due = due_.load(std::memory_order_relaxed);
		std::int64_t next;
		do {
			next = (due > now ? due : now) + limit.step();
			if (next > latest)
				return false;
		} while (!due_.compare_exchange_weak(due, next, std::memory_order_relaxed));
		return true;
	}

private:
	void shorten(std::int64_t latest) noexcept
	{
		std::int64_t due = due_.load(std::memory_order_relaxed);
		while (due > latest &&
		       !due_.compare_exchange_weak(due, latest, std::memory_order_relaxed))
			;
	}

	std::atomic<std::int64_t> due_{INT64_MIN};
	std::atomic<std::uint64_t> limit_{0}; /* the id of the last call's; 0: none yet */
};

} // namespace relay

#endif
