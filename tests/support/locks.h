// SPDX-License-Identifier: MIT
//
// What the tests of the locks share.
#ifndef SENNIT_TESTS_SUPPORT_LOCKS_H
#define SENNIT_TESTS_SUPPORT_LOCKS_H

#include <cstring>

#include "support/internals.h"
#include "support/runtime.h"

#ifndef SENNIT_DEBUG
#	define SENNIT_DEBUG 0
#endif

// A mistake of the program's: an error in release builds, the end with a report in debug builds.
#if SENNIT_DEBUG
#	define TEST_MISTAKE(call, error, report)                       \
		do {                                                    \
			GTEST_FLAG_SET(death_test_style, "threadsafe"); \
			EXPECT_DEATH((void)(call), report);             \
		} while (0)
#else
#	define TEST_MISTAKE(call, error, report) EXPECT_EQ(error, call)
#endif

namespace test
{

// Whether so many wait for the lock, or whatever it is; looked at until it is so.
template <class T>
bool waiting(const T &what, unsigned n)
{
	return eventually([&] { return probe_waiting(&what, &what.waits) == n; });
}

// Starts a task made of a callable in a scope, which must not be cancelled yet.
template <class F>
void scope_go(sn_scope *scope, F body)
{
	auto *closure = new std::function<int()>(std::move(body));
	const int err = sn_scope_go(
		scope,
		[](void *arg) {
			auto *own = static_cast<std::function<int()> *>(arg);
			const int result = (*own)();

			delete own;
			return result;
		},
		closure);

	ASSERT_EQ(0, err);
}

} // namespace test

#endif
