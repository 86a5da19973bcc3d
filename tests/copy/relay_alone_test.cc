// SPDX-License-Identifier: MIT
//
// Relays that one task serves alone until a direction needs a task of its own. The single task
// waits for both connections at the same time, and must not lose an event of either.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sennit/copy.h>
#include <sennit/unstable.h>

#include "support/net.h"

namespace
{

using namespace test;

// A relay between two pairs: left.client and right.client are the peers.
struct Relay {
	explicit Relay(Listener &listener) : left(listener), right(listener) {}
	void start()
	{
		options.tuning = &tuning;
		task = std::make_unique<Task>([this] {
			EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			const int err = sn_relay(sn_tcp_stream(left.server),
						 sn_tcp_stream(right.server), &result, &options);
			(void)sn_scope_close(scope);
			return err;
		});
	}
	// Waits until the relay waits for both connections, or for either.
	bool is_waiting()
	{
		return test::eventually([this] {
			return probe_fd_waiting(left.server, 0) ||
			       probe_fd_waiting(right.server, 0);
		});
	}
	void finish()
	{
		EXPECT_EQ(0, sn_tcp_shutdown(left.client, SN_SHUT_WRITE));
		EXPECT_EQ("", test::read_to_end(right.client));
		EXPECT_EQ(0, sn_tcp_shutdown(right.client, SN_SHUT_WRITE));
		EXPECT_EQ("", test::read_to_end(left.client));
		EXPECT_EQ(0, task->join());
		EXPECT_EQ(SN_RELAY_FINISHED, result.end);
	}

	Pair left, right;
	struct sn_relay_tuning tuning = {};
	struct sn_relay_options options = {};
	struct sn_relay_result result = {};
	sn_scope *scope = nullptr; // around the relay
	std::unique_ptr<Task> task;
};

void pass(sn_tcp *from, sn_tcp *to, const std::string &bytes)
{
	std::string got(bytes.size(), 0);

	ASSERT_EQ(ssize_t(bytes.size()),
		  sn_tcp_write_all(from, bytes.data(), bytes.size(), nullptr));
	for (size_t done = 0; done < got.size();) {
		const ssize_t n = sn_tcp_read(to, &got[done], got.size() - done);

		ASSERT_GT(n, 0);
		done += size_t(n);
	}
	ASSERT_EQ(bytes, got);
}

TASK_TEST(RelayAlone, OneTaskPassesMessagesBothWays)
{
	Listener listener;
	Relay relay(listener);

	relay.start();
	EXPECT_TRUE(relay.is_waiting());
	const uint64_t tasks = test::stats().tasks_spawned;
	for (int i = 0; i < 100; i++) {
		pass(relay.left.client, relay.right.client, std::string(1 + i, 'q'));
		pass(relay.right.client, relay.left.client, std::string(1 + 30 * i, 'a'));
	}
	relay.finish();
	EXPECT_EQ(tasks, test::stats().tasks_spawned);
}

TASK_TEST(RelayAlone, ALargeFlowGetsATaskOfItsOwn)
{
	Listener listener;
	Relay relay(listener);
	const std::string large(4 << 20, 'x');

	relay.start();
	pass(relay.left.client, relay.right.client, "small");
	const uint64_t tasks = test::stats().tasks_spawned;
	Task writer([&] {
		return int(
			sn_tcp_write_all(relay.right.client, large.data(), large.size(), nullptr));
	});
	std::string got(large.size(), 0);
	for (size_t n = 0; n < got.size();)
		n += size_t(sn_tcp_read(relay.left.client, &got[n], got.size() - n));
	EXPECT_EQ(int(large.size()), writer.join());
	EXPECT_EQ(large, got);
	EXPECT_EQ(tasks + 2, test::stats().tasks_spawned)
		<< "the relay's second task, and the writer";
	pass(relay.left.client, relay.right.client, "small");
	relay.finish();
}

// When a peer does not read, the other direction continues.
TASK_TEST(RelayAlone, AStuckDirectionDoesNotBlockTheOther)
{
	for (const bool towards_left : {false, true}) {
		Listener listener;
		Relay relay(listener);
		sn_tcp *from = relay.left.client, *to = relay.right.client;

		if (towards_left)
			std::swap(from, to);
		test::fill(towards_left ? relay.left.server : relay.right.server);
		const int filled = test::unread(to);
		relay.start();
		EXPECT_EQ(3, sn_tcp_write_all(from, "abc", 3, nullptr));
		EXPECT_TRUE(test::someone_writes(towards_left ? relay.left.server
							      : relay.right.server));
		for (int i = 0; i < 20; i++)
			pass(to, from, "goes on");
		std::string all;
		char buf[65536];
		// First come the bytes that filled the buffers, some of which had not been
		// sent yet, then the relayed ones.
		while (all.size() < 3 || all.substr(all.size() - 3) != "abc") {
			const ssize_t n = sn_tcp_read(to, buf, sizeof buf);

			ASSERT_GT(n, 0);
			all.append(buf, size_t(n));
		}
		EXPECT_GE(all.size(), size_t(filled));
		relay.finish();
	}
}

// The program may write to the streams of a relay. While its task waits for room, the relay waits
// for that task, and the other direction continues.
TASK_TEST(RelayAlone, WaitsForAnotherWriter)
{
	Listener listener;
	Relay relay(listener);
	std::string got;
	char buf[16384];

	relay.start();
	EXPECT_TRUE(relay.is_waiting());
	fill(relay.right.server);
	Task writer([&] { EXPECT_EQ(1, sn_tcp_write(relay.right.server, "w", 1)); });
	EXPECT_TRUE(someone_writes(relay.right.server));
	const uint64_t tasks = test::stats().tasks_spawned;
	EXPECT_EQ(1, sn_tcp_write(relay.left.client, "x", 1));
	EXPECT_TRUE(eventually([&] { return test::stats().tasks_spawned > tasks; }));
	pass(relay.right.client, relay.left.client, "back");
	while (got.find('w') == got.npos || got.find('x') == got.npos) {
		const ssize_t n = sn_tcp_read(relay.right.client, buf, sizeof buf);

		ASSERT_GT(n, 0);
		got.append(buf, size_t(n));
	}
	writer.join();
	pass(relay.left.client, relay.right.client, "there");
	relay.finish();
}

TASK_TEST(RelayAlone, IsCancelledByEither)
{
	for (const bool left : {false, true}) {
		Listener listener;
		Relay relay(listener);

		relay.start();
		EXPECT_TRUE(relay.is_waiting());
		EXPECT_EQ(0, sn_tcp_cancel(left ? relay.left.server : relay.right.server));
		EXPECT_EQ(-ECANCELED, relay.task->join());
		EXPECT_EQ(SN_RELAY_CANCELED, relay.result.end);
	}
}

// A relay that cannot begin has not finished, and leaves the streams as they were, also if one of
// them was closed before.
TASK_TEST(RelayAlone, SaysHowItEndedIfItCouldNotBegin, 1)
{
	for (const bool first : {true, false}) {
		Listener listener;
		Pair pair(listener), closed(listener);
		sn_stream *const open = sn_tcp_stream(pair.server);
		sn_stream *const gone = sn_tcp_stream(closed.server);
		struct sn_relay_result result = {};
		char c;

		EXPECT_EQ(-EINVAL, sn_relay(first ? nullptr : open, first ? open : nullptr, &result,
					    nullptr));
		EXPECT_EQ(SN_RELAY_FAILED, result.end);
		EXPECT_EQ(-EINVAL, result.error);
		EXPECT_EQ(1, sn_tcp_write(pair.client, "x", 1));
		EXPECT_EQ(1, sn_stream_read(open, &c, 1));
		closed.close_server();
		EXPECT_EQ(-EBADF,
			  sn_relay(first ? gone : open, first ? open : gone, &result, nullptr));
		EXPECT_EQ(SN_RELAY_CANCELED, result.end);
		EXPECT_EQ(1, sn_tcp_write(pair.client, "x", 1));
		EXPECT_EQ(1, sn_stream_read(open, &c, 1));
	}
}

// Closing a relayed stream is wrong, but must not harm others.
TASK_TEST(RelayAlone, ClosingAStreamEndsIt)
{
	for (const bool left : {false, true}) {
		Listener listener;
		Relay relay(listener);

		relay.start();
		EXPECT_TRUE(relay.is_waiting());
		if (left)
			relay.left.close_server();
		else
			relay.right.close_server();
		EXPECT_EQ(-EBADF, relay.task->join());
		EXPECT_EQ(SN_RELAY_CANCELED, relay.result.end);
		for (const auto &direction : relay.result.directions)
			EXPECT_EQ(SN_COPY_READ, direction.failed);
	}
}

// The task reads within an operation that it has begun before its last wait.
TEST(RelayAlone, ReadsNothingFromAStreamThatHasEndedSinceItWoke)
{
	struct Ending {
		void (*happen)(Relay &);
		int error;
		enum sn_relay_end end;
	};
	const Ending endings[] = {
		{[](Relay &relay) { EXPECT_EQ(0, sn_tcp_cancel(relay.right.server)); }, -ECANCELED,
		 SN_RELAY_CANCELED},
		{[](Relay &relay) { relay.right.close_server(); }, -EBADF, SN_RELAY_CANCELED},
		{[](Relay &relay) { EXPECT_EQ(0, sn_scope_cancel(relay.scope)); }, -ECANCELED,
		 SN_RELAY_CANCELED},
		{[](Relay &relay) { EXPECT_EQ(0, sn_scope_set_deadline(relay.scope, sn_now())); },
		 -ETIMEDOUT, SN_RELAY_FAILED},
		// A relay without timeouts sets no deadlines itself. It waits until the deadline of
		// the first side.
		{[](Relay &relay) {
			 const int64_t now = sn_now();

			 EXPECT_EQ(0, sn_tcp_set_read_deadline(relay.right.server, now));
			 EXPECT_EQ(0, sn_tcp_set_read_deadline(relay.left.server, now));
		 },
		 -ETIMEDOUT, SN_RELAY_FAILED},
	};

	for (const Ending &ending : endings)
		test::run(1, [&] {
			SCOPED_TRACE(&ending - endings);
			Listener listener;
			Relay relay(listener);
			std::pair<Relay &, const Ending &> both(relay, ending);

			relay.options.arg = &both;
			relay.options.progress = [](void *arg, enum sn_relay_direction, size_t n) {
				const auto &[which, how] = *static_cast<decltype(both) *>(arg);

				if (n == 2)
					how.happen(which);
			};
			relay.start();
			pass(relay.left.client, relay.right.client, "w");
			pass(relay.right.client, relay.left.client, "w");
			EXPECT_TRUE(relay.is_waiting());
			// The only processor finds both at its next poll, and the first is passed
			// on first.
			EXPECT_EQ(2, sn_tcp_write(relay.left.client, "ab", 2));
			EXPECT_EQ(4, sn_tcp_write(relay.right.client, "left", 4));
			EXPECT_EQ(ending.error, relay.task->join());
			EXPECT_EQ(ending.end, relay.result.end);
			EXPECT_EQ(2u + 1, relay.result.directions[SN_RELAY_A_TO_B].bytes_written);
			EXPECT_EQ(1u, relay.result.directions[SN_RELAY_B_TO_A].bytes_read);
		});
}

TASK_TEST(RelayAlone, NobodyElseReadsFromItsStreamsUntilItIsDone)
{
	for (const bool left : {false, true}) {
		Listener listener;
		Relay relay(listener);
		char buf[8];

		relay.options.arg = left ? relay.left.server : relay.right.server;
		relay.options.progress = [](void *arg, enum sn_relay_direction, size_t n) {
			const auto stream = static_cast<sn_tcp *>(arg);

			if (n == 2) {
				EXPECT_EQ(-EBUSY, sn_tcp_read(stream, &n, 0));
			}
		};
		relay.start();
		pass(relay.left.client, relay.right.client, "w");
		EXPECT_TRUE(relay.is_waiting());
		pass(relay.left.client, relay.right.client, "ab");
		pass(relay.right.client, relay.left.client, "ab");
		relay.finish();
		EXPECT_EQ(0, sn_tcp_read(relay.left.server, buf, sizeof buf));
		EXPECT_EQ(0, sn_tcp_read(relay.right.server, buf, sizeof buf));
	}
}

TASK_TEST(RelayAlone, IsIdleWhenNeitherSendsAnything)
{
	Listener listener;
	Relay relay(listener);

	relay.options.idle_timeout = 20 * test::ms;
	relay.start();
	EXPECT_EQ(-ETIMEDOUT, relay.task->join());
	EXPECT_EQ(SN_RELAY_IDLE, relay.result.end);
}

// A limit beyond the clock's range is no limit, even after one stream has ended.
TASK_TEST(RelayAlone, IsNeverIdleWithTheLongestLimit)
{
	for (const int64_t limit : {INT64_MAX, INT64_MAX - sn_now(), INT64_MAX / 9 * 8}) {
		Listener listener;
		Relay relay(listener);
		char byte = 0;

		relay.options.idle_timeout = limit;
		relay.options.half_close_timeout = limit;
		relay.start();
		EXPECT_TRUE(relay.is_waiting());
		EXPECT_EQ(1, sn_tcp_write(relay.left.client, "a", 1));
		EXPECT_EQ(1, sn_tcp_read(relay.right.client, &byte, 1));
		EXPECT_EQ(0, sn_tcp_shutdown(relay.left.client, SN_SHUT_WRITE));
		EXPECT_EQ("", test::read_to_end(relay.right.client));
		EXPECT_EQ(1, sn_tcp_write(relay.right.client, "b", 1));
		EXPECT_EQ(1, sn_tcp_read(relay.left.client, &byte, 1));
		relay.right.close_client();
		EXPECT_EQ(0, relay.task->join());
		EXPECT_EQ(SN_RELAY_FINISHED, relay.result.end);
	}
}

// This holds, too, after an end in one direction, which is passed on.
TASK_TEST(RelayAlone, ReportsAResetOfEither)
{
	for (const bool half_closed : {false, true})
		for (const int side : {0, 1}) {
			Listener listener;
			Relay relay(listener);
			Pair &resets = side == 0 ? relay.left : relay.right;
			Pair &other = side == 0 ? relay.right : relay.left;

			relay.start();
			if (half_closed) {
				EXPECT_EQ(0, sn_tcp_shutdown(resets.client, SN_SHUT_WRITE));
				EXPECT_EQ("", test::read_to_end(other.client));
			}
			EXPECT_EQ(0, sn_tcp_abort(resets.release_client()));
			EXPECT_EQ(-ECONNRESET, relay.task->join());
			EXPECT_EQ(SN_RELAY_FAILED, relay.result.end);
			EXPECT_EQ(side, relay.result.side);
		}
}

// Both peers write at random times, each in a task of its own. If an event is lost, a peer waits
// forever.
TASK_TEST(RelayAlone, NoEventIsLost)
{
	const int messages = test::scaled(2000);
	Listener listener;
	std::vector<std::unique_ptr<Relay>> relays;
	std::vector<Task> peers;
	test::Random seeds;

	for (int i = 0; i < 8; i++) {
		relays.push_back(std::make_unique<Relay>(listener));
		Relay &relay = *relays.back();
		relay.tuning.coalesce = SN_RELAY_COALESCE_NEVER; // coalescing would add a task
		relay.start();
		for (sn_tcp *me : {relay.left.client.load(), relay.right.client.load()}) {
			peers.emplace_back([=, seed = seeds.next()] {
				test::Random random(seed);

				for (int n = 0; n < messages; n++) {
					if (random.below(8) == 0)
						sn_yield();
					if (random.below(64) == 0)
						sn_sleep(int64_t(random.below(100)) * test::us);
					EXPECT_EQ(1, sn_tcp_write_all(me, "m", 1, nullptr));
				}
				return 0;
			});
			peers.emplace_back([=] {
				char buf[256];

				for (int got = 0; got < messages;) {
					const ssize_t n = sn_tcp_read(me, buf, sizeof buf);

					if (n <= 0)
						return 1;
					got += int(n);
				}
				return 0;
			});
		}
	}
	for (Task &peer : peers)
		EXPECT_EQ(0, peer.join());
	for (auto &relay : relays)
		relay->finish();
}

} // namespace
