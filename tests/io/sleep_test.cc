// SPDX-License-Identifier: MIT
//
// A task that sleeps on a descriptor until a time (sn_fd_sleep()) sleeps until that time or until
// the descriptor's deadline, whichever comes first.
#include "support/net.h"

namespace
{

constexpr int reading = 0;
constexpr int64_t soon = 20 * test::ms, never = 3600 * test::second;

// The result of a sleep, which must not last until the later of the two times.
int sleep_with(int64_t deadline, int64_t until)
{
	test::Pair pair;

	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.server, sn_after(deadline)));
	EXPECT_EQ(0, probe_fd_begin(pair.server, reading));
	const int err = probe_fd_sleep(pair.server, reading, sn_after(until));
	probe_fd_end(pair.server, reading);
	return err;
}

TEST(Sleep, EndsAtADeadlineThatComesFirst)
{
	test::run([] { EXPECT_EQ(0, sleep_with(soon, never)); });
}

TEST(Sleep, EndsAtItsTimeIfTheDeadlineComesLater)
{
	test::run([] { EXPECT_EQ(0, sleep_with(never, soon)); });
}

TEST(Sleep, DoesNotBeginAfterTheDeadline)
{
	test::run([] { EXPECT_EQ(-ETIMEDOUT, sleep_with(-soon, never)); });
}

} // namespace
