/* SPDX-License-Identifier: MIT */
/*
 * A short form of the fuzzing of the parsers of a connection's first bytes (`make fuzz` is the long
 * one): over its seeds, and over what a seeded generator makes of them. Builds with sanitizers
 * notice reads outside of the bytes.
 */
#include "harness.hpp"
#include "relay/properties.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace
{

std::vector<std::string> seeds(const char *of)
{
	std::vector<std::string> all;
	for (const auto &entry :
	     std::filesystem::directory_iterator(std::string(RELAY_FUZZ_SEEDS "/") + of)) {
		std::ifstream file(entry.path(), std::ios::binary);
		all.emplace_back(std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>());
	}
	std::sort(all.begin(), all.end());
	return all;
}

template <class Check>
void mutate(const std::vector<std::string> &from, Check check)
{
	SCOPED_TRACE("seed " + std::to_string(harness::seed()));
	std::mt19937_64 random(harness::seed());
	const auto below = [&random](std::size_t n) {
		return static_cast<std::size_t>(random() % n);
	};

	ASSERT_GE(from.size(), 4U);
	for (const auto &each : from)
		check(each);
	for (std::size_t i = harness::scaled(4000); i > 0; i--) {
		auto bytes = from[below(from.size())];
		for (auto changes = 1 + below(4); changes > 0 && !bytes.empty(); changes--) {
			const auto at = below(bytes.size());
			switch (below(5)) {
			case 0:
				bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
				break;
			case 1: /* most of the structure is at the start, in small numbers */
				bytes[at % 64 % bytes.size()] = static_cast<char>(below(256));
				break;
			case 2:
				bytes.erase(at, 1 + below(8));
				break;
			case 3:
				bytes.insert(at, 1 + below(8), static_cast<char>(below(256)));
				break;
			case 4:
				bytes.resize(at);
				break;
			}
		}
		check(bytes);
	}
}

TEST(FirstBytes, ProxyHeaderHoldsItsProperties)
{
	mutate(seeds("proxy_header"), [](const auto &bytes) { properties::proxy_header(bytes); });
}

TEST(FirstBytes, TlsHelloHoldsItsProperties)
{
	mutate(seeds("tls_hello"), [](const auto &bytes) { properties::tls_hello(bytes); });
}

} // namespace
