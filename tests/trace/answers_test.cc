// SPDX-License-Identifier: MIT
//
// Questions about traces that are made by hand, whose answers are known.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "chain.hpp"
#include "find.hpp"
#include "history.hpp"
#include "made.hpp"
#include "summary.hpp"
#include "trace.hpp"
#include "units.hpp"

namespace
{

using test::Made;
using tracing::origin;
using tracing::state;

constexpr int64_t us = 1000;

// ---- a summary ----

TEST(TraceSummary, HasTheProcessAndTheProcessors)
{
	const Made made = test::slow_request();
	const auto trace = tracing::read_trace(made.bytes());
	const auto summary = tracing::summarize(trace, 10);

	EXPECT_EQ("server", trace.process);
	EXPECT_EQ(4321u, trace.pid);
	EXPECT_EQ(14000 * us, trace.end);
	EXPECT_EQ(1699999999500000000, trace.real_time);
	EXPECT_TRUE(trace.warnings.empty());
	EXPECT_EQ(3u, summary.tasks);
	EXPECT_EQ(4u, summary.turns);
	EXPECT_EQ(2u, summary.wakes);
	ASSERT_EQ(2u, summary.processors.size()); // without the time of the other threads
	EXPECT_EQ("processor 0", summary.processors[0].name);
	EXPECT_EQ((8090 + 500 + 2000) * us, summary.processors[0].running);
	EXPECT_EQ(14000 * us, summary.processors[0].recorded);
	EXPECT_EQ(13010 * us, summary.processors[1].recorded); // from its first event on
	EXPECT_EQ(9400 * us, summary.processors[1].running);
}

TEST(TraceSummary, NamesTheLongestWaitAndWhoRanMeanwhile)
{
	const Made made = test::slow_request();
	const auto trace = tracing::read_trace(made.bytes());
	const auto summary = tracing::summarize(trace, 2);

	ASSERT_EQ(2u, summary.longest_waits.size());
	const auto &wait = summary.longest_waits[0];
	EXPECT_EQ("session 17", trace.tasks[wait.is->task].name);
	EXPECT_EQ("the network", tracing::waker_of(trace, *wait.is));
	EXPECT_EQ(8000 * us, wait.is->length());
	ASSERT_EQ(1u, wait.meanwhile.size());
	EXPECT_EQ("hog 9", trace.tasks[wait.meanwhile[0].task].name);
	EXPECT_EQ(7990 * us, wait.meanwhile[0].time);
	EXPECT_EQ(3u, summary.waits.times);
	EXPECT_EQ(5010 * us, summary.waits.median);
	EXPECT_EQ(8000 * us, summary.waits.p99);
	EXPECT_EQ((8000 + 5010 + 500) * us, summary.waits.total);
}

TEST(TraceSummary, LeavesOutWhatOverwrittenRecordsCouldDeny)
{
	Made made;

	made.task(1, "early");
	made.task(2, "late");
	made.wait(1, 10, 900);
	made.park(1, 900, 950, "a mutex");
	made.incident(0, 300, "earlier records were overwritten", 0);
	made.incident(1, 500, "earlier records were overwritten", 0);
	made.wait(2, 600, 700);
	made.run(2, 0, 700, 800);
	auto trace = tracing::read_trace(made.bytes());
	EXPECT_EQ(500 * us, trace.whole);
	tracing::forget_what_is_uncertain(trace);
	const auto summary = tracing::summarize(trace, 10);
	EXPECT_EQ(1u, summary.waits.times);
	EXPECT_EQ(100 * us, summary.waits.longest);
	ASSERT_EQ(1u, summary.parks.size());
	EXPECT_EQ("a mutex", summary.parks[0].reason);
	EXPECT_EQ(1u, summary.turns);
}

TEST(TraceSummary, AddsUpParksByGroupAndReason)
{
	Made made;

	for (uint64_t id = 1; id <= 3; id++) {
		made.task(id, "worker");
		made.park(id, 100, 200, "a channel");
		made.park(id, 200, 200 + 100 * static_cast<int64_t>(id), "a mutex");
	}
	made.task(4, "task 4 of serve()");
	made.park(4, 0, 5000, "something new");
	const auto trace = tracing::read_trace(made.bytes());
	const auto summary = tracing::summarize(trace, 2);

	EXPECT_EQ(3u, summary.park_rows);
	ASSERT_EQ(2u, summary.parks.size());
	EXPECT_EQ("serve()", summary.parks[0].group);
	EXPECT_EQ(tracing::park_kind::other, tracing::kind_of(summary.parks[0].reason));
	EXPECT_EQ("worker", summary.parks[1].group);
	EXPECT_EQ("a mutex", summary.parks[1].reason);
	EXPECT_EQ(600 * us, summary.parks[1].total);
	EXPECT_EQ(3u, summary.parks[1].tasks);
	EXPECT_EQ(3u, summary.parks[1].times);
	EXPECT_EQ(300 * us, summary.parks[1].longest->length());
	EXPECT_EQ("worker 3", trace.tasks[summary.parks[1].longest->task].name);
}

TEST(TraceSummary, HasRevokedProcessorsAndEvents)
{
	Made made;

	made.task(1, "job");
	made.run(1, 0, 0, 1000);
	made.incident(0, 1000, "processor revoked", 1);
	made.away(1, 1000, 6000);
	made.incident(1, 500, "steals", 0);
	for (int64_t i = 0; i < 3; i++)
		made.event(1, 100 + i, "done", -i);
	const auto trace = tracing::read_trace(made.bytes());
	const auto summary = tracing::summarize(trace, 10);

	EXPECT_EQ(1u, summary.revocations);
	EXPECT_EQ(1u, summary.processors[0].revoked);
	EXPECT_EQ(1u, summary.steals);
	EXPECT_EQ(1u, summary.processors[1].steals);
	ASSERT_EQ(1u, summary.longest_away.size());
	EXPECT_EQ(5000 * us, summary.longest_away[0]->length());
	ASSERT_EQ(1u, summary.events.size());
	EXPECT_EQ(3u, summary.events[0].times);
	EXPECT_EQ(102 * us, summary.events[0].last);
	EXPECT_EQ(-2, trace.marks.back().value);
}

TEST(TraceSummary, OfLimitsHasOnlyWhatIsWithin)
{
	const Made made = test::slow_request();
	auto trace = tracing::read_trace(made.bytes());

	tracing::limit(trace, 5000 * us, 9200 * us);
	const auto summary = tracing::summarize(trace, 10);
	EXPECT_EQ(4000 * us, summary.longest_waits[0].is->length());
	EXPECT_EQ(4200 * us, summary.processors[1].running);
	EXPECT_EQ(4200 * us, summary.processors[1].recorded);
	EXPECT_EQ(0u, summary.wakes);
	EXPECT_TRUE(summary.parks.empty());
	EXPECT_TRUE(summary.events.empty());
}

TEST(TraceSummary, CutsTextsToTheLine)
{
	Made made;
	const std::string reason(120, 'r');

	for (uint64_t id = 1; id < 6; id++) {
		made.task(id, std::string(100, 'n') + std::to_string(id));
		made.park(id, 0, 10, reason);
		made.run(id, 0, 100 * static_cast<int64_t>(id),
			 100 * static_cast<int64_t>(id) + 90);
	}
	made.task(100, "victim");
	made.wait(100, 0, 1000, 1);
	made.run(100, 0, 1000, 1001);
	const auto trace = tracing::read_trace(made.bytes());
	const std::string text = to_text(trace, tracing::summarize(trace, 10));
	for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
		EXPECT_LE(tracing::width(text.substr(at, end - at)), 100u)
			<< text.substr(at, end - at);
}

// ---- histories ----

TEST(TraceHistory, HasEachTurnWaitAndParkInOrder)
{
	const Made made = test::slow_request();
	const auto trace = tracing::read_trace(made.bytes());
	const auto found = tracing::find_tasks(trace, "session");

	ASSERT_EQ(1u, found.size());
	EXPECT_EQ(found, tracing::find_tasks(trace, "17"));
	EXPECT_EQ(found, tracing::find_tasks(trace, "session 17"));
	EXPECT_TRUE(tracing::find_tasks(trace, "sess").empty());
	EXPECT_EQ("session 17\n"
		  "ran 2.50 ms (2), waited for a processor 8.50 ms (2), parked 2.50 ms (3)\n"
		  "\n"
		  "      at     took  what\n"
		  "   0.500   500 µs  parked for a descriptor to be readable\n"
		  "   1.000  8.00 ms  waited for a processor, woken by the network\n"
		  "   9.000   500 µs  ran on processor 0\n"
		  "   9.500  1.00 ms  parked for a mutex\n"
		  "  10.500   500 µs  waited for a processor, woken by db 5\n"
		  "  11.000  2.00 ms  ran on processor 0\n"
		  "  12.900             event \"request served\" = 200\n"
		  "  13.000  1.00 ms  parked for a descriptor to be readable\n",
		  tracing::history_text(trace, found));
}

// ---- chains ----

struct Expected {
	std::string task;
	state is;
	int64_t begin, end; // us
	size_t depth;
};

void expect_steps(const tracing::trace &trace, const tracing::chain &chain,
		  const std::vector<Expected> &expected)
{
	ASSERT_EQ(expected.size(), chain.steps.size()) << to_text(trace, {chain});
	for (size_t i = 0; i < expected.size(); i++) {
		const auto &step = chain.steps[i];
		SCOPED_TRACE(i);
		EXPECT_EQ(expected[i].task, trace.tasks[step.is->task].name);
		EXPECT_EQ(expected[i].is, step.is->is);
		EXPECT_EQ(expected[i].begin * us, step.begin);
		EXPECT_EQ(expected[i].end * us, step.end);
		EXPECT_EQ(expected[i].depth, step.depth);
	}
}

TEST(TraceChain, OfASlowRequestBeginsAtTheNetwork)
{
	const Made made = test::slow_request();
	const auto trace = tracing::read_trace(made.bytes());
	const auto chosen = tracing::choose(trace, "request served", "");

	expect_steps(trace, chosen.is,
		     {{"session 17", state::running, 11000, 12900, 0},
		      {"session 17", state::waiting, 10500, 11000, 0},
		      {"session 17", state::parked, 9500, 10500, 0},
		      {"db 5", state::running, 9500, 10500, 1},
		      {"session 17", state::running, 9000, 9500, 0},
		      {"session 17", state::waiting, 1000, 9000, 0}});
	EXPECT_EQ(origin::network, chosen.is.from);
	EXPECT_EQ(500 * us, chosen.is.parked->length());
	EXPECT_EQ(1000 * us, chosen.is.begin);
	const auto parts = tracing::add_up(trace, chosen.is);
	ASSERT_EQ(3u, parts.size());
	EXPECT_EQ(state::waiting, parts[0].is);
	EXPECT_EQ(8500 * us, parts[0].time);
	EXPECT_EQ(2400 * us, parts[1].time);
	EXPECT_EQ("a mutex", parts[2].reason);
	EXPECT_EQ(1000 * us, parts[2].time);
	EXPECT_EQ("db 5", trace.tasks[parts[2].by].name);
}

// There are three stages. Each gets its work from the previous one; what the previous one did
// before is not part of the chain.
TEST(TraceChain, FollowsWhatIsHandedOn)
{
	Made made(1);

	made.task(1, "accept");
	made.task(2, "parse");
	made.task(3, "answer");
	made.park(3, 0, 3000, "a channel");
	made.run(2, 0, 0, 500);
	made.park(2, 500, 2000, "a channel");
	made.park(1, 0, 901, "a ticker");
	made.incident(0, 900, "timers", 1);
	made.wake_on(0, 901, 1, 1);
	made.wait(1, 901, 1000);
	made.run(1, 0, 1000, 2000, 1);
	made.wake(1, 2000, 2, 2);
	made.wait(2, 2000, 2000, 1);
	made.run(2, 0, 2000, 3000, 2);
	made.wake(2, 2800, 3, 3);
	made.wait(3, 2800, 3000, 2);
	made.run(3, 0, 3000, 4000, 3);
	made.event(3, 3900, "served", 1);
	const auto trace = tracing::read_trace(made.bytes());
	const auto chosen = tracing::choose(trace, "served", "");

	expect_steps(trace, chosen.is,
		     {{"answer 3", state::running, 3000, 3900, 0},
		      {"answer 3", state::waiting, 2800, 3000, 0},
		      {"parse 2", state::running, 2000, 2800, 0},
		      {"parse 2", state::waiting, 2000, 2000, 0},
		      {"accept 1", state::running, 1000, 2000, 0},
		      {"accept 1", state::waiting, 901, 1000, 0}});
	EXPECT_EQ(origin::timer, chosen.is.from);
	EXPECT_EQ("a ticker", trace.reason(*chosen.is.parked));
}

TEST(TraceChain, OfSeveralEventsTheSlowestIsChosenUnlessATimeIsGiven)
{
	Made made(1);

	made.task(1, "worker");
	for (int64_t i = 0; i < 5; i++) {
		const int64_t begin = 1000 * i, took = i == 2 ? 700 : 100;
		const auto flow = static_cast<uint64_t>(i + 1);
		made.incident(0, begin, "network", 1);
		made.wake_on(0, begin, 1, flow);
		made.run(1, 0, begin, begin + took, flow);
		made.event(1, begin + took - 1, "served", i);
		made.park(1, begin + took, begin + 1000, "a descriptor to be readable");
	}
	const auto trace = tracing::read_trace(made.bytes());
	const auto slowest = tracing::choose(trace, "served", "");
	const auto other = tracing::choose(trace, "served@3.2", "");

	EXPECT_EQ(2, slowest.is.event->value);
	EXPECT_EQ(5u, slowest.among);
	EXPECT_EQ(99 * us, slowest.median);
	EXPECT_EQ(699 * us, slowest.p99);
	EXPECT_EQ(3, other.is.event->value);
	EXPECT_EQ(1u, other.among);
}

// A request that waits for others has origins of its own, and --since leads past them.
TEST(TraceChain, SinceAnEventGoesThroughTimersAndTheNetwork)
{
	Made made(1);

	made.task(1, "worker");
	made.run(1, 0, 0, 1000);
	made.event(1, 900, "begun", 1);
	made.park(1, 1000, 3000, "a descriptor to be readable");
	made.incident(0, 3000, "network", 1);
	made.wake_on(0, 3000, 1, 1);
	made.run(1, 0, 3000, 4000, 1);
	made.event(1, 3500, "served", 1);
	const auto trace = tracing::read_trace(made.bytes());
	const auto without = tracing::choose(trace, "served", "");
	const auto with = tracing::choose(trace, "served", "begun");

	EXPECT_EQ(origin::network, without.is.from);
	EXPECT_EQ(500 * us, without.is.length());
	EXPECT_EQ(origin::event, with.is.from);
	expect_steps(trace, with.is,
		     {{"worker 1", state::running, 3000, 3500, 0},
		      {"worker 1", state::parked, 1000, 3000, 0},
		      {"worker 1", state::running, 900, 1000, 0}});
}

TEST(TraceChain, OfATaskAtATimeSaysWhatItWaitedFor)
{
	const Made made = test::slow_request();
	const auto trace = tracing::read_trace(made.bytes());
	const auto parked = tracing::choose(trace, "session@10ms", "");
	const auto last = tracing::choose(trace, "17", "");

	EXPECT_EQ(11000 * us, parked.is.end); // the task was parked then, and runs next at 11 ms
	EXPECT_EQ(state::waiting, parked.is.steps[1].is->is);
	EXPECT_EQ(13000 * us, last.is.end);
	EXPECT_THROW(tracing::choose(trace, "nobody", ""), tracing::not_found);
	EXPECT_THROW(tracing::choose(trace, "session@0.1", ""), tracing::not_found);
}

TEST(TraceChain, ASpawnIsFollowedToTheSpawner)
{
	Made made(1);

	made.task(1, "main");
	made.task(2, "child");
	made.wake_on(-1, 10, 1, 1, "spawns");
	made.wait(1, 10, 100);
	made.run(1, 0, 100, 500, 1);
	made.wake(1, 400, 2, 2, "spawns");
	made.wait(2, 400, 500, 1);
	made.run(2, 0, 500, 900, 2);
	const auto trace = tracing::read_trace(made.bytes());
	const auto chosen = tracing::choose(trace, "child", "");

	expect_steps(trace, chosen.is,
		     {{"child 2", state::running, 500, 900, 0},
		      {"child 2", state::waiting, 400, 500, 0},
		      {"main 1", state::running, 100, 400, 0},
		      {"main 1", state::waiting, 10, 100, 0}});
	EXPECT_EQ(origin::spawn, chosen.is.from);
}

// Two tasks that wake each other at the same time, forever.
TEST(TraceChain, ThatLeadsInACircleEnds)
{
	Made made(1);

	for (uint64_t id : {1, 2}) {
		made.task(id, "twin");
		made.park(id, 100, 100, "a channel");
		made.wake(3 - id, 100, id, id);
		made.wait(id, 100, 100, 3 - id);
		made.run(id, 0, 100, 100, id);
	}
	const auto trace = tracing::read_trace(made.bytes());
	const auto chosen = tracing::choose(trace, "1", "");

	EXPECT_EQ(0, chosen.is.length());
	EXPECT_LE(chosen.is.steps.size(), 1000u);
}

// ---- units ----

TEST(TraceUnits, AreWrittenWithThreeDigits)
{
	EXPECT_EQ("0 ns", tracing::duration_text(0));
	EXPECT_EQ("999 ns", tracing::duration_text(999));
	EXPECT_EQ("1.00 µs", tracing::duration_text(1000));
	EXPECT_EQ("9.99 µs", tracing::duration_text(9990));
	EXPECT_EQ("10.0 µs", tracing::duration_text(9999));
	EXPECT_EQ("100 µs", tracing::duration_text(99990));
	EXPECT_EQ("1.00 ms", tracing::duration_text(999900));
	EXPECT_EQ("12.3 s", tracing::duration_text(12345678901));
	EXPECT_EQ("12346 s", tracing::duration_text(12345678901234));
	EXPECT_EQ("1,234,567", tracing::count_text(1234567));
	EXPECT_EQ("<1 %", tracing::share_text(1, 1000));
	EXPECT_EQ("?[31m?", tracing::clean("\x1b[31m\x9b"));
	EXPECT_EQ("ab…", tracing::cut("abcd", 3));
	EXPECT_EQ("3 µs", tracing::cut("3 µs", 4));
	EXPECT_EQ("3 …", tracing::cut("3 µs", 3));
}

TEST(TraceUnits, AreReadWithAnyUnit)
{
	EXPECT_EQ(12500 * us, tracing::parse_time("12.5"));
	EXPECT_EQ(12500 * us, tracing::parse_time("12.5 ms"));
	EXPECT_EQ(800 * us, tracing::parse_time("800us"));
	EXPECT_EQ(800 * us, tracing::parse_time("800µs"));
	EXPECT_EQ(1200000 * us, tracing::parse_time("1.2s"));
	EXPECT_EQ(-20000 * us, tracing::parse_time("-20"));
	for (const char *bad :
	     {"", "ms", "1x", "1 m", "nan", "inf", "1e400", "9999999999s", "1ms "})
		EXPECT_FALSE(tracing::parse_time(bad)) << bad;
}

// ---- what is no trace ----

std::string why_not(const std::string &bytes)
{
	try {
		tracing::read_trace(bytes);
	} catch (const tracing::not_a_trace &error) {
		return error.why;
	}
	return "it is one";
}

TEST(TraceFormat, WhatIsNoTraceIsSaid)
{
	const std::string empty_packet = Made::bytes_field(1, "");

	EXPECT_EQ("is empty", why_not(""));
	EXPECT_EQ("is not a trace", why_not("#!/bin/sh\necho"));
	EXPECT_EQ("is not a trace", why_not(std::string(100, '\0')));
	EXPECT_EQ("is a trace, but none of sennit's", why_not(empty_packet));
	EXPECT_EQ("it is one", why_not(test::slow_request().bytes()));
}

TEST(TraceFormat, WhatMakesNoSenseIsLeftOutAndSaid)
{
	Made made = test::slow_request();

	made.field(11, "\x01"); // an event without a track
	made.field(60, "\xff");
	made.task(17, "again");
	const auto trace = tracing::read_trace(made.bytes());
	ASSERT_EQ(1u, trace.warnings.size());
	EXPECT_NE(std::string::npos, trace.warnings[0].find("3 of ")) << trace.warnings[0];
	EXPECT_EQ(4u, tracing::summarize(trace, 1).turns);
}

} // namespace
