// SPDX-License-Identifier: MIT
//
// A poller that can sleep for whole milliseconds only, as on kernels without epoll_pwait2(), sleeps
// until a timer is due. If it woke before that, it would look at the clock and poll again and again
// until then.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/syscall.h>

#include "support/child.h"
#include "support/refused.h"
#include "support/runtime.h"

#ifndef SYS_epoll_pwait2
#	define SYS_epoll_pwait2 441
#endif

namespace
{

constexpr int sleeps = 100;
// A sleep takes a few polls. A poller that wakes too early makes thousands of them in the part of a
// millisecond that is left.
constexpr uint64_t most_polls = 20 * sleeps;

int sleep_often(void *)
{
	const uint64_t before = test::stats().polls;

	// Not a whole number of milliseconds, whenever it begins.
	for (int i = 0; i < sleeps; i++)
		CHILD_CHECK(sn_sleep(test::ms + test::ms / 2) == 0);
	const uint64_t polls = test::stats().polls - before;

	if (polls > most_polls)
		fprintf(stderr, "%d sleeps took %llu polls; expected at most %llu\n", sleeps,
			(unsigned long long)polls, (unsigned long long)most_polls);
	return polls > 0 && polls <= most_polls ? 7 : 8;
}

TEST(Netpoll, InMillisecondsDoesNotPollInsteadOfSleeping)
{
	if (TEST_EMULATED || TEST_TSAN)
		GTEST_SKIP() << "no filters, or no threads after a fork";
	for (const int error : {ENOSYS, EPERM}) {
		const int status = test::in_child([error] {
			CHILD_CHECK(test::refuse({{SYS_epoll_pwait2, error}}));
			setenv("SENNIT_PROCS", "1", 1);
			_exit(sn_run(sleep_often, nullptr));
		});

		EXPECT_EQ(7, status) << strerror(error);
	}
}

} // namespace
