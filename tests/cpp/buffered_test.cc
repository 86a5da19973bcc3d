/* SPDX-License-Identifier: MIT */
/* Streams in pieces, readers, writers and ranges of lines, through the C++ interface. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <iterator>
#include <ranges>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace
{

struct ends {
	sn::stream from;
	sn::stream to;
};

/* Both ends of a pipe. Call it in a task. */
ends piped()
{
	int fds[2];
	EXPECT_EQ(0, pipe2(fds, O_CLOEXEC));
	auto from = sn::stream::adopt(fds[0]).value();
	return {std::move(from), sn::stream::adopt(fds[1]).value()};
}

/* Both ends of a connection. */
std::pair<sn::tcp, sn::tcp> connected()
{
	auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
	auto near = sn::tcp::connect(listener.address().value()).value();
	return {std::move(near), listener.accept().value()};
}

/* A source and a target that the program implements. */
struct memory {
	std::string text;
	std::size_t at = 0;
	int error = 0;

	sn::result<std::size_t> read(void *buf, std::size_t size)
	{
		if (error)
			return sn::unexpected(sn::from_errno(-error));
		size = std::min(size, text.size() - at);
		std::memcpy(buf, text.data() + at, size);
		at += size;
		return size;
	}
	sn::result<std::size_t> write(const void *buf, std::size_t size)
	{
		if (error)
			return sn::unexpected(sn::from_errno(-error));
		size = std::min<std::size_t>(size, 7);
		text.append(static_cast<const char *>(buf), size);
		return size;
	}
};

static_assert(sn::byte_source<sn::tcp> && sn::byte_target<sn::tcp>);
static_assert(sn::byte_source<sn::stream> && sn::byte_target<sn::stream>);
static_assert(sn::byte_source<memory> && sn::byte_target<memory>);
static_assert(sn::byte_source<sn::reader>);
static_assert(!sn::byte_source<int> && !sn::byte_target<std::string>);

static_assert(std::ranges::input_range<sn::reader::line_range>);
static_assert(std::input_iterator<sn::reader::line_range::iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, sn::reader::line_range::iterator>);
static_assert(std::is_same_v<std::ranges::range_value_t<sn::reader::line_range>, std::string_view>);
static_assert(!std::is_copy_constructible_v<sn::reader> && !std::is_move_assignable_v<sn::writer>);

template <class From, class To>
void move_pieces(From &from, To &to)
{
	std::array<std::byte, 6> bytes = {};
	char a[3] = "12", b[3] = "34";
	std::array<iovec, 2> pieces = {{{a, 2}, {b, 2}}};
	std::size_t done = 0;

	EXPECT_EQ(to.writev(pieces).value(), 4u);
	to.writev_all(pieces, &done).value();
	EXPECT_EQ(done, 4u);
	EXPECT_EQ(from.read_full(bytes).value(), 6u);
	EXPECT_EQ(0, std::memcmp(bytes.data(), "123412", 6));
	a[0] = b[0] = b[1] = 0;
	EXPECT_EQ(from.readv(pieces).value(), 2u);
	EXPECT_STREQ(a, "34");
	EXPECT_EQ(to.write(std::as_bytes(std::span(a, 2))).value(), 2u);
	to.write_all(std::as_bytes(std::span(a, 2))).value();
	EXPECT_EQ(from.read_full(b, 2).value(), 2u);
	EXPECT_STREQ(b, "34");
	EXPECT_EQ(from.read(std::span(bytes)).value(), 2u);

	done = 0;
	to.write_all("abc").value();
	EXPECT_EQ(from.read_full(bytes.data(), 3, &done).value(), 3u);
	from.set_read_deadline(sn::after(1ms));
	EXPECT_EQ(from.read_full(bytes.data(), 4, &done).error(), std::errc::timed_out);
	EXPECT_EQ(done, 3u);
	from.set_read_deadline(sn::no_deadline);
	to.write_all("d").value();
	EXPECT_EQ(from.read_full(bytes.data(), 4, &done).value(), 4u);
	EXPECT_EQ(0, std::memcmp(bytes.data(), "abcd", 4));

	EXPECT_EQ(to.writev({}).error(), std::errc::invalid_argument);
	EXPECT_EQ(to.writev_all({}).error(), std::errc::invalid_argument);
	to.close();
	EXPECT_EQ(from.read_full(bytes).value(), 0u);
}

TEST(Pieces, OfStreamsAndConnections)
{
	sn::run([] {
		auto [from, to] = piped();
		move_pieces(from, to);
		auto [near, far] = connected();
		move_pieces(near, far);
	});
}

TEST(Reader, GivesLines)
{
	sn::run([] {
		auto [from, to] = piped();
		sn::reader in(from);
		to.write_all("one\r\ntwo\n\nlast").value();
		to.close();
		EXPECT_EQ(in.line().value(), "one");
		EXPECT_EQ(in.line().value(), "two");
		EXPECT_EQ(in.line().value(), "");
		EXPECT_FALSE(in.cut_off());
		EXPECT_EQ(in.line().value(), "last");
		EXPECT_TRUE(in.cut_off());
		EXPECT_FALSE(in.line().value());
		EXPECT_FALSE(in.cut_off());
	});
}

TEST(Reader, GivesBytes)
{
	memory source{"key: value; 12345 the rest"};
	sn::reader in(source);
	char rest[20] = "";
	std::size_t done = 0;

	EXPECT_EQ(in.peek(3).value().substr(0, 3), "key");
	EXPECT_EQ(in.buffered(), source.text.size());
	EXPECT_EQ(in.until(": ").value(), "key: ");
	EXPECT_EQ(in.until(';').value(), "value;");
	EXPECT_EQ(in.skip(1).value(), 1u);
	EXPECT_EQ(in.take(5).value(), "12345");
	EXPECT_TRUE(in.skip_until(" ").value());
	EXPECT_EQ(in.read(rest, 4).value(), 4u);
	EXPECT_EQ(in.read(std::as_writable_bytes(std::span(rest + 4, 1))).value(), 1u);
	EXPECT_STREQ(rest, "the r");
	EXPECT_EQ(in.read_full(rest, 10, &done).value(), 3u);
	EXPECT_EQ(done, 3u);
	EXPECT_FALSE(in.until(';').value());
	EXPECT_FALSE(in.skip_until(";").value());
	EXPECT_EQ(in.take(1).value(), "");
	EXPECT_EQ(in.until("").error(), std::errc::invalid_argument);
}

TEST(Reader, HasALimit)
{
	memory source{"123456\n123\n" + std::string(1000, 'x') + "\n"};
	char buffer[4];
	sn::reader in(source, buffer);

	EXPECT_EQ(in.line().error(), std::errc::message_size);
	EXPECT_EQ(in.take(5).error(), std::errc::message_size);
	EXPECT_EQ(in.take(3).value(), "123");
	EXPECT_EQ(in.line().value(), "456");
	EXPECT_EQ(in.line().value(), "123");
	EXPECT_EQ(in.set_limit(1001).error(), std::errc::invalid_argument);

	sn::reader grows(source, 10);
	EXPECT_EQ(in.skip_until("\n").value(), true);
	source.at = 0;
	grows.set_limit(1001).value();
	EXPECT_EQ(grows.line().value(), "123456");
	EXPECT_EQ(grows.line().value(), "123");
	EXPECT_EQ(grows.line().value()->size(), 1000u);
}

TEST(Reader, MayReadFromAReader)
{
	memory source{"outer\ninner 1\ninner 2\n"};
	sn::reader outer(source, 8);

	EXPECT_EQ(outer.line().value(), "outer");
	sn::reader inner(outer, 100);
	EXPECT_EQ(inner.line().value(), "inner 1");
	EXPECT_EQ(inner.line().value(), "inner 2");
	EXPECT_FALSE(inner.line().value());
}

TEST(Reader, ReportsErrorsOfItsSource)
{
	memory source{"half"};
	sn::reader in(source);

	EXPECT_EQ(in.peek(1).value(), "half");
	source.error = ETIMEDOUT;
	EXPECT_EQ(in.line().error(), std::errc::timed_out);
	source.error = 0;
	source.text += " a line\n";
	EXPECT_EQ(in.line().value(), "half a line");

	sn::tcp none;
	EXPECT_THROW(sn::reader bad(none), std::system_error);
	EXPECT_THROW(sn::writer bad(none), std::system_error);
}

TEST(Lines, AreARange)
{
	memory source{"one\ntwo\r\n\nfour"};
	sn::reader in(source, 7);
	std::vector<std::string> lines;

	for (std::string_view line : in.lines())
		lines.emplace_back(line);
	EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "", "four"}));
	EXPECT_EQ(in.lines().begin(), in.lines().end());

	source.at = 0;
	EXPECT_EQ(std::ranges::count_if(in.lines(), [](auto line) { return line.empty(); }), 1);
	source.at = 0;
	auto range = in.lines();
	EXPECT_EQ(range.begin()->size(), 3u);
	const auto found = std::ranges::find(range, "two");
	EXPECT_EQ(*found, "two");
	EXPECT_EQ(in.line().value(), ""); // the range takes no more than it returns
}

TEST(Lines, ThrowTheError)
{
	memory source{"a\nb"};
	sn::reader in(source);
	int lines = 0;

	try {
		for (std::string_view line : in.lines()) {
			EXPECT_EQ(line, "a");
			lines++;
			source.error = ECONNRESET;
		}
		FAIL() << "no exception";
	} catch (const std::system_error &error) {
		EXPECT_EQ(error.code(), std::errc::connection_reset);
	}
	EXPECT_EQ(lines, 1);
}

TEST(Writer, GathersAndFlushes)
{
	memory target;
	{
		sn::writer out(target, 16);

		out.write("text ").value();
		out.print("%d %s ", 42, "more").value();
		out.write(std::as_bytes(std::span("bytes", 5))).value();
		EXPECT_FALSE(out.error());
		out.flush().value();
		EXPECT_EQ(target.text, "text 42 more bytes");
		EXPECT_EQ(out.buffered(), 0u);
		out.write("lost").value();
		EXPECT_EQ(out.buffered(), 4u);
	}
	EXPECT_EQ(target.text, "text 42 more bytes");
}

TEST(Writer, KeepsItsError)
{
	memory target;
	char buffer[4];
	sn::writer out(target, buffer);

	target.error = ETIMEDOUT;
	out.write("abc").value();
	EXPECT_EQ(out.write("defgh").error(), std::errc::timed_out);
	target.error = 0;
	EXPECT_EQ(out.flush().error(), std::errc::timed_out);
	EXPECT_EQ(out.error(), std::errc::timed_out);
	EXPECT_EQ(target.text, "");
	EXPECT_EQ(out.clear_error(), 0u);
	out.write("defgh").value();
	out.flush().value();
	EXPECT_EQ(target.text, "abcdefgh");
}

TEST(Writer, IsFlushedByTheReaderThatIsTiedToIt)
{
	sn::run([] {
		auto [near, far] = connected();
		auto server = sn::spawn([conn = std::move(far)]() mutable {
			sn::reader in(conn);
			sn::writer out(conn);

			in.tie(out);
			for (std::string_view line : in.lines())
				out.print("%zu\n", line.size()).value();
			out.flush().value();
		});
		sn::reader in(near);

		near.write_all("a\nbb\nccc").value();
		EXPECT_EQ(in.line().value(), "1");
		EXPECT_EQ(in.line().value(), "2");
		near.write_all("c\n").value();
		EXPECT_EQ(in.line().value(), "4");
		near.shutdown_write().value();
		EXPECT_FALSE(in.line().value());
		server.join();
	});
}

} // namespace
