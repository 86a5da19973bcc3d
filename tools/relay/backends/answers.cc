/* SPDX-License-Identifier: MIT */
#include "backends/answers.hpp"

#include "backends/endpoint.hpp"
#include "base/regex.hpp"
#include "wire/http_body.hpp"
#include "wire/http_status.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <string>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

constexpr std::size_t piece_most = 4096;
/* How much of an answer over HTTP is read: headers, body and the sizes of its chunks. */
constexpr std::size_t http_most = 2 * answer_most;

std::error_code unexpected() noexcept
{
	return std::make_error_code(std::errc::protocol_error);
}

std::error_code to_error(regex::result of, sn::deadline until) noexcept
{
	switch (of) {
	case regex::result::found:
		return {};
	case regex::result::too_costly:
		return sn::now() >= until ? std::make_error_code(std::errc::timed_out)
					  : costly_answer_error();
	default:
		return unexpected();
	}
}

constinit sn::semaphore turns(searches_most);

struct turn {
	turn() = default;
	~turn() { turns.release(); }
	turn(const turn &) = delete;
	turn &operator=(const turn &) = delete;
};

/* Searches in its turn. A check that gets none says nothing of its backend, which therefore keeps
 * its last result, as if there were no memory. */
std::error_code search_in_turn(const regex &of, std::string_view bytes, bool is_all,
			       sn::deadline until, regex::result &got)
try {
	if (!turns.try_acquire_until(until))
		throw std::bad_alloc();
	const turn own;
	got = of.search(bytes, is_all, until);
	return {};
} catch (const std::system_error &canceled) {
	return canceled.code();
}

/*
 * The part of an answer that has arrived. Each search is followed by a pause, because an answer
 * that arrives byte by byte would otherwise be searched once for each byte. Bytes that arrive
 * during a pause are read. It ends early enough for another search before the deadline.
 */
class searched_text
{
public:
	searched_text(const regex &of, sn::deadline until) : of_(of), until_(until)
	{
		text_.reserve(answer_most);
	}

	void take(std::string_view piece) noexcept
	{
		const auto fits = piece.substr(0, answer_most - text_.size());
		text_ += fits;
		is_too_long_ |= fits.size() < piece.size();
	}

	/* The result for the answer; nothing if it depends on what follows, or in a pause. */
	std::optional<std::error_code> judge(bool is_all)
	{
		const bool is_new = text_.size() > searched_ && sn::now() >= next_;
		return is_new || is_all || is_too_long_ ? search(is_all) : std::nullopt;
	}

	/* The result if nothing more can be read, for this reason. */
	std::error_code judge_rest(const std::error_code &failed)
	{
		if (failed == std::errc::operation_canceled)
			return failed;
		if (text_.size() > searched_)
			if (const auto judged = search(false))
				return *judged;
		/* After a part of an answer, the reason is that answer, not the timeout. */
		return failed == std::errc::timed_out && !text_.empty() ? unexpected() : failed;
	}

	/* Reads the next bytes into the piece. Returns nothing when a pause ends. May park. */
	std::optional<sn::result<std::size_t>> read(sn::tcp &from, std::span<char> piece) const
	{
		const bool is_new = text_.size() > searched_;
		from.set_read_deadline(is_new ? std::min(next_, until_) : until_);
		const auto n = from.read(piece.data(), piece.size());
		/* The kernel's own timeout, of a dead connection, has the same error. */
		const auto now = sn::now();
		const bool is_pause = !n && n.error() == std::errc::timed_out && is_new &&
				      now >= next_ && now < until_;
		return is_pause ? std::nullopt : std::optional(n);
	}

private:
	std::optional<std::error_code> search(bool is_all)
	{
		const auto began = sn::now();
		regex::result got{};
		if (const auto failed =
			    search_in_turn(of_, text_, is_all && !is_too_long_, until_, got))
			return failed;
		if (got != regex::result::not_yet)
			return to_error(got, until_);
		if (is_too_long_)
			return long_answer_error();
		if (is_all)
			return unexpected();
		searched_ = text_.size();
		const auto ended = sn::now();
		const auto took = ended - began;
		const auto pause = std::clamp<sn::clock::duration>(8 * took, 1ms, 100ms);
		next_ = std::min(ended + pause, until_ - 2 * took);
		return std::nullopt;
	}

	const regex &of_;
	const sn::deadline until_;
	sn::deadline next_{};
	std::string text_;
	std::size_t searched_ = 0;
	bool is_too_long_ = false;
};

class searched_body final : public http_body
{
public:
	searched_body(const regex &of, sn::deadline until) : text(of, until) {}

	searched_text text;

private:
	void take(std::string_view piece) noexcept override { text.take(piece); }
};

/* first: the beginning of the answer, which is not empty. */
std::error_code search_body(sn::tcp &from, std::string_view first, const regex &expected,
			    sn::deadline until)
{
	searched_body body(expected, until);
	char piece[piece_most];
	std::size_t left = http_most;
	bool is_end = false;
	for (;;) {
		const bool is_too_long = first.size() > left;
		first = first.substr(0, left);
		left -= first.size();
		const auto is = is_end ? body.finish() : body.feed(first);
		if (const auto judged = body.text.judge(is == http_body::state::done))
			return *judged;
		if (is == http_body::state::bad)
			return body.text.judge_rest(status_error(0));
		if (is_too_long)
			return body.text.judge_rest(long_answer_error());
		const auto n = body.text.read(from, piece);
		if (n && !*n)
			return body.text.judge_rest(n->error());
		first = {piece, n ? **n : 0};
		is_end = n && **n == 0;
	}
}

std::error_code read_http(sn::tcp &from, const check_config &how, sn::deadline until)
{
	char answer[status_line_most];
	std::size_t size = 0;
	for (;;) {
		const auto n = from.read(answer + size, sizeof answer - size);
		if (!n)
			return n.error();
		size += *n;
		unsigned status = 0;
		const auto line = parse_status_line({answer, size}, status);
		if (line) {
			const bool is_good = std::ranges::any_of(how.status, [&](const auto &each) {
				return status >= each.low && status <= each.high;
			});
			if (!is_good)
				return status_error(status);
			return how.expect_regex
				       ? search_body(from, {answer, size}, *how.expect_regex, until)
				       : std::error_code();
		}
		if (line.is == parsed::state::bad || *n == 0 || size == sizeof answer)
			return status_error(0);
	}
}

std::error_code search_answer(sn::tcp &from, const regex &expected, sn::deadline until)
{
	searched_text text(expected, until);
	for (;;) {
		char piece[piece_most];
		const auto n = text.read(from, piece);
		if (n && !*n)
			return text.judge_rest(n->error());
		if (n)
			text.take({piece, **n});
		if (const auto judged = text.judge(n && **n == 0))
			return *judged;
	}
}

std::error_code read_beginning(sn::tcp &from, const byte_pattern &expected)
{
	for (std::size_t size = 0; size < expected.bytes.size();) {
		char answer[512];
		const auto n =
			from.read(answer, std::min(sizeof answer, expected.bytes.size() - size));
		if (!n)
			return n.error();
		if (*n == 0 || !expected.fits({answer, *n}, size))
			return unexpected();
		size += *n;
	}
	return {};
}

} // namespace

std::error_code read_answer(sn::tcp &from, const check_config &how, sn::deadline until)
{
	if (!how.http.empty())
		return read_http(from, how, until);
	return how.expect_regex ? search_answer(from, *how.expect_regex, until)
				: read_beginning(from, how.expect);
}

std::error_code judge_datagram(std::string_view whole, const check_config &how, sn::deadline until)
{
	if (how.expect_regex) {
		regex::result got{};
		const auto failed = search_in_turn(*how.expect_regex, whole, true, until, got);
		return failed ? failed : to_error(got, until);
	}
	const bool is_good = whole.size() >= how.expect.bytes.size() && how.expect.fits(whole, 0);
	return is_good ? std::error_code() : unexpected();
}

} // namespace relay
