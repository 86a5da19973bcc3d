// SPDX-License-Identifier: MIT
//
// Tasks that begin when their stream can be read (sennit/when_readable.h). A lost wake-up hangs, so
// each of these tests relies on the test's time limit.
#include <cerrno>
#include <thread>
#include <vector>

#include <sennit/scan.h>

#include "support/net.h"
#include "support/unix.h"

namespace
{

using test::Listener;
using test::Pair;

// What a task finds when it has begun: the result of its first read, and the bytes that it read.
struct Found {
	sn_stream *stream = nullptr;
	std::atomic<bool> ended{false};
	ssize_t result = -1;
	std::string bytes;

	explicit Found(sn_tcp *conn) : stream(sn_tcp_stream(conn)) {}
	static int look(void *arg)
	{
		auto *self = static_cast<Found *>(arg);
		char buf[100];

		self->result = sn_stream_read(self->stream, buf, sizeof buf);
		if (self->result > 0)
			self->bytes.assign(buf, size_t(self->result));
		self->ended = true;
		return 0;
	}
	bool ends()
	{
		return test::eventually([this] { return ended.load(); });
	}
};

// How many tasks wait, and how many of these have a stack.
struct Quiet {
	int tasks = 0, stacks = 0;

	Quiet()
	{
		sn_tasks_each(
			[](const struct sn_task_info *info, void *arg) {
				auto *self = static_cast<Quiet *>(arg);

				if (info->state != SN_STATE_PARKED)
					return 0;
				self->tasks++;
				self->stacks += info->stack_low != nullptr;
				return 0;
			},
			this);
	}
};

// Where stacks are scarce, a task has its stack from the start (stack/stack_slab.h).
int stacks_of(int tasks)
{
	return sizeof(void *) == 8 && probe_stack_guard_is_madvise() ? 0 : tasks;
}

TASK_TEST(WhenReadable, BytesBeginTheTask)
{
	Pair pair;
	Found found(pair.server);

	for (int round = 0; round < 3; round++) {
		found.ended = false;
		ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
		EXPECT_TRUE(test::eventually([] { return Quiet().tasks == 1; }));
		EXPECT_EQ(stacks_of(1), Quiet().stacks);
		EXPECT_FALSE(found.ended);
		ASSERT_EQ(5, sn_tcp_write_all(pair.client, "hello", 5, nullptr));
		ASSERT_TRUE(found.ends());
		EXPECT_EQ("hello", found.bytes);
	}
}

TASK_TEST(WhenReadable, WhatIsThereAlreadyBeginsItAtOnce)
{
	Pair pair;
	char byte;

	ASSERT_EQ(5, sn_tcp_write_all(pair.client, "hello", 5, nullptr));
	ASSERT_EQ(1, sn_tcp_read(pair.server, &byte, 1)); // and there is no further edge
	Found found(pair.server);
	ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
	ASSERT_TRUE(found.ends());
	EXPECT_EQ("ello", found.bytes);
}

TASK_TEST(WhenReadable, AnEndBeginsIt)
{
	Listener listener;

	for (bool before : {false, true}) {
		Pair pair(listener);
		Found found(pair.server);

		if (before)
			pair.close_client();
		ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
		if (!before)
			pair.close_client();
		ASSERT_TRUE(found.ends());
		EXPECT_EQ(0, found.result);
	}
}

TASK_TEST(WhenReadable, AResetBeginsIt)
{
	Pair pair;
	Found found(pair.server);

	ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
	sn_stream_abort(sn_tcp_stream(pair.release_client()));
	ASSERT_TRUE(found.ends());
	EXPECT_EQ(-ECONNRESET, found.result);
}

TASK_TEST(WhenReadable, ADeadlineBeginsIt)
{
	Pair pair;
	Found found(pair.server);

	// A close that has happened already, and one that comes later.
	for (bool before : {true, false}) {
		found.ended = false;
		sn_stream_set_read_deadline(found.stream, SN_NO_DEADLINE);
		if (before)
			sn_stream_set_read_deadline(found.stream, sn_now() + test::ms);
		const int err = sn_go_when_readable(found.stream, Found::look, &found);
		if (err == -ETIMEDOUT && before)
			continue; // the machine was slow
		ASSERT_EQ(0, err);
		if (!before)
			sn_stream_set_read_deadline(found.stream, sn_now() + test::ms);
		ASSERT_TRUE(found.ends());
		EXPECT_EQ(-ETIMEDOUT, found.result);
	}
	EXPECT_EQ(-ETIMEDOUT, sn_go_when_readable(found.stream, Found::look, &found));
}

TASK_TEST(WhenReadable, ACloseBeginsIt)
{
	Pair pair;
	Found found(pair.server);

	ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
	pair.close_server();
	ASSERT_TRUE(found.ends());
	EXPECT_EQ(-EBADF, found.result);
	EXPECT_EQ(-EBADF, sn_go_when_readable(found.stream, Found::look, &found));
	// The task was the last user, so the peer sees the end.
	EXPECT_EQ("", test::read_to_end(pair.client));
}

TASK_TEST(WhenReadable, ACancelledStreamBeginsIt)
{
	Pair pair;
	Found found(pair.server);

	ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
	EXPECT_EQ(0, sn_stream_cancel(found.stream));
	ASSERT_TRUE(found.ends());
	EXPECT_EQ(-ECANCELED, found.result);
	EXPECT_EQ(-ECANCELED, sn_go_when_readable(found.stream, Found::look, &found));
}

TASK_TEST(WhenReadable, AScopeWaitsForItAndCancelsIt)
{
	Listener listener;
	Pair first(listener), second(listener);
	Found bytes(first.server), none(second.server);
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_spawn_when_readable(bytes.stream, scope, Found::look, &bytes, nullptr));
	ASSERT_EQ(0, sn_spawn_when_readable(none.stream, scope, Found::look, &none, nullptr));
	ASSERT_EQ(1, sn_tcp_write_all(first.client, "x", 1, nullptr));
	ASSERT_TRUE(bytes.ends());
	EXPECT_EQ("x", bytes.bytes);
	EXPECT_EQ(1, Quiet().tasks);
	EXPECT_EQ(stacks_of(1), Quiet().stacks);
	sn_scope_cancel(scope);
	EXPECT_EQ(-ECANCELED,
		  sn_spawn_when_readable(bytes.stream, scope, Found::look, &bytes, nullptr));
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
	EXPECT_TRUE(none.ended);
	EXPECT_EQ(-ECANCELED, none.result);
	EXPECT_EQ(-ESRCH,
		  sn_spawn_when_readable(bytes.stream, scope, Found::look, &bytes, nullptr));
}

TASK_TEST(WhenReadable, OthersCannotReadMeanwhile)
{
	Pair pair;
	Found found(pair.server);
	char byte;

	ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
	EXPECT_EQ(-EBUSY, sn_tcp_read(pair.server, &byte, 1));
	EXPECT_EQ(-EBUSY, sn_go_when_readable(found.stream, Found::look, &found));
	// writing is not excluded
	ASSERT_EQ(1, sn_tcp_write_all(pair.server, "y", 1, nullptr));
	ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
	ASSERT_TRUE(found.ends());
	EXPECT_EQ("x", found.bytes);
}

TEST(WhenReadable, WhatCannotBeIsRefused)
{
	std::thread outside;

	test::run(2, [&] {
		Pair pair;
		Found found(pair.server);
		test::UnixPair messages(SN_UNIX_SEQPACKET);
		std::atomic<int> err{0};

		EXPECT_EQ(-EINVAL, sn_go_when_readable(nullptr, Found::look, &found));
		EXPECT_EQ(-EINVAL, sn_go_when_readable(found.stream, nullptr, &found));
		EXPECT_EQ(-EPROTOTYPE,
			  sn_go_when_readable(sn_unix_stream(messages.a), Found::look, &found));
		outside = std::thread(
			[&] { err = sn_go_when_readable(found.stream, Found::look, &found); });
		EXPECT_TRUE(test::eventually([&] { return err != 0; }));
		EXPECT_EQ(-ENOTSUP, err);
		// After these errors the stream is free.
		ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
		pair.close_client();
		ASSERT_TRUE(found.ends());
	});
	outside.join();
}

TASK_TEST(WhenReadable, AFileBeginsItAtOnce)
{
	sn_stream *file = nullptr;
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ASSERT_EQ(0, sn_stream_adopt(&file, fd));
	Found found(nullptr);
	found.stream = file;
	ASSERT_EQ(0, sn_go_when_readable(file, Found::look, &found));
	ASSERT_TRUE(found.ends());
	EXPECT_EQ(0, found.result);
	sn_stream_close(file);
}

// A server whose tasks each answer one request, and leave the connection to the next task.
struct Echo {
	sn_stream *stream;
	std::atomic<int> *open;
	sn_scope *scope; // NULL: no scope

	static int serve(void *arg)
	{
		auto *self = static_cast<Echo *>(arg);
		char buf[16];
		ssize_t n = sn_stream_read(self->stream, buf, sizeof buf);

		if (n > 0)
			n = sn_stream_write_all(self->stream, buf, size_t(n), nullptr);
		if (n > 0 && self->go() == 0)
			return 0;
		EXPECT_EQ(0, sn_stream_close(self->stream));
		--*self->open;
		delete self;
		return 0;
	}
	int go() { return sn_spawn_when_readable(stream, scope, serve, this, nullptr); }
};

// Clients write in pieces of any size, so that bytes arrive while a task is about to leave its
// connection. The answers are compared.
void talk(sn_tcp *conn, uint64_t seed, int rounds)
{
	test::Random random(seed);

	for (int i = 0; i < rounds; i++) {
		const std::string sent = test::random_bytes(random, 1 + random.below(40));
		std::string answer(sent.size(), 0);

		for (size_t at = 0; at < sent.size();) {
			const size_t size = 1 + random.below(sent.size() - at);

			ASSERT_EQ(ssize_t(size), sn_tcp_write_all(conn, &sent[at], size, nullptr));
			at += size;
			if (random.below(4) == 0)
				sn_yield();
		}
		ASSERT_EQ(ssize_t(answer.size()),
			  sn_tcp_read_full(conn, answer.data(), answer.size(), nullptr));
		ASSERT_EQ(sent, answer);
		if (random.below(8) == 0)
			sn_sleep(int64_t(random.below(200)) * test::us);
	}
}

TEST(WhenReadable, NothingIsLostBetweenOneTaskAndTheNext)
{
	const int clients = 20, rounds = test::scaled(300);
	const uint64_t seed = test::Random().seed();

	test::run([&] {
		Listener listener;
		std::atomic<int> open{clients};
		std::vector<test::Task> all;
		sn_scope *scope = nullptr;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		for (int i = 0; i < clients; i++) {
			sn_tcp *client = test::connect(listener.address());
			auto *echo = new Echo{sn_tcp_stream(listener.accept()), &open,
					      i % 2 ? scope : nullptr};

			EXPECT_EQ(0, echo->go());
			all.emplace_back([&, client, i] {
				talk(client, seed + uint64_t(i), rounds);
				EXPECT_EQ(0, sn_tcp_close(client));
			});
		}
		test::join_all(all);
		EXPECT_EQ(0, sn_scope_close(scope));
		EXPECT_TRUE(test::eventually([&] { return open == 0; }));
	});
}

// The scope is cancelled while tasks begin on connections and leave them: each connection is
// closed, once.
TEST(WhenReadable, CancellingEndsAllOfThem)
{
	const int clients = 30;
	test::Random random;

	for (int round = 0; round < test::scaled(20); round++) {
		test::run({1, 2, 4}, [&] {
			Listener listener;
			std::atomic<int> open{clients};
			std::vector<test::Task> all;
			sn_scope *scope = nullptr;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			for (int i = 0; i < clients; i++) {
				sn_tcp *client = test::connect(listener.address());
				auto *echo =
					new Echo{sn_tcp_stream(listener.accept()), &open, scope};

				EXPECT_EQ(0, echo->go());
				all.emplace_back([client] {
					char byte = 'x';

					while (sn_tcp_write_all(client, &byte, 1, nullptr) == 1 &&
					       sn_tcp_read(client, &byte, 1) == 1)
						;
					sn_tcp_close(client);
				});
			}
			for (uint64_t n = random.below(20); n > 0; n--)
				sn_yield();
			sn_scope_cancel(scope);
			EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
			EXPECT_EQ(0, open);
			test::join_all(all);
		});
	}
}

// Parked tasks give back a part of their stacks (SENNIT_TRIM_MS). The tasks that wait here have no
// stacks.
TEST(WhenReadable, TrimmingPassesOverThem)
{
	test::Environment trim("SENNIT_TRIM_MS", "1");

	test::run(2, [] {
		Listener listener;
		Pair pair(listener), other(listener);
		Found found(pair.server);

		ASSERT_EQ(0, sn_go_when_readable(found.stream, Found::look, &found));
		// The caller is parked and trimmed as well, so passes take place.
		const uint64_t before = test::stats().stacks_trimmed;
		test::Task parked([&] {
			char byte;
			EXPECT_EQ(0, sn_tcp_read(other.server, &byte, 1));
		});
		EXPECT_TRUE(test::eventually(
			[&] { return test::stats().stacks_trimmed > before + 1; }));
		ASSERT_EQ(1, sn_tcp_write_all(pair.client, "x", 1, nullptr));
		ASSERT_TRUE(found.ends());
		EXPECT_EQ("x", found.bytes);
		other.close_client();
		parked.join();
	});
}

TASK_TEST(WhenReadable, ARunMayEndWhileTheyWait)
{
	Listener listener;
	sn_tcp *client = test::connect(listener.address());
	static Found *found;

	found = new Found(listener.accept());
	EXPECT_EQ(0, sn_go_when_readable(found->stream, Found::look, found));
	(void)client; // the end of the run closes both
}

TEST(WhenReadable, AQuietStreamTakesLittle)
{
	if (TEST_TSAN || TEST_ASAN)
		GTEST_SKIP() << "sanitizers keep more for each task";
	EXPECT_GE(sizeof(void *) == 8 ? 640u : 512u, probe_quiet_size());
}

} // namespace
