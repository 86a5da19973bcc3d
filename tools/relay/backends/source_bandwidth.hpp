/* SPDX-License-Identifier: MIT */
/*
 * The bandwidth of each client address: a pair of buckets (bandwidth.hpp) that all connections of
 * one source share.
 *
 * The buckets of a source stay when its last connection has ended, until they are full again.
 * Otherwise a client could have another burst with each connection. Of sources without a
 * connection `idle_sources_most` are kept. Beyond that, the one whose connection ended first is
 * forgotten; if its buckets were not full yet, the loss is counted (forgotten()). So the table has
 * at most that many sources more than there are connections, and a crowd of sources can only make
 * the limit more lenient, never stricter.
 *
 * Sources that have no connection and are full again are forgotten when other clients of the
 * listener come and go, and by forget_full(), which a periodic task calls.
 *
 * The limit is an allowance that a reload writes. Buckets follow it when a connection of the source
 * begins, while its connections move bytes (rate_limiter), and before they are forgotten. So a
 * connection that was accepted before the reload, and whose address is known only after it, brings
 * no old limit back.
 *
 * An IPv6 host has 2^64 addresses or more to come from, so its network of 64 bits is the source.
 *
 * Any task calls; none parks. The sources are spread over several locks, each of which is held for
 * one search. enter() throws if there is no memory for a source.
 */
#ifndef RELAY_SOURCE_BANDWIDTH_HPP
#define RELAY_SOURCE_BANDWIDTH_HPP

#include "backends/bandwidth.hpp"
#include "base/ip.hpp"
#include "stats/counters.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace relay
{

/* The most sources without a connection that are kept: some 5 MiB for a listener. */
inline constexpr std::size_t idle_sources_most = 16384;

class source_bandwidths
{
	struct entry;

public:
	/* limit: of each source; it outlives this object. */
	explicit source_bandwidths(const allowance &limit) noexcept : limit_(limit) {}
	source_bandwidths(const source_bandwidths &) = delete;
	source_bandwidths &operator=(const source_bandwidths &) = delete;

	/* A connection of a source, for as long as it lives; an empty one is of none. */
	class use
	{
	public:
		use() = default;
		use(use &&other) noexcept
		    : of_(std::exchange(other.of_, nullptr)), which_(other.which_)
		{
		}
		use &operator=(use &&other) noexcept
		{
			std::swap(of_, other.of_);
			std::swap(which_, other.which_);
			return *this;
		}
		~use()
		{
			if (of_)
				of_->leave(*which_);
		}

		/* The buckets of the source; null: it has none. */
		buckets *shared() const noexcept;

	private:
		friend class source_bandwidths;
		use(source_bandwidths &of, entry &which) noexcept : of_(&of), which_(&which) {}

		source_bandwidths *of_ = nullptr;
		entry *which_ = nullptr;
	};

	/* One more connection of that source, now (sn_now()). */
	use enter(const ip_address &source, std::int64_t now);

	/* Forgets all sources that have no connection and whose buckets are full. */
	void forget_full(std::int64_t now) noexcept;

	/* How many sources are in the table, and how many were forgotten before their buckets
	 * were full. */
	std::uint64_t known() const noexcept { return known_.get(); }
	std::uint64_t forgotten() const noexcept { return forgotten_.get(); }

private:
	static constexpr std::size_t shards = 16;

	struct hash {
		std::size_t operator()(const ip_address &of) const noexcept
		{
			return keyed_hash(of);
		}
	};
	struct entry {
		explicit entry(const ip_address &of) : source(of) {}

		const ip_address source;
		buckets both;
		std::size_t connections = 0; /* under the shard's lock, as the next one */
		std::list<entry>::iterator self{};
	};
	struct shard {
		std::mutex lock; /* guards the others */
		std::list<entry> busy;
		std::list<entry> idle; /* the one that has been idle for the longest time first */
		std::unordered_map<ip_address, entry *, hash> all;
	};

	shard &shard_of(const ip_address &source) noexcept
	{
		return shards_[(keyed_hash(source) >> 8) % shards];
	}
	void follow_limit(entry &which) const noexcept;
	bool is_full(entry &which, std::int64_t now) const noexcept;
	void forget(shard &at, std::list<entry>::iterator which) noexcept;
	void leave(entry &which) noexcept;
	void forget_some(shard &at, std::int64_t now) noexcept;

	const allowance &limit_;
	std::array<shard, shards> shards_;
	counter known_;
	counter forgotten_;
};

} // namespace relay

#endif
