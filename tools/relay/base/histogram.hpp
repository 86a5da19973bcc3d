/* SPDX-License-Identifier: MIT */
/*
 * Histograms of durations, in buckets whose width grows with the duration.
 *
 * Each power of two of microseconds is divided into 8 buckets, so a value read from the histogram
 * is at most an eighth off, from a microsecond up to a year. Below 8 us every microsecond has its
 * own bucket; above a year all durations share the last one. Histograms are merged by adding their
 * buckets; the bounds are the same for all, so any two can be merged.
 *
 * Any thread may record into a `histogram`, by two relaxed additions without a lock, as in
 * counters.hpp. `histogram_counts` has the plain numbers that were read from it.
 */
#ifndef RELAY_HISTOGRAM_HPP
#define RELAY_HISTOGRAM_HPP

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace relay
{

struct histogram_counts {
	static constexpr unsigned sub_bits = 3;
	/* 2^45 us are more than a year, the longest duration that duration.hpp accepts. */
	static constexpr unsigned largest_power = 45;
	static constexpr std::size_t buckets = (largest_power - sub_bits + 1) << sub_bits;

	std::array<std::uint64_t, buckets> counts{};
	std::uint64_t sum_us = 0;

	/* The bucket of a duration. Negative durations, which should not occur, count as 0. */
	static constexpr std::size_t bucket(std::chrono::nanoseconds lasted) noexcept
	{
		constexpr std::uint64_t top = (std::uint64_t{1} << largest_power) - 1;
		const auto us = std::min(microseconds(lasted), top);
		if (us < 1U << sub_bits)
			return static_cast<std::size_t>(us);
		const unsigned power = static_cast<unsigned>(std::bit_width(us)) - 1;
		const unsigned shift = power - sub_bits;
		return ((std::size_t{shift} + 1) << sub_bits) +
		       static_cast<std::size_t>((us >> shift) - (1U << sub_bits));
	}

	/* The lowest number of microseconds above the bucket. */
	static constexpr std::uint64_t end_us(std::size_t bucket) noexcept
	{
		const std::size_t octave = bucket >> sub_bits;
		const std::uint64_t within = bucket & ((1U << sub_bits) - 1);
		if (octave == 0)
			return within + 1;
		return ((1U << sub_bits) + within + 1) << (octave - 1);
	}

	static constexpr std::uint64_t microseconds(std::chrono::nanoseconds lasted) noexcept
	{
		return lasted.count() > 0 ? static_cast<std::uint64_t>(lasted.count()) / 1000 : 0;
	}

	std::uint64_t total() const noexcept
	{
		std::uint64_t all = 0;
		for (const auto n : counts)
			all += n;
		return all;
	}

	/* How many lasted less than `limit` microseconds; exact if that is a power of two. */
	std::uint64_t below_us(std::uint64_t limit) const noexcept
	{
		std::uint64_t n = 0;
		for (std::size_t i = 0; i < buckets && end_us(i) <= limit; i++)
			n += counts[i];
		return n;
	}

	/*
	 * The duration, in microseconds, that the fraction `part` (0 to 1) of all did not exceed.
	 * It is the end of a bucket, so it is at most an eighth too high. 0 if nothing was
	 * recorded.
	 */
	std::uint64_t quantile_us(double part) const noexcept
	{
		const std::uint64_t all = total();
		if (all == 0)
			return 0;
		const auto wanted = std::max<std::uint64_t>(
			1, static_cast<std::uint64_t>(part * static_cast<double>(all) + 0.999999));
		std::uint64_t seen = 0;
		for (std::size_t i = 0; i < buckets; i++) {
			seen += counts[i];
			if (seen >= wanted)
				return end_us(i);
		}
		return end_us(buckets - 1);
	}

	histogram_counts &operator+=(const histogram_counts &other) noexcept
	{
		for (std::size_t i = 0; i < buckets; i++)
			counts[i] += other.counts[i];
		sum_us += other.sum_us;
		return *this;
	}

	/* What was recorded since an earlier reading of the same histogram. */
	histogram_counts since(const histogram_counts &earlier) const noexcept
	{
		histogram_counts now = *this;
		for (std::size_t i = 0; i < buckets; i++)
			now.counts[i] -= std::min(now.counts[i], earlier.counts[i]);
		now.sum_us -= std::min(now.sum_us, earlier.sum_us);
		return now;
	}
};

class histogram
{
public:
	void record(std::chrono::nanoseconds lasted) noexcept
	{
		counts_[histogram_counts::bucket(lasted)].fetch_add(1, std::memory_order_relaxed);
		sum_us_.fetch_add(histogram_counts::microseconds(lasted),
				  std::memory_order_relaxed);
	}

	/* May run while others record: a duration may be in the counts and not yet in the sum. */
	histogram_counts read() const noexcept
	{
		histogram_counts now;
		for (std::size_t i = 0; i < histogram_counts::buckets; i++)
			now.counts[i] = counts_[i].load(std::memory_order_relaxed);
		now.sum_us = sum_us_.load(std::memory_order_relaxed);
		return now;
	}

private:
	std::array<std::atomic<std::uint64_t>, histogram_counts::buckets> counts_{};
	std::atomic<std::uint64_t> sum_us_{0};
};

} // namespace relay

#endif
