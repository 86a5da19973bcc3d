// SPDX-License-Identifier: MIT
//
// Deadlines without memory for timers.
#include <atomic>

#include "support/net.h"
#include "support/scope.h"

#if !TEST_ASAN && !TEST_TSAN

#	include "support/no_realloc.h"

namespace
{

using namespace test;

// Uses all timers for which there is memory, and leaves no memory for another.
void use_up_timers(Scope &scope)
{
	std::atomic<bool> refused{false};

	no_realloc = true;
	for (int i = 0; i < 10000 && !refused; i++) {
		EXPECT_EQ(0, scope.go([&] {
			if (sn_sleep(forever) == -ENOMEM)
				refused = true;
			return 0;
		}));
		sn_yield();
	}
	EXPECT_TRUE(eventually([&] { return refused.load(); }));
	EXPECT_EQ(-ENOMEM, sn_sleep(us));
}

// A deadline in the past ends a wait. Its caller often waits for the task that waits.
TASK_TEST(Untimed, DeadlinesInThePastEndWaits, 1)
{
	Listener listener;
	Pair pair;
	std::atomic<int> accepted{1}, read{1};
	Task accepts([&] {
		sn_tcp *conn = nullptr;

		accepted = sn_tcp_accept(listener.get(), &conn);
	});
	Task reads([&] {
		char c;

		read = int(sn_tcp_read(pair.client, &c, 1));
	});
	Scope scope;

	sn_yield();
	use_up_timers(scope);
	EXPECT_EQ(-ENOMEM, sn_tcp_set_read_deadline(pair.client, sn_now() + forever));
	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
	EXPECT_EQ(0, sn_tcp_listener_set_deadline(listener.get(), 1));
	no_realloc = false;
	if (testing::Test::HasFailure())
		abort(); // the tasks would wait forever
	accepts.join();
	reads.join();
	EXPECT_EQ(-ETIMEDOUT, accepted);
	EXPECT_EQ(-ETIMEDOUT, read);
	EXPECT_EQ(0, scope.cancel());
	EXPECT_EQ(-ECANCELED, scope.close());
}

} // namespace

#endif
