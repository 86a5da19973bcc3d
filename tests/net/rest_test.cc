// SPDX-License-Identifier: MIT
//
// The poller may rest while another thread polls (sched/idle.c). No event may be lost because of
// that: not when the other thread begins to compute, and not when it has nothing more to do.
#include <atomic>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "support/streams.h"
#include "support/unix.h"

namespace
{

using test::Task;
using test::UnixPair;

// Two tasks that pass a byte back and forth, for so many rounds.
void play(int rounds)
{
	UnixPair pair;
	Task answers([&] {
		char byte;

		while (sn_unix_read(pair.b, &byte, 1) == 1)
			EXPECT_EQ(1, sn_unix_write(pair.b, &byte, 1));
	});

	for (int i = 0; i < rounds; i++) {
		char byte = 'x';

		EXPECT_EQ(1, sn_unix_write(pair.a, &byte, 1));
		EXPECT_EQ(1, sn_unix_read(pair.a, &byte, 1));
	}
	pair.close_a();
	answers.join();
}

// Without leases the monitor takes no processor from a task that computes, so only the poller can
// serve what other tasks wait for during that time.
TEST(Rest, EndsWhenTheOtherThreadComputes)
{
	test::Environment leases("SENNIT_LEASES", "0");

	test::run(2, [] {
		for (int i = 0; i < 20; i++) {
			int ends[2];
			std::atomic<bool> served{false};

			ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
			sn_stream *reader = test::adopt(ends[0]);
			Task waits([&] {
				char byte;

				EXPECT_EQ(1, sn_stream_read(reader, &byte, 1));
				served = true;
			});
			play(test::scaled(2000));
			std::thread writer([&] { EXPECT_EQ(1, write(ends[1], "x", 1)); });
			const int64_t end = sn_now() + test::patience;
			while (!served && sn_now() < end)
				continue;
			EXPECT_TRUE(served);
			writer.join();
			waits.join();
			sn_stream_close(reader);
			close(ends[1]);
		}
	});
}

// Timers and events that come after everything has become quiet.
TASK_TEST(Rest, EndsWhenAllAreIdle, 2, 4)
{
	for (int i = 0; i < test::scaled(200); i++) {
		int ends[2];
		char byte;

		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		sn_stream *reader = test::adopt(ends[0]);
		Task sleeps([] { EXPECT_EQ(0, sn_sleep(test::ms)); });
		play(test::scaled(300));
		std::thread writer([&] {
			usleep(useconds_t(i));
			EXPECT_EQ(1, write(ends[1], "x", 1));
		});
		sn_stream_set_read_deadline(reader, sn_now() + test::patience);
		EXPECT_EQ(1, sn_stream_read(reader, &byte, 1));
		sleeps.join();
		writer.join();
		sn_stream_close(reader);
		close(ends[1]);
	}
}

// The tasks stay with the thread that polls while the other rests. The fair turns poll every 0.1 ms
// if no other thread does. Each of these polls would wake a thread, which would steal the task or
// end the rest.
TEST(Rest, LastsThroughFairTurns)
{
	if (TEST_TSAN || TEST_ASAN || TEST_EMULATED)
		GTEST_SKIP() << "too slow for the poller to rest";
	test::run(2, [] {
		const int64_t end = sn_now() + test::patience;
		uint64_t least = UINT64_MAX;

		while (least > 5 && sn_now() < end) {
			const uint64_t before = test::stats().steals;

			play(20000);
			least = std::min(least, test::stats().steals - before);
		}
		EXPECT_LE(least, 5U);
	});
}

} // namespace
