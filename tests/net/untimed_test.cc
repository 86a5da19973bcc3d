// SPDX-License-Identifier: MIT
//
// Deadlines without memory for timers.
#include <atomic>

#include "support/net.h"
#include "support/no_timers.h"
#include "support/scope.h"

namespace
{

using namespace test;

// Uses all timers for which there is memory, and leaves no memory for another. (If one of the
// runtime's own ends after that, the calls that follow get a timer, and the test shows nothing.)
void use_up_timers(Scope &scope)
{
	int slept = 0;

	no_timers = true;
	for (int i = 0; i < 10000 && (slept = sn_sleep(us)) == 0; i++) {
		EXPECT_EQ(0, scope.go([] { return sn_sleep(forever) == 0 ? 1 : 0; }));
		sn_yield(); // so that the task has its timer before this one sleeps again
	}
	EXPECT_EQ(-ENOMEM, slept);
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
	EXPECT_EQ(0, sn_tcp_set_read_deadline(pair.client, 1));
	EXPECT_EQ(0, sn_tcp_listener_set_deadline(listener.get(), 1));
	no_timers = false;
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
