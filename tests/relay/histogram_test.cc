/* SPDX-License-Identifier: MIT */
/*
 * The histogram's buckets have no gaps and no overlaps, and values that are read from them have a
 * bounded error.
 */
#include "base/histogram.hpp"
#include "stats/snapshot.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using relay::histogram;
using relay::histogram_counts;

namespace
{

std::chrono::nanoseconds us(std::uint64_t n)
{
	return std::chrono::microseconds(n);
}

TEST(Histogram, EveryDurationFallsIntoItsBucket)
{
	std::uint64_t start = 0;
	for (std::size_t i = 0; i < histogram_counts::buckets; i++) {
		const std::uint64_t end = histogram_counts::end_us(i);
		ASSERT_GT(end, start);
		ASSERT_EQ(histogram_counts::bucket(us(start)), i);
		ASSERT_EQ(histogram_counts::bucket(us(end - 1)), i);
		ASSERT_EQ(histogram_counts::bucket(us(end) - 1ns), i);
		/* A bucket is at most an eighth of its start wide. */
		ASSERT_LE((end - start - 1) * 8, start) << i;
		start = end;
	}
	EXPECT_EQ(start, std::uint64_t{1} << histogram_counts::largest_power);
	EXPECT_GT(us(start), 24h * 366);
}

TEST(Histogram, ValuesOutOfRangeCountAtTheEnds)
{
	EXPECT_EQ(histogram_counts::bucket(-5s), 0U);
	EXPECT_EQ(histogram_counts::bucket(std::chrono::nanoseconds::max()),
		  histogram_counts::buckets - 1);
	histogram h;
	h.record(-5s);
	EXPECT_EQ(h.read().total(), 1U);
	EXPECT_EQ(h.read().sum_us, 0U);
}

TEST(Histogram, QuantilesAreAtMostAnEighthTooHigh)
{
	std::mt19937_64 random(7);
	std::lognormal_distribution<double> spread(8, 2);
	std::vector<std::uint64_t> all;
	histogram h;
	for (int i = 0; i < 20000; i++) {
		all.push_back(static_cast<std::uint64_t>(spread(random)));
		h.record(us(all.back()));
	}
	std::sort(all.begin(), all.end());
	const auto read = h.read();
	for (const double part : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
		const auto exact = all[std::min<std::size_t>(
			all.size() - 1, static_cast<std::size_t>(part * 20000 + 0.5) - 1)];
		const auto got = read.quantile_us(part);
		EXPECT_GT(got, exact) << part;
		EXPECT_LE(got, exact + exact / 8 + 1) << part;
	}
	EXPECT_EQ(histogram_counts{}.quantile_us(0.5), 0U);
}

TEST(Histogram, MergingAndSubtractingAreExact)
{
	histogram a;
	histogram b;
	a.record(100us);
	a.record(1s);
	b.record(100us);
	auto both = a.read();
	both += b.read();
	EXPECT_EQ(both.total(), 3U);
	EXPECT_EQ(both.sum_us, 1000200U);
	EXPECT_EQ(both.below_us(128), 2U);
	EXPECT_EQ(both.below_us(std::uint64_t{1} << 40), 3U);
	const auto only_a = both.since(b.read());
	EXPECT_EQ(only_a.counts, a.read().counts);
	EXPECT_EQ(only_a.sum_us, 1000100U);
}

TEST(Histogram, LosesNothingWhenManyThreadsRecord)
{
	histogram h;
	{
		std::vector<std::jthread> threads;
		for (int t = 0; t < 4; t++)
			threads.emplace_back([&h, t] {
				for (int i = 0; i < 10000; i++)
					h.record(us(static_cast<std::uint64_t>(i % 100 + t)));
			});
	}
	EXPECT_EQ(h.read().total(), 40000U);
}

TEST(Snapshot, EveryNameIsThereOnce)
{
	std::set<std::string_view> names(relay::termination_names.begin(),
					 relay::termination_names.end());
	EXPECT_EQ(names.size(), relay::terminations);
	EXPECT_EQ(names.count(""), 0U);
	for (const char *state : relay::health_names)
		EXPECT_NE(state, nullptr);
}

} // namespace
