// SPDX-License-Identifier: MIT
//
// Buffered writing: every byte that was taken is sent once and in order, whatever the sizes, the
// pieces that the target takes, and the errors in between. An error stays until it is cleared, and
// clearing it loses no bytes.
#include <climits>
#include <cstdarg>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sennit/buffered.h>

#include "support/misuse.h"
#include "support/streams.h"

namespace
{

using namespace test;

// A target in memory, which takes random parts of what it is offered, and now and then fails.
struct Target {
	std::string text;
	test::Random *random = nullptr;
	unsigned errors = 0; // how many of 256 calls fail
	int error = 0;       // if set, every call fails with it
	size_t most = SIZE_MAX;
	unsigned calls = 0;
	std::vector<iovec> last; // the pieces of the last call

	static ssize_t write(void *arg, const iovec *iov, int n)
	{
		return static_cast<Target *>(arg)->take(iov, n);
	}

private:
	ssize_t take(const iovec *iov, int n)
	{
		std::string all;

		calls++;
		last.assign(iov, iov + n);
		EXPECT_GE(n, 1);
		EXPECT_LE(n, 2);
		EXPECT_GT(iov->iov_len, 0u);
		if (error || (random && random->below(256) < errors))
			return error ? error : -ETIMEDOUT;
		// Sometimes plays a target that looks at one piece only.
		for (int i = 0; i < (random && random->below(2) ? 1 : n); i++)
			all.append(static_cast<char *>(iov[i].iov_base), iov[i].iov_len);
		if (random)
			all.resize(1 + size_t(random->below(all.size())));
		all.resize(std::min(all.size(), most));
		text += all;
		return ssize_t(all.size());
	}
};

class Writer
{
public:
	explicit Writer(Target &target, size_t size = 0, void *buf = nullptr)
	{
		EXPECT_EQ(0, sn_writer_init_with_fn(&writer_, Target::write, &target, buf, size));
	}
	explicit Writer(sn_stream *stream, size_t size = 0)
	{
		EXPECT_EQ(0, sn_writer_init(&writer_, stream, nullptr, size));
	}
	~Writer() { sn_writer_free(&writer_); }
	Writer(const Writer &) = delete;
	Writer &operator=(const Writer &) = delete;

	sn_writer *get() { return &writer_; }
	ssize_t write(const std::string &text)
	{
		return sn_writer_write(&writer_, text.data(), text.size());
	}

private:
	sn_writer writer_;
};

TEST(Write, GathersSmallPieces)
{
	Target target;
	Writer writer(target, 100);
	std::string all;

	for (int i = 0; i < 1000; i++) {
		const std::string text = std::to_string(i) + ",";

		EXPECT_EQ(ssize_t(text.size()), writer.write(text));
		all += text;
	}
	EXPECT_LT(target.calls, all.size() / 100 + 1);
	EXPECT_EQ(all.size() - target.text.size(), sn_writer_buffered(writer.get()));
	EXPECT_EQ(0, sn_writer_flush(writer.get()));
	EXPECT_EQ(all, target.text);
	EXPECT_EQ(0u, sn_writer_buffered(writer.get()));
	const unsigned calls = target.calls;

	EXPECT_EQ(0, sn_writer_flush(writer.get()));
	EXPECT_EQ(calls, target.calls);
}

TEST(Write, DoesNotCopyWhatDoesNotFit)
{
	Target target;
	Writer writer(target, 100);
	const std::string large(1000, 'x');

	EXPECT_EQ(4, writer.write("head"));
	EXPECT_EQ(1000, writer.write(large));
	EXPECT_EQ(1u, target.calls);
	ASSERT_EQ(2u, target.last.size());
	EXPECT_EQ(4u, target.last[0].iov_len);
	EXPECT_EQ(large.data(), target.last[1].iov_base);
	EXPECT_EQ("head" + large, target.text);
	EXPECT_EQ(0u, sn_writer_buffered(writer.get()));
	EXPECT_EQ(100, writer.write(std::string(100, 'y'))); // just fits
	EXPECT_EQ(1u, target.calls);
	EXPECT_EQ(100u, sn_writer_buffered(writer.get()));
}

TEST(Free, DiscardsWhatWasNotFlushed)
{
	Target target;
	{
		Writer writer(target);

		EXPECT_EQ(4, writer.write("lost"));
		EXPECT_EQ(4u, sn_writer_buffered(writer.get()));
	}
	EXPECT_EQ(0u, target.calls);
}

TEST(Error, StaysUntilItIsCleared)
{
	Target target;
	Writer writer(target, 4);
	size_t taken = 7;

	EXPECT_EQ(0, sn_writer_error(writer.get()));
	EXPECT_EQ(0, sn_writer_clear_error(writer.get(), &taken));
	EXPECT_EQ(0u, taken);
	target.error = -EPIPE;
	EXPECT_EQ(3, writer.write("abc"));
	EXPECT_EQ(-EPIPE, sn_writer_flush(writer.get()));
	EXPECT_EQ(1u, target.calls);
	target.error = 0;
	EXPECT_EQ(-EPIPE, writer.write("d"));
	EXPECT_EQ(-EPIPE, writer.write(""));
	EXPECT_EQ(-EPIPE, sn_writer_print(writer.get(), "x"));
	EXPECT_EQ(-EPIPE, sn_writer_flush(writer.get()));
	EXPECT_EQ(-EPIPE, sn_writer_error(writer.get()));
	EXPECT_EQ(1u, target.calls);
	EXPECT_EQ(3u, sn_writer_buffered(writer.get()));
	taken = 7;
	EXPECT_EQ(-EPIPE, sn_writer_clear_error(writer.get(), &taken));
	EXPECT_EQ(0u, taken);
	EXPECT_EQ(0, sn_writer_error(writer.get()));
	EXPECT_EQ(4, writer.write("defg"));
	EXPECT_EQ(0, sn_writer_flush(writer.get()));
	EXPECT_EQ("abcdefg", target.text);
}

TEST(Error, OfAFunctionThatCannotCount)
{
	for (const int n : {0, 6}) {
		sn_writer writer;

		ASSERT_EQ(0, sn_writer_init_with_fn(
				     &writer,
				     [](void *arg, const iovec *, int) {
					     return ssize_t(*static_cast<const int *>(arg));
				     },
				     const_cast<int *>(&n), nullptr, 0));
		EXPECT_EQ(5, sn_writer_write(&writer, "hello", 5));
		EXPECT_EQ(-EIO, sn_writer_flush(&writer));
		EXPECT_EQ(5u, sn_writer_buffered(&writer));
		sn_writer_free(&writer);
	}
}

// A part of the buffer was sent; its place can be used again.
TEST(Error, LeavesRoomForWhatWasSent)
{
	Target target;
	Writer writer(target, 8);

	EXPECT_EQ(8, writer.write("12345678"));
	target.most = 3;
	EXPECT_EQ(2, writer.write("9a"));
	EXPECT_EQ(1u, target.calls);
	EXPECT_EQ(7u, sn_writer_buffered(writer.get()));
	EXPECT_EQ(1, writer.write("b"));
	EXPECT_EQ(1u, target.calls);
	EXPECT_EQ(0, sn_writer_flush(writer.get()));
	EXPECT_EQ("123456789ab", target.text);
}

// Writes random pieces through buffers of random sizes. The target takes a random part of each, or
// fails at random.
TEST(Model, SendsEachByteOnce)
{
	test::Random random;

	for (int round = 0; round < test::scaled(1000); round++) {
		Target target;
		target.random = &random;
		target.errors = unsigned(random.below(120));
		std::string own(size_t(1 + random.below(40)), 0), all;
		Writer writer(target, own.size(), random.below(2) ? own.data() : nullptr);
		// Repeats a call after an error with the bytes that were not taken.
		const auto again = [&](std::string text, auto call) {
			size_t taken;

			while (call(text) < 0) {
				ASSERT_EQ(-ETIMEDOUT, sn_writer_clear_error(writer.get(), &taken));
				ASSERT_LE(taken, text.size());
				text.erase(0, taken);
			}
		};

		for (int i = 0; i < 40; i++) {
			std::string text(size_t(random.below(100)), char('a' + random.below(26)));

			all += text;
			switch (random.below(3)) {
			case 0:
				again(text, [&](const std::string &rest) {
					const ssize_t n = writer.write(rest);

					EXPECT_TRUE(n < 0 || size_t(n) == rest.size());
					return n;
				});
				break;
			case 1:
				again(text, [&](const std::string &rest) {
					const ssize_t n =
						sn_writer_print(writer.get(), "%s", rest.c_str());

					EXPECT_TRUE(n < 0 || size_t(n) == rest.size());
					return n;
				});
				break;
			case 2:
				all.resize(all.size() - text.size());
				again("", [&](const std::string &) {
					return sn_writer_flush(writer.get());
				});
				ASSERT_EQ(all, target.text) << "seed " << random.seed();
				break;
			}
			ASSERT_EQ(all.size(),
				  target.text.size() + sn_writer_buffered(writer.get()));
		}
		again("", [&](const std::string &) { return sn_writer_flush(writer.get()); });
		ASSERT_EQ(all, target.text) << "seed " << random.seed();
	}
}

TEST(Print, FormatsTextsOfAnySize)
{
	for (size_t size = 1; size < 20; size++)
		for (size_t before = 0; before <= size; before++)
			for (int length = 0; length < 25; length++) {
				Target target;
				Writer writer(target, size);

				EXPECT_EQ(ssize_t(before), writer.write(std::string(before, 'b')));
				EXPECT_EQ(length, sn_writer_print(writer.get(), "%0*d", length, 0) -
							  (length == 0));
				EXPECT_EQ(0, sn_writer_flush(writer.get()));
				EXPECT_EQ(std::string(before, 'b') +
						  std::string(size_t(std::max(length, 1)), '0'),
					  target.text);
			}
}

ssize_t print_by_list(sn_writer *writer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	const ssize_t n = sn_writer_vprint(writer, format, args);
	va_end(args);
	return n;
}

TEST(Print, TakesAList)
{
	Target target;
	Writer writer(target, 4);

	EXPECT_EQ(15, print_by_list(writer.get(), "%d %s %.2f", 42, "hello w", 1.5));
	EXPECT_EQ(0, sn_writer_flush(writer.get()));
	EXPECT_EQ("42 hello w 1.50", target.text);
}

TEST(Print, ReportsWhatCannotBeFormatted)
{
	Target target;
	Writer writer(target);

	EXPECT_EQ(-EILSEQ, sn_writer_print(writer.get(), "%lc", wint_t(0x110000)));
	EXPECT_EQ(-EILSEQ, sn_writer_error(writer.get()));
	EXPECT_EQ(0u, sn_writer_buffered(writer.get()));
}

TEST(Stream, ArrivesWhole)
{
	test::Random random;

	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			const std::string sent =
				test::random_bytes(random, size_t(test::scaled(500000)));
			Task task([&, seed = random.next()] {
				test::Random own(seed);
				Writer writer(ends.to(), size_t(1 + own.below(3000)));

				for (size_t at = 0; at < sent.size();) {
					const size_t n = std::min(sent.size() - at,
								  size_t(1 + own.below(9000)));

					EXPECT_EQ(ssize_t(n), writer.write(sent.substr(at, n)));
					at += n;
				}
				EXPECT_EQ(0, sn_writer_flush(writer.get()));
				ends.close_to();
			});
			const std::string got = test::read_to_end(ends.from());

			task.join();
			EXPECT_TRUE(got == sent) << "seed " << random.seed();
		});
	});
}

TEST(Stream, ContinuesAfterADeadline)
{
	test::Random random;
	const std::string all = test::random_bytes(random, 20 << 20);

	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			const std::string sent = all.substr(0, ends.more_than_it_holds());
			std::atomic<int> timeouts{0};
			Task task([&] {
				Writer writer(ends.to(), 5000);
				size_t at = 0, taken;

				while (at < sent.size()) {
					const size_t n =
						std::min(sent.size() - at, size_t(3000000));

					if (sn_writer_write(writer.get(), &sent[at], n) > 0) {
						at += n;
						continue;
					}
					EXPECT_EQ(-ETIMEDOUT,
						  sn_writer_clear_error(writer.get(), &taken));
					at += taken;
					timeouts++;
					sn_stream_set_write_deadline(ends.to(), SN_NO_DEADLINE);
				}
				while (sn_writer_flush(writer.get()) < 0)
					sn_writer_clear_error(writer.get(), nullptr);
				ends.close_to();
			});

			EXPECT_TRUE(test::someone_writes(ends.to()));
			EXPECT_TRUE(test::eventually([&] {
				sn_stream_set_write_deadline(ends.to(), sn_now());
				return timeouts > 0;
			}));
			sn_stream_set_write_deadline(ends.to(), SN_NO_DEADLINE);
			EXPECT_TRUE(test::read_to_end(ends.from()) == sent);
			task.join();
		});
	});
}

// A close or a cancellation ends the wait of a flush, and the error stays.
TEST(Stream, MayBeEndedUnderAFlush)
{
	const struct {
		int expected;
		void (*end)(Ends &ends);
	} ways[] = {
		{-ECANCELED, [](Ends &ends) { sn_stream_cancel(ends.to()); }},
		{-EBADF, [](Ends &ends) { ends.close_to(); }},
		{-EPIPE, [](Ends &ends) { ends.close_from(); }},
	};

	test::run([&] {
		for (const auto &way : ways)
			test::with_each_kind([&](Ends &ends) {
				const std::string large(ends.more_than_it_holds(), 'x');
				Task task([&] {
					Writer writer(ends.to());
					const ssize_t n = writer.write(large);

					// TCP first reports the reset.
					EXPECT_TRUE(n == way.expected ||
						    (way.expected == -EPIPE && n == -ECONNRESET))
						<< n;
					EXPECT_EQ(n, sn_writer_flush(writer.get()));
				});

				EXPECT_TRUE(test::someone_writes(ends.to()));
				way.end(ends);
				task.join();
			});
	});
}

TEST(Misuse, IsAnError)
{
	sn_writer writer = {}, *none = nullptr;
	Target target;
	char buf[8];

	expect_each({
		MISTAKE(-EINVAL, sn_writer_init(&writer, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_writer_init_with_fn(none, Target::write, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_writer_init_with_fn(&writer, nullptr, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_writer_init_with_fn(&writer, Target::write, nullptr, buf, 0)),
		MISTAKE(-EINVAL,
			sn_writer_init_with_fn(&writer, Target::write, nullptr, nullptr, SIZE_MAX)),
	});
	for (sn_writer *each : {none, &writer})
		expect_each({
			MISTAKE(-EINVAL, sn_writer_write(each, "x", 1)),
			MISTAKE(-EINVAL, sn_writer_print(each, "x")),
			MISTAKE(-EINVAL, sn_writer_flush(each)),
			MISTAKE(-EINVAL, sn_writer_error(each)),
			MISTAKE(-EINVAL, sn_writer_clear_error(each, nullptr)),
			MISTAKE(0, sn_writer_buffered(each)),
		});
	ASSERT_EQ(0, sn_writer_init_with_fn(&writer, Target::write, &target, buf, sizeof buf));
	expect_each({
		MISTAKE(-EINVAL, sn_writer_write(&writer, nullptr, 1)),
		MISTAKE(-EINVAL, sn_writer_write(&writer, buf, SIZE_MAX)),
		MISTAKE(0, sn_writer_write(&writer, nullptr, 0)),
		MISTAKE(0, sn_writer_error(&writer)),
		MISTAKE(2, sn_writer_write(&writer, "ok", 2)),
		MISTAKE(0, sn_writer_flush(&writer)),
	});
	EXPECT_EQ("ok", target.text);
	sn_writer_free(&writer);

	test::run(1, [&] {
		auto ends = Ends::pipe();

		ASSERT_EQ(0, sn_writer_init(&writer, ends->to(), nullptr, 0));
		ends->close_to();
		EXPECT_EQ(1, sn_writer_write(&writer, "x", 1));
		EXPECT_EQ(-EBADF, sn_writer_flush(&writer));
	});
	EXPECT_EQ(-EBADF, sn_writer_clear_error(&writer, nullptr));
	EXPECT_EQ(-ENOTSUP, sn_writer_flush(&writer));
	sn_writer_free(&writer);
	sn_writer_free(&writer);
	sn_writer_free(nullptr);
}

} // namespace
