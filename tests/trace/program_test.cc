// SPDX-License-Identifier: MIT
//
// Programs in which something is slow for a known reason: sennit-trace names the reason, from the
// trace that the runtime has written. And a busy program, whose trace agrees with what the runtime
// has counted.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "chain.hpp"
#include "summary.hpp"
#include "support/runtime.h"
#include "support/traces.h"
#include "trace.hpp"

namespace
{

using tracing::state;

// A trace: its bytes, and what was read from them.
struct Read {
	explicit Read(std::string from) : bytes(std::move(from)), trace(tracing::read_trace(bytes))
	{
		EXPECT_TRUE(trace.warnings.empty()) << trace.warnings.front();
	}
	std::string group(uint32_t task) const
	{
		return task == tracing::none ? "none" : std::string(trace.tasks[task].group);
	}

	const std::string bytes;
	const tracing::trace trace;
};

template <class Body>
test::Task spawn(const char *name, Body body)
{
	struct sn_task_attr attr = {};

	attr.name = name;
	return test::Task(std::move(body), &attr);
}

void compute(int64_t ns)
{
	const int64_t end = sn_now() + ns;

	while (sn_now() < end)
		;
}

// Processors are not revoked, so a task that computes does so in one turn.
class TraceProgram : public testing::Test
{
	test::Environment leases_{"SENNIT_LEASES", "0"};
	test::Environment records_{"SENNIT_RECORD", "1M"};
};

TEST_F(TraceProgram, TheTaskThatKeepsTheProcessorIsNamedAndWhoWaitsForIt)
{
	test::run(1, [] {
		auto hog = spawn("hog", [] {
			// The task is runnable from the beginning of this turn on.
			auto victim = spawn("victim", [] {});
			compute(50 * test::ms);
			EXPECT_EQ(0, victim.join());
		});
		EXPECT_EQ(0, hog.join());
	});

	// A busy machine may keep other tasks waiting for long as well, but not many.
	const Read read(test::written());
	const auto summary = tracing::summarize(read.trace, 3);
	EXPECT_TRUE(std::ranges::any_of(summary.longest_turns, [&](const tracing::stay *each) {
		return read.group(each->task) == "hog" && each->length() >= 10 * test::ms;
	})) << to_text(read.trace, summary);
	EXPECT_TRUE(std::ranges::any_of(summary.longest_waits, [&](const tracing::wait_row &each) {
		return read.group(each.is->task) == "victim" && !each.meanwhile.empty() &&
		       read.group(each.meanwhile.front().task) == "hog" &&
		       waker_of(read.trace, *each.is).starts_with("hog ");
	})) << to_text(read.trace, summary);
	EXPECT_TRUE(std::ranges::any_of(summary.runners, [&](const tracing::stay_row &each) {
		return each.group == "hog";
	})) << to_text(read.trace, summary);
}

// The missing records could say that a wait had ended. Only what follows them is reported.
TEST_F(TraceProgram, OverwrittenRecordsAreNoticed)
{
	for (const char *size : {"4K", "1M"}) {
		test::Environment records("SENNIT_RECORD", size);

		test::run(1, [] {
			auto other = spawn("other", [] {
				for (int i = 0; i < 1000; i++)
					sn_yield();
			});
			for (int i = 0; i < 1000; i++)
				sn_yield();
			EXPECT_EQ(0, other.join());
		});
		const Read read(test::written());
		EXPECT_EQ(size == std::string("4K"), read.trace.whole > 0);
	}
}

TEST_F(TraceProgram, AMutexAndTheTaskThatHasItAreNamed)
{
	test::run({1, 2}, [] {
		struct sn_mutex mutex = {};
		struct sn_semaphore has_it = {};
		auto holder = spawn("holder", [&] {
			EXPECT_EQ(0, sn_mutex_lock(&mutex));
			EXPECT_EQ(0, sn_semaphore_release(&has_it, 1));
			EXPECT_EQ(0, sn_sleep(50 * test::ms));
			EXPECT_EQ(0, sn_mutex_unlock(&mutex));
		});
		EXPECT_EQ(0, sn_semaphore_acquire(&has_it));
		auto wanter = spawn("wanter", [&] {
			EXPECT_EQ(0, sn_mutex_lock(&mutex));
			EXPECT_EQ(0, sn_record("has the mutex", 7));
			EXPECT_EQ(0, sn_mutex_unlock(&mutex));
		});
		EXPECT_EQ(0, wanter.join());
		EXPECT_EQ(0, holder.join());

		const Read read(test::written());
		const auto &trace = read.trace;
		const auto summary = tracing::summarize(trace, 10);
		EXPECT_TRUE(std::ranges::any_of(summary.parks, [&](const tracing::stay_row &each) {
			return each.group == "wanter" && each.reason == "a mutex" &&
			       each.longest->length() >= 10 * test::ms;
		})) << to_text(trace, summary);

		const auto chosen = tracing::choose(trace, "has the mutex", "");
		const auto &steps = chosen.is.steps;
		EXPECT_EQ(7, chosen.is.event->value);
		EXPECT_TRUE(std::ranges::any_of(steps, [&](const tracing::step &each) {
			return each.depth == 0 && read.group(each.is->task) == "wanter" &&
			       each.is->is == state::parked &&
			       trace.reason(*each.is) == "a mutex" &&
			       read.group(each.by) == "holder";
		})) << to_text(trace, chosen);
		// And what that task did while it had the mutex.
		EXPECT_TRUE(std::ranges::any_of(steps, [&](const tracing::step &each) {
			return each.depth == 1 && read.group(each.is->task) == "holder" &&
			       each.is->is == state::parked && trace.reason(*each.is) == "a time";
		})) << to_text(trace, chosen);
	});
}

TEST_F(TraceProgram, AChainLeadsThroughTasksToTheTimerThatItBeganWith)
{
	test::run({1, 2}, [] {
		sn_chan *first, *second;

		ASSERT_EQ(0, sn_chan_new(&first, sizeof(int), 0));
		ASSERT_EQ(0, sn_chan_new(&second, sizeof(int), 0));
		// The tasks wait before anything is sent, so each is woken by the one before it.
		auto three = spawn("three", [&] {
			int item;
			EXPECT_EQ(0, sn_chan_recv(second, &item));
			compute(5 * test::ms);
			EXPECT_EQ(0, sn_record("request served", item));
		});
		auto two = spawn("two", [&] {
			int item;
			EXPECT_EQ(0, sn_chan_recv(first, &item));
			compute(5 * test::ms);
			EXPECT_EQ(0, sn_chan_send(second, &item));
		});
		auto one = spawn("one", [&] {
			int item = 200;
			EXPECT_EQ(0, sn_sleep(20 * test::ms));
			compute(5 * test::ms);
			EXPECT_EQ(0, sn_chan_send(first, &item));
		});
		for (auto *each : {&one, &two, &three})
			EXPECT_EQ(0, each->join());
		sn_chan_unref(first);
		sn_chan_unref(second);

		const Read read(test::written());
		const auto chosen = tracing::choose(read.trace, "request served", "");
		std::vector<std::string> ran;
		for (const auto &each : chosen.is.steps)
			if (each.is->is == state::running)
				ran.push_back(read.group(each.is->task));
		const auto last = std::unique(ran.begin(), ran.end());
		ran.erase(last, ran.end());
		EXPECT_EQ((std::vector<std::string>{"three", "two", "one"}), ran)
			<< to_text(read.trace, chosen);
		EXPECT_EQ(tracing::origin::timer, chosen.is.from) << to_text(read.trace, chosen);
		ASSERT_NE(nullptr, chosen.is.parked);
		EXPECT_EQ("a time", read.trace.reason(*chosen.is.parked));
	});
}

TEST_F(TraceProgram, AnAnswerFromTheNetworkIsTheOriginOfAChain)
{
	test::run({1, 2}, [] {
		int ends[2];
		sn_stream *from;

		ASSERT_EQ(0, pipe(ends));
		ASSERT_EQ(0, sn_stream_adopt(&from, ends[0]));
		auto reader = spawn("reader", [&] {
			char c;
			EXPECT_EQ(1, sn_stream_read(from, &c, 1));
			EXPECT_EQ(0, sn_record("has read", c));
		});
		EXPECT_EQ(0, sn_sleep(20 * test::ms));
		EXPECT_EQ(1, write(ends[1], "x", 1));
		EXPECT_EQ(0, reader.join());
		EXPECT_EQ(0, sn_stream_close(from));
		close(ends[1]);

		const Read read(test::written());
		const auto chosen = tracing::choose(read.trace, "has read", "");
		EXPECT_EQ("reader", read.group(chosen.is.task));
		// If the reader was late, it has not parked.
		if (chosen.is.parked) {
			EXPECT_EQ(tracing::origin::network, chosen.is.from)
				<< to_text(read.trace, chosen);
			EXPECT_EQ("a descriptor to be readable",
				  read.trace.reason(*chosen.is.parked));
		}
	});
}

// ---- a busy program ----

TEST(TraceBusyProgram, IsCountedAsTheRuntimeCounts)
{
	test::Environment large("SENNIT_RECORD", "1M");

	test::run({1, 2, 4}, [] {
		const int tasks = test::scaled(40);
		sn_chan *channel;
		std::vector<test::Task> all;

		ASSERT_EQ(0, sn_chan_new(&channel, sizeof(int), 2));
		for (int i = 0; i < tasks; i++) {
			all.push_back(spawn("sender", [&] {
				for (int n = 0; n < 50; n++)
					EXPECT_EQ(0, sn_chan_send(channel, &n));
			}));
			all.push_back(spawn("receiver", [&] {
				int item;
				for (int n = 0; n < 50; n++) {
					EXPECT_EQ(0, sn_chan_recv(channel, &item));
					EXPECT_EQ(0, sn_yield());
				}
			}));
		}
		for (auto &each : all)
			EXPECT_EQ(0, each.join());
		sn_chan_unref(channel);

		// This task does not switch between the two reads, and all others have ended.
		const uint64_t switches = test::stats().switches;
		const Read read(test::written());
		const auto summary = tracing::summarize(read.trace, 10);
		EXPECT_GE(summary.turns, switches);
		EXPECT_LE(summary.turns, switches + summary.revocations + summary.lent);
		EXPECT_EQ(static_cast<size_t>(2 * tasks) + 1, summary.spawns);
		EXPECT_EQ(static_cast<size_t>(2 * tasks) + 1, summary.tasks);
		int64_t running = 0, ran = 0;
		for (const auto &each : summary.processors) {
			EXPECT_LE(each.running + each.idle, each.recorded) << each.name;
			running += each.running;
		}
		// Processors ran for as long as tasks ran, except for turns whose times contradict
		// each other.
		for (const auto &each : tracing::summarize(read.trace, 1000).runners)
			ran += each.total;
		EXPECT_LE(std::abs(ran - running), running / 4 + test::ms);
	});
}

} // namespace
