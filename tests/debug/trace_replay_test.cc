// SPDX-License-Identifier: MIT
//
// How the trace treats records whose order or times contradict each other, as they do where records
// of several processors share times. The records are made up here.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "debug/trace_tasks.h"
}
#include "support/records.h"
#include "support/runtime.h"
#include "support/traces.h"

namespace
{

using namespace test;

size_t count(const Track &track, const std::string &name)
{
	size_t n = 0;

	for (const Slice &slice : track.slices)
		n += slice.name == name;
	return n;
}

// The rings of two processors, and that of threads without one.
class TraceReplay : public testing::Test
{
protected:
	void SetUp() override
	{
		ASSERT_EQ(0, test_records_begin(2));
		begin_ = sn_now() - test::ms * 1000;
	}

	// us: microseconds since the beginning of the records.
	uint64_t at(int64_t us) const { return static_cast<uint64_t>(begin_ + us * 1000); }

	// Adds records without times of their own, so that the next one is placed later between two
	// times.
	static void others(int ring)
	{
		for (uint64_t task = 100; task < 104; task++)
			test_record_kind(ring, "spawn", task, 0);
	}

	int64_t begin_ = 0;
	test::Environment size_{"SENNIT_RECORD", "4K"};
};

TEST_F(TraceReplay, ATaskThatEndsBeforeItsSpawnIsRecordedHasEnded)
{
	// On processor 0, task 5 spawns task 6, some time before 200 us; on processor 1, task 6
	// runs until 50 us.
	test_record_kind(0, "run", 5, at(0));
	others(0);
	test_record_kind(0, "spawn", 6, 0);
	test_record_kind(0, "time", 0, at(200));
	test_record_kind(0, "park", 5, 0);
	test_record_kind(0, "idle", 0, at(210));
	test_record_kind(1, "run", 6, at(10));
	test_record_kind(1, "time", 0, at(50));
	test_record_kind(1, "end", 6, 0);
	test_record_kind(1, "idle", 0, at(60));

	Trace trace(written());
	Track task = trace.of("task 6");
	EXPECT_EQ(1u, count(task, "running"));
	EXPECT_EQ(0u, count(task, "waits for a processor"));
}

TEST_F(TraceReplay, ATaskThatEndsAfterItsSpawnIsRecordedHasEnded)
{
	test_record_kind(0, "run", 5, at(0));
	others(0);
	test_record_kind(0, "spawn", 6, 0);
	test_record_kind(0, "time", 0, at(100));
	test_record_kind(0, "park", 5, 0);
	test_record_kind(1, "run", 6, at(10));
	test_record_kind(1, "time", 0, at(300));
	test_record_kind(1, "end", 6, 0);

	Trace trace(written());
	Track task = trace.of("task 6");
	EXPECT_EQ(1u, count(task, "running"));
	EXPECT_EQ(0u, count(task, "waits for a processor"));
}

TEST_F(TraceReplay, ATurnThatPrecedesItsWakeUpIsNotFollowedByAnother)
{
	// Task 6 is parked, woken some time before 200 us, and parks again at 60 us.
	test_record_kind(1, "run", 6, at(0));
	test_record_kind(1, "time", 0, at(10));
	test_record_kind(1, "park", 6, 0);
	test_record_kind(1, "idle", 0, at(11));
	test_record_kind(0, "run", 5, at(20));
	others(0);
	test_record_kind(0, "wake", 6, 5);
	test_record_kind(0, "time", 0, at(200));
	test_record_kind(0, "park", 5, 0);
	test_record_kind(1, "run", 6, at(40));
	test_record_kind(1, "time", 0, at(60));
	test_record_kind(1, "park", 6, 0);
	test_record_kind(1, "idle", 0, at(61));

	Track task = Trace(written()).of("task 6");
	EXPECT_EQ(2u, count(task, "running"));
	EXPECT_EQ(2u, count(task, "parked"));
	EXPECT_EQ(0u, count(task, "waits for a processor"));
}

TEST_F(TraceReplay, AWakeUpThatWasNotRecordedCostsNoLaterOne)
{
	// Task 6 runs at 40 us without a wake-up, because its record was overwritten. Later there
	// is one.
	test_record_kind(1, "run", 6, at(0));
	test_record_kind(1, "time", 0, at(10));
	test_record_kind(1, "park", 6, 0);
	test_record_kind(1, "run", 6, at(40));
	test_record_kind(1, "time", 0, at(60));
	test_record_kind(1, "park", 6, 0);
	test_record_kind(1, "idle", 0, at(61));
	test_record_kind(0, "run", 5, at(100));
	test_record_kind(0, "wake", 6, 5);
	test_record_kind(0, "time", 0, at(200));
	test_record_kind(0, "park", 5, 0);
	test_record_kind(1, "run", 6, at(300));
	test_record_kind(1, "time", 0, at(310));
	test_record_kind(1, "park", 6, 0);

	Trace trace(written());
	Track task = trace.of("task 6");
	EXPECT_EQ(3u, count(task, "running"));
	EXPECT_EQ(1u, count(task, "waits for a processor"));
	EXPECT_EQ(1u, trace.arrows());
}

TEST_F(TraceReplay, ATurnThatEndsAsAnotherTasksIsWhole)
{
	test_record_kind(0, "run", 5, at(0));
	test_record_kind(0, "time", 0, at(10));
	test_record_kind(0, "park", 6, 0);
	test_record_kind(0, "wake", 6, 5);
	test_record_kind(0, "idle", 0, at(20));

	Trace trace(written()); // decodes strictly
	EXPECT_EQ(1u, count(trace.of("task 6"), "running"));
}

TEST_F(TraceReplay, TheCounterEndsWithTheLastNumber)
{
	// Two tasks are woken at the same time, and begin to run within the microsecond.
	test_record_kind(0, "run", 5, at(0));
	test_record_kind(0, "time", 0, at(10));
	test_record_kind(0, "wake", 6, 5);
	test_record_kind(0, "time", 0, at(10) + 100);
	test_record_kind(0, "wake", 7, 5);
	test_record_kind(0, "time", 0, at(10) + 200);
	test_record_kind(0, "park", 5, 0);
	test_record_kind(0, "time", 0, at(10) + 300);
	test_record_kind(0, "park", 6, 0);
	test_record_kind(0, "time", 0, at(10) + 400);
	test_record_kind(0, "park", 7, 0);
	test_record_kind(0, "idle", 0, at(500));

	Track counter = Trace(written()).of("tasks that wait for a processor");
	ASSERT_FALSE(counter.events.empty());
	EXPECT_EQ(0, counter.events.back().counter);
	EXPECT_LT(counter.events.back().time, at(20));
}

TEST_F(TraceReplay, WhatFollowsATimeIsNotBeforeIt)
{
	// The record is from a clock that is ahead of that of the thread that writes the trace.
	const uint64_t ahead = at(10000000);

	test_record_kind(0, "time", 0, ahead);
	test_record_kind(0, "spawn", 6, 0);
	size_t found = 0;
	for (const test::Event &event : Trace(written()).of("processor 0").events) {
		EXPECT_LE(ahead, event.time);
		found += event.name == "spawns";
	}
	EXPECT_EQ(1u, found);
}

// The runtime knows the names of tasks that have not ended.
TEST(TraceOfARun, KnowsTheNameOfTheCaller)
{
	test::Environment size("SENNIT_RECORD", "4K");

	test::run(1, [] {
		auto fill = [] {
			for (int i = 0; i < 300; i++)
				EXPECT_EQ(0, sn_record("filler", i));
		};

		// Until only events are left: neither the task's spawn nor any turn of it.
		std::thread(fill).join();
		EXPECT_EQ(0, sn_yield());
		fill();
		EXPECT_FALSE(Trace(written()).of("main").events.empty());
	});
}

// The caller's processor may be revoked while it waits for memory, or for another reader of the
// records.
TEST(TraceOfARun, ShowsNoTurnOfACallerThatHasLostItsProcessor)
{
#if SENNIT_CHECKED
	GTEST_SKIP() << "it takes a lock on one thread, and releases it on another";
#endif
	test::Environment size("SENNIT_RECORD", "4K");

	struct Successor {
		int records;
		std::atomic<bool> stop{false};
	};

	for (int records : {3, 300})
		test::run(1, [records] {
			Successor successor{records};
			struct sn_task_attr attr = {};
			sn_task *task;

			attr.name = "successor";
			ASSERT_EQ(0, sn_spawn(
					     &task,
					     [](void *arg) {
						     auto *self = static_cast<Successor *>(arg);
						     for (int i = 0; i < self->records; i++)
							     EXPECT_EQ(0, sn_record("later", i));
						     test_records_release();
						     while (!self->stop)
							     ; // so that its turn is not over yet
						     return 0;
					     },
					     &successor, &attr));
			test_records_hold();
			Trace trace(written());
			successor.stop = true;
			EXPECT_EQ(0, sn_join(task, nullptr));

			size_t found = 0;
			EXPECT_GT(trace.instants("later"), 0u);
			for (const test::Event &event : trace.of("main").events)
				EXPECT_NE("later", event.name);
			if (records > 3)
				return; // the record of the turn's beginning was overwritten
			for (const test::Event &event : trace.of("successor").events)
				found += event.name == "later";
			EXPECT_EQ(3u, found);
		});
}

// On 32-bit machines a table for the records of many processors may be larger than the free memory.
TEST(TraceTable, HasRoomOrIsRefused)
{
	for (size_t most : {size_t(1), size_t(1000), size_t(2) * 65 * 65536 + 1}) {
		size_t bytes = sn_traced_bytes(most);

		EXPECT_TRUE(bytes == 0 || bytes / most >= sizeof(sn_traced)) << most;
		EXPECT_TRUE(sizeof(void *) == 4 || bytes) << most;
	}
	EXPECT_EQ(0u, sn_traced_bytes(SIZE_MAX / 2));
}

TEST(TraceTable, FindsWhatItHas)
{
	const uint64_t most = 5000;
	std::vector<uint64_t> memory(sn_traced_bytes(most) / sizeof(uint64_t) + 1);
	struct sn_traced_table table;

	sn_traced_begin(&table, memory.data(), most);
	for (uint64_t id = 0; id < most; id++)
		sn_traced_of(&table, id * id)->since = static_cast<int64_t>(id);
	for (uint64_t id = 0; id < most; id++)
		ASSERT_EQ(static_cast<int64_t>(id), sn_traced_of(&table, id * id)->since);
	EXPECT_EQ(most, table.count);
}

} // namespace
