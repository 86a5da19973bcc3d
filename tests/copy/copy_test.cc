// SPDX-License-Identifier: MIT
//
// sn_copy(): every byte arrives in order whatever the chunks and pauses; limits; failures on either
// side and what the result then says; deadlines that progress postpones; idle copies, which hold no
// buffers.
#include <atomic>
#include <string>
#include <vector>

#include <malloc.h>

#if defined(__has_feature)
#	if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#		include <sanitizer/allocator_interface.h>
#		define SANITIZER_HEAP 1
#	endif
#endif

#include "support/routes.h"

namespace
{

using namespace test;
using Route = test::CopyRoute;

TEST(Copy, IsExactForRandomChunksAndPauses)
{
	test::Random seeds;

	test::run([&] {
		std::vector<Task> tasks;

		for (int t = 0; t < 8; t++)
			tasks.emplace_back([&, seed = seeds.next()] {
				test::Random random(seed);
				Route route;
				const std::string sent = test::random_bytes(
					random, random.below(uint64_t(test::scaled(2000000))) + 1);
				Task writer([&, writer_seed = random.next()] {
					test::Random mine(writer_seed);

					for (size_t done = 0; done < sent.size();) {
						const size_t n = std::min(
							sent.size() - done,
							size_t(1 + mine.below(mine.below(4) ? 100000
											    : 10)));

						ASSERT_EQ(ssize_t(n),
							  sn_tcp_write_all(route.source.client,
									   sent.data() + done, n,
									   nullptr));
						done += n;
						if (mine.below(4) == 0)
							sn_sleep(int64_t(mine.below(500)) *
								 test::us);
					}
					sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
				});
				Task reader([&, reader_seed = random.next()] {
					test::Random mine(reader_seed);
					std::string got, buf(100000, 0);

					while (got.size() < sent.size()) {
						const ssize_t n =
							sn_tcp_read(route.sink.server, buf.data(),
								    1 + mine.below(buf.size()));

						ASSERT_GT(n, 0);
						got.append(buf, 0, size_t(n));
						if (mine.below(8) == 0)
							sn_sleep(int64_t(mine.below(500)) *
								 test::us);
					}
					EXPECT_TRUE(got == sent) << "seed " << seeds.seed();
				});

				EXPECT_EQ(0, route.copy());
				EXPECT_EQ(SN_COPY_NONE, route.result.failed);
				EXPECT_EQ(sent.size(), route.result.bytes_read);
				EXPECT_EQ(sent.size(), route.result.bytes_written);
				writer.join();
				reader.join();
				// Neither connection was shut down or closed.
				char c;
				EXPECT_EQ(1, sn_tcp_write(route.sink.client, "x", 1));
				EXPECT_EQ(1, sn_tcp_read(route.sink.server, &c, 1));
				EXPECT_EQ(1, sn_tcp_write(route.source.server, "x", 1));
				EXPECT_EQ(1, sn_tcp_read(route.source.client, &c, 1));
			});
		join_all(tasks);
	});
}

TASK_TEST(Copy, OfAnEmptyStream)
{
	Route route;

	sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
	EXPECT_EQ(0, route.copy());
	EXPECT_EQ(SN_COPY_NONE, route.result.failed);
	EXPECT_EQ(0u, route.result.bytes_read);
	EXPECT_EQ(0u, route.result.bytes_written);
}

TASK_TEST(Copy, OfNothingReadsNothing)
{
	Route route;

	EXPECT_EQ(1, sn_tcp_write(route.source.client, "x", 1));
	EXPECT_EQ(0, route.copy(0));
	EXPECT_EQ(0u, route.result.bytes_read);
	char c;
	EXPECT_EQ(1, sn_tcp_read(route.source.server, &c, 1));
	EXPECT_EQ(0, sn_copy(sn_tcp_stream(route.sink.client), sn_tcp_stream(route.source.server),
			     0, nullptr, nullptr, nullptr))
		<< "the result is optional";
}

TEST(Copy, StopsAtTheLimit)
{
	test::Random random;

	test::run([&] {
		const std::string sent = test::random_bytes(random, 300000);

		for (int64_t limit :
		     {int64_t(1), int64_t(65536), int64_t(65537), int64_t(200001)}) {
			Route route;
			Task writer([&] {
				EXPECT_EQ(ssize_t(sent.size()),
					  sn_tcp_write_all(route.source.client, sent.data(),
							   sent.size(), nullptr));
				sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			});
			std::string got;
			Task reader([&] { got = test::read_to_end(route.sink.server); });

			EXPECT_EQ(0, route.copy(limit));
			EXPECT_EQ(uint64_t(limit), route.result.bytes_read);
			EXPECT_EQ(uint64_t(limit), route.result.bytes_written);
			sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE);
			reader.join();
			EXPECT_TRUE(got == sent.substr(0, size_t(limit)));
			// The bytes after the limit can still be read.
			EXPECT_TRUE(test::read_to_end(route.source.server) ==
				    sent.substr(size_t(limit)));
			writer.join();
		}
		// A limit beyond the end of the stream.
		Route route;
		EXPECT_EQ(3, sn_tcp_write(route.source.client, "abc", 3));
		sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, route.copy(1000));
		EXPECT_EQ(3u, route.result.bytes_written);
	});
}

TASK_TEST(CopyFailure, OfReading)
{
	Route route;
	Task copy([&] { return route.copy(); });

	EXPECT_EQ(5, sn_tcp_write(route.source.client, "hello", 5));
	char buf[8];
	EXPECT_EQ(5, sn_tcp_read(route.sink.server, buf, sizeof buf));
	EXPECT_EQ(0, sn_tcp_abort(route.source.release_client()));
	EXPECT_EQ(-ECONNRESET, copy.join());
	EXPECT_EQ(SN_COPY_READ, route.result.failed);
	EXPECT_EQ(5u, route.result.bytes_read);
	EXPECT_EQ(5u, route.result.bytes_written);
}

TASK_TEST(CopyFailure, OfWriting)
{
	Route route;
	Task copy([&] { return route.copy(); });
	Task writer([&] {
		const std::string chunk(100000, 'x');

		while (sn_tcp_write(route.source.client, chunk.data(), chunk.size()) > 0)
			continue;
	});

	// Fails in the middle of the stream, once the copy waits for room.
	EXPECT_TRUE(test::someone_writes(route.sink.client));
	EXPECT_EQ(0, sn_tcp_abort(route.sink.release_server()));
	const int err = copy.join();
	EXPECT_TRUE(err == -ECONNRESET || err == -EPIPE) << err;
	EXPECT_EQ(SN_COPY_WRITE, route.result.failed);
	EXPECT_GT(route.result.bytes_written, 0u);
	EXPECT_GT(route.result.bytes_read, route.result.bytes_written);
	sn_tcp_cancel(route.source.client);
	writer.join();
}

TASK_TEST(CopyFailure, OfWritingToAShutHalf)
{
	Route route;

	sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE);
	EXPECT_EQ(3, sn_tcp_write(route.source.client, "abc", 3));
	EXPECT_EQ(-EPIPE, route.copy());
	EXPECT_EQ(SN_COPY_WRITE, route.result.failed);
	EXPECT_EQ(3u, route.result.bytes_read);
	EXPECT_EQ(0u, route.result.bytes_written);
}

TASK_TEST(CopyFailure, OfCancelledAndClosedSides)
{
	{
		Route route;
		Task copy([&] { return route.copy(); });

		ASSERT_TRUE(test::someone_reads(route.source.server));
		sn_tcp_cancel(route.source.server);
		EXPECT_EQ(-ECANCELED, copy.join());
		EXPECT_EQ(SN_COPY_READ, route.result.failed);
	}
	{
		Route route;
		Task copy([&] { return route.copy(); });

		ASSERT_TRUE(test::someone_reads(route.source.server));
		sn_tcp_cancel(route.sink.client);
		EXPECT_EQ(1, sn_tcp_write(route.source.client, "x", 1));
		EXPECT_EQ(-ECANCELED, copy.join());
		EXPECT_EQ(SN_COPY_WRITE, route.result.failed);
	}
	{
		Route route;
		Task copy([&] { return route.copy(); });
		struct sn_copy_result second;

		ASSERT_TRUE(test::someone_reads(route.source.server));
		EXPECT_EQ(-EBUSY, sn_copy(sn_tcp_stream(route.sink.client),
					  sn_tcp_stream(route.source.server), -1, nullptr, nullptr,
					  &second));
		EXPECT_EQ(SN_COPY_READ, second.failed);
		sn_tcp_close(route.source.release_server());
		EXPECT_EQ(-EBADF, copy.join());
		EXPECT_EQ(SN_COPY_READ, route.result.failed);
	}
}

TASK_TEST(CopyDeadline, OfReadingAndOfWriting)
{
	Route route;

	sn_tcp_set_read_deadline(route.source.server, sn_now() + 5 * test::ms);
	EXPECT_EQ(-ETIMEDOUT, route.copy());
	EXPECT_EQ(SN_COPY_READ, route.result.failed);
	// A past deadline ends the copy immediately, even if there are bytes to copy.
	EXPECT_EQ(1, sn_tcp_write(route.source.client, "x", 1));
	EXPECT_TRUE(test::eventually([&] { return test::unread(route.source.server) == 1; }));
	EXPECT_EQ(-ETIMEDOUT, route.copy());
	EXPECT_EQ(SN_COPY_READ, route.result.failed);
	EXPECT_EQ(0u, route.result.bytes_read);
	// The copy can be repeated, and nothing was lost.
	sn_tcp_set_read_deadline(route.source.server, SN_NO_DEADLINE);
	EXPECT_EQ(0, route.copy(1));

	test::fill(route.sink.client);
	sn_tcp_set_write_deadline(route.sink.client, sn_now() + 5 * test::ms);
	Task writer([&] {
		const std::string chunk(100000, 'x');

		while (sn_tcp_write(route.source.client, chunk.data(), chunk.size()) > 0)
			continue;
	});
	EXPECT_EQ(-ETIMEDOUT, route.copy());
	EXPECT_EQ(SN_COPY_WRITE, route.result.failed);
	sn_tcp_cancel(route.source.client);
	writer.join();
}

struct Progress {
	Route *route;
	uint64_t bytes = 0;
	int calls = 0;
};

// The first deadline would pass in the middle of the stream, but each chunk postpones it.
TEST(CopyDeadline, IsPostponedByProgress)
{
	// Returns false if the machine stalled the test until the first deadline.
	const auto is_pushed = [](int64_t gap) {
		Route route;
		Progress progress{&route};
		const int64_t first = sn_now() + gap;
		sn_task *me = sn_self();
		static sn_task *caller;
		auto push = [](void *arg, size_t bytes) {
			Progress *p = static_cast<Progress *>(arg);

			caller = sn_self();
			p->bytes += bytes;
			p->calls++;
			sn_tcp_set_read_deadline(p->route->source.server,
						 sn_now() + test::patience);
		};
		Task writer([&] {
			EXPECT_EQ(5, sn_tcp_write(route.source.client, "hello", 5));
			sn_sleep_until(first + 10 * test::ms);
			EXPECT_EQ(6, sn_tcp_write(route.source.client, " world", 6));
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		});

		sn_tcp_set_read_deadline(route.source.server, first);
		const int result = route.copy(-1, push, &progress);
		writer.join();
		if (result == -ETIMEDOUT && progress.calls == 0)
			return false;
		EXPECT_EQ(0, result);
		EXPECT_EQ(11u, progress.bytes);
		EXPECT_GE(progress.calls, 2);
		EXPECT_EQ(me, caller) << "called in the copying task";
		return true;
	};

	test::run([&] {
		for (int64_t gap = 100 * test::ms; !is_pushed(gap); gap *= 2)
			ASSERT_LT(gap, test::patience);
	});
}

size_t heap_in_use()
{
#if defined(SANITIZER_HEAP)
	return __sanitizer_get_current_allocated_bytes();
#else
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#endif
}

// 200 copies have copied something and wait for more. If each held its buffer, that would take 13
// MB; the pool keeps at most 4 MiB.
TASK_TEST(CopyIdle, HoldsNoBuffer)
{
	const int n = 200;
	Listener listener;
	std::vector<std::unique_ptr<Pair>> pairs;
	std::vector<Task> copies;

	for (int i = 0; i < 2 * n; i++)
		pairs.push_back(std::make_unique<Pair>(listener));
	const size_t before = heap_in_use();
	for (int i = 0; i < n; i++)
		copies.emplace_back([&, i] {
			return sn_copy(sn_tcp_stream(pairs[size_t(2 * i)]->client),
				       sn_tcp_stream(pairs[size_t(2 * i + 1)]->server), -1, nullptr,
				       nullptr, nullptr);
		});
	for (int i = 0; i < n; i++) {
		const std::string text = std::to_string(i);
		char buf[16] = {};

		EXPECT_EQ(ssize_t(text.size()),
			  sn_tcp_write(pairs[size_t(2 * i + 1)]->client, text.data(), text.size()));
		EXPECT_EQ(ssize_t(text.size()),
			  sn_tcp_read(pairs[size_t(2 * i)]->server, buf, sizeof buf));
		EXPECT_EQ(text, buf);
	}
	for (int i = 0; i < n; i++)
		EXPECT_TRUE(test::someone_reads(pairs[size_t(2 * i + 1)]->server));
	const size_t after = heap_in_use();
	EXPECT_LT(after, before + (size_t(6) << 20)) << before << " before";
	for (int i = 0; i < n; i++)
		sn_tcp_shutdown(pairs[size_t(2 * i + 1)]->client, SN_SHUT_WRITE);
	for (Task &copy : copies)
		EXPECT_EQ(0, copy.join());
}

TEST(CopyOutside, IsRefused)
{
	struct sn_copy_result result = {77, 77, SN_COPY_WRITE, 77, 77, 77};

	EXPECT_EQ(-ENOTSUP, sn_copy(nullptr, nullptr, -1, nullptr, nullptr, nullptr));
	EXPECT_EQ(-ENOTSUP, sn_copy(nullptr, nullptr, -1, nullptr, nullptr, &result));
	EXPECT_EQ(0u, result.bytes_read);
	EXPECT_EQ(0u, result.bytes_written);
	EXPECT_EQ(SN_COPY_NONE, result.failed);
}

} // namespace
