/* SPDX-License-Identifier: MIT */
#include "backends/bandwidth.hpp"

#include <sennit/clock.h>

#include <algorithm>
#include <utility>

namespace relay
{
namespace
{

constexpr std::int64_t second = 1'000'000'000;

/*
 * Chunks are of 20 ms: long enough that a limit costs only 50 wake-ups a second, and short enough
 * that a stream does not stutter. They have at least 1 KiB, so that slow limits do not cost more
 * wake-ups, and at most what one splice moves cheaply.
 */
constexpr std::uint64_t chunks_a_second = 50;
constexpr std::uint64_t least_chunk = std::uint64_t{1} << 10;
constexpr std::uint64_t most_chunk = std::uint64_t{256} << 10;

/* From this rate on, times are in microseconds: bytes times nanoseconds overflow 64 bits. */
constexpr std::uint64_t fast = std::uint64_t{1} << 33;

/* How many bytes pass in a time of less than a second; rounded down. */
std::uint64_t bytes_in(std::int64_t ns, std::uint64_t per_second)
{
	const auto time = static_cast<std::uint64_t>(ns);
	return per_second < fast ? time * per_second / 1'000'000'000
				 : time / 1000 * per_second / 1'000'000;
}

/* How long it takes for fewer bytes than a second's worth to pass; rounded up. */
std::int64_t time_of(std::uint64_t bytes, std::uint64_t per_second)
{
	const auto up = [&](std::uint64_t units) {
		return (bytes * units + per_second - 1) / per_second;
	};
	return static_cast<std::int64_t>(per_second < fast ? up(1'000'000'000)
							   : up(1'000'000) * 1000);
}

/*
 * Whether there ever was a limit. Without one, a pass of copying reads only this, and none of the
 * buckets. Relaxed, like the limits: a pass that sees a limit late is soon followed by one that
 * sees it.
 */
std::atomic<bool> any_limit{false};

} // namespace

/* Fills the bucket up to now, but not past its burst. The lock is held; there is a limit. */
void bucket::fill(std::int64_t now) noexcept
{
	const std::uint64_t rate = per_second_.load(std::memory_order_relaxed);
	/*
	 * Bytes that connections wait for are taken already, so taken_ exceeds filled_ by the bytes
	 * of some seconds at most. `now` may be before time_ if another thread read the clock later
	 * but came here first.
	 */
	if (now - time_ >= second) {
		const std::int64_t seconds = (now - time_) / second;
		/* Beyond the burst the amount does not matter; the bound prevents overflow. */
		const auto worth = static_cast<std::uint64_t>(seconds) < (INT64_MAX / 2) / rate
					   ? static_cast<std::uint64_t>(seconds) * rate
					   : INT64_MAX / 2;
		filled_ += worth;
		time_ += seconds * second;
	}
	const std::uint64_t full = taken_ + burst_.load(std::memory_order_relaxed);
	if (now >= time_ && filled_ + bytes_in(now - time_, rate) > full) {
		filled_ = full;
		time_ = now;
	}
}

void bucket::set(std::uint64_t per_second, std::uint64_t burst, std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	const std::uint64_t rate = per_second_.load(std::memory_order_relaxed);
	if (has(per_second, burst))
		return;
	if (per_second != 0)
		any_limit.store(true, std::memory_order_relaxed);
	if (rate != 0) {
		fill(now);
		if (now > time_) {
			filled_ += bytes_in(now - time_, rate);
			time_ = now;
		}
		filled_ = std::min(filled_, taken_ + burst);
		saved_ = std::min(saved_, burst);
		ahead_ = std::min(ahead_, burst);
	} else {
		filled_ = taken_ + burst;
		time_ = now;
		saved_ = ahead_ = 0;
	}
	burst_.store(burst, std::memory_order_relaxed);
	per_second_.store(per_second, std::memory_order_relaxed);
}

std::size_t bucket::most() const noexcept
{
	const std::uint64_t rate = per_second_.load(std::memory_order_relaxed);
	return rate == 0 ? 0
			 : static_cast<std::size_t>(
				   std::clamp(rate / chunks_a_second, least_chunk, most_chunk));
}

std::uint64_t bucket::take(std::uint64_t bytes, std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	if (per_second_.load(std::memory_order_relaxed) != 0)
		fill(now);
	return taken_ += bytes;
}

/* How much has gone into the bucket. fill() was called; there is a limit. */
std::uint64_t bucket::filled_at(std::int64_t now) const noexcept
{
	return now < time_ ? filled_
			   : filled_ + bytes_in(now - time_,
						per_second_.load(std::memory_order_relaxed));
}

bool bucket::take_at_once(std::uint64_t bytes, std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	const std::uint64_t chunk = most();
	if (chunk == 0)
		return true;
	fill(now);
	const std::uint64_t filled = filled_at(now);
	if (taken_ + bytes <= filled) {
		taken_ += bytes;
		return true;
	}
	if (ahead_ != 0 && place_ <= filled)
		saved_ += std::exchange(ahead_, 0);
	const bool is_within = bytes <= saved_;
	if (is_within)
		saved_ -= bytes;
	/* Only while connections wait, and not for a datagram that could never pass without
	 * them. */
	if (taken_ > filled && ahead_ == 0 && bytes <= burst_.load(std::memory_order_relaxed) &&
	    saved_ < (is_within ? chunk : bytes)) {
		ahead_ = chunk;
		place_ = taken_ += chunk;
	}
	return is_within;
}

void bucket::give_back(std::uint64_t bytes) noexcept
{
	const std::lock_guard lock(lock_);
	taken_ -= bytes;
}

bool bucket::is_full(std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	if (per_second_.load(std::memory_order_relaxed) == 0)
		return true;
	fill(now);
	return filled_ == taken_ + burst_.load(std::memory_order_relaxed);
}

std::int64_t bucket::when(std::uint64_t place) const noexcept
{
	const std::lock_guard lock(lock_);
	const std::uint64_t rate = per_second_.load(std::memory_order_relaxed);
	if (rate == 0 || place <= filled_)
		return INT64_MIN;
	const std::uint64_t ahead = place - filled_;
	return time_ + static_cast<std::int64_t>(ahead / rate) * second +
	       time_of(ahead % rate, rate);
}

void set(buckets &both, const bandwidth_config &to, std::int64_t now) noexcept
{
	both[SN_RELAY_A_TO_B].set(to.to_backend, to.burst_of(to.to_backend), now);
	both[SN_RELAY_B_TO_A].set(to.to_client, to.burst_of(to.to_client), now);
}

void allowance::set(const bandwidth_config &to) noexcept
{
	for (const auto &[way, rate] : {std::pair(SN_RELAY_A_TO_B, to.to_backend),
					std::pair(SN_RELAY_B_TO_A, to.to_client)}) {
		if (rate != 0)
			any_limit.store(true, std::memory_order_relaxed);
		ways_[way].per_second.store(rate, std::memory_order_relaxed);
		ways_[way].burst.store(to.burst_of(rate), std::memory_order_relaxed);
	}
}

void follow(const allowance &limit, unsigned way, bucket &which) noexcept
{
	const std::uint64_t rate = limit.per_second(way);
	const std::uint64_t burst = limit.burst(way);
	if (!which.has(rate, burst))
		which.set(rate, burst, sn_now());
}

/* The buckets that no reload sets get the limits in effect. */
void rate_limiter::follow_limits(unsigned way) noexcept
{
	follow(by_.each, way, ways_[way].own);
	if (by_.of_source)
		follow(by_.each_source, way, (*by_.of_source)[way]);
}

std::size_t rate_limiter::most(unsigned way) noexcept
{
	if (!any_limit.load(std::memory_order_relaxed))
		return 0;
	follow_limits(way);
	std::size_t least = 0;
	for (const bucket *each : all(way))
		if (const std::size_t most = each ? each->most() : 0;
		    most && (!least || most < least))
			least = most;
	return least;
}

std::int64_t rate_limiter::take(unsigned way, std::int64_t bytes) noexcept
{
	direction &which = ways_[way];
	const auto from = all(way);
	const std::int64_t now = sn_now();
	if (bytes < 0) {
		for (std::size_t i = 0; i < from.size(); i++)
			if (which.limited[i])
				from[i]->give_back(static_cast<std::uint64_t>(-bytes));
		waited(way, now);
		return 0;
	}
	/* Whoever waits must not wait at an old limit. */
	if (bytes == 0)
		follow_limits(way);
	std::int64_t latest = INT64_MIN;
	std::size_t by = 0;
	for (std::size_t i = 0; i < from.size(); i++) {
		if (bytes > 0) {
			which.limited[i] = from[i] && from[i]->most() != 0;
			if (which.limited[i])
				which.places[i] =
					from[i]->take(static_cast<std::uint64_t>(bytes), now);
		}
		if (!which.limited[i])
			continue;
		const std::int64_t when = from[i]->when(which.places[i]);
		if (when > latest) {
			latest = when;
			by = i;
		}
	}
	if (latest <= now) {
		waited(way, now);
	} else if (which.waiting_since == 0) {
		which.waiting_since = now;
		which.waits_for_backend = by == backends;
		by_.throttled.add();
		by_.waits_of_listener.times.add();
		by_.waits_of_listener.now[way].add();
		if (which.waits_for_backend) {
			by_.waits_of_backend.times.add();
			by_.waits_of_backend.now[way].add();
		}
	}
	return latest;
}

void rate_limiter::waited(unsigned way, std::int64_t now) noexcept
{
	direction &which = ways_[way];
	if (which.waiting_since == 0)
		return;
	const auto ns = static_cast<std::uint64_t>(now - which.waiting_since);
	which.waiting_since = 0;
	by_.waits_of_listener.ns.add(ns);
	by_.waits_of_listener.now[way].subtract();
	if (which.waits_for_backend) {
		by_.waits_of_backend.ns.add(ns);
		by_.waits_of_backend.now[way].subtract();
	}
}

rate_limiter::~rate_limiter()
{
	for (unsigned way = 0; way < ways_.size(); way++)
		if (ways_[way].waiting_since != 0)
			waited(way, sn_now());
}

} // namespace relay
