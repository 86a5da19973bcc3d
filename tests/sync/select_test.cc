// SPDX-License-Identifier: MIT
//
// Select: the cases of Go's own tests, every error that channel.h documents, deadlines and
// cancellation, and random stress tests of selects that meet selects.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/channel.h"

namespace
{

using namespace test;

constexpr int64_t forever = 3600 * second;

TEST(Select, BadInputIsAnError)
{
	Chan<int> chan(1);
	int value = 1;
	sn_case unknown_op = {{chan.get()}, &value, sn_case_op(6), 0};
	sn_case no_element[] = {chan.recv_case(&value), {{chan.get()}, nullptr, SN_CASE_SEND, 0}};
	sn_case one = chan.recv_case(&value);

	EXPECT_EQ(-EINVAL, sn_select(nullptr, 1, SN_TRY));
	EXPECT_EQ(-EINVAL, sn_select(&unknown_op, 1, SN_TRY));
	EXPECT_EQ(-EINVAL, sn_select(no_element, 2, SN_TRY));
	EXPECT_EQ(-EINVAL, sn_select(&one, SIZE_MAX, SN_TRY));
	EXPECT_EQ(0u, chan.size());
}

TASK_TEST(Select, WithoutCasesOnlyWaits)
{
	sn_case nil[] = {{{nullptr}, nullptr, SN_CASE_RECV, 0},
			 {{nullptr}, nullptr, SN_CASE_SEND, 0}};

	EXPECT_EQ(-EAGAIN, sn_select(nullptr, 0, SN_TRY));
	EXPECT_EQ(-EAGAIN, sn_select(nil, 2, SN_TRY));
	EXPECT_EQ(-ETIMEDOUT, sn_select(nullptr, 0, sn_now() + ms));
	EXPECT_EQ(-ETIMEDOUT, sn_select(nil, 2, sn_now() + ms));
	// The call would wait forever, so only cancellation ends it.
	EXPECT_EQ(-ETIMEDOUT, in_scope(
				      [&](sn_scope *) {
					      EXPECT_EQ(-ETIMEDOUT,
							sn_select(nil, 2, SN_NO_DEADLINE));
				      },
				      sn_now() + ms));
}

TASK_TEST(Select, TryingTakesWhatIsReady)
{
	Chan<int> empty(1), full(1);
	int in = -1, out = 5;
	sn_case cases[] = {empty.recv_case(&in), full.send_case(&out)};

	ASSERT_EQ(0, full.send(1));
	EXPECT_EQ(-EAGAIN, sn_select(cases, 2, SN_TRY));
	EXPECT_EQ(-ETIMEDOUT, sn_select(cases, 2, 1));
	EXPECT_EQ(1, cases[0].result) << "a case that was not chosen is not written";
	EXPECT_EQ(1, full.get_one());
	EXPECT_EQ(1, sn_select(cases, 2, SN_TRY));
	EXPECT_EQ(0, cases[1].result);
	ASSERT_EQ(0, empty.send(7));
	EXPECT_EQ(0, sn_select(cases, 2, SN_TRY));
	EXPECT_EQ(0, cases[0].result);
	EXPECT_EQ(7, in);
	EXPECT_EQ(5, full.get_one());

	// A waiting sender makes an unbuffered channel ready.
	Chan<int> meeting;
	sn_case meet = meeting.recv_case(&in);
	EXPECT_EQ(-EAGAIN, sn_select(&meet, 1, SN_TRY));
	Task sender([&] { EXPECT_EQ(0, meeting.send(9)); });
	ASSERT_TRUE(meeting.await_senders(1));
	EXPECT_EQ(0, sn_select(&meet, 1, SN_TRY));
	EXPECT_EQ(9, in);
	sender.join();
}

TASK_TEST(Select, AClosedChannelIsReady)
{
	Chan<int> closed(1), open;
	int in = -1, out = 5;
	sn_case recv[] = {open.recv_case(&in), closed.recv_case(&in)};
	sn_case send[] = {closed.send_case(&out), open.recv_case(&in)};

	ASSERT_EQ(0, closed.send(1));
	closed.close();
	EXPECT_EQ(1, sn_select(recv, 2, SN_NO_DEADLINE));
	EXPECT_EQ(0, recv[1].result);
	EXPECT_EQ(1, in);
	EXPECT_EQ(1, sn_select(recv, 2, SN_NO_DEADLINE));
	EXPECT_EQ(-EPIPE, recv[1].result);
	EXPECT_EQ(0, sn_select(send, 2, SN_TRY));
	EXPECT_EQ(-EPIPE, send[0].result);
}

TASK_TEST(Select, IsWokenByAnyOfItsCases)
{
	for (int winner = 0; winner < 5; winner++) {
		Chan<int> in[2], out[2], closing;
		int got = -1, values[2] = {10, 11};
		sn_case cases[] = {in[0].recv_case(&got), in[1].recv_case(&got),
				   out[0].send_case(&values[0]), out[1].send_case(&values[1]),
				   closing.recv_case(&got)};
		Task selecting([&] {
			EXPECT_EQ(winner,
				  sn_select(cases, 5,
					    winner % 2 ? sn_now() + forever : SN_NO_DEADLINE));
		});

		ASSERT_TRUE(closing.await_receivers(1));
		if (winner < 2) {
			EXPECT_EQ(0, in[winner].send(20 + winner));
		} else if (winner < 4) {
			EXPECT_EQ(10 + winner - 2, out[winner - 2].get_one());
		} else {
			EXPECT_EQ(0, closing.close());
		}
		selecting.join();
		EXPECT_EQ(winner < 2 ? 20 + winner : -1, got);
		EXPECT_EQ(winner < 4 ? 0 : -EPIPE, cases[winner].result);
		for (auto &chan : in)
			EXPECT_EQ(0u, chan.receivers());
		for (auto &chan : out)
			EXPECT_EQ(0u, chan.senders());
		EXPECT_EQ(0u, closing.receivers());
	}
}

TASK_TEST(Select, ClosingEndsAWaitToSend)
{
	Chan<int> chan, other;
	int value = 1;
	sn_case cases[] = {other.recv_case(&value), chan.send_case(&value)};
	Task selecting([&] { EXPECT_EQ(1, sn_select(cases, 2, SN_NO_DEADLINE)); });

	ASSERT_TRUE(chan.await_senders(1));
	chan.close();
	selecting.join();
	EXPECT_EQ(-EPIPE, cases[1].result);
	EXPECT_EQ(0u, other.receivers());
}

TASK_TEST(Select, DeadlinesAndCancellationLeaveNothingBehind)
{
	Chan<int> a, b;
	int value = -1, out = 1;
	sn_case cases[] = {a.recv_case(&value), b.send_case(&out), a.recv_case(&value)};
	const int64_t until = sn_now() + 2 * ms;

	EXPECT_EQ(-ETIMEDOUT, sn_select(cases, 3, until));
	EXPECT_GE(sn_now(), until);
	EXPECT_EQ(0u, a.receivers() + b.senders());
	EXPECT_EQ(-ETIMEDOUT, in_scope(
				      [&](sn_scope *) {
					      EXPECT_EQ(-ETIMEDOUT,
							sn_select(cases, 3, SN_NO_DEADLINE));
					      EXPECT_EQ(-ETIMEDOUT, sn_select(cases, 3, SN_TRY));
				      },
				      sn_now() + 2 * ms));
	EXPECT_EQ(0u, a.receivers() + b.senders());
	EXPECT_EQ(-EAGAIN, a.try_send(1)) << "no receiver is left";
	EXPECT_EQ(-1, value);
}

// More cases than fit on the stack, in no particular order; some are NULL and some occur twice.
TASK_TEST(Select, AnyNumberOfCases)
{
	for (size_t n : {1u, 15u, 16u, 17u, 100u, 1000u}) {
		test::Random random(n);
		std::vector<std::unique_ptr<Chan<int>>> channels;
		std::vector<sn_case> cases(n);
		std::vector<int> values(n, -1);
		std::vector<size_t> owner(n);

		for (size_t i = 0; i < n; i++)
			channels.push_back(std::make_unique<Chan<int>>());
		for (size_t i = 0; i < n; i++) {
			owner[i] = random.below(n);
			cases[i] = channels[owner[i]]->recv_case(&values[i]);
			if (n > 1 && random.below(10) == 0)
				cases[i].chan = nullptr;
		}
		const auto used = [&](size_t i) { return cases[i].chan != nullptr; };
		size_t wanted = random.below(n);
		while (!used(wanted))
			wanted = random.below(n);
		Task sender([&] {
			const Chan<int> &last = *channels[owner[wanted]];

			ASSERT_TRUE(test::eventually([&] { return last.receivers() > 0; }));
			EXPECT_EQ(0, channels[owner[wanted]]->send(5));
		});
		const int index = sn_select(cases.data(), n, SN_NO_DEADLINE);

		ASSERT_GE(index, 0);
		EXPECT_EQ(owner[wanted], owner[size_t(index)]);
		EXPECT_EQ(5, values[size_t(index)]);
		sender.join();
		for (auto &chan : channels)
			EXPECT_EQ(0u, chan->receivers());
	}
}

// Go's TestSelectDuplicateChannel.
TASK_TEST(Select, ADuplicateIsOneWaitOnly)
{
	Chan<int> chan, other;
	int first = -1, second_value = -1, got;
	sn_case cases[] = {chan.recv_case(&first), other.recv_case(&got),
			   chan.recv_case(&second_value)};
	Task selecting([&] { EXPECT_NE(1, sn_select(cases, 3, SN_NO_DEADLINE)); });
	ASSERT_TRUE(chan.await_receivers(2));
	Task behind([&] { EXPECT_EQ(2, chan.get_one()); });
	ASSERT_TRUE(chan.await_receivers(3));

	EXPECT_EQ(0, chan.send(1));
	selecting.join();
	EXPECT_EQ(1, first + second_value + 1);
	EXPECT_EQ(0, chan.send(2)) << "goes past the dead duplicate";
	behind.join();
}

// Go's TestSelfSelect: two tasks that send and receive on the same channel in one select get each
// other's values. With an unbuffered channel they never get their own.
TASK_TEST(Select, DoesNotServeItself)
{
	for (int capacity : {0, 10}) {
		Chan<int> chan(capacity);
		std::vector<Task> tasks;
		std::atomic<int> left{2};

		for (int me = 0; me < 2; me++)
			tasks.emplace_back([&, me] {
				for (int i = 0; i < test::scaled(2000); i++) {
					int out = me, in = -1;
					// The cases are in either order.
					sn_case cases[] = {chan.recv_case(&in),
							   chan.recv_case(&in)};
					const int sends = i % 2;

					cases[sends] = chan.send_case(&out);
					if (i >= test::scaled(1000))
						sn_yield();
					const int index = sn_select(
						cases, 2, left > 1 ? sn_now() + 100 * us : SN_TRY);

					if (index == 1 - sends && capacity == 0) {
						EXPECT_EQ(1 - me, in) << "its own";
					}
				}
				left--;
			});
		join_all(tasks);
		EXPECT_EQ(0u, chan.senders() + chan.receivers());
	}
}

// ---- fairness ----

// Each of several cases that are always ready gets its share. With 10,000 choices among four, a
// count is binomial with a deviation of 43, and off by 430 once in 10^22.
TEST(Select, ChoosesReadyCasesEquallyOften)
{
	Chan<int> ready[4], never;
	Chan<int> *each[] = {&ready[0], &ready[1], &ready[2], &ready[3]};
	int counts[6] = {}, value;
	sn_case cases[] = {never.recv_case(&value),    each[0]->recv_case(&value),
			   each[1]->recv_case(&value), never.recv_case(&value),
			   each[2]->recv_case(&value), each[3]->recv_case(&value)};

	for (auto &chan : ready)
		chan.close();
	for (int i = 0; i < 10000; i++)
		counts[sn_select(cases, 6, SN_NO_DEADLINE)]++;
	for (int i : {1, 2, 4, 5})
		EXPECT_NEAR(2500, counts[i], 430);
	EXPECT_EQ(0, counts[0] + counts[3]);
}

// Go's TestSelectFairness: a case that is always ready does not shut out the other.
TASK_TEST(Select, LetsNoReadyCaseStarve)
{
	Chan<int> done, fast(100), slow;
	std::atomic<int> counts[2] = {};
	auto producer = [&](Chan<int> &chan) {
		int value = 1;
		sn_case cases[] = {chan.send_case(&value), done.recv_case(nullptr)};

		while (sn_select(cases, 2, SN_NO_DEADLINE) == 0) {}
	};
	Task producers[] = {Task([&] { producer(fast); }), Task([&] { producer(slow); })};
	int value;
	sn_case cases[] = {fast.recv_case(&value), slow.recv_case(&value)};

	const int64_t end = sn_now() + test::patience;

	while ((counts[0] < 100 || counts[1] < 100) && sn_now() < end) {
		const int index = sn_select(cases, 2, SN_NO_DEADLINE);

		ASSERT_GE(index, 0);
		counts[index]++;
	}
	done.close();
	join_all(producers);
	EXPECT_GE(counts[0], 100);
	EXPECT_GE(counts[1], 100);
}

// Go's TestPseudoRandomSend.
TASK_TEST(Select, SendsBothOfTwoValues)
{
	for (int capacity : {0, 100}) {
		Chan<int> chan(capacity);
		const int n = 1000;
		int ones = 0;
		Task receiver([&] {
			for (int i = 0; i < n; i++)
				ones += chan.get_one();
		});
		int zero = 0, one = 1;
		sn_case cases[] = {chan.send_case(&zero), chan.send_case(&one)};

		for (int i = 0; i < n; i++) {
			ASSERT_GE(sn_select(cases, 2, SN_NO_DEADLINE), 0);
			if (i % 10 == 0)
				sn_yield();
		}
		receiver.join();
		// Another task serves a waiting select by its first case in the queue,
		// which is the same one each time.
		if (capacity > 0) {
			EXPECT_GT(ones, n / 10);
			EXPECT_LT(ones, n - n / 10);
		}
	}
}

// ---- races ----

// Go's TestNonblockSelectRace: one channel becomes ready before the other ceases to be.
TASK_TEST(Select, TryingMissesNothingThatStays)
{
	for (int i = 0; i < test::scaled(3000); i++) {
		Chan<int> a(1), b(1);
		ASSERT_EQ(0, a.send(1));
		Task selecting([&] {
			int value;
			sn_case cases[] = {a.recv_case(&value), b.recv_case(&value)};

			EXPECT_GE(sn_select(cases, 2, SN_NO_DEADLINE), 0);
		});

		EXPECT_EQ(0, b.send(1));
		a.try_recv(nullptr);
		selecting.join();
	}
}

// Two selects that can only serve each other, through two channels at the same time, in all
// directions.
TASK_TEST(Select, TwoSelectsServeEachOther)
{
	Chan<int> a, b;
	const int n = test::scaled(20000);
	std::atomic<int64_t> sums[2] = {};
	auto both = [&](bool swapped, std::atomic<int64_t> &sum) {
		for (int i = 1; i <= n; i++) {
			int out = i, in = 0;
			sn_case cases[] = {swapped ? b.send_case(&out) : a.send_case(&out),
					   swapped ? a.recv_case(&in) : b.recv_case(&in)};
			const int index = sn_select(cases, 2, SN_NO_DEADLINE);

			ASSERT_GE(index, 0);
			ASSERT_EQ(0, cases[index].result);
			sum += index == 0 ? out : -in;
		}
	};
	Task left([&] { both(false, sums[0]); });
	Task right([&] { both(true, sums[1]); });

	left.join();
	right.join();
	EXPECT_EQ(0, sums[0] + sums[1]) << "what one sent the other received";
}

// Go's TestSelectStress and more: channels of all capacities, selects with any number of cases,
// deadlines and yields. Every value is received exactly once, and at the end no task waits.
void attack(uint64_t seed, bool with_threads)
{
	constexpr int channels = 5, workers = 8;
	const int each = test::scaled(3000);
	std::vector<std::unique_ptr<Chan<uint64_t>>> chan;
	std::atomic<uint64_t> sent_sum{0}, received_sum{0};
	std::atomic<int64_t> sent{0}, received{0};
	std::vector<std::unique_ptr<std::atomic<char>[]>> seen;
	Chan<int> done;
	auto take = [&](uint64_t value) {
		received++;
		received_sum += value;
		if (seen[value >> 32][value & 0xffffffff]++)
			ADD_FAILURE() << "twice; seed " << seed;
	};
	auto worker = [&](uint64_t me) {
		test::Random random(seed * 100 + me);
		uint64_t number = 0;

		while (number < uint64_t(each)) {
			sn_case cases[6];
			uint64_t in[6], out = me << 32 | number;
			const size_t n = 1 + random.below(6);
			const int64_t deadline = sn_now() + int64_t(random.below(30)) * us;

			for (size_t i = 0; i < n; i++) {
				Chan<uint64_t> &c = *chan[random.below(channels)];

				cases[i] =
					random.below(2) ? c.recv_case(&in[i]) : c.send_case(&out);
				if (random.below(20) == 0)
					cases[i].chan = nullptr;
			}
			const int index = sn_select(cases, n, random.below(4) ? deadline : SN_TRY);

			if (index >= 0 && cases[index].op == SN_CASE_SEND) {
				sent++;
				sent_sum += out;
				number++;
			} else if (index >= 0) {
				take(in[index]);
			} else if (index != -ETIMEDOUT && index != -EAGAIN) {
				ADD_FAILURE() << index;
			}
			if (random.below(16) == 0 && sn_self())
				sn_yield();
		}
	};
	// Receives the values that no worker would receive any more.
	auto drain = [&] {
		std::vector<sn_case> cases(channels);
		std::vector<uint64_t> in(channels);

		for (size_t i = 0; i < channels; i++)
			cases[i] = chan[i]->recv_case(&in[i]);
		cases.push_back(done.recv_case(nullptr));
		for (;;) {
			const int index = sn_select(cases.data(), cases.size(), SN_NO_DEADLINE);

			if (index == channels)
				break;
			take(in[size_t(index)]);
		}
		for (size_t i = 0; i < channels; i++)
			while (chan[i]->try_recv(&in[i]) == 0)
				take(in[i]);
	};

	for (int i = 0; i < channels; i++)
		chan.push_back(std::make_unique<Chan<uint64_t>>(i / 2));
	for (int i = 0; i < workers; i++)
		seen.emplace_back(new std::atomic<char>[size_t(each)]());
	Task drainer(drain);
	std::vector<Task> tasks;
	std::vector<std::thread> threads;
	for (uint64_t i = 0; i < workers; i++) {
		if (with_threads && i < 2)
			threads.emplace_back(worker, i);
		else
			tasks.emplace_back([&worker, i] { worker(i); });
	}
	join_all(tasks);
	join_all(threads);
	done.close();
	drainer.join();
	EXPECT_EQ(sent, received);
	EXPECT_EQ(sent_sum, received_sum);
	for (auto &of_one : seen)
		for (int i = 0; i < each; i++)
			if (of_one[size_t(i)] != 1)
				FAIL() << "lost; seed " << seed;
	for (auto &c : chan)
		EXPECT_EQ(0u, c->senders() + c->receivers() + c->size());
}

TEST(Select, RandomSelectsLoseNothing)
{
	test::Random random;
	const uint64_t seed = random.below(1000000);

	test::run([&] { attack(seed, false); });
}

TEST(Select, RandomSelectsOfTasksAndThreadsLoseNothing)
{
	test::Random random;
	const uint64_t seed = random.below(1000000);

	test::run({2}, [&] { attack(seed, true); });
}

// Selects are cancelled at any moment. Every value that was sent was received, and no waiter is
// left.
TEST(Select, CancellationRacingWithSuccessLosesNothing)
{
	struct Shared {
		Chan<int> a, b{1};
		std::atomic<int64_t> balance{0}, successes{0};
	};

	test::run([] {
		Shared shared;
		test::Random random;
		auto body = [](void *arg) {
			auto *s = static_cast<Shared *>(arg);

			for (int i = 1;; i++) {
				int out = i, in = 0;
				sn_case cases[] = {s->a.send_case(&out), s->b.recv_case(&in),
						   s->b.send_case(&out), s->a.recv_case(&in)};
				const int index = sn_select(cases, 4, SN_NO_DEADLINE);

				if (index < 0) {
					EXPECT_EQ(-ECANCELED, index);
					return 0;
				}
				s->balance += cases[index].op == SN_CASE_SEND ? out : -in;
				s->successes++;
			}
		};

		for (int round = 0; round < test::scaled(300); round++) {
			const int result = in_scope([&](sn_scope *scope) {
				for (int i = 0; i < 4; i++)
					EXPECT_EQ(0, sn_scope_go(scope, body, &shared));
				for (uint64_t i = random.below(20); i > 0; i--)
					sn_yield();
				sn_scope_cancel(scope);
			});
			int left;

			EXPECT_EQ(-ECANCELED, result);
			while (shared.b.try_recv(&left) == 0)
				shared.balance -= left;
			ASSERT_EQ(0, shared.balance);
			ASSERT_EQ(0u, shared.a.senders() + shared.a.receivers());
			ASSERT_EQ(0u, shared.b.senders() + shared.b.receivers());
		}
		EXPECT_GT(shared.successes, 0);
	});
}

} // namespace
