// SPDX-License-Identifier: MIT
//
// Helpers for the tests of the locks.
#ifndef SENNIT_TESTS_SUPPORT_LOCKS_H
#define SENNIT_TESTS_SUPPORT_LOCKS_H

#include <cstring>

#include "support/internals.h"
#include "support/runtime.h"
#include "support/scope.h"

#ifndef SENNIT_DEBUG
#	define SENNIT_DEBUG 0
#endif

// Expects that a mistake of the program is an error in release builds, and an abort with a report
// in debug builds.
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

// Waits until n tasks or threads wait for the lock, or for another object with a list of waiters.
template <class T>
bool waiting(const T &what, unsigned n)
{
	return eventually([&] { return probe_waiting(&what, &what.waits) == n; });
}

// The same as go_in(), for a scope that must not be cancelled yet.
template <class F>
void scope_go(sn_scope *scope, F body)
{
	ASSERT_EQ(0, go_in(scope, std::move(body)));
}

} // namespace test

#endif
