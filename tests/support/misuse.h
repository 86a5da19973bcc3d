// SPDX-License-Identifier: MIT
//
// Tables of mistaken calls, each with the error that reports it.
#ifndef SENNIT_TESTS_SUPPORT_MISUSE_H
#define SENNIT_TESTS_SUPPORT_MISUSE_H

#include <vector>

#include "support/runtime.h"

namespace test
{

struct Mistake {
	const char *call;
	int64_t expected;
	std::function<int64_t()> make;
};

inline void expect_each(const std::vector<Mistake> &mistakes)
{
	for (const Mistake &mistake : mistakes)
		EXPECT_EQ(mistake.expected, mistake.make()) << mistake.call;
}

} // namespace test

#define MISTAKE(expected, call)                                    \
	{                                                          \
#		call, expected, [&]() -> int64_t { return call; } \
	}

#endif
