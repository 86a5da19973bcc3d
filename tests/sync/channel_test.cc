// SPDX-License-Identifier: MIT
// Labels: machine
//
// Channels: the cases of Go's own channel tests (runtime/chan_test.go, by behaviour), every error
// that channel.h documents, plain threads, deadlines and cancellation. A random stress test checks
// that no element is lost, duplicated or out of order.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <sennit/foreign.h>

#include "support/channel.h"

namespace
{

using namespace test;

constexpr int64_t forever = 3600 * second;

// ---- bad input ----

TEST(Channel, BadInputIsAnError)
{
	sn_chan *chan = nullptr;
	int value = 7;

	EXPECT_EQ(-EINVAL, sn_chan_new(nullptr, 4, 0));
	EXPECT_EQ(-EINVAL, sn_chan_new(&chan, 4, -1));
	EXPECT_EQ(-EINVAL, sn_chan_new(&chan, 4, SSIZE_MAX));
	EXPECT_EQ(-EINVAL, sn_chan_new(&chan, SIZE_MAX, 1));
	EXPECT_EQ(nullptr, chan);
	for (int64_t deadline : {SN_NO_DEADLINE, SN_TRY, int64_t{1}}) {
		EXPECT_EQ(-EINVAL, sn_chan_send_until(nullptr, &value, deadline));
		EXPECT_EQ(-EINVAL, sn_chan_recv_until(nullptr, &value, deadline));
	}
	EXPECT_EQ(-EINVAL, sn_chan_close(nullptr));
	EXPECT_EQ(0u, sn_chan_len(nullptr));
	EXPECT_EQ(0u, sn_chan_cap(nullptr));
	EXPECT_EQ(nullptr, sn_chan_ref(nullptr));
	sn_chan_unref(nullptr);

	Chan<int> numbers(1);
	EXPECT_EQ(-EINVAL, sn_chan_send(numbers.get(), nullptr));
	EXPECT_EQ(-EINVAL, sn_chan_try_send(numbers.get(), nullptr));
	EXPECT_EQ(0u, numbers.size());
}

TEST(Channel, AllocationFailureIsAnError)
{
#if !TEST_ASAN && !TEST_TSAN // the sanitizers end the program instead
	sn_chan *chan = nullptr;

	if (sizeof(void *) == 4) // on a 64-bit machine the memory may be available
		return;

	EXPECT_EQ(-ENOMEM, sn_chan_new(&chan, 1, SSIZE_MAX - 4096));
	EXPECT_EQ(nullptr, chan);
#endif
}

// ---- one task ----

TEST(Channel, BuffersUpToItsCapacityInOrder)
{
	for (int capacity : {0, 1, 2, 10, 100}) {
		Chan<int> chan(capacity);
		int value = -1;

		EXPECT_EQ(size_t(capacity), sn_chan_cap(chan.get()));
		for (int round = 0; round < 3; round++) {
			EXPECT_EQ(-EAGAIN, chan.try_recv(&value));
			EXPECT_EQ(-1, value);
			for (int i = 0; i < capacity; i++) {
				EXPECT_EQ(size_t(i), chan.size());
				EXPECT_EQ(0, chan.try_send(i));
			}
			EXPECT_EQ(-EAGAIN, chan.try_send(0));
			for (int i = 0; i < capacity; i++) {
				EXPECT_EQ(0, chan.try_recv(&value));
				EXPECT_EQ(i, value);
			}
			value = -1;
			// The next round begins at another place in the ring.
			if (capacity > 1) {
				EXPECT_EQ(0, chan.try_send(0));
				EXPECT_EQ(0, chan.try_recv(nullptr));
			}
		}
	}
}

template <size_t N>
struct Bytes {
	unsigned char data[N];
};

template <size_t N>
void pass_bytes()
{
	Chan<Bytes<N>> chan(3);

	for (int round = 0; round < 10; round++) {
		Bytes<N> in, out;

		for (size_t i = 0; i < N; i++)
			in.data[i] = static_cast<unsigned char>(i * 7 + size_t(round));
		ASSERT_EQ(0, chan.send(in));
		ASSERT_EQ(0, chan.recv(&out));
		ASSERT_EQ(0, memcmp(&in, &out, N));
		Task sender([&] { EXPECT_EQ(0, chan.send(in)); });
		ASSERT_EQ(0, chan.recv(&out));
		ASSERT_EQ(0, memcmp(&in, &out, N));
		sender.join();
	}
}

TASK_TEST(Channel, ElementsMayHaveAnySize)
{
	pass_bytes<1>();
	pass_bytes<2>();
	pass_bytes<3>();
	pass_bytes<4>();
	pass_bytes<7>();
	pass_bytes<8>();
	pass_bytes<16>();
	pass_bytes<24>();
	pass_bytes<1000>();
	pass_bytes<5000>();
}

TASK_TEST(Channel, ElementsMayHaveSizeZero)
{
	sn_chan *chan = nullptr;

	ASSERT_EQ(0, sn_chan_new(&chan, 0, 2));
	EXPECT_EQ(0, sn_chan_send(chan, nullptr));
	EXPECT_EQ(0, sn_chan_send(chan, nullptr));
	EXPECT_EQ(-EAGAIN, sn_chan_try_send(chan, nullptr));
	EXPECT_EQ(2u, sn_chan_len(chan));
	Task third([&] { EXPECT_EQ(0, sn_chan_send(chan, nullptr)); });
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, sn_chan_recv(chan, nullptr));
	third.join();
	EXPECT_EQ(-EAGAIN, sn_chan_try_recv(chan, nullptr));
	sn_chan_unref(chan);
}

TEST(Channel, AClosedChannelIsDrainedFirst)
{
	Chan<int> chan(3);
	int value = -1;

	EXPECT_EQ(0, chan.try_send(1));
	EXPECT_EQ(0, chan.try_send(2));
	EXPECT_EQ(0, chan.close());
	EXPECT_EQ(-EPIPE, chan.close());
	for (int64_t deadline : {SN_NO_DEADLINE, SN_TRY, int64_t{1}})
		EXPECT_EQ(-EPIPE, chan.send(3, deadline));
	EXPECT_EQ(0, chan.recv(&value));
	EXPECT_EQ(1, value);
	EXPECT_EQ(0, chan.try_recv(&value));
	EXPECT_EQ(2, value);
	for (int64_t deadline : {SN_NO_DEADLINE, SN_TRY, int64_t{1}})
		EXPECT_EQ(-EPIPE, chan.recv(&value, deadline));
	EXPECT_EQ(2, value) << "nothing was received, so nothing may be written";
}

TEST(Channel, ReferencesKeepItAlive)
{
	sn_chan *chan = nullptr;
	int value = 5;

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 1));
	EXPECT_EQ(chan, sn_chan_ref(chan));
	sn_chan_unref(chan);
	EXPECT_EQ(0, sn_chan_try_send(chan, &value));
	sn_chan_unref(chan);
}

// ---- two tasks ----

TASK_TEST(Channel, AnUnbufferedSendWaitsForItsReceiver)
{
	Chan<int> chan;
	std::atomic<bool> sent{false};
	Task sender([&] {
		EXPECT_EQ(0, chan.send(42));
		sent = true;
	});

	ASSERT_TRUE(chan.await_senders(1));
	EXPECT_FALSE(sent);
	EXPECT_EQ(42, chan.get_one());
	sender.join();
	EXPECT_EQ(0u, chan.senders());
}

TASK_TEST(Channel, AWaitingReceiverGetsTheElementDirectly)
{
	for (int capacity : {0, 1, 10}) {
		Chan<int> chan(capacity);
		int value = -1;
		Task receiver([&] { EXPECT_EQ(0, chan.recv(&value)); });

		ASSERT_TRUE(chan.await_receivers(1));
		EXPECT_EQ(0, chan.try_send(42)) << "a receiver waits for it";
		EXPECT_EQ(0u, chan.size()) << "it did not go through the buffer";
		receiver.join();
		EXPECT_EQ(42, value);
	}
}

TEST(Channel, TheReceiverRunsNext)
{
	// The other task may still run first if this thread loses its processor before it sends.
	const auto is_first = [] {
		bool first = false;

		test::run(1, [&first] {
			Chan<int> chan;
			std::atomic<int> ended = 0;
			Task receiver([&] {
				chan.get_one();
				first = ended++ == 0;
			});
			ASSERT_TRUE(chan.await_receivers(1));
			Task other([&] { ended++; });

			EXPECT_EQ(0, chan.send(1));
			receiver.join();
			other.join();
		});
		return first;
	};
	bool first = false;

	for (int tries = 0; tries < 20 && !first; tries++)
		first = is_first();
	EXPECT_TRUE(first) << "although the other was runnable first";
}

TASK_TEST(Channel, AFullBufferMakesSendersWaitInOrder)
{
	Chan<int> chan(2);
	std::vector<Task> senders;

	EXPECT_EQ(0, chan.send(0));
	EXPECT_EQ(0, chan.send(1));
	for (int i = 2; i < 12; i++) {
		senders.emplace_back([&chan, i] { EXPECT_EQ(0, chan.send(i)); });
		ASSERT_TRUE(chan.await_senders(size_t(i) - 1));
	}
	for (int i = 0; i < 12; i++) {
		EXPECT_EQ(i, chan.get_one());
		EXPECT_EQ(std::min<size_t>(2, size_t(11 - i)), chan.size());
	}
	join_all(senders);
}

TASK_TEST(Channel, ReceiversAreServedInOrder)
{
	for (int capacity : {0, 3}) {
		Chan<int> chan(capacity);
		std::vector<Task> receivers;
		int got[10];

		for (int i = 0; i < 10; i++) {
			receivers.emplace_back([&, i] { got[i] = chan.get_one(); });
			ASSERT_TRUE(chan.await_receivers(size_t(i) + 1));
		}
		for (int i = 0; i < 10; i++)
			EXPECT_EQ(0, chan.send(100 + i));
		for (int i = 0; i < 10; i++) {
			receivers[size_t(i)].join();
			EXPECT_EQ(100 + i, got[i]);
		}
	}
}

TASK_TEST(Channel, ClosingEndsEveryWaitToReceive)
{
	for (int capacity : {0, 1, 10}) {
		Chan<int> chan(capacity);
		std::vector<Task> receivers;

		for (int i = 0; i < 20; i++)
			receivers.emplace_back([&] {
				int value = -1;

				EXPECT_EQ(-EPIPE, chan.recv(&value));
				EXPECT_EQ(-1, value);
			});
		ASSERT_TRUE(chan.await_receivers(20));
		EXPECT_EQ(0, chan.close());
		join_all(receivers);
	}
}

TASK_TEST(Channel, ClosingEndsEveryWaitToSendAndKeepsWhatWasSent)
{
	for (int capacity : {0, 1, 10}) {
		Chan<int> chan(capacity);
		std::vector<Task> senders;
		int value;

		for (int i = 0; i < capacity; i++)
			EXPECT_EQ(0, chan.send(i));
		for (int i = 0; i < 20; i++)
			senders.emplace_back([&] { EXPECT_EQ(-EPIPE, chan.send(-1)); });
		ASSERT_TRUE(chan.await_senders(20));
		EXPECT_EQ(0, chan.close());
		join_all(senders);
		for (int i = 0; i < capacity; i++)
			EXPECT_EQ(i, chan.get_one());
		EXPECT_EQ(-EPIPE, chan.recv(&value));
	}
}

// The channel may be freed as soon as its waiters have their results.
TASK_TEST(Channel, MayBeFreedByTheWokenTask)
{
	for (int i = 0; i < test::scaled(5000); i++) {
		sn_chan *chan = nullptr;
		int value = i;

		ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 0));
		Task receiver([chan] {
			int got;

			EXPECT_EQ(0, sn_chan_recv(chan, &got));
			sn_chan_unref(chan);
		});
		ASSERT_EQ(0, sn_chan_send(chan, &value));
		receiver.join();
	}
}

// ---- ends of waits ----

TASK_TEST(Channel, DeadlinesEndWaits)
{
	for (int capacity : {0, 1}) {
		Chan<int> full(capacity), empty(capacity);
		int value = -1;

		if (capacity) {
			ASSERT_EQ(0, full.send(1));
		}
		for (int64_t wait : {-second, int64_t{0}, ms}) {
			const int64_t start = sn_now();

			EXPECT_EQ(-ETIMEDOUT, empty.recv(&value, start + wait));
			EXPECT_GE(sn_now(), start + wait);
			EXPECT_EQ(-ETIMEDOUT, full.send(2, start + wait));
			EXPECT_EQ(0u, empty.receivers());
			EXPECT_EQ(0u, full.senders());
		}
		EXPECT_EQ(-1, value);
		EXPECT_EQ(size_t(capacity), full.size());
		EXPECT_EQ(-ETIMEDOUT, full.send(2, -5)) << "negative is past";
	}
}

TEST(Channel, APastDeadlineTakesWhatIsReady)
{
	Chan<int> chan(1);
	int value = -1;

	EXPECT_EQ(0, chan.send(1, 1));
	EXPECT_EQ(0, chan.recv(&value, 1));
	EXPECT_EQ(1, value);
}

TASK_TEST(Channel, AWaitWithADeadlineIsServed)
{
	Chan<int> chan;
	Task receiver([&] {
		int value = -1;

		EXPECT_EQ(0, chan.recv(&value, sn_now() + forever));
		EXPECT_EQ(1, value);
	});

	ASSERT_TRUE(chan.await_receivers(1));
	EXPECT_EQ(0, chan.send(1, sn_now() + forever));
	receiver.join();
	Task sender([&] { EXPECT_EQ(0, chan.send(2, sn_now() + forever)); });
	ASSERT_TRUE(chan.await_senders(1));
	EXPECT_EQ(2, chan.get_one());
	sender.join();
}

TASK_TEST(Channel, CancellationEndsWaits)
{
	Chan<int> full(1), empty(1);

	ASSERT_EQ(0, full.send(1));
	EXPECT_EQ(-ECANCELED, in_scope([&](sn_scope *scope) {
		std::pair<Chan<int> *, Chan<int> *> channels{&full, &empty};
		auto send = [](void *arg) {
			int value = 1;
			int err = sn_chan_send(static_cast<Chan<int> *>(arg)->get(), &value);

			EXPECT_EQ(-ECANCELED, err);
			return 0;
		};
		auto recv = [](void *arg) {
			int value = 1;
			int err = sn_chan_recv(static_cast<Chan<int> *>(arg)->get(), &value);

			EXPECT_EQ(-ECANCELED, err);
			return 0;
		};

		EXPECT_EQ(0, sn_scope_go(scope, send, channels.first));
		EXPECT_EQ(0, sn_scope_go(scope, recv, channels.second));
		EXPECT_TRUE(full.await_senders(1));
		EXPECT_TRUE(empty.await_receivers(1));
		EXPECT_EQ(0, sn_scope_cancel(scope));
	}));
	EXPECT_EQ(0u, full.senders());
	EXPECT_EQ(0u, empty.receivers());
	EXPECT_EQ(1u, full.size());
}

TASK_TEST(Channel, ACancelledTaskGetsNothing)
{
	Chan<int> chan(2);
	int value = -1;

	ASSERT_EQ(0, chan.send(1));
	EXPECT_EQ(-ECANCELED, in_scope([&](sn_scope *scope) {
		sn_scope_cancel(scope);
		EXPECT_EQ(-ECANCELED, chan.send(2));
		EXPECT_EQ(-ECANCELED, chan.try_send(2));
		EXPECT_EQ(-ECANCELED, chan.recv(&value));
		EXPECT_EQ(-ECANCELED, chan.try_recv(&value));
		EXPECT_EQ(0, sn_cancel_mask());
		EXPECT_EQ(0, chan.recv(&value));
		EXPECT_EQ(-EAGAIN, chan.try_recv(&value));
		EXPECT_EQ(0, sn_cancel_unmask());
		EXPECT_EQ(-ECANCELED, chan.try_recv(&value));
		EXPECT_EQ(0, chan.close()) << "cleaning up always works";
	}));
	EXPECT_EQ(1, value);
	EXPECT_EQ(-ETIMEDOUT, in_scope(
				      [&](sn_scope *) {
					      Chan<int> empty;

					      EXPECT_EQ(-ETIMEDOUT, empty.recv(&value));
				      },
				      sn_now() + ms));
}

// ---- plain threads ----

TEST(Channel, PlainThreadsNeedNoRuntime)
{
	Chan<int> there, back;
	std::thread echo([&] {
		int value;

		while (there.recv(&value) == 0)
			EXPECT_EQ(0, back.send(value + 1));
		EXPECT_EQ(-EPIPE, back.recv(&value));
	});
	int value;

	for (int i = 0; i < test::scaled(2000); i++) {
		ASSERT_EQ(0, there.send(i));
		ASSERT_EQ(0, back.recv(&value));
		ASSERT_EQ(i + 1, value);
	}
	EXPECT_EQ(-ETIMEDOUT, back.recv(&value, sn_now() + ms));
	EXPECT_EQ(-ETIMEDOUT, back.send(1, sn_now() + ms));
	EXPECT_EQ(-EAGAIN, back.try_recv(&value));
	EXPECT_EQ(0, there.close());
	EXPECT_TRUE(test::eventually_in_thread([&] { return back.receivers() == 1; }));
	EXPECT_EQ(0, back.close());
	echo.join();
	EXPECT_FALSE(sn_private_is_runtime());
}

TASK_TEST(Channel, PlainThreadsAndTasksMix)
{
	const int each = test::scaled(2000);
	Chan<int> chan(3);
	std::atomic<int64_t> sum{0};
	std::atomic<int> left{4};
	auto produce = [&] {
		for (int i = 1; i <= each; i++)
			ASSERT_EQ(0, chan.send(i, i % 3 ? SN_NO_DEADLINE : sn_now() + forever));
		if (--left == 0)
			chan.close();
	};
	auto consume = [&] {
		int value;

		while (chan.recv(&value) == 0)
			sum += value;
	};
	std::thread threads[] = {std::thread(produce), std::thread(consume), std::thread(produce),
				 std::thread(consume)};
	Task tasks[] = {Task(produce), Task(consume), Task(produce), Task(consume)};

	join_all(tasks);
	join_all(threads);
	EXPECT_EQ(4 * int64_t(each) * (each + 1) / 2, sum);
}

// ---- elements that are not just bytes ----

std::atomic<int> living{0};

struct Counted {
	int value;
	static void move(void *to, void *from)
	{
		new (to) Counted{*static_cast<Counted *>(from)};
		living++;
	}
	static void destroy(void *elem)
	{
		static_cast<Counted *>(elem)->value = -1;
		living--;
	}
};

TASK_TEST(Channel, ElementsAreMovedAndDestroyedByTheirOperations)
{
	const sn_elem_ops ops = {Counted::move, Counted::destroy};
	sn_chan *chan = nullptr;
	Counted in{0}, out;

	ASSERT_EQ(0, sn_chan_new_with_ops(&chan, sizeof(Counted), 4, &ops));
	EXPECT_EQ(-EINVAL, sn_chan_recv(chan, nullptr));
	living = 0;
	for (in.value = 0; in.value < 4; in.value++)
		ASSERT_EQ(0, sn_chan_send(chan, &in));
	EXPECT_EQ(4, living);
	Task sender([&] {
		Counted own{4};

		EXPECT_EQ(0, sn_chan_send(chan, &own));
	});
	ASSERT_TRUE(test::eventually([&] { return probe_chan_waiting(chan, SN_CASE_SEND) == 1; }));
	ASSERT_EQ(0, sn_chan_recv(chan, &out));
	EXPECT_EQ(0, out.value);
	EXPECT_EQ(5, living) << "four in the buffer, and the test's own";
	Counted::destroy(&out);
	sender.join();
	ASSERT_EQ(0, sn_chan_recv(chan, &out));
	EXPECT_EQ(1, out.value);
	Counted::destroy(&out);
	EXPECT_EQ(0, sn_chan_close(chan));
	EXPECT_EQ(3, living) << "closing keeps them";
	sn_chan_unref(chan);
	EXPECT_EQ(0, living);
}

// ---- channels that outlive a run ----

struct Left {
	sn_chan *empty, *other, *full;
};

// Leaves tasks in the channels when the run ends: receivers, a select and a sender.
void abandon(Left &left)
{
	const auto start = [&](sn_fn *fn) { EXPECT_EQ(0, sn_go(fn, &left)); };

	test::run(2, [&] {
		for (int i = 0; i < 2; i++)
			start([](void *arg) {
				Counted own{0};
				return sn_chan_recv(static_cast<Left *>(arg)->empty, &own);
			});
		start([](void *arg) {
			auto *in = static_cast<Left *>(arg);
			Counted own{0};
			struct sn_case cases[] = {{{in->empty}, &own, SN_CASE_RECV, 0},
						  {{in->other}, &own, SN_CASE_RECV, 0}};
			return sn_select(cases, 2, SN_NO_DEADLINE);
		});
		start([](void *arg) {
			Counted own{3};
			return sn_chan_send(static_cast<Left *>(arg)->full, &own);
		});
		ASSERT_TRUE(test::eventually([&] {
			return probe_chan_waiting(left.empty, SN_CASE_RECV) == 3 &&
			       probe_chan_waiting(left.other, SN_CASE_RECV) == 1 &&
			       probe_chan_waiting(left.full, SN_CASE_SEND) == 1;
		}));
	});
}

Left make_channels()
{
	static const sn_elem_ops ops = {Counted::move, Counted::destroy};
	Left made = {};
	Counted in{1};

	living = 0;
	EXPECT_EQ(0, sn_chan_new_with_ops(&made.empty, sizeof(Counted), 0, &ops));
	EXPECT_EQ(0, sn_chan_new_with_ops(&made.other, sizeof(Counted), 1, &ops));
	EXPECT_EQ(0, sn_chan_new_with_ops(&made.full, sizeof(Counted), 2, &ops));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, sn_chan_send(made.full, &in));
	EXPECT_EQ(2, living);
	return made;
}

void free_channels(const Left &left)
{
	sn_chan_unref(left.empty);
	sn_chan_unref(left.other);
	sn_chan_unref(left.full);
	EXPECT_EQ(0, living) << "only what is in the buffer is destroyed";
}

TEST(Channel, IsFreedAfterTheRunThatAbandonedTasksInIt)
{
	Left left = make_channels();

	abandon(left);
	free_channels(left);
}

TEST(Channel, IsFreedInALaterRun)
{
	Left left = make_channels();

	abandon(left);
	test::run(1, [&] { free_channels(left); });
	left = make_channels();
	abandon(left);
	test::run(1, [&] { std::thread([&] { free_channels(left); }).join(); });
}

// ---- many ----

// Each producer's elements arrive in order at each consumer, and each arrives once.
void many(int producers, int consumers, int capacity, int each)
{
	Chan<uint64_t> chan(capacity);
	std::vector<std::unique_ptr<std::atomic<char>[]>> seen;
	std::vector<Task> senders, receivers;

	for (int p = 0; p < producers; p++)
		seen.emplace_back(new std::atomic<char>[size_t(each)]());
	for (int c = 0; c < consumers; c++)
		receivers.emplace_back([&] {
			std::vector<int> next(static_cast<size_t>(producers), 0);
			uint64_t value;

			while (chan.recv(&value) == 0) {
				const auto from = static_cast<size_t>(value >> 32);
				const int number = static_cast<int>(value & 0xffffffff);

				if (number < next[from])
					ADD_FAILURE() << number << " after " << next[from];
				next[from] = number + 1;
				if (seen[from][size_t(number)]++)
					ADD_FAILURE() << "twice";
			}
		});
	for (int p = 0; p < producers; p++)
		senders.emplace_back([&, p] {
			for (int i = 0; i < each; i++)
				if (chan.send(uint64_t(p) << 32 | unsigned(i)) != 0)
					ADD_FAILURE() << "not sent";
		});
	join_all(senders);
	EXPECT_EQ(0, chan.close());
	join_all(receivers);
	for (auto &of_one : seen)
		for (int i = 0; i < each; i++)
			if (of_one[size_t(i)] != 1)
				FAIL() << "lost";
}

TASK_TEST(Channel, ManyProducersAndConsumersLoseNothing)
{
	many(1, 1, 0, test::scaled(20000));
	many(1, 1, 1, test::scaled(20000));
	many(4, 4, 0, test::scaled(5000));
	many(4, 4, 7, test::scaled(5000));
	many(100, 3, 0, test::scaled(200));
	many(3, 100, 2, test::scaled(5000));
}

// A ring of tasks that pass tokens, which stops forever if a wake-up is lost. With
// SENNIT_LONG_TESTS=1 there are 10^7 hand-offs.
TEST(Channel, HandOffsAreNotLost)
{
	const bool all = getenv("SENNIT_LONG_TESTS") != nullptr;

	test::run({1, 2, 4}, [&] {
		constexpr int tasks = 100, tokens = 30;
		const int rounds =
			all ? 10000000 / 3 / tokens / tasks : test::scaled(300000) / tokens / tasks;
		std::vector<std::unique_ptr<Chan<int>>> ring;
		std::vector<Task> members;
		Chan<int> done(tokens);

		for (int i = 0; i < tasks; i++)
			ring.push_back(std::make_unique<Chan<int>>(i % 3 == 0));
		for (int i = 0; i < tasks; i++)
			members.emplace_back([&, i] {
				Chan<int> &from = *ring[size_t(i)];
				Chan<int> &to = *ring[size_t(i + 1) % tasks];
				int left;

				while (from.recv(&left) == 0) {
					if (i == 0 && left-- == 0)
						EXPECT_EQ(0, done.send(0));
					else
						EXPECT_EQ(0, to.send(left));
				}
			});
		for (int i = 0; i < tokens; i++)
			EXPECT_EQ(0, ring[size_t(i * 3)]->send(rounds));
		for (int i = 0; i < tokens; i++)
			done.get_one();
		for (auto &chan : ring)
			chan->close();
		join_all(members);
	});
}

// Deadlines expire at about the time of success. The elements that one side reports as sent are
// those that the other side reports as received.
TASK_TEST(Channel, DeadlinesRacingWithSuccessLoseNothing)
{
	for (int capacity : {0, 2}) {
		Chan<int> chan(capacity);
		std::atomic<int64_t> sent{0}, received{0}, timeouts{0};
		std::vector<Task> tasks;
		std::atomic<int> senders_left{4};
		const int each = test::scaled(3000);

		for (int t = 0; t < 4; t++) {
			tasks.emplace_back([&, t] {
				test::Random random(uint64_t(t) + 1);

				for (int i = 1; i <= each; i++) {
					int64_t until = sn_now() + int64_t(random.below(20)) * us;
					int err = chan.send(i, until);

					if (err == 0)
						sent += i;
					else if (err == -ETIMEDOUT)
						timeouts++;
					else
						ADD_FAILURE() << err;
					if (random.below(8) == 0)
						sn_yield();
				}
				if (--senders_left == 0)
					chan.close();
			});
			tasks.emplace_back([&, t] {
				test::Random random(uint64_t(t) + 100);
				int value, err;

				while ((err = chan.recv(&value,
							sn_now() + int64_t(random.below(20)) *
									   us)) != -EPIPE) {
					if (err == 0)
						received += value;
					else if (err != -ETIMEDOUT)
						ADD_FAILURE() << err;
					if (random.below(8) == 0)
						sn_yield();
				}
			});
		}
		join_all(tasks);
		EXPECT_EQ(sent, received);
		EXPECT_EQ(0u, chan.senders() + chan.receivers());
	}
}

// The same for cancellation: scopes are cancelled while their tasks send and receive.
TEST(Channel, CancellationRacingWithSuccessLosesNothing)
{
	struct Shared {
		Chan<int> chan{0};
		std::atomic<int64_t> sent{0}, received{0};
	};

	test::run([] {
		Shared shared;
		test::Random random;
		auto send = [](void *arg) {
			auto *s = static_cast<Shared *>(arg);

			for (int i = 1;; i++) {
				int err = sn_chan_send(s->chan.get(), &i);

				if (err < 0) {
					EXPECT_EQ(-ECANCELED, err);
					return 0;
				}
				s->sent += i;
			}
		};
		auto recv = [](void *arg) {
			auto *s = static_cast<Shared *>(arg);

			for (;;) {
				int value, err = sn_chan_recv(s->chan.get(), &value);

				if (err < 0) {
					EXPECT_EQ(-ECANCELED, err);
					return 0;
				}
				s->received += value;
			}
		};

		for (int round = 0; round < test::scaled(300); round++) {
			int result = in_scope([&](sn_scope *scope) {
				for (int i = 0; i < 3; i++) {
					EXPECT_EQ(0, sn_scope_go(scope, send, &shared));
					EXPECT_EQ(0, sn_scope_go(scope, recv, &shared));
				}
				for (uint64_t i = random.below(20); i > 0; i--)
					sn_yield();
				sn_scope_cancel(scope);
			});

			EXPECT_EQ(-ECANCELED, result);
			ASSERT_EQ(shared.sent, shared.received);
			ASSERT_EQ(0u, shared.chan.senders() + shared.chan.receivers());
		}
		EXPECT_GT(shared.received, 0);
	});
}

// Go's TestNonblockRecvRace: an element that is in the buffer when the channel is closed is found
// without waiting.
TASK_TEST(Channel, TryingFindsWhatAClosedChannelHolds)
{
	for (int i = 0; i < test::scaled(3000); i++) {
		Chan<int> chan(1);
		ASSERT_EQ(0, chan.send(1));
		Task receiver([&] {
			int value;

			EXPECT_EQ(0, chan.try_recv(&value));
		});
		EXPECT_EQ(0, chan.close());
		receiver.join();
	}
}

} // namespace
