/* SPDX-License-Identifier: MIT */
/*
 * A relay with a thousand idle connections uses no processor time.
 *
 * SENNIT_TEST_IDLE_SECONDS: for how long the test watches (make test-idle).
 */
#include "harness.hpp"
#include "support/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <sys/resource.h>
#include <time.h>

using namespace harness;

namespace
{

/* Percent of one CPU. Sanitizers and emulators have threads of their own. */
constexpr double most_percent = TEST_TSAN || TEST_EMULATED ? 1 : 0.1;

double cpu_seconds(const relay_process &relay)
{
	clockid_t clock{};
	timespec used{};

	EXPECT_EQ(clock_getcpuclockid(relay.pid(), &clock), 0);
	EXPECT_EQ(clock_gettime(clock, &used), 0);
	return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double watch(const relay_process &relay, std::chrono::duration<double> time)
{
	const double before = cpu_seconds(relay);

	std::this_thread::sleep_for(time);
	return 100 * (cpu_seconds(relay) - before) / time.count();
}

TEST(Idle, TakesNoProcessorTime)
{
	const std::size_t count = scaled(1000);
	rlimit limit{};

	/* This process has both ends of each connection, and the relay needs as many
	 * descriptors. */
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 2 * count + 64);
	setrlimit(RLIMIT_NOFILE, &limit);
	ASSERT_GE(limit.rlim_cur, 2 * count + 64);

	listener backend;
	relay_process relay({"127.0.0.1:0", backend.address()});
	std::vector<peer> ends;
	for (std::size_t i = 0; i < count; i++) {
		ends.push_back(peer::connect(relay.address()));
		ends.push_back(backend.accept());
	}
	ASSERT_TRUE(eventually([&] { return relay.counter("active") == count; }));
	/* Until the threads of the start-up have ended, the monitor sleeps and stacks are
	 * trimmed. */
	double least = 100;

	for (int i = 0; i < 24 && least >= most_percent; i++)
		least = std::min(least, watch(relay, 1s));
	EXPECT_LT(least, most_percent);
	if (const char *wish = std::getenv("SENNIT_TEST_IDLE_SECONDS")) {
		/* A quiet second may come before the stacks are trimmed, 5 s after they were
		 * used. */
		std::this_thread::sleep_for(7s);
		const std::chrono::duration<double> time(std::strtod(wish, nullptr));
		const double percent = watch(relay, time);

		std::cout << percent << " % of a CPU in " << time.count() << " s\n";
		EXPECT_LT(percent, most_percent);
	}
	ends.clear();
	stop(relay);
}

} // namespace
