// SPDX-License-Identifier: MIT
// Labels: machine
//
// The futex calls and the parker: a release before the wait is kept, several releases merge into
// one, a timeout is reported and never early, and errno is preserved.
#include <atomic>
#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

class Parker : public testing::Test
{
protected:
	~Parker() override { probe_parker_free(parker); }
	probe_parker *parker = probe_parker_new();
};

TEST_F(Parker, KeepsAReleaseThatComesFirst)
{
	probe_parker_release(parker);
	EXPECT_EQ(0, probe_parker_wait(parker, 0));
}

TEST_F(Parker, MergesReleases)
{
	probe_parker_release(parker);
	probe_parker_release(parker);
	EXPECT_EQ(0, probe_parker_wait(parker, 0));
	EXPECT_EQ(-ETIMEDOUT, probe_parker_wait(parker, sn_now() + 5 * test::ms));
}

TEST_F(Parker, KeepsAReleaseEvenPastTheDeadline)
{
	probe_parker_release(parker);
	EXPECT_EQ(0, probe_parker_wait(parker, 1));
}

TEST_F(Parker, TimesOutAndNotEarly)
{
	const int64_t deadline = sn_now() + 20 * test::ms;

	errno = 4242;
	EXPECT_EQ(-ETIMEDOUT, probe_parker_wait(parker, deadline));
	EXPECT_EQ(4242, errno);
	EXPECT_GE(sn_now(), deadline);
	EXPECT_EQ(-ETIMEDOUT, probe_parker_wait(parker, 1)) << "a deadline long past";
	probe_parker_release(parker);
	EXPECT_EQ(0, probe_parker_wait(parker, 0)) << "usable after a timeout";
}

std::atomic<bool> handled;

// Works under TSan, too, although TSan defers signal handlers.
TEST_F(Parker, AHandlerRunsWhileItsThreadSleeps)
{
	struct sigaction former, action = {};
	const pthread_t sleeper = pthread_self();

	action.sa_handler = [](int) { handled = true; };
	action.sa_flags = SA_RESTART;
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, &former));
	std::thread sender([&] {
		for (int i = 0; i < 3; i++) {
			const int64_t until = sn_now() + test::patience;

			usleep(20000); // the thread most likely sleeps then
			handled = false;
			pthread_kill(sleeper, SIGUSR1);
			while (!handled && sn_now() < until)
				usleep(1000);
			EXPECT_TRUE(handled);
		}
		probe_parker_release(parker);
	});
	EXPECT_EQ(0, probe_parker_wait(parker, 0));
	sender.join();
	ASSERT_EQ(0, sigaction(SIGUSR1, &former, nullptr));
}

// Two threads wake each other in turn: a lost release hangs.
TEST_F(Parker, PingPong)
{
	const int rounds = test::scaled(20000);
	probe_parker *other = probe_parker_new();
	long plain = 0; // not atomic: the parkers order the accesses

	std::thread peer([&] {
		for (int i = 0; i < rounds; i++) {
			probe_parker_wait(other, 0);
			plain++;
			probe_parker_release(parker);
		}
	});
	for (int i = 0; i < rounds; i++) {
		probe_parker_release(other);
		ASSERT_EQ(0, probe_parker_wait(parker, 0));
		plain++;
	}
	peer.join();
	EXPECT_EQ(2L * rounds, plain);
	probe_parker_free(other);
}

// A release that races with the timeout is either consumed by the wait or kept for the next one,
// never lost.
TEST_F(Parker, ReleaseRacingWithTheTimeoutIsNotLost)
{
	test::Random random;
	const int rounds = test::scaled(3000);
	std::atomic<int> turn{0};
	std::thread peer([&] {
		for (int i = 1; i <= rounds; i++) {
			while (turn.load() < i)
				std::this_thread::yield();
			probe_parker_release(parker);
		}
	});

	for (int i = 1; i <= rounds; i++) {
		turn.store(i);
		const int64_t soon = sn_now() + int64_t(random.below(60 * test::us));

		if (probe_parker_wait(parker, soon) != 0) {
			ASSERT_EQ(0, probe_parker_wait(parker, sn_now() + test::patience))
				<< "round " << i << ", seed " << random.seed();
		}
	}
	peer.join();
}

TEST(Futex, DoesNotWaitForAnotherValue)
{
	EXPECT_EQ(0, probe_futex_wait(1, 2, 0));
}

TEST(Futex, TimesOutAndKeepsErrno)
{
	const int64_t deadline = sn_now() + 10 * test::ms;

	errno = 4242;
	EXPECT_EQ(-ETIMEDOUT, probe_futex_wait(1, 1, deadline));
	EXPECT_EQ(4242, errno);
	EXPECT_GE(sn_now(), deadline);
}

} // namespace
