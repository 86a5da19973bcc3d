// SPDX-License-Identifier: MIT
//
// Closing, aborting and cancelling under tasks that wait; waiting for the end of a connection; and
// a storm of short connections in which no task may get another's bytes.
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>

#include "support/net.h"

namespace
{

using namespace test;

struct Ending {
	const char *name;
	int (*end)(sn_tcp *conn);
	int error; // the error of the calls that it wakes
};

const Ending endings[] = {
	{"Close", sn_tcp_close, -EBADF},
	{"Abort", sn_tcp_abort, -EBADF},
	{"Cancel", sn_tcp_cancel, -ECANCELED},
};

class End : public testing::TestWithParam<Ending>
{
};

TEST_P(End, WakesAReaderAndAWriter)
{
	// Not a new one for each round, whose memory would cost more than the rest of it.
	static const std::string much(size_t(16) << 20, 'x');

	test::run([] {
		Listener listener;

		for (int i = 0; i < test::scaled(50); i++) {
			Pair pair(listener);
			sn_tcp *conn = pair.client;

			test::fill(conn);
			Task reader([conn] {
				char c;

				return int(sn_tcp_read(conn, &c, 1));
			});
			Task writer([conn] {
				return int(
					sn_tcp_write_all(conn, much.data(), much.size(), nullptr));
			});
			ASSERT_TRUE(test::someone_reads(conn) && test::someone_writes(conn));
			if (GetParam().end != sn_tcp_cancel)
				pair.release_client();
			EXPECT_EQ(0, GetParam().end(conn));
			EXPECT_EQ(GetParam().error, reader.join());
			EXPECT_EQ(GetParam().error, writer.join());
		}
	});
}

TEST_P(End, WakesATaskInWaitClosed)
{
	test::run([] {
		Pair pair;
		sn_tcp *conn = pair.client;
		Task waiter([conn] { return sn_tcp_wait_closed(conn); });

		ASSERT_TRUE(test::someone_reads(conn));
		if (GetParam().end != sn_tcp_cancel)
			pair.release_client();
		EXPECT_EQ(0, GetParam().end(conn));
		EXPECT_EQ(GetParam().error, waiter.join());
	});
}

INSTANTIATE_TEST_SUITE_P(Calls, End, testing::ValuesIn(endings),
			 [](const auto &instance) { return instance.param.name; });

TASK_TEST(Cancel, FailsEveryLaterCallAndLeavesTheConnectionOpen)
{
	Pair pair;
	struct sn_copy_result result;
	char c, text[SN_ADDRESS_MAX];

	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1));
	EXPECT_EQ(0, sn_tcp_cancel(pair.client));
	EXPECT_EQ(0, sn_tcp_cancel(pair.client)) << "a second cancel changes nothing";
	EXPECT_EQ(-ECANCELED, sn_tcp_read(pair.client, &c, 1));
	EXPECT_EQ(-ECANCELED, sn_tcp_write(pair.client, &c, 1));
	EXPECT_EQ(-ECANCELED, sn_tcp_write_all(pair.client, &c, 1, nullptr));
	EXPECT_EQ(-ECANCELED, sn_tcp_wait_closed(pair.client));
	EXPECT_EQ(-ECANCELED, sn_copy(sn_tcp_stream(pair.server), sn_tcp_stream(pair.client), -1,
				      nullptr, nullptr, &result));
	EXPECT_EQ(SN_COPY_READ, result.failed);
	EXPECT_GT(sn_tcp_peer_address(pair.client, text, sizeof text), 0);
	// The peer has not been notified of anything yet.
	sn_tcp_set_read_deadline(pair.server, sn_now() + 5 * test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_read(pair.server, &c, 1));
	sn_tcp_set_read_deadline(pair.server, SN_NO_DEADLINE);
	pair.close_client();
	EXPECT_LE(sn_tcp_read(pair.server, &c, 1), 0) << "the peer notices the close";
}

TASK_TEST(ListenerClose, WakesAnAccepter)
{
	for (int i = 0; i < test::scaled(50); i++) {
		Listener listener;
		sn_tcp_listener *raw = listener.get();
		Task accepter([raw] {
			sn_tcp *conn = nullptr;
			const int err = sn_tcp_accept(raw, &conn);

			EXPECT_EQ(nullptr, conn);
			return err;
		});

		ASSERT_TRUE(test::someone_reads(raw));
		listener.close();
		EXPECT_EQ(-EBADF, accepter.join());
	}
}

TASK_TEST(ListenerClose, FreesThePort)
{
	// An address that no other test uses: on 127.0.0.1 another test's client may be
	// given the port in the meantime.
	const int n = getpid();
	std::string address = "127." + std::to_string(1 + n / 65536 % 250) + "." +
			      std::to_string(n / 256 % 256) + "." + std::to_string(1 + n % 254) +
			      ":0";

	for (int i = 0; i < 20; i++) {
		Listener listener(address.c_str());

		address = listener.address();
		Task accepter([raw = listener.get()] {
			sn_tcp *conn;

			return sn_tcp_accept(raw, &conn);
		});
		ASSERT_TRUE(test::someone_reads(listener.get()));
		listener.close();
		EXPECT_EQ(-EBADF, accepter.join());
	}
}

TASK_TEST(WaitClosed, ReturnsAfterBothHalves)
{
	Pair pair;
	Task waiter([&] { return sn_tcp_wait_closed(pair.client); });

	ASSERT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1)); // bytes do not end it
	EXPECT_EQ(0, sn_tcp_shutdown(pair.server, SN_SHUT_WRITE));
	sn_sleep(2 * test::ms); // nor does one half
	EXPECT_TRUE(test::someone_reads(pair.client));
	EXPECT_EQ(0, sn_tcp_shutdown(pair.client, SN_SHUT_WRITE));
	EXPECT_EQ(0, waiter.join());
	EXPECT_EQ(0, sn_tcp_wait_closed(pair.client)) << "the connection stays closed";
	char c;
	EXPECT_EQ(1, sn_tcp_read(pair.client, &c, 1)) << "sn_tcp_wait_closed() reads no bytes";
}

// Resets the connection while the client waits for its end, or before that.
void expect_reset(Pair &pair, bool waits)
{
	std::atomic<bool> aborted{false};
	Task waiter([&] {
		while (!waits && !aborted.load())
			sn_sleep(100 * test::us);
		return sn_tcp_wait_closed(pair.client);
	});

	if (waits) {
		EXPECT_TRUE(test::someone_reads(pair.client));
	}
	EXPECT_EQ(0, sn_tcp_abort(pair.release_server()));
	aborted = true;
	EXPECT_EQ(-ECONNRESET, waiter.join()) << "waiting before: " << waits;
}

TASK_TEST(WaitClosed, ReportsAReset)
{
	Listener listener;

	for (bool waits : {true, false}) {
		Pair pair(listener);
		expect_reset(pair, waits);
	}
}

// The case for which sn_tcp_wait_closed() exists: the peer's stream has been read to its end, then
// the peer resets.
TASK_TEST(WaitClosed, ReportsAResetAfterAHalfClose)
{
	Listener listener;

	for (bool waits : {true, false}) {
		Pair pair(listener);

		EXPECT_EQ(0, sn_tcp_shutdown(pair.server, SN_SHUT_WRITE));
		EXPECT_EQ("", test::read_to_end(pair.client));
		expect_reset(pair, waits);
	}
}

TASK_TEST(WaitClosed, TimesOutAndCanBeRepeated)
{
	Pair pair;

	for (int i = 0; i < 3; i++) {
		const int64_t deadline = sn_now() + 3 * test::ms;

		sn_tcp_set_read_deadline(pair.client, deadline);
		EXPECT_EQ(-ETIMEDOUT, sn_tcp_wait_closed(pair.client));
		EXPECT_GE(sn_now(), deadline);
	}
	sn_tcp_set_read_deadline(pair.client, SN_NO_DEADLINE);
	sn_tcp_shutdown(pair.client, SN_SHUT_WRITE);
	sn_tcp_shutdown(pair.server, SN_SHUT_WRITE);
	EXPECT_EQ(0, sn_tcp_wait_closed(pair.client));
}

/*
 * Thousands of connections that live for one message at most and are closed under a reader, so that
 * descriptor numbers and the runtime's own blocks are reused immediately, while other tasks still
 * wait. Each connection carries a tag of its own in both directions. A reader that gets anything
 * else was given another connection's bytes. The tags of a worker's earlier connections are the
 * most similar.
 */
TEST(Storm, NoTaskGetsAnothersBytes)
{
	test::Random seeds;

	test::run({1, 2, 4, 8}, [&] {
		const int workers = 12, rounds = test::scaled(300);
		Listener listener;
		std::atomic<uint64_t> wrong{0}, sessions{0}, woken{0}, answered{0};
		Task server([&] {
			for (;;) {
				sn_tcp *conn = nullptr;
				const int err = sn_tcp_accept(listener.get(), &conn);

				if (err < 0)
					return err;
				sessions++;
				Task session([conn, &wrong] {
					uint64_t tag = 0, again = 0;
					ssize_t n = sn_tcp_read(conn, &tag, sizeof tag);

					// The server answers odd tags, and leaves clients with even
					// ones waiting.
					if (n == ssize_t(sizeof tag) && tag % 2)
						n = sn_tcp_write(conn, &tag, sizeof tag);
					if (n == ssize_t(sizeof tag))
						n = sn_tcp_read(conn, &again, sizeof again);
					wrong += n > 0; // the client sends its tag only once
					sn_tcp_close(conn);
				});
				session.detach();
			}
		});
		std::vector<Task> all;
		for (int w = 0; w < workers; w++)
			all.emplace_back([&, w, seed = seeds.next()] {
				test::Random random(seed);

				for (int i = 0; i < rounds; i++) {
					const uint64_t tag = uint64_t(w + 1) << 48 |
							     uint64_t(i + 1) << 16 |
							     random.below(65536);
					sn_tcp *conn = test::connect(listener.address());

					if (!conn)
						return;
					std::atomic<bool> read{false};
					Task reader([&, conn] {
						uint64_t got = 0;
						const ssize_t n =
							sn_tcp_read(conn, &got, sizeof got);

						if (n == ssize_t(sizeof got)) {
							answered++;
							wrong += got != tag;
						} else if (n == -EBADF) {
							woken++;
						} else {
							ADD_FAILURE() << "read: " << n;
						}
						read = true;
					});
					EXPECT_EQ(ssize_t(sizeof tag),
						  sn_tcp_write(conn, &tag, sizeof tag));
					// Waits until no new call can begin, so that the connection
					// may be closed.
					while (!read.load() && !probe_fd_waiting(conn, 0))
						sn_yield();
					if (random.below(2))
						sn_yield();
					EXPECT_EQ(0, random.below(2) ? sn_tcp_close(conn)
								     : sn_tcp_abort(conn));
					if (random.below(2)) {
						// The next connection, while the old reader may
						// still wait.
						sn_tcp *next = test::connect(listener.address());

						sn_tcp_close(next);
					}
					reader.join();
				}
			});
		join_all(all);
		// The backlog still holds some connections, among them closed and reset ones.
		EXPECT_TRUE(test::eventually(
			[&] { return sessions.load() >= uint64_t(workers * rounds); }));
		// No new call may begin after the close, so the server must be in one.
		EXPECT_TRUE(test::someone_reads(listener.get()));
		listener.close();
		EXPECT_EQ(-EBADF, server.join());
		EXPECT_TRUE(test::all_ended());
		EXPECT_EQ(0u, wrong.load()) << "seed " << seeds.seed();
		EXPECT_EQ(uint64_t(workers * rounds), answered.load() + woken.load());
		EXPECT_GT(woken.load(), 0u);
	});
}

// With SO_LINGER, which the program may set, close() waits until the peer has everything. Other
// tasks run during that time, even on the only processor.
TASK_TEST(Linger, DoesNotHoldUpOtherTasks, 1)
{
	const struct linger wait = {.l_onoff = 1, .l_linger = 60};
	Pair pair;
	sn_tcp *const conn = pair.release_server();
	const int fd = sn_tcp_fd(conn);
	std::atomic<bool> closed = false;

	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
	fill(conn);
	Task closer([&] {
		EXPECT_EQ(0, sn_tcp_close(conn));
		closed = true;
	});
	EXPECT_TRUE(eventually([&] { return fcntl(fd, F_GETFD) < 0; }));
	EXPECT_FALSE(closed);
	pair.close_client(); // resets the connection, which ends the wait
	closer.join();
}

} // namespace
