// SPDX-License-Identifier: MIT
//
// A trace contains what happened, and nothing that cannot have happened: the test decodes it
// strictly, and compares it with what the program did and with the runtime's statistics.
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "support/runtime.h"
#include "support/traces.h"

namespace
{

using namespace test;

// ---- what is recorded ----

struct Pair {
	sn_chan *there, *back;
	int rounds;
};

int ping(void *arg)
{
	auto *pair = static_cast<Pair *>(arg);

	for (int i = 0; i < pair->rounds; i++) {
		EXPECT_EQ(0, sn_chan_send(pair->there, &i));
		int answer;
		EXPECT_EQ(0, sn_chan_recv(pair->back, &answer));
		EXPECT_EQ(0, sn_record("round", -i));
	}
	return 0;
}

int pong(void *arg)
{
	auto *pair = static_cast<Pair *>(arg);

	for (int i = 0, item; i < pair->rounds; i++) {
		EXPECT_EQ(0, sn_chan_recv(pair->there, &item));
		EXPECT_EQ(0, sn_chan_send(pair->back, &item));
	}
	return 0;
}

void play(int rounds)
{
	struct sn_task_attr attr = {};
	Pair pair = {nullptr, nullptr, rounds};
	sn_task *tasks[2];

	ASSERT_EQ(0, sn_chan_new(&pair.there, sizeof(int), 0));
	ASSERT_EQ(0, sn_chan_new(&pair.back, sizeof(int), 0));
	attr.name = "ping";
	ASSERT_EQ(0, sn_spawn(&tasks[0], ping, &pair, &attr));
	attr.name = "pong";
	ASSERT_EQ(0, sn_spawn(&tasks[1], pong, &pair, &attr));
	for (sn_task *task : tasks)
		EXPECT_EQ(0, sn_join(task, nullptr));
	sn_chan_unref(pair.there);
	sn_chan_unref(pair.back);
}

TEST(Trace, HasEverySwitchAndItsReason)
{
	test::Environment large("SENNIT_RECORD", "1M");

	test::run({1, 2, 4}, [] {
		const int rounds = 300;

		play(rounds);
		EXPECT_EQ(0, sn_sleep(test::ms));

		// This task does not switch between the two reads, and all others have ended.
		uint64_t switches = test::stats().switches;
		Trace trace(written());
		uint64_t regained =
			trace.instants("processor revoked") + trace.instants("processor lent");
		uint64_t turns = trace.count("tasks", "running");

		EXPECT_GE(turns, switches);
		EXPECT_LE(turns, switches + regained);
		// Each round has two waits at least, and four when each item is waited for twice.
		EXPECT_GE(trace.count("tasks", "a channel"), static_cast<size_t>(rounds));
		EXPECT_LE(trace.count("tasks", "a channel"), 4u * rounds);
		EXPECT_LE(trace.count("tasks", "a time"), 1u); // 0 if it was over before the park
		EXPECT_EQ(static_cast<size_t>(rounds), trace.instants("round"));
		EXPECT_EQ(3u, trace.instants("spawns")); // the first task, and the two
		EXPECT_EQ((std::set<uint64_t>{1, 3, 6}), trace.clocks());
	});
}

TEST(Trace, EveryWakeUpLeadsToATurn)
{
	test::Environment large("SENNIT_RECORD", "1M");

	test::run({1, 2}, [] {
		play(200);

		Trace trace(written());
		size_t woken = trace.instants("wakes") + trace.instants("spawns");

		EXPECT_GE(woken, 200u);
		EXPECT_LE(trace.arrows(), woken);
		// With one processor the order is known, except that a thread without a processor
		// spawned the first task; and a processor that is revoked leaves a turn without an
		// arrow.
		if (test::stats().processors == 1) {
			EXPECT_GE(trace.arrows() + 1 + trace.instants("processor revoked") +
					  trace.instants("processor lent"),
				  woken);
		}
		for (const Event &event : trace.of("ping").events)
			if (event.name == "round") {
				EXPECT_EQ(1u, event.details.count("value"));
			}
	});
}

TASK_TEST(Trace, TimesAreThoseOfTheClock, 1)
{
	int64_t before = sn_now();
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, sn_sleep(2 * test::ms));
		int64_t end = sn_now() + test::ms;
		while (sn_now() < end)
			;
	}
	int64_t after = sn_now();

	Track track = Trace(written()).of("main");
	int64_t slept = 0;
	for (const Slice &slice : track.slices) {
		if (slice.name != "a time")
			continue;
		// The clocks differ by microseconds (docs/clock.md).
		slept++;
		EXPECT_GE(static_cast<int64_t>(slice.end),
			  before + slept * 2 * test::ms - test::ms / 2);
		EXPECT_LE(static_cast<int64_t>(slice.end), after + test::ms / 2);
		EXPECT_LE(slice.begin, slice.end);
	}
	EXPECT_EQ(3, slept);
}

// How long a turn of 50 ms has taken according to the trace.
int64_t shown_of_long_turn(const std::string &name)
{
	struct sn_task_attr attr = {};
	sn_task *task;

	play(100);
	attr.name = name.c_str();
	EXPECT_EQ(0, sn_spawn(
			     &task,
			     [](void *) {
				     int64_t end = sn_now() + 50 * test::ms;
				     while (sn_now() < end)
					     ;
				     return 0;
			     },
			     nullptr, &attr));
	EXPECT_EQ(0, sn_join(task, nullptr));

	int64_t took = 0;
	for (const Slice &slice : Trace(written()).of(name).slices)
		if (slice.name != "waits for a processor")
			took += static_cast<int64_t>(slice.end - slice.begin);
	return took;
}

// A long turn directly follows turns that are so short that they share one time.
TASK_TEST(Trace, ALongTurnIsShownAsThat, 1, 2)
{
	int64_t took = 0;

	// The monitor's clock is at most 10 ms late, unless the machine is so busy that the
	// monitor does not run.
	for (int i = 0; i < 20 && took < 40 * test::ms; i++)
		took = shown_of_long_turn("hog-" + std::to_string(i));
	EXPECT_GE(took, 40 * test::ms);
}

TASK_TEST(Trace, KeepsTheNamesOfTasksThatHaveEnded, 2)
{
	struct sn_task_attr attr = {};
	sn_task *task;

	attr.name = "a name of twenty-three";
	ASSERT_EQ(0, sn_spawn(
			     &task, [](void *) { return 0; }, nullptr, &attr));
	EXPECT_EQ(0, sn_join(task, nullptr));
	attr.name = "31 bytes and not one more of it";
	ASSERT_EQ(0, sn_spawn(
			     &task, [](void *) { return 0; }, nullptr, &attr));
	EXPECT_EQ(0, sn_join(task, nullptr));
	attr.name = "\x80 is no UTF-8";
	ASSERT_EQ(0, sn_spawn(
			     &task, [](void *) { return 0; }, nullptr, &attr));
	EXPECT_EQ(0, sn_join(task, nullptr));

	Trace trace(written());
	EXPECT_FALSE(trace.of("a name of twenty-three").slices.empty());
	EXPECT_FALSE(trace.of("31 bytes and not one more of it").slices.empty());
	EXPECT_FALSE(trace.of("? is no UTF-8").slices.empty());
}

TEST(Trace, IsWholeWhileTheProgramRunsOn)
{
	test::Environment small("SENNIT_RECORD", "4K");

	test::run({1, 2, 4}, [] {
		std::atomic<bool> stop{false};
		std::atomic<int> traces{0};
		std::thread writer([&] {
			while (traces < test::scaled(20)) {
				Trace trace(written());
				EXPECT_FALSE(trace.children_of("tasks").empty());
				traces++;
			}
			stop = true;
		});

		while (!stop)
			play(100);
		writer.join();
	});
}

TEST(Trace, CanBeWrittenAfterTheRun)
{
	test::run(1, [] { play(3); });
	Trace trace(written());

	EXPECT_FALSE(trace.of("ping").slices.empty());
	EXPECT_EQ(3u, trace.instants("round"));
}

TASK_TEST(Trace, RevokedProcessorsAreShown, 1)
{
	std::atomic<bool> ran{false};
	sn_task *task;

	ASSERT_EQ(0, sn_spawn(
			     &task,
			     [](void *arg) {
				     *static_cast<std::atomic<bool> *>(arg) = true;
				     return 0;
			     },
			     &ran, nullptr));
	int64_t end = sn_now() + test::patience;
	while (!ran && sn_now() < end)
		// without a call of sennit, so that the processor has to be revoked
		usleep(1000);
	EXPECT_TRUE(ran);
	EXPECT_EQ(0, sn_join(task, nullptr));

	Trace trace(written());
	EXPECT_GE(trace.instants("processor revoked"), 1u);
	EXPECT_GE(trace.count("tasks", "in foreign code without a processor"), 1u);
}

TEST(Trace, ThreadsOfTheProgramAreShown)
{
	const int64_t many = int64_t(7) << 40;

	test::run(2, [] {
		struct sn_semaphore semaphore = {};
		std::thread other([&] {
			EXPECT_EQ(0, sn_record("outside", many));
			EXPECT_EQ(0, sn_semaphore_release(&semaphore, 1));
		});

		EXPECT_EQ(0, sn_semaphore_acquire(&semaphore));
		other.join();
		Track track = Trace(written()).of("threads without a processor");
		size_t found = 0;
		for (const Event &event : track.events)
			found += event.name == "outside" && event.details.at("value") == many;
		EXPECT_EQ(1u, found);
	});
}

TEST(Trace, SaysWhatIsWrong)
{
	EXPECT_EQ(-EINVAL, sn_record(nullptr, 1));
	EXPECT_EQ(-ESRCH, sn_record("no run", 1));
	{
		test::Environment off("SENNIT_RECORD", "0");
		test::run(2, [] {
			play(2);
			EXPECT_EQ(0, sn_record("nowhere", 1));
			EXPECT_EQ("", written(-ENODATA));
		});
		EXPECT_EQ("", written(-ENODATA));
	}
	test::run(1, [] {
		EXPECT_EQ(-EBADF, sn_trace_write(-1));
		int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
		if (full >= 0) {
			EXPECT_EQ(-ENOSPC, sn_trace_write(full));
			close(full);
		}
		Trace trace(written()); // nothing of the previous trace is left
	});
	{
		test::Environment bad("SENNIT_RECORD", "12");
		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr));
	}
}

} // namespace
