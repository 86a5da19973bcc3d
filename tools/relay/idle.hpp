/* SPDX-License-Identifier: MIT */
/*
 * The idle timeout of a pair of connections: it has passed when no byte was delivered in either
 * direction for the limit; that is noticed up to an eighth of the limit late.
 *
 * It is the deadline of all four halves, reading and writing, so a pair whose peers both stopped
 * reading ends as well. Moving four deadlines with every chunk would be dear, so touch(), which is
 * called with every chunk, moves them only when they have aged by an eighth; in between it costs
 * reading the clock and one comparison.
 *
 * Any task that uses the connections may touch; the connections must outlive the object's use.
 */
#ifndef RELAY_IDLE_HPP
#define RELAY_IDLE_HPP

#include <sennit/sennit.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace relay
{

class idle_watch
{
public:
	/* A limit of zero: never. */
	explicit idle_watch(std::chrono::nanoseconds limit) noexcept
	    : limit_(limit.count()), slack_(limit.count() / 8)
	{
	}

	/* Starts the time. Before anything else. */
	void start(sn::tcp &a, sn::tcp &b) noexcept
	{
		a_ = &a;
		b_ = &b;
		if (limit_ != 0)
			push(sn_now());
	}

	/* A byte was delivered. */
	void touch() noexcept
	{
		if (limit_ == 0)
			return;
		const std::int64_t now = sn_now();
		/* Relaxed: push() looks again, under the lock. */
		if (now - pushed_.load(std::memory_order_relaxed) > slack_)
			push(now);
	}

	/*
	 * Whether the deadline has passed. A connection can also fail with ETIMEDOUT because the
	 * kernel gave up on the peer, which is not idleness.
	 */
	bool has_passed() const noexcept
	{
		return limit_ != 0 &&
		       sn_now() >= pushed_.load(std::memory_order_relaxed) + limit_ + slack_;
	}

private:
	void push(std::int64_t now) noexcept;

	const std::int64_t limit_;
	const std::int64_t slack_;
	sn::tcp *a_ = nullptr;
	sn::tcp *b_ = nullptr;
	std::mutex order_; /* of pushing: a late one must not move the deadlines back */
	std::atomic<std::int64_t> pushed_{INT64_MIN /
					  2}; /* the time that the deadlines count from */
};

} // namespace relay

#endif
