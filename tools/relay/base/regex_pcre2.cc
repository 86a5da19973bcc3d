/* SPDX-License-Identifier: MIT */
#include "base/regex.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <new>
#include <type_traits>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace relay
{

const bool regex::is_built = true;

namespace
{

using namespace std::chrono_literals;

/*
 * The most that a search may cost. PCRE2's own limit starts again at each byte at which a match
 * could begin, so it bounds the search only by the product of both. PCRE2 calls step() before each
 * item of the expression instead. The number of steps does not bound the time either, because one
 * item may pass over all bytes before it fails. Because none does more than that, reading the clock
 * every few steps bounds the time.
 */
constexpr std::uint32_t steps_most = 10'000'000;
constexpr std::chrono::nanoseconds cpu_most = 50ms;
constexpr std::chrono::nanoseconds cpu_between_looks = 1ms;
constexpr std::uint32_t steps_between_looks = 16;
constexpr std::uint32_t backtracks_most = 5 * steps_most;
constexpr std::uint32_t kib_most = 32 * 1024;
constexpr std::uint32_t groups_most = 50; /* within each other, which bounds the stack */

template <auto Free>
struct freed {
	void operator()(auto *of) const noexcept { Free(of); }
};
using pcre2_program = std::unique_ptr<pcre2_code, freed<pcre2_code_free>>;

template <auto Free>
auto owned(auto *made)
{
	if (!made)
		throw std::bad_alloc();
	return std::unique_ptr<std::remove_pointer_t<decltype(made)>, freed<Free>>(made);
}

std::chrono::nanoseconds cpu_time() noexcept
{
	timespec now{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class search_cost
{
public:
	explicit search_cost(sn::deadline until) noexcept
	    : until_(until), cpu_began_(cpu_time()), next_look_(sn::now() + cpu_most)
	{
	}

	/* Whether the search may take another step. */
	bool allows_step() noexcept
	{
		return ++steps_ <= steps_most && (steps_ % steps_between_looks != 0 || has_time());
	}

private:
	/* Reading the CPU clock is a system call. CPU time passes no faster than the time of the
	 * other clock, so it is read only once as much time has passed as CPU time was left. */
	bool has_time() noexcept
	{
		const auto now = sn::now();
		if (until_ != sn::no_deadline && now >= until_)
			return false;
		if (now < next_look_)
			return true;
		const auto left = cpu_most - (cpu_time() - cpu_began_);
		next_look_ = now + std::max(left, cpu_between_looks);
		return left > 0ns;
	}

	const sn::deadline until_;
	const std::chrono::nanoseconds cpu_began_;
	sn::deadline next_look_;
	std::uint32_t steps_ = 0;
};

int step(pcre2_callout_block *, void *cost) noexcept
{
	return static_cast<search_cost *>(cost)->allows_step() ? 0 : PCRE2_ERROR_CALLOUT;
}

class pcre2_regex final : public regex
{
public:
	explicit pcre2_regex(pcre2_program made) : program_(std::move(made))
	{
		std::uint32_t options = 0;
		pcre2_pattern_info(program_.get(), PCRE2_INFO_ALLOPTIONS, &options);
		is_anchored_ = (options & PCRE2_ANCHORED) != 0;
	}

	result search(std::string_view bytes, bool is_all, sn::deadline until) const override
	{
		/* PCRE2 finds no partial match in no bytes at all. */
		if (bytes.empty())
			return is_all ? result::never : result::not_yet;
		search_cost cost(until);
		const auto how =
			owned<pcre2_match_context_free>(pcre2_match_context_create(nullptr));
		pcre2_set_match_limit(how.get(), backtracks_most);
		pcre2_set_depth_limit(how.get(), backtracks_most);
		pcre2_set_heap_limit(how.get(), kib_most);
		pcre2_set_callout(how.get(), step, &cost);
		const auto places =
			owned<pcre2_match_data_free>(pcre2_match_data_create(1, nullptr));
		/* With PCRE2_PARTIAL_HARD, PCRE2 returns as soon as the result depends on what
		 * follows the bytes. */
		const int got = pcre2_match(
			program_.get(), reinterpret_cast<PCRE2_SPTR>(bytes.data()), bytes.size(), 0,
			is_all ? 0 : PCRE2_PARTIAL_HARD, places.get(), how.get());
		if (got == PCRE2_ERROR_NOMATCH)
			return is_anchored_ ? result::never : result::not_yet;
		if (got == PCRE2_ERROR_PARTIAL)
			return result::not_yet;
		/* A limit, step(), an endless recursion, or less memory than the limit. The last is
		 * no shortage: what an answer needs, another one does not. */
		return got < 0 ? result::too_costly : result::found;
	}

private:
	const pcre2_program program_;
	bool is_anchored_ = false;
};

} // namespace

std::shared_ptr<const regex> regex::compile(std::string_view text, std::string &why)
{
	const auto how = owned<pcre2_compile_context_free>(pcre2_compile_context_create(nullptr));
	/* The defaults of these depend on how PCRE2 was built. */
	pcre2_set_newline(how.get(), PCRE2_NEWLINE_LF);
	pcre2_set_bsr(how.get(), PCRE2_BSR_ANYCRLF);
	pcre2_set_parens_nest_limit(how.get(), groups_most);
	int error = 0;
	std::size_t at = 0;
	pcre2_program made(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
					 PCRE2_AUTO_CALLOUT | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP,
					 &error, &at, how.get()));
	if (!made && error == PCRE2_ERROR_HEAP_FAILED)
		throw std::bad_alloc();
	if (!made) {
		PCRE2_UCHAR message[256] = "";
		pcre2_get_error_message(error, message, sizeof message);
		why = std::string("is not a regular expression: ") +
		      reinterpret_cast<const char *>(message) + ", at byte " +
		      std::to_string(at + 1) + "; expected the syntax of pcre2pattern(3)";
		return nullptr;
	}
	std::uint32_t may_be_empty = 0;
	pcre2_pattern_info(made.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
	if (may_be_empty != 0) {
		why = "can match the empty string; expected one that needs at least a byte";
		return nullptr;
	}
	return std::make_shared<pcre2_regex>(std::move(made));
}

} // namespace relay
