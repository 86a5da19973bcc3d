/* SPDX-License-Identifier: MIT */
/*
 * The short form of fuzzing: a check runs over all seeds, and then over mutations of them by a
 * generator with a seed. Each test has changes that fit the format that it reads.
 */
#ifndef TESTS_RELAY_MUTATIONS_HPP
#define TESTS_RELAY_MUTATIONS_HPP

#include "harness.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace mutations
{

/* The files in a folder of fuzz/relay/seeds. */
inline std::vector<std::string> seeds(const char *of)
{
	std::vector<std::string> all;
	for (const auto &entry :
	     std::filesystem::directory_iterator(std::string(RELAY_FUZZ_SEEDS "/") + of)) {
		std::ifstream file(entry.path(), std::ios::binary);
		all.emplace_back(std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>());
	}
	std::ranges::sort(all);
	return all;
}

/* Random numbers below n, which must not be 0. */
class dice
{
public:
	explicit dice(std::uint64_t seed) : random_(seed) {}
	std::size_t operator()(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

private:
	std::mt19937_64 random_;
};

/* change(bytes, at, below) makes one change of bytes that are not empty, at a place in them. */
template <class Change, class Check>
void check_all(const std::vector<std::string> &from, std::size_t rounds, std::size_t changes,
	       Change change, Check check)
{
	SCOPED_TRACE("seed " + std::to_string(harness::seed()));
	dice below(harness::seed());

	ASSERT_GE(from.size(), 4U);
	for (const auto &each : from)
		check(each);
	for (std::size_t i = harness::scaled(rounds); i > 0; i--) {
		auto bytes = from[below(from.size())];
		for (auto n = 1 + below(changes); n > 0 && !bytes.empty(); n--)
			change(bytes, below(bytes.size()), below);
		check(bytes);
	}
}

} // namespace mutations

#endif
