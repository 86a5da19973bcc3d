// SPDX-License-Identifier: MIT
//
// Every wait has a bound (docs/design.md). The tests count scheduling decisions, not time, so a
// machine that stalls for a while changes nothing.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <sennit/channel.h>
#include <sennit/scope.h>
#include <sennit/stream.h>
#include <sennit/unstable.h>

#include "support/runtime.h"

namespace
{

using test::Task;

void compute(int64_t ns)
{
	const int64_t until = sn_now() + ns;

	while (sn_now() < until)
		;
}

// Tasks that are always runnable, possibly more than fit into a ring, and count their turns. The
// first turn after an event has become due records the count.
class Crowd
{
public:
	explicit Crowd(int size, int64_t work = 0)
	{
		for (int i = 0; i < size; i++)
			tasks_.emplace_back([this, work] {
				while (!stop_) {
					turns_.fetch_add(1, std::memory_order_relaxed);
					if (int64_t due = due_; due && sn_now() >= due) {
						due_ = 0;
						since_ = turns_.load();
					}
					if (work)
						compute(work);
					sn_yield();
				}
			});
	}
	~Crowd() { stop(); }

	void stop()
	{
		stop_ = true;
		test::join_all(tasks_);
		tasks_.clear();
	}

	int64_t turns() const { return turns_; }
	void expect(int64_t when)
	{
		since_ = INT64_MAX;
		due_ = when;
	}
	// How many turns there were since the first one after the expected moment, or 0 if there
	// was none.
	int64_t late() { return std::max(int64_t(0), turns_ - since_); }

private:
	std::atomic<bool> stop_{false};
	std::atomic<int64_t> turns_{0}, due_{0}, since_{INT64_MAX};
	std::vector<Task> tasks_;
};

// A queued task waits for all others at most twice. Ages are compared in milliseconds, and a
// millisecond has 50,000 turns of 20 ns.
constexpr int64_t turns_to_queue(int tasks)
{
	return 4 * tasks + 150000;
}

// Runs the body for crowds of several sizes. With one processor, no task has a turn while the
// machine stalls that processor, so each of ten rounds counts, and of five in the short form. With
// two, the other may continue, so one round of ten is enough. The body returns how many turns late
// its event was. The largest crowd overflows the ring of SN_RING_TURN tasks in every build.
template <class Body>
void with_crowds(Body body)
{
	for (int size : {10, 300, test::scaled(10000)})
		test::run({1, 2}, [&] {
			const bool alone = test::stats().processors == 1;
			const int rounds = alone && test::is_short() ? 5 : 10;
			const int64_t most = turns_to_queue(size);
			int64_t best = INT64_MAX, worst = 0;
			Crowd crowd(size);

			for (int i = 0; i < rounds && (alone || best >= most); i++) {
				const int64_t late = body(crowd);

				best = std::min(best, late);
				worst = std::max(worst, late);
			}
			EXPECT_LT(alone ? worst : best, most) << size << " tasks";
		});
}

TEST(Fairness, TimersFireHoweverManyTasksAreRunnable)
{
	with_crowds([](Crowd &crowd) {
		const int64_t when = sn_now() + 2 * test::ms;

		crowd.expect(when);
		EXPECT_EQ(0, sn_sleep_until(when));
		return crowd.late();
	});
}

TEST(Fairness, TheNetworkIsPolledHoweverManyTasksAreRunnable)
{
	with_crowds([](Crowd &crowd) {
		std::atomic<int64_t> before{0};
		sn_stream *stream;
		int fds[2];
		char byte;

		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
		EXPECT_EQ(0, sn_stream_adopt(&stream, fds[0]));
		std::thread writer([&] {
			usleep(1000);
			before = crowd.turns();
			EXPECT_EQ(1, write(fds[1], "x", 1));
		});
		EXPECT_EQ(1, sn_stream_read(stream, &byte, 1));
		const int64_t late = crowd.turns() - before;
		writer.join();
		sn_stream_close(stream);
		close(fds[1]);
		return late;
	});
}

// Two tasks that answer each other over a connection, and count their turns. Whichever thread runs
// them finds one of them each time it polls.
class Game
{
public:
	Game()
	{
		int fds[2];

		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
		for (int i = 0; i < 2; i++)
			EXPECT_EQ(0, sn_stream_adopt(&ends_[i], fds[i]));
		players_.emplace_back([this] {
			char byte = 'x';

			while (!stop_ && sn_stream_write(ends_[0], &byte, 1) == 1 &&
			       sn_stream_read(ends_[0], &byte, 1) == 1)
				turns_.fetch_add(2, std::memory_order_relaxed);
			sn_stream_close(ends_[0]);
		});
		players_.emplace_back([this] {
			char byte;

			while (sn_stream_read(ends_[1], &byte, 1) == 1 &&
			       sn_stream_write(ends_[1], &byte, 1) == 1)
				;
			sn_stream_close(ends_[1]);
		});
	}
	~Game()
	{
		stop_ = true;
		test::join_all(players_);
	}
	uint64_t turns() const { return turns_; }

private:
	sn_stream *ends_[2] = {};
	std::atomic<bool> stop_{false};
	std::atomic<uint64_t> turns_{0};
	std::vector<Task> players_;
};

// The thread of one processor computes, or is not run by the kernel, while the other thread always
// finds something in the network. Returns how many turns of the game what waits for the first
// processor takes until it has run: prepare() makes tasks that call what it gets. The median
// counts, because the kernel may keep the other thread from running.
template <class F>
uint64_t turns_until_taken(F prepare)
{
	std::vector<uint64_t> late;
	Game game;

	for (int i = 0; i < 9; i++) {
		std::atomic<uint64_t> ran{0}, last{0};
		std::vector<Task> tasks;

		// The game is on the other processor, because this task does not park.
		for (const uint64_t begin = game.turns(); game.turns() < begin + 100;)
			;
		prepare(tasks, [&] {
			last = game.turns();
			ran++;
		});
		const uint64_t before = game.turns();
		while (ran < tasks.size())
			;
		late.push_back(last - std::min(before, last.load()));
		test::join_all(tasks);
	}
	std::sort(late.begin(), late.end());
	return late[late.size() / 2];
}

// If it had to wait until the processor is revoked, that would be a thousand turns later.
TASK_TEST(Fairness, WhatWaitsBehindALongTurnGoesToAThreadThatPolls, 2)
{
	const uint64_t late = turns_until_taken([](std::vector<Task> &tasks, const auto &run) {
		for (int i = 0; i < 2; i++)
			tasks.emplace_back(run);
	});

	EXPECT_LT(late, 100U);
}

TASK_TEST(Fairness, TimersBehindALongTurnAreFiredByAThreadThatPolls, 2)
{
	const uint64_t late = turns_until_taken([](std::vector<Task> &tasks, const auto &run) {
		const int64_t due = sn_now() + 200 * test::us;

		tasks.emplace_back([run, due] {
			EXPECT_EQ(0, sn_sleep_until(due));
			run();
		});
		sn_yield(); // so that it sleeps, on this processor
		compute(due - sn_now());
	});

	EXPECT_LT(late, 100U);
}

// Tasks that foreign threads wake come through the global queue, which also takes the overflow of
// the rings.
TEST(Fairness, WakeUpsFromForeignThreadsAreNotDelayed)
{
	with_crowds([](Crowd &crowd) {
		std::atomic<int64_t> before{0};
		sn_chan *chan;
		int got = 0;

		EXPECT_EQ(0, sn_chan_new(&chan, sizeof(int), 1));
		std::thread sender([&] {
			const int one = 1;

			usleep(1000);
			before = crowd.turns();
			EXPECT_EQ(0, sn_chan_send(chan, &one));
		});
		EXPECT_EQ(0, sn_chan_recv(chan, &got));
		const int64_t late = crowd.turns() - before;
		sender.join();
		sn_chan_unref(chan);
		return late;
	});
}

// Tasks do not leave the queue early because the global queue is filled, however fast that is.
TASK_TEST(Fairness, AFloodOfForeignSpawnsStarvesNoTask, 1, 2)
{
	static std::atomic<int64_t> spawned, ran;
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	spawned = ran = 0;
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&] {
			while (!stop) {
				if (spawned - ran > 20000)
					usleep(100);
				else if (sn_go([](void *) { return int(ran++ > 0); }, nullptr) == 0)
					spawned++;
			}
		});
	for (int i = 0; i < 20; i++) {
		const int64_t when = sn_now() + test::ms;

		ASSERT_EQ(0, sn_sleep_until(when));
	}
	stop = true;
	test::join_all(threads);
	EXPECT_TRUE(test::eventually([] { return ran == spawned; }));
}

// Tasks with long turns cause few scheduling decisions, so scheduling is made fair by time. The
// best of some rounds counts, because the machine may delay the monitor.
TASK_TEST(Fairness, LongTasksLeaveTimersTheirTurn, 1)
{
	int64_t best = INT64_MAX;
	Crowd crowd(4, 2 * test::ms);

	for (int i = 0; i < 20 && best > 20; i++) {
		const int64_t when = sn_now() + test::ms;

		crowd.expect(when);
		ASSERT_EQ(0, sn_sleep_until(when));
		best = std::min(best, crowd.late());
	}
	// Allows FAIR_NS and the monitor's period, with turns of 2 ms and four tasks in the
	// queue.
	EXPECT_LE(best, 20);
}

// Two tasks that exchange messages overtake the queue for at most 10 ms, instead of for 32 turns of
// any length.
TASK_TEST(Fairness, LongNextTasksLeaveTheQueueItsTurn, 1)
{
	std::atomic<int64_t> hands{0};
	std::atomic<bool> stop{false};
	sn_chan *there, *back;
	int64_t best = INT64_MAX;

	ASSERT_EQ(0, sn_chan_new(&there, sizeof(int), 0));
	ASSERT_EQ(0, sn_chan_new(&back, sizeof(int), 0));
	Task ping([&] {
		for (int i = 0; !stop; i++) {
			compute(3 * test::ms);
			hands++;
			if (sn_chan_send(there, &i) < 0 || sn_chan_recv(back, &i) < 0)
				break;
		}
		sn_chan_close(there);
	});
	Task pong([&] {
		int i;

		while (sn_chan_recv(there, &i) >= 0) {
			compute(3 * test::ms);
			hands++;
			if (sn_chan_send(back, &i) < 0)
				break;
		}
		sn_chan_close(back);
	});
	for (int i = 0; i < 20 && best > 16; i++) {
		const int64_t before = hands;

		sn_yield();
		best = std::min(best, hands - before);
	}
	EXPECT_LE(best, 16);
	stop = true;
	ping.join();
	pong.join();
	sn_chan_unref(there);
	sn_chan_unref(back);
}

// Foreign threads wake two tasks again and again, so that one of them is in the global queue
// whenever the other stops. Because turns are long, each is then a fair one, which must not mean
// that both tasks go before older ones.
TEST(Fairness, LongTasksOfForeignThreadsLeaveTheQueueItsTurn)
{
	// Turns; an unbounded wait would never end for a task that starves.
	const int64_t enough = test::is_short() ? 100 : 400;

	test::run(1, [enough] {
		std::atomic<int64_t> turns{0};
		int64_t worst = 0;
		std::atomic<bool> stop{false}, asks[2] = {};
		sn_chan *answers[2];
		std::vector<Task> tasks;

		for (int i = 0; i < 2; i++)
			ASSERT_EQ(0, sn_chan_new(&answers[i], sizeof(int), 1));
		std::thread foreign([&] {
			const int one = 1;

			while (!stop) {
				usleep(500);
				for (int i = 0; i < 2; i++)
					if (asks[i].exchange(false)) {
						EXPECT_EQ(0, sn_chan_send(answers[i], &one));
					}
			}
			for (sn_chan *chan : answers)
				sn_chan_close(chan);
		});
		for (int i = 0; i < 2; i++)
			tasks.emplace_back([&, i] {
				int got = 0;

				do {
					turns++;
					compute(8 * test::ms);
					asks[i] = true;
				} while (turns < enough && sn_chan_recv(answers[i], &got) == 0);
			});
		while (turns < enough) {
			const int64_t before = turns;

			sn_yield();
			worst = std::max(worst, turns - before);
		}
		// The oldest task goes first, so a few turns are enough, however long they are.
		EXPECT_LE(worst, 20);
		stop = true;
		foreign.join();
		test::join_all(tasks);
		for (sn_chan *chan : answers)
			sn_chan_unref(chan);
	});
}

// ---- loops over calls that do not park ----

struct Loop {
	const char *name;
	void (*begin)(Loop &loop); // in the task
	void (*turn)(Loop &loop);
	void (*end)(Loop &loop);
	sn_chan *chan;
	sn_scope *scope;
};

void nothing(Loop &) {}

void new_chan(Loop &loop)
{
	ASSERT_EQ(0, sn_chan_new(&loop.chan, sizeof(int), 1));
}

void free_chan(Loop &loop)
{
	sn_chan_unref(loop.chan);
}

const Loop loops[] = {
	{"select", new_chan,
	 [](Loop &loop) {
		 int got;
		 struct sn_case one = {};

		 one.op = SN_CASE_RECV;
		 one.chan = loop.chan;
		 one.elem = &got;

		 ASSERT_EQ(-EAGAIN, sn_select(&one, 1, SN_TRY));
	 },
	 free_chan, nullptr, nullptr},
	{"try_recv", new_chan,
	 [](Loop &loop) {
		 int got;

		 ASSERT_EQ(-EAGAIN, sn_chan_try_recv(loop.chan, &got));
	 },
	 free_chan, nullptr, nullptr},
	{"bracket", nothing,
	 [](Loop &) {
		 sn_enter_blocking();
		 sn_exit_blocking();
	 },
	 nothing, nullptr, nullptr},
	{"blocking", nothing,
	 [](Loop &) { ASSERT_EQ(7, sn_blocking([](void *) { return 7; }, nullptr)); }, nothing,
	 nullptr, nullptr},
	{"pin", nothing,
	 [](Loop &) {
		 ASSERT_EQ(0, sn_pin());
		 ASSERT_EQ(0, sn_unpin());
	 },
	 nothing, nullptr, nullptr},
	{"go", nothing,
	 [](Loop &) {
		 // At most so many, because this test is not about the memory of tasks.
		 if (test::stats().tasks_alive < 1000) {
			 ASSERT_EQ(0, sn_go([](void *) { return 0; }, nullptr));
		 }
	 },
	 nothing, nullptr, nullptr},
	{"cancelled sleep",
	 [](Loop &loop) {
		 ASSERT_EQ(0, sn_scope_open(&loop.scope, SN_NO_DEADLINE));
		 ASSERT_EQ(0, sn_scope_cancel(loop.scope));
	 },
	 [](Loop &) { ASSERT_EQ(-ECANCELED, sn_sleep(test::ms)); },
	 [](Loop &loop) { sn_scope_close(loop.scope); }, nullptr, nullptr},
	{"time", nothing, [](Loop &) { sn_now(); }, nothing, nullptr, nullptr},
};

class Loops : public testing::TestWithParam<Loop>
{
};

// A task that sleeps beside the loops, of which there is one for each processor. Half of its sleeps
// at least end within this many turns of the loops: 60 ms at 40 ns a turn. The loops take no turns
// while the machine stalls.
constexpr int64_t turns_to_beat = 1500000;

TEST_P(Loops, AreRescheduled)
{
	test::run({1, 2}, [] {
		const int processors = int(test::stats().processors);
		std::atomic<bool> stop{false};
		std::atomic<int64_t> turns{0};
		std::vector<int64_t> waits;
		std::vector<Task> tasks;

		for (int i = 0; i < processors; i++)
			tasks.emplace_back([&] {
				Loop loop = GetParam();
				const int64_t end = sn_now() + test::patience;

				loop.begin(loop);
				while (!stop && !testing::Test::HasFatalFailure()) {
					loop.turn(loop);
					turns.fetch_add(1, std::memory_order_relaxed);
					ASSERT_LT(sn_now(), end) << "no other task ever ran";
				}
				loop.end(loop);
			});
		for (int beats = 0; beats < 11; beats++) {
			const int64_t before = turns;

			ASSERT_EQ(0, sn_sleep(test::ms));
			waits.push_back(turns - before);
		}
		stop = true;
		test::join_all(tasks);
		std::sort(waits.begin(), waits.end());
		EXPECT_LT(waits[waits.size() / 2], turns_to_beat * processors);
	});
}

INSTANTIATE_TEST_SUITE_P(Calls, Loops, testing::ValuesIn(loops), [](const auto &loop) {
	std::string name = loop.param.name;

	std::replace(name.begin(), name.end(), ' ', '_');
	return name;
});

// Two processors. The sleeper's timer stays with the processor that becomes idle. The thread in the
// poller leaves it for a task that promises to be brief, and therefore wakes no thread to replace
// it. That task then computes until the sleeper has woken.
TEST(Fairness, ABriefTaskThatComputesDelaysNoTimer)
{
	for (int round = 0; round < (test::is_short() ? 4 : 10); round++)
		test::run(2, [] {
			std::atomic<bool> awake{false};
			struct sn_task_attr brief = {};
			sn_stream *stream;
			int fds[2];

			brief.flags = SN_TASK_BRIEF;
			ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
			ASSERT_EQ(0, sn_stream_adopt(&stream, fds[0]));
			Task sleeper([&] {
				compute(3 * test::ms);
				ASSERT_EQ(0, sn_sleep(60 * test::ms));
				awake = true;
			});
			Task liar(
				[&] {
					char byte;

					compute(8 * test::ms);
					ASSERT_EQ(1, sn_stream_read(stream, &byte, 1));
					const int64_t end = sn_now() + test::patience;

					while (!awake && sn_now() < end)
						;
					EXPECT_TRUE(awake);
				},
				&brief);
			std::thread writer([&] {
				usleep(30000);
				ASSERT_EQ(1, write(fds[1], "x", 1));
			});
			sleeper.join();
			liar.join();
			writer.join();
			sn_stream_close(stream);
			close(fds[1]);
		});
}

// A task that loops over such calls stays on its thread, as the calls promise, so what belongs to
// the thread is still there.
TASK_TEST(Fairness, ALoopingTaskStaysOnItsThread, 1)
{
	std::atomic<bool> stop{false};
	const uint64_t before = test::stats().revocations;
	Task loop([&] {
		const pthread_t self = pthread_self();

		while (!stop) {
			ASSERT_EQ(7, sn_blocking([](void *) { return 7; }, nullptr));
			ASSERT_TRUE(pthread_equal(self, pthread_self()));
		}
	});

	EXPECT_TRUE(test::eventually([&] { return test::stats().revocations > before + 3; }));
	stop = true;
	loop.join();
}

} // namespace
