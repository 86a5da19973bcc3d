// SPDX-License-Identifier: MIT
//
// Buffered reading: whatever the pieces in which the bytes arrive, and whatever fails in between,
// the calls return what a model returns. Also limits, ends, deadlines and closes, for streams and
// functions.
#include <climits>
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

// What a call returned in place of bytes.
std::string result(ssize_t n)
{
	return "<" + std::to_string(n) + ">";
}

const std::string too_long = result(-EMSGSIZE), the_end = result(0);

// A source in memory, which gives random pieces of its text, and now and then an error instead.
struct Source {
	std::string text;
	test::Random *random = nullptr;
	size_t most = SIZE_MAX;
	unsigned errors = 0; // how many of 256 calls fail
	size_t at = 0;
	unsigned calls = 0;
	const void *last_buf = nullptr;
	size_t last_size = 0;

	static ssize_t read(void *arg, void *buf, size_t size)
	{
		return static_cast<Source *>(arg)->give(buf, size);
	}

private:
	ssize_t give(void *buf, size_t size)
	{
		calls++;
		last_buf = buf;
		last_size = size;
		if (random && random->below(256) < errors)
			return -ETIMEDOUT;
		size = std::min({size, text.size() - at, most});
		if (random && size > 0)
			size = 1 + size_t(random->below(size));
		memcpy(buf, text.data() + at, size);
		at += size;
		return ssize_t(size);
	}
};

// A reader of a source.
class Reader
{
public:
	Reader(Source &source, size_t size, void *buf = nullptr)
	{
		EXPECT_EQ(0, sn_reader_init_with_fn(&reader_, Source::read, &source, buf, size));
	}
	explicit Reader(sn_stream *stream, size_t size = 0)
	{
		EXPECT_EQ(0, sn_reader_init(&reader_, stream, nullptr, size));
	}
	~Reader() { sn_reader_free(&reader_); }
	Reader(const Reader &) = delete;
	Reader &operator=(const Reader &) = delete;

	sn_reader *get() { return &reader_; }

	// The line as it is, or what the call returned.
	std::string line()
	{
		char *text = nullptr;
		size_t length = 0;
		const ssize_t n = sn_reader_line(&reader_, &text, &length);

		if (n <= 0)
			return result(n);
		EXPECT_EQ(0, text[length]);
		return {text, length};
	}

private:
	sn_reader reader_;
};

// data: a reference, because the call that sets it may be the other argument.
std::string bytes(char *const &data, ssize_t size)
{
	return size < 0 ? result(size) : std::string(data, size_t(size));
}

TEST(Line, EndsWithLfOrCrLf)
{
	for (const size_t most : {size_t(1), size_t(2), size_t(3), SIZE_MAX}) {
		Source source{"a\nb c\r\n\n\r\n\rd\re\r\r\nlast"};
		source.most = most;
		Reader reader(source, 16);

		EXPECT_EQ("a", reader.line());
		EXPECT_EQ("b c", reader.line());
		EXPECT_EQ("", reader.line());
		EXPECT_EQ("", reader.line());
		EXPECT_EQ("\rd\re\r", reader.line());
		EXPECT_EQ("last", reader.line());
		EXPECT_EQ(the_end, reader.line());
		EXPECT_EQ(the_end, reader.line());
	}
}

TEST(Line, TellsAnUnfinishedOneByItsSize)
{
	Source source{std::string("ab\r\ncd\nef\r", 10)};
	Reader reader(source, 100);
	char *line;
	size_t length;

	EXPECT_EQ(4, sn_reader_line(reader.get(), &line, &length));
	EXPECT_EQ(2u, length);
	EXPECT_EQ(3, sn_reader_line(reader.get(), &line, &length));
	EXPECT_EQ(2u, length);
	EXPECT_EQ(3, sn_reader_line(reader.get(), &line, nullptr));
	EXPECT_STREQ("ef\r", line);
	EXPECT_EQ(0, sn_reader_line(reader.get(), &line, &length));
	EXPECT_EQ(0u, length);
	EXPECT_STREQ("", line);
}

TEST(Line, MayContainZeros)
{
	Source source{std::string("a\0b\n\0\0\n\0", 8)};
	Reader reader(source, 0);

	EXPECT_EQ(std::string("a\0b", 3), reader.line());
	EXPECT_EQ(std::string("\0\0", 2), reader.line());
	EXPECT_EQ(std::string("\0", 1), reader.line());
}

TEST(Line, ThatIsTooLongStaysInTheBuffer)
{
	for (const size_t most : {size_t(1), size_t(5), SIZE_MAX}) {
		Source source{"1234567\n12345678\nshort\n1234567\r\n12345678"};
		source.most = most;
		char buf[8];
		Reader reader(source, sizeof buf, buf);
		char *data = nullptr;

		EXPECT_EQ("1234567", reader.line());
		EXPECT_EQ(too_long, reader.line()); // EMSGSIZE
		EXPECT_EQ(too_long, reader.line());
		EXPECT_EQ(8u, sn_reader_buffered(reader.get()));
		EXPECT_EQ("12345678", bytes(data, sn_reader_peek(reader.get(), 8, &data)));
		EXPECT_EQ(1, sn_reader_skip_through(reader.get(), "\n", 1));
		EXPECT_EQ("short", reader.line());
		EXPECT_EQ(too_long, reader.line()); // with its end it has nine bytes
		EXPECT_EQ("123", bytes(data, sn_reader_take(reader.get(), 3, &data)));
		EXPECT_EQ("4567", reader.line());
		EXPECT_EQ(too_long, reader.line()); // no byte more may follow, but that is unknown
		EXPECT_EQ(0, sn_reader_skip_through(reader.get(), "\n", 1));
		EXPECT_EQ(the_end, reader.line());
	}
}

TEST(Line, FitsTheSmallestBuffer)
{
	Source source{"\n\na\n"};
	char buf[1];
	Reader reader(source, sizeof buf, buf);

	EXPECT_EQ("", reader.line());
	EXPECT_EQ("", reader.line());
	EXPECT_EQ(too_long, reader.line());
	EXPECT_EQ(1, sn_reader_skip(reader.get(), 1, nullptr));
	EXPECT_EQ("", reader.line());
	EXPECT_EQ(the_end, reader.line());
}

TEST(Limit, LetsTheBufferGrow)
{
	const std::string longest(100000, 'x');
	Source source{"a\n" + longest + "\nb\n" + longest + "y\n" + "c\n"};
	Reader reader(source, 16);

	EXPECT_EQ("a", reader.line());
	EXPECT_EQ(too_long, reader.line());
	EXPECT_EQ(0, sn_reader_set_limit(reader.get(), longest.size() + 1));
	EXPECT_TRUE(reader.line() == longest);
	EXPECT_LT(source.calls, 20u); // the buffer doubles each time
	EXPECT_EQ("b", reader.line());
	EXPECT_EQ(too_long, reader.line());
	EXPECT_EQ(0, sn_reader_set_limit(reader.get(), longest.size() + 2));
	EXPECT_TRUE(reader.line() == longest + "y");
	// A lower limit applies although more bytes are in the buffer.
	EXPECT_EQ(0, sn_reader_set_limit(reader.get(), 1));
	EXPECT_EQ(too_long, reader.line());
	EXPECT_EQ(0, sn_reader_set_limit(reader.get(), 2));
	EXPECT_EQ("c", reader.line());
}

TEST(Limit, OfMoreThanThereIsMemory)
{
	if (TEST_ASAN || TEST_TSAN || sizeof(void *) == 4)
		GTEST_SKIP() << "there the allocation ends the program, or succeeds";
	Source source{"abc\n"};
	Reader reader(source, 8);
	char *data = nullptr;

	EXPECT_EQ(0, sn_reader_set_limit(reader.get(), SSIZE_MAX - 1));
	EXPECT_EQ("ab", bytes(data, sn_reader_take(reader.get(), 2, &data)));
	EXPECT_EQ(-ENOMEM, sn_reader_take(reader.get(), SSIZE_MAX - 1, &data));
	EXPECT_EQ("c", reader.line());
}

TEST(Until, FindsDelimitersOfSeveralBytes)
{
	for (const size_t most : {size_t(1), size_t(2), size_t(3), SIZE_MAX}) {
		Source source{"a\r\r\n\r\nb\r\n\r\r\n\r\n\r\n\r\nend\r\n\r"};
		source.most = most;
		Reader reader(source, 12);
		char *data = nullptr;
		const auto next = [&] {
			return bytes(data, sn_reader_through(reader.get(), "\r\n\r\n", 4, &data));
		};

		EXPECT_EQ("a\r\r\n\r\n", next());
		EXPECT_EQ("b\r\n\r\r\n\r\n", next());
		EXPECT_EQ("\r\n\r\n", next());
		EXPECT_EQ("end\r\n\r", next());
		EXPECT_EQ("", next());
	}
}

/*
 * Random calls, with random buffers, limits, pieces and errors, compared with a model that has all
 * bytes.
 */
TEST(Model, AgreesWithEveryCall)
{
	test::Random random;

	for (int round = 0; round < test::scaled(2000); round++) {
		Source source;
		source.random = &random;
		source.most = random.below(2) ? 1 + size_t(random.below(5)) : SIZE_MAX;
		source.errors = unsigned(random.below(100));
		for (size_t n = size_t(random.below(400)); n > 0; n--)
			source.text += "\n\n\r\r\0ab"[random.below(7)];
		std::string own(size_t(1 + random.below(40)), 0);
		Reader reader(source, own.size(), random.below(2) ? own.data() : nullptr);
		size_t limit = own.size(), at = 0;
		std::string rest;
		unsigned failures = 0;
		// Repeats a call that failed, which must find everything unchanged.
		const auto again = [&](auto call) {
			ssize_t n;

			while ((n = call()) == -ETIMEDOUT)
				failures++;
			return n;
		};

		if (random.below(2)) {
			const size_t wish = size_t(1 + random.below(100));

			if (sn_reader_set_limit(reader.get(), wish) == 0)
				limit = wish;
		}
		do {
			char *data = nullptr;
			size_t size = size_t(random.below(50)), length = 0, done = 0;
			std::string expected, buf(size, 0);
			ssize_t n, wanted;

			rest = source.text.substr(at);
			switch (random.below(7)) {
			case 0: {
				n = again([&] {
					return sn_reader_line(reader.get(), &data, &length);
				});
				const size_t end = rest.substr(0, limit).find('\n');

				wanted = end != rest.npos       ? ssize_t(end + 1)
					 : rest.size() >= limit ? -EMSGSIZE
								: ssize_t(rest.size());
				if (wanted >= 0) {
					expected = rest.substr(0, size_t(wanted));
					if (end != rest.npos)
						expected.pop_back();
					if (end != rest.npos && !expected.empty() &&
					    expected.back() == '\r')
						expected.pop_back();
					ASSERT_EQ(expected, std::string(data, length));
					ASSERT_EQ(0, data[length]);
					at += size_t(wanted);
				}
				ASSERT_EQ(wanted, n);
				break;
			}
			case 1: {
				const std::string delimiter =
					std::string("\r\n\rab")
						.substr(random.below(3), 1 + random.below(3));

				n = again([&] {
					return sn_reader_through(reader.get(), delimiter.data(),
								 delimiter.size(), &data);
				});
				const size_t end = rest.substr(0, limit).find(delimiter);

				wanted = end != rest.npos       ? ssize_t(end + delimiter.size())
					 : rest.size() >= limit ? -EMSGSIZE
								: ssize_t(rest.size());
				ASSERT_EQ(wanted, n);
				if (wanted >= 0) {
					ASSERT_EQ(rest.substr(0, size_t(wanted)), bytes(data, n));
					at += size_t(wanted);
				}
				break;
			}
			case 2:
				n = again(
					[&] { return sn_reader_peek(reader.get(), size, &data); });
				if (size > limit) {
					ASSERT_EQ(-EMSGSIZE, n);
				} else {
					ASSERT_GE(size_t(n), std::min(size, rest.size()));
					ASSERT_EQ(size_t(n), sn_reader_buffered(reader.get()));
					ASSERT_EQ(rest.substr(0, size_t(n)), bytes(data, n));
				}
				break;
			case 3:
				n = again(
					[&] { return sn_reader_take(reader.get(), size, &data); });
				if (size > limit) {
					ASSERT_EQ(-EMSGSIZE, n);
				} else {
					ASSERT_EQ(rest.substr(0, size), bytes(data, n));
					at += size_t(n);
				}
				break;
			case 4:
				n = again([&] {
					return sn_reader_read(reader.get(), buf.data(), size);
				});
				ASSERT_GE(n, size > 0 && !rest.empty() ? 1 : 0);
				ASSERT_EQ(rest.substr(0, size_t(n)), bytes(buf.data(), n));
				at += size_t(n);
				break;
			case 5:
				n = again([&] {
					return sn_reader_read_full(reader.get(), buf.data(), size,
								   &done);
				});
				ASSERT_EQ(rest.substr(0, size), bytes(buf.data(), n));
				ASSERT_EQ(size_t(n), done);
				at += size_t(n);
				break;
			case 6:
				n = again(
					[&] { return sn_reader_skip(reader.get(), size, &done); });
				ASSERT_EQ(std::min(size, rest.size()), size_t(n));
				ASSERT_EQ(size_t(n), done);
				at += size_t(n);
				break;
			}
			if (random.below(8) == 0) {
				const std::string delimiter =
					std::string("b\r\n").substr(random.below(2), 2);
				const size_t end = source.text.find(delimiter, at);
				const int found = int(again([&] {
					return ssize_t(sn_reader_skip_through(reader.get(),
									      delimiter.data(), 2));
				}));

				if (limit < 2) {
					ASSERT_EQ(-EMSGSIZE, found);
				} else {
					ASSERT_EQ(end != rest.npos, found == 1);
					at = found ? end + 2 : source.text.size();
				}
			}
		} while (at < source.text.size());
		ASSERT_EQ(0u, sn_reader_buffered(reader.get()));
		if (source.errors > 90 && source.calls > 100) {
			ASSERT_GT(failures, 0u);
		}
	}
}

TEST(Source, IsReadPastTheBufferWhenMuchIsWanted)
{
	Source source{std::string(1000, 'x')};
	Reader reader(source, 100);
	std::string buf(1000, 0);

	EXPECT_EQ(100, sn_reader_read(reader.get(), buf.data(), 100));
	EXPECT_EQ(buf.data(), source.last_buf);
	EXPECT_EQ(99, sn_reader_read(reader.get(), buf.data(), 99));
	EXPECT_NE(buf.data(), source.last_buf);
	EXPECT_EQ(100u, source.last_size); // the buffer is filled
	EXPECT_EQ(1, sn_reader_read(reader.get(), buf.data(), 100));
	EXPECT_EQ(2u, source.calls); // which still had one byte
	EXPECT_EQ(500, sn_reader_read_full(reader.get(), buf.data(), 500, nullptr));
	EXPECT_EQ(buf.data(), source.last_buf);
	EXPECT_EQ(3u, source.calls);
}

TEST(Source, MayBeUsedByAThread)
{
	std::thread([] {
		Source source{"one\ntwo\n"};
		Reader reader(source, 0);

		EXPECT_EQ("one", reader.line());
		EXPECT_EQ("two", reader.line());
		EXPECT_EQ(the_end, reader.line());
	}).join();
}

TEST(Source, IsAskedAgainAtTheEnd)
{
	Source source{"half"};
	Reader reader(source, 0);
	char *data = nullptr;

	EXPECT_EQ(4, sn_reader_peek(reader.get(), 100, &data));
	source.text += " a line\nnext";
	EXPECT_EQ("half a line", reader.line());
	EXPECT_EQ("next", reader.line());
	EXPECT_EQ(the_end, reader.line());
	source.text += "\n";
	EXPECT_EQ("", reader.line());
}

TEST(Source, ThatCannotCountIsAnError)
{
	sn_reader reader;
	char byte;

	EXPECT_EQ(0, sn_reader_init_with_fn(
			     &reader, [](void *, void *, size_t size) { return ssize_t(size + 1); },
			     nullptr, nullptr, 0));
	EXPECT_EQ(-EIO, sn_reader_read(&reader, &byte, 1));
	EXPECT_EQ(0u, sn_reader_buffered(&reader));
	sn_reader_free(&reader);
}

TEST(Stream, GivesLinesHoweverTheyArrive)
{
	test::Random random;

	test::run([&] {
		test::with_each_kind([&](Ends &ends) {
			std::vector<std::string> lines;
			std::string sent;

			for (int i = test::scaled(1000); i > 0; i--) {
				lines.push_back(std::string(size_t(random.below(100)), 'a') +
						std::to_string(i));
				sent += lines.back() + (random.below(2) ? "\n" : "\r\n");
			}
			Task writer([&, seed = random.next()] {
				test::Random own(seed);

				test::write_in_pieces(ends.to(), sent, own, 150);
				ends.close_to();
			});
			Reader reader(ends.from(), 128);

			for (const std::string &line : lines)
				EXPECT_EQ(line, reader.line()) << "seed " << random.seed();
			EXPECT_EQ(the_end, reader.line());
			writer.join();
		});
		sn_stream *file = test::file_with("one\ntwo\nlast");
		Reader reader(file, 6);

		EXPECT_EQ("one", reader.line());
		EXPECT_EQ("two", reader.line());
		EXPECT_EQ("last", reader.line());
		EXPECT_EQ(the_end, reader.line());
		EXPECT_EQ(0, sn_stream_close(file));
	});
}

// The wait ends in the middle of a line, by a deadline or otherwise. The bytes that were read are
// kept.
TEST(Stream, KeepsHalfALineWhenTheWaitIsEnded)
{
	const struct {
		int expected;
		void (*end)(Ends &ends);
		bool goes_on;
	} ways[] = {
		{-ETIMEDOUT, [](Ends &ends) { sn_stream_set_read_deadline(ends.from(), sn_now()); },
		 true},
		{-ECANCELED, [](Ends &ends) { sn_stream_cancel(ends.from()); }, false},
		{-EBADF, [](Ends &ends) { ends.close_from(); }, false},
	};

	test::run([&] {
		for (const auto &way : ways)
			test::with_each_kind([&](Ends &ends) {
				Reader reader(ends.from());
				std::atomic<bool> over{false};
				Task task([&] {
					char *data = nullptr;

					EXPECT_EQ("whole", reader.line());
					EXPECT_EQ(result(way.expected), reader.line());
					EXPECT_EQ("half ", bytes(data, sn_reader_peek(reader.get(),
										      0, &data)));
					if (!way.goes_on) {
						EXPECT_EQ(result(way.expected), reader.line());
						return;
					}
					sn_stream_set_read_deadline(ends.from(), SN_NO_DEADLINE);
					over = true;
					EXPECT_EQ("half a line", reader.line());
					EXPECT_EQ(the_end, reader.line());
				});

				EXPECT_EQ(11, sn_stream_write_all(ends.to(), "whole\nhalf ", 11,
								  nullptr));
				EXPECT_TRUE(ends.reader_waits());
				way.end(ends);
				if (way.goes_on) {
					EXPECT_TRUE(test::eventually([&] { return over.load(); }));
					EXPECT_EQ(7, sn_stream_write_all(ends.to(), "a line\n", 7,
									 nullptr));
				}
				ends.close_to();
				task.join();
			});
	});
}

TASK_TEST(Stream, IsTakenOverWithWhatIsInTheBuffer, 1)
{
	auto ends = Ends::pipe();
	Reader reader(ends->from());
	char *data = nullptr;
	std::string all;

	EXPECT_EQ(12, sn_stream_write_all(ends->to(), "header\nbody ", 12, nullptr));
	EXPECT_EQ("header", reader.line());
	all = bytes(data, sn_reader_peek(reader.get(), 0, &data));
	EXPECT_EQ("body ", all);
	EXPECT_EQ(4, sn_stream_write_all(ends->to(), "rest", 4, nullptr));
	ends->close_to();
	EXPECT_EQ("rest", test::read_to_end(ends->from()));
}

TEST(Tie, FlushesBeforeTheReaderAsks)
{
	std::string sent;
	Source source{"one\ntwo\nthree"};
	sn_writer writer;
	const auto take = [](void *arg, const iovec *iov, int) {
		static_cast<std::string *>(arg)->append(static_cast<char *>(iov->iov_base),
							iov->iov_len);
		return ssize_t(iov->iov_len);
	};

	ASSERT_EQ(0, sn_writer_init_with_fn(&writer, take, &sent, nullptr, 0));
	source.most = 11;
	Reader reader(source, 0);

	EXPECT_EQ(0, sn_reader_tie(reader.get(), &writer));
	EXPECT_EQ("one", reader.line());
	EXPECT_EQ(1, sn_writer_write(&writer, "1", 1));
	EXPECT_EQ("two", reader.line());
	EXPECT_EQ(1, sn_writer_write(&writer, "2", 1));
	EXPECT_EQ("", sent);
	EXPECT_EQ("three", reader.line());
	EXPECT_EQ("12", sent);
	EXPECT_EQ(1, sn_writer_write(&writer, "3", 1));
	EXPECT_EQ(0, sn_reader_tie(reader.get(), nullptr));
	EXPECT_EQ(the_end, reader.line());
	EXPECT_EQ("12", sent);
	sn_writer_free(&writer);
}

TEST(Tie, PassesTheWritersErrorOn)
{
	Source source{"a\n"};
	sn_writer writer;

	ASSERT_EQ(0, sn_writer_init_with_fn(
			     &writer, [](void *, const iovec *, int) { return ssize_t(-EPIPE); },
			     nullptr, nullptr, 0));
	Reader reader(source, 0);

	EXPECT_EQ(0, sn_reader_tie(reader.get(), &writer));
	EXPECT_EQ("a", reader.line());
	EXPECT_EQ(1, sn_writer_write(&writer, "1", 1));
	EXPECT_EQ(result(-EPIPE), reader.line());
	EXPECT_EQ(result(-EPIPE), reader.line());
	EXPECT_EQ(1u, source.calls);
	sn_writer_free(&writer);
}

TEST(Misuse, IsAnError)
{
	sn_reader reader = {}, *none = nullptr;
	Source source{"text"};
	char buf[8], *data = nullptr;
	size_t nine = 9;

	expect_each({
		MISTAKE(-EINVAL, sn_reader_init(&reader, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_reader_init_with_fn(none, Source::read, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_reader_init_with_fn(&reader, nullptr, nullptr, nullptr, 0)),
		MISTAKE(-EINVAL, sn_reader_init_with_fn(&reader, Source::read, nullptr, buf, 0)),
		MISTAKE(-EINVAL,
			sn_reader_init_with_fn(&reader, Source::read, nullptr, nullptr, SIZE_MAX)),
	});
	for (sn_reader *each : {none, &reader})
		expect_each({
			MISTAKE(-EINVAL, sn_reader_set_limit(each, 1)),
			MISTAKE(-EINVAL, sn_reader_tie(each, nullptr)),
			MISTAKE(-EINVAL, sn_reader_line(each, &data, nullptr)),
			MISTAKE(-EINVAL, sn_reader_through(each, "x", 1, &data)),
			MISTAKE(-EINVAL, sn_reader_peek(each, 0, &data)),
			MISTAKE(-EINVAL, sn_reader_take(each, 0, &data)),
			MISTAKE(-EINVAL, sn_reader_read(each, buf, 1)),
			MISTAKE(-EINVAL, sn_reader_read_full(each, buf, 1, nullptr)),
			MISTAKE(-EINVAL, sn_reader_skip(each, 0, nullptr)),
			MISTAKE(-EINVAL, sn_reader_skip_through(each, "x", 1)),
			MISTAKE(0, sn_reader_buffered(each)),
		});
	ASSERT_EQ(0, sn_reader_init_with_fn(&reader, Source::read, &source, buf, sizeof buf));
	expect_each({
		MISTAKE(-EINVAL, sn_reader_set_limit(&reader, 0)),
		MISTAKE(-EINVAL, sn_reader_set_limit(&reader, 9)), // the buffer holds eight bytes
		MISTAKE(0, sn_reader_set_limit(&reader, 8)),
		MISTAKE(-EINVAL, sn_reader_line(&reader, nullptr, nullptr)),
		MISTAKE(-EINVAL, sn_reader_through(&reader, nullptr, 1, &data)),
		MISTAKE(-EINVAL, sn_reader_through(&reader, "x", 0, &data)),
		MISTAKE(-EINVAL, sn_reader_through(&reader, "x", 1, nullptr)),
		MISTAKE(-EINVAL, sn_reader_peek(&reader, 1, nullptr)),
		MISTAKE(-EINVAL, sn_reader_take(&reader, 1, nullptr)),
		MISTAKE(-EMSGSIZE, sn_reader_peek(&reader, 9, &data)),
		MISTAKE(-EMSGSIZE, sn_reader_take(&reader, 9, &data)),
		MISTAKE(-EINVAL, sn_reader_read(&reader, nullptr, 1)),
		MISTAKE(-EINVAL, sn_reader_read_full(&reader, nullptr, 1, nullptr)),
		MISTAKE(-EINVAL, sn_reader_read_full(&reader, buf, 8, &nine)),
		MISTAKE(-EINVAL, sn_reader_skip(&reader, SIZE_MAX, nullptr)),
		MISTAKE(-EINVAL, sn_reader_skip_through(&reader, "x", 0)),
		MISTAKE(-EMSGSIZE, sn_reader_skip_through(&reader, "123456789", 9)),
		MISTAKE(0, sn_reader_read(&reader, nullptr, 0)),
		MISTAKE(0, sn_reader_read_full(&reader, nullptr, 0, nullptr)),
	});
	EXPECT_EQ(0u, source.calls);
	EXPECT_EQ(4, sn_reader_take(&reader, 8, &data));
	sn_reader_free(&reader);
	sn_reader_free(&reader);
	sn_reader_free(nullptr);
	// A stream that was closed, or that is read outside a task.
	sn_stream *stream = nullptr;

	test::run(1, [&] {
		auto ends = Ends::pipe();

		stream = ends->from();
		ASSERT_EQ(0, sn_reader_init(&reader, stream, nullptr, 0));
		ends->close_from();
		EXPECT_EQ(-EBADF, sn_reader_line(&reader, &data, nullptr));
	});
	EXPECT_EQ(-ENOTSUP, sn_reader_line(&reader, &data, nullptr));
	sn_reader_free(&reader);
}

} // namespace
