// SPDX-License-Identifier: MIT
//
// Reading an exact number of bytes, and reading and writing several pieces of memory: every split
// of the bytes gives the same result, an error loses no byte, and the caller's list is not changed.
#include <climits>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/uio.h>

#include "support/misuse.h"
#include "support/streams.h"

namespace
{

using namespace test;

// Cuts the bytes into pieces of random sizes, some of them empty.
std::vector<iovec> cut(std::string &bytes, test::Random &random, size_t most)
{
	std::vector<iovec> pieces;

	for (size_t at = 0; at < bytes.size();) {
		const size_t n = std::min(bytes.size() - at, size_t(random.below(most + 1)));

		pieces.push_back({&bytes[at], n});
		at += n;
	}
	pieces.push_back({nullptr, 0});
	return pieces;
}

TEST(ReadFull, GivesEachMessageWhole)
{
	test::Random random;

	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			const std::string sent =
				test::random_bytes(random, size_t(test::scaled(300000)));
			Task writer([&, seed = random.next()] {
				test::Random own(seed);

				test::write_in_pieces(ends.to(), sent, own, 3000);
				ends.close_to();
			});
			std::string got(sent.size(), 0);

			for (size_t at = 0; at < sent.size();) {
				const size_t n =
					std::min(sent.size() - at, size_t(1 + random.below(5000)));
				size_t done = 0;

				ASSERT_EQ(ssize_t(n),
					  sn_stream_read_full(ends.from(), &got[at], n, &done));
				EXPECT_EQ(n, done);
				at += n;
			}
			writer.join();
			EXPECT_TRUE(got == sent) << "seed " << random.seed();
			EXPECT_EQ(0, sn_stream_read_full(ends.from(), got.data(), 1, nullptr));
		});
	});
}

TASK_TEST(ReadFull, SaysWhatAStreamEndedIn)
{
	test::with_each_kind([](Ends &ends) {
		char buf[8] = "";
		size_t done = 0;

		(void)!sn_stream_write_all(ends.to(), "abcde", 5, nullptr);
		ends.close_to();
		EXPECT_EQ(5, sn_stream_read_full(ends.from(), buf, 8, &done));
		EXPECT_EQ(5u, done);
		EXPECT_STREQ("abcde", buf);
		// A second call continues, and the end is still there.
		EXPECT_EQ(5, sn_stream_read_full(ends.from(), buf, 8, &done));
		done = 0;
		EXPECT_EQ(0, sn_stream_read_full(ends.from(), buf, 8, &done));
		EXPECT_EQ(0u, done);
	});
	sn_stream *file = test::file_with("0123456789");
	char buf[8] = "";

	EXPECT_EQ(7, sn_stream_read_full(file, buf, 7, nullptr));
	EXPECT_STREQ("0123456", buf);
	EXPECT_EQ(3, sn_stream_read_full(file, buf, 7, nullptr));
	EXPECT_EQ(0, sn_stream_close(file));
}

TASK_TEST(ReadFull, ContinuesAfterADeadline)
{
	test::with_each_kind([](Ends &ends) {
		char buf[9] = "";
		size_t done = 0;
		std::atomic<bool> over{false};
		Task reader([&] {
			const ssize_t n = sn_stream_read_full(ends.from(), buf, 8, &done);

			EXPECT_EQ(-ETIMEDOUT, n);
			EXPECT_EQ(3u, done);
			sn_stream_set_read_deadline(ends.from(), SN_NO_DEADLINE);
			over = true;
			EXPECT_EQ(8, sn_stream_read_full(ends.from(), buf, 8, &done));
			EXPECT_EQ(8u, done);
		});

		EXPECT_EQ(3, sn_stream_write_all(ends.to(), "abc", 3, nullptr));
		EXPECT_TRUE(ends.reader_waits());
		sn_stream_set_read_deadline(ends.from(), sn_now());
		EXPECT_TRUE(test::eventually([&] { return over.load(); }));
		EXPECT_EQ(5, sn_stream_write_all(ends.to(), "defgh", 5, nullptr));
		reader.join();
		EXPECT_STREQ("abcdefgh", buf);
	});
}

// Each way to end the wait from outside, after some of the bytes.
TEST(ReadFull, SaysWhatItHadWhenItWasEnded)
{
	const struct {
		int expected;
		std::function<void(Ends &, sn_scope *)> end;
	} ways[] = {
		{-ECANCELED, [](Ends &ends, sn_scope *) { sn_stream_cancel(ends.from()); }},
		{-EBADF, [](Ends &ends, sn_scope *) { ends.close_from(); }},
		{-ECANCELED, [](Ends &, sn_scope *scope) { sn_scope_cancel(scope); }},
	};

	test::run([&] {
		for (const auto &way : ways)
			test::with_each_kind([&](Ends &ends) {
				struct {
					sn_stream *stream;
					char buf[8];
					size_t done;
					ssize_t n;
				} call = {ends.from(), "", 0, 0};
				sn_scope *scope;

				ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
				ASSERT_EQ(0,
					  sn_scope_go(
						  scope,
						  [](void *arg) {
							  auto *c = static_cast<decltype(call) *>(
								  arg);

							  c->n = sn_stream_read_full(
								  c->stream, c->buf, 8, &c->done);
							  return 0;
						  },
						  &call));
				EXPECT_EQ(3, sn_stream_write_all(ends.to(), "abc", 3, nullptr));
				EXPECT_TRUE(ends.reader_waits());
				way.end(ends, scope);
				sn_scope_close(scope);
				EXPECT_EQ(way.expected, call.n);
				EXPECT_EQ(3u, call.done);
				EXPECT_EQ(0, memcmp("abc", call.buf, 3));
			});
	});
}

TASK_TEST(ReadFull, AsksForNothingWithoutWaiting, 1)
{
	auto ends = Ends::pipe();
	char buf[4];
	size_t done = 4;

	EXPECT_EQ(0, sn_stream_read_full(ends->from(), buf, 0, nullptr));
	EXPECT_EQ(4, sn_stream_read_full(ends->from(), buf, 4, &done));
	sn_stream_set_read_deadline(ends->from(), sn_now());
	EXPECT_EQ(-ETIMEDOUT, sn_stream_read_full(ends->from(), buf, 0, nullptr));
}

TEST(Vector, ArrivesInOrderHoweverItIsCut)
{
	test::Random random;

	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			std::string sent = test::random_bytes(random, size_t(test::scaled(400000)));
			std::string got(sent.size(), 0);
			Task writer([&, seed = random.next()] {
				test::Random own(seed);
				std::vector<iovec> pieces = cut(sent, own, 4000);
				const size_t all = pieces.size();

				for (size_t first = 0, skipped = 0; first < all;) {
					const size_t n =
						std::min(all - first, size_t(1 + own.below(40)));
					ssize_t put =
						sn_stream_writev(ends.to(), &pieces[first], int(n));

					ASSERT_GE(put, 0);
					while (first < all && size_t(put) >= pieces[first].iov_len)
						put -= ssize_t(pieces[first++].iov_len);
					skipped = size_t(put);
					if (first < all) {
						iovec &piece = pieces[first];

						piece.iov_base = (char *)piece.iov_base + skipped;
						piece.iov_len -= skipped;
					}
				}
				ends.close_to();
			});
			size_t at = 0;

			for (;;) {
				std::string room(size_t(1 + random.below(9000)), 0);
				std::vector<iovec> into = cut(room, random, 700);
				const ssize_t n = sn_stream_readv(
					ends.from(), into.data(),
					int(std::min(into.size(), size_t(IOV_MAX))));

				ASSERT_GE(n, 0);
				if (n == 0 && room.size() > 0)
					break;
				ASSERT_LE(at + size_t(n), got.size());
				memcpy(&got[at], room.data(), size_t(n));
				at += size_t(n);
			}
			writer.join();
			EXPECT_EQ(sent.size(), at);
			EXPECT_TRUE(got == sent) << "seed " << random.seed();
		});
	});
}

TEST(Vector, WritesAllPiecesHoweverManyThereAre)
{
	test::Random random;

	test::run([&] {
		for (const size_t most : {1, 3, 50, 5000, 200000})
			test::with_each_kind([&](Ends &ends) {
				std::string sent = test::random_bytes(
					random, size_t(test::scaled(most < 10 ? 20000 : 500000)));
				const std::vector<iovec> pieces = cut(sent, random, most);
				const std::vector<iovec> before = pieces;
				Task writer([&] {
					size_t done = 0;

					EXPECT_EQ(ssize_t(sent.size()),
						  sn_stream_writev_all(ends.to(), pieces.data(),
								       int(pieces.size()), &done));
					EXPECT_EQ(sent.size(), done);
					ends.close_to();
				});
				const std::string got = test::read_to_end(ends.from());

				writer.join();
				EXPECT_TRUE(got == sent) << "seed " << random.seed();
				EXPECT_EQ(0, memcmp(before.data(), pieces.data(),
						    pieces.size() * sizeof(iovec)));
			});
	});
}

// More than sockets whose buffers are small and pipes hold, so that a writer has to wait.
constexpr size_t more_than_small_buffers = 2 << 20;

void set_small_buffers(const Ends &ends)
{
	const int size = 1 << 16;

	for (sn_stream *end : {ends.from(), ends.to()})
		for (int option : {SO_SNDBUF, SO_RCVBUF}) // a pipe has none
			(void)setsockopt(sn_stream_fd(end), SOL_SOCKET, option, &size, sizeof size);
}

// Writes with deadlines that pass while the writer waits: write(stream, &done) is repeated until it
// has written everything.
template <typename Write>
void expect_the_rest_after_deadlines(const std::string &sent, Write write)
{
	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			std::atomic<int> timeouts{0};

			set_small_buffers(ends);
			Task writer([&] {
				size_t done = 0, before;
				ssize_t n;

				do {
					before = done;
					sn_stream_set_write_deadline(ends.to(), SN_NO_DEADLINE);
					n = write(ends.to(), &done);
					EXPECT_GE(done, before);
					timeouts += n == -ETIMEDOUT;
				} while (n == -ETIMEDOUT);
				EXPECT_EQ(ssize_t(sent.size()), n);
				EXPECT_EQ(sent.size(), done);
				ends.close_to();
			});

			for (int i = 1; i <= 3; i++) {
				EXPECT_TRUE(test::someone_writes(ends.to()));
				// Repeated, because the writer may set its own deadline after this
				// one.
				EXPECT_TRUE(test::eventually([&] {
					sn_stream_set_write_deadline(ends.to(), sn_now());
					return timeouts >= i;
				}));
				std::string some(100000, 0);
				size_t done = 0;

				EXPECT_EQ(100000, sn_stream_read_full(ends.from(), some.data(),
								      100000, &done));
				EXPECT_TRUE(some == sent.substr(size_t(i - 1) * 100000, 100000));
			}
			EXPECT_TRUE(test::read_to_end(ends.from()) == sent.substr(300000));
			writer.join();
		});
	});
}

TEST(Vector, WritesTheRestAfterADeadline)
{
	test::Random random;
	std::string sent = test::random_bytes(random, more_than_small_buffers);
	const std::vector<iovec> pieces = cut(sent, random, 30000);

	expect_the_rest_after_deadlines(sent, [&](sn_stream *to, size_t *done) {
		return sn_stream_writev_all(to, pieces.data(), int(pieces.size()), done);
	});
}

TEST(WriteAll, WritesTheRestAfterADeadline)
{
	test::Random random;
	const std::string sent = test::random_bytes(random, more_than_small_buffers);

	expect_the_rest_after_deadlines(sent, [&](sn_stream *to, size_t *done) {
		return sn_stream_write_all(to, sent.data(), sent.size(), done);
	});
}

TEST(WriteAll, ContinuesAtWhatIsDone)
{
	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			size_t done = 3;

			EXPECT_EQ(5, sn_stream_write_all(ends.to(), "abcde", 5, &done));
			EXPECT_EQ(5U, done);
			EXPECT_EQ(5, sn_stream_write_all(ends.to(), "abcde", 5, &done));
			done = 6;
			EXPECT_EQ(-EINVAL, sn_stream_write_all(ends.to(), "abcde", 5, &done));
			EXPECT_EQ(6U, done);
			EXPECT_EQ(-EINVAL, sn_stream_write_all(ends.to(), "abcde",
							       size_t(SSIZE_MAX) + 1, nullptr));
			ends.close_to();
			EXPECT_EQ("de", test::read_to_end(ends.from()));
		});
	});
}

TEST(Vector, WritesAndReadsFiles)
{
	test::Random random;

	test::run({1, 2}, [&] {
		std::string sent = test::random_bytes(random, 100000), got(sent.size(), 0);
		const std::vector<iovec> pieces = cut(sent, random, 40);
		sn_stream *file = test::file_with("");

		EXPECT_EQ(ssize_t(sent.size()),
			  sn_stream_writev_all(file, pieces.data(), int(pieces.size()), nullptr));
		EXPECT_EQ(0, lseek(sn_stream_fd(file), 0, SEEK_SET));
		const iovec halves[] = {{&got[0], 30000}, {&got[30000], 70000}};

		EXPECT_EQ(100000, sn_stream_readv(file, halves, 2));
		EXPECT_TRUE(got == sent);
		EXPECT_EQ(0, sn_stream_readv(file, halves, 2));
		EXPECT_EQ(0, sn_stream_close(file));
	});
}

std::atomic<int> sigpipes;

TEST(Vector, ReportsAClosedPeerWithoutASignal)
{
	struct sigaction action = {}, former;

	action.sa_handler = [](int) { sigpipes++; };
	sigaction(SIGPIPE, &action, &former);
	test::run({1, 2}, [] {
		test::with_each_kind([](Ends &ends) {
			const iovec two[] = {{const_cast<char *>("a"), 1},
					     {const_cast<char *>("b"), 1}};
			ssize_t n = 0;

			ends.close_from();
			// A TCP writer learns of the close from the reset that answers a write.
			EXPECT_TRUE(test::eventually(
				[&] { return (n = sn_stream_writev(ends.to(), two, 2)) < 0; }));
			EXPECT_TRUE(n == -EPIPE || n == -ECONNRESET) << n;
			size_t done = 0;

			EXPECT_EQ(-EPIPE, sn_stream_writev_all(ends.to(), two, 2, &done));
			EXPECT_EQ(0u, done);
		});
	});
	EXPECT_EQ(0, sigpipes.load());
	sigaction(SIGPIPE, &former, nullptr);
}

TASK_TEST(Vector, TakesOneReaderAndOneWriterAtATime)
{
	test::with_each_kind([](Ends &ends) {
		char a, b;
		const iovec two[] = {{&a, 1}, {&b, 1}};
		Task reader([&] { EXPECT_EQ(1, sn_stream_readv(ends.from(), two, 2)); });

		EXPECT_TRUE(ends.reader_waits());
		EXPECT_EQ(-EBUSY, sn_stream_readv(ends.from(), two, 2));
		EXPECT_EQ(-EBUSY, sn_stream_read_full(ends.from(), &a, 1, nullptr));
		EXPECT_EQ(1, sn_stream_write(ends.to(), "x", 1));
		reader.join();
	});
}

TASK_TEST(Vector, MistakesAreErrors, 1)
{
	auto ends = Ends::pipe();
	sn_stream *from = ends->from(), *to = ends->to();
	char byte = 'x';
	const iovec one[] = {{&byte, 1}}, none[] = {{&byte, 0}, {nullptr, 0}};
	const iovec huge[] = {{&byte, SSIZE_MAX}, {&byte, 1}};
	const std::vector<iovec> many(IOV_MAX + 1, iovec{&byte, 1});
	size_t two = 2;

	expect_each({
		MISTAKE(-EINVAL, sn_stream_read_full(nullptr, &byte, 1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_read_full(nullptr, &byte, 0, nullptr)),
		MISTAKE(-EINVAL, sn_stream_read_full(from, &byte, 1, &two)),
		MISTAKE(-EINVAL, sn_stream_read_full(from, &byte, SIZE_MAX, nullptr)),
		MISTAKE(-EINVAL, sn_stream_readv(nullptr, one, 1)),
		MISTAKE(-EINVAL, sn_stream_readv(from, nullptr, 1)),
		MISTAKE(-EINVAL, sn_stream_readv(from, one, 0)),
		MISTAKE(-EINVAL, sn_stream_readv(from, one, -1)),
		MISTAKE(-EINVAL, sn_stream_readv(from, many.data(), IOV_MAX + 1)),
		MISTAKE(-EINVAL, sn_stream_readv(from, huge, 2)),
		MISTAKE(0, sn_stream_readv(from, none, 2)),
		MISTAKE(-EINVAL, sn_stream_writev(nullptr, one, 1)),
		MISTAKE(-EINVAL, sn_stream_writev(to, nullptr, 1)),
		MISTAKE(-EINVAL, sn_stream_writev(to, one, 0)),
		MISTAKE(-EINVAL, sn_stream_writev(to, one, INT_MIN)),
		MISTAKE(-EINVAL, sn_stream_writev(to, many.data(), IOV_MAX + 1)),
		MISTAKE(-EINVAL, sn_stream_writev(to, huge, 2)),
		MISTAKE(0, sn_stream_writev(to, none, 2)),
		MISTAKE(-EINVAL, sn_stream_writev_all(nullptr, one, 1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(nullptr, none, 1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(to, nullptr, 1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(to, one, 0, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(to, one, -1, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(to, huge, 2, nullptr)),
		MISTAKE(-EINVAL, sn_stream_writev_all(to, one, 1, &two)),
		MISTAKE(0, sn_stream_writev_all(to, none, 2, nullptr)),
		MISTAKE(IOV_MAX, sn_stream_writev(to, many.data(), IOV_MAX)),
		MISTAKE(IOV_MAX + 1, sn_stream_writev_all(to, many.data(), IOV_MAX + 1, nullptr)),
	});
	EXPECT_EQ(2u, two);
	std::thread([&] {
		expect_each({
			MISTAKE(-ENOTSUP, sn_stream_read_full(from, &byte, 1, nullptr)),
			MISTAKE(-ENOTSUP, sn_stream_readv(from, one, 1)),
			MISTAKE(-ENOTSUP, sn_stream_writev(to, one, 1)),
			MISTAKE(-ENOTSUP, sn_stream_writev_all(to, one, 1, nullptr)),
		});
	}).join();
	ends->close_from();
	ends->close_to();
	expect_each({
		MISTAKE(-EBADF, sn_stream_read_full(from, &byte, 1, nullptr)),
		MISTAKE(-EBADF, sn_stream_readv(from, one, 1)),
		MISTAKE(-EBADF, sn_stream_writev(to, one, 1)),
		MISTAKE(-EBADF, sn_stream_writev_all(to, none, 2, nullptr)),
	});
}

// A connection that always has bytes does not keep the only processor.
TASK_TEST(Vector, LetsOthersRun, 1)
{
	auto ends = Ends::unix_sockets();
	std::atomic<bool> over{false};
	std::atomic<uint64_t> turns{0};
	Task other([&] {
		while (!over) {
			turns++;
			sn_yield();
		}
	});
	char bytes[64] = "";
	const iovec two[] = {{bytes, 32}, {bytes + 32, 32}};
	const uint64_t before = turns;

	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(64, sn_stream_writev(ends->to(), two, 2));
		EXPECT_EQ(64, sn_stream_readv(ends->from(), two, 2));
	}
	EXPECT_GT(turns.load(), before);
	over = true;
	other.join();
}

} // namespace
