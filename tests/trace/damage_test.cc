// SPDX-License-Identifier: MIT
//
// Traces that are cut, damaged or made up: a short form of fuzzing, of which `make fuzz` is the
// long one. Builds with sanitizers notice reads outside of the bytes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "made.hpp"
#include "support/runtime.h"
#include "support/traces.h"
#include "trace_properties.hpp"

namespace
{

std::string real_trace()
{
	test::Environment small("SENNIT_RECORD", "4K");

	test::run(2, [] {
		for (int i = 0; i < 20; i++) {
			test::Task child([] { EXPECT_EQ(0, sn_record("event", 7)); });
			EXPECT_EQ(0, sn_yield());
			EXPECT_EQ(0, child.join());
		}
		EXPECT_EQ(0, sn_sleep(test::ms));
	});
	return test::written();
}

std::vector<std::string> seeds()
{
	std::vector<std::string> all;

	for (const auto &entry : std::filesystem::directory_iterator(TRACE_FUZZ_SEEDS)) {
		std::ifstream file(entry.path(), std::ios::binary);
		all.emplace_back(std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>());
	}
	std::sort(all.begin(), all.end());
	EXPECT_GE(all.size(), 3u);
	return all;
}

TEST(TraceDamage, ACutTraceGivesWhatThereIs)
{
	test::Random random;

	for (const std::string &whole : {test::slow_request().bytes(), real_trace()}) {
		properties::trace_file(whole);
		for (size_t n = 0; n < std::min<size_t>(whole.size(), 2000); n++)
			properties::trace_file(whole.substr(0, n));
		for (int i = 0; i < test::scaled(100); i++)
			properties::trace_file(whole.substr(0, random.below(whole.size())));
	}
}

TEST(TraceDamage, WhatIsBeforeTheCutIsThere)
{
	const std::string whole = test::slow_request().bytes();
	const auto trace = tracing::read_trace(whole);
	// The last packets are the end of a park and its beginning.
	const std::string cut = whole.substr(0, whole.size() - 3);
	const auto rest = tracing::read_trace(cut);

	ASSERT_EQ(1u, rest.warnings.size());
	EXPECT_NE(std::string::npos, rest.warnings[0].find("cut short")) << rest.warnings[0];
	EXPECT_EQ(tracing::summarize(trace, 1).turns, tracing::summarize(rest, 1).turns);
	EXPECT_EQ(trace.stays.size(), rest.stays.size());
}

TEST(TraceDamage, AnyBytesAreReadOrRefused)
{
	auto from = seeds();
	test::Random random;

	from.push_back(test::slow_request().bytes());
	for (const auto &each : from)
		properties::trace_file(each);
	for (int i = 0; i < test::scaled(1000); i++) {
		std::string bytes = from[random.below(from.size())];
		for (uint64_t n = 1 + random.below(4); n > 0 && !bytes.empty(); n--) {
			const size_t at = random.below(bytes.size());
			switch (random.below(4)) {
			case 0:
				bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
				break;
			case 1:
				bytes[at] = static_cast<char>(random.below(256));
				break;
			case 2:
				bytes.erase(at, 1 + random.below(8));
				break;
			default: {
				const size_t from_here = random.below(bytes.size());
				bytes.insert(at, bytes.substr(from_here, random.below(64)));
			}
			}
		}
		properties::trace_file(bytes);
	}
}

} // namespace
