/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions of PCRE2, and searches for them in bytes that another program has sent. Both
 * are bytes, not UTF-8, and may contain zeros.
 *
 * A search is bounded, because PCRE2 takes exponential time for some expressions: it ends after ten
 * million steps, after 50 ms of the thread's CPU time, or at the deadline. It may take a few steps
 * longer, each of which passes at most once over the bytes, or over the groups that are open in a
 * recursion. It keeps at most 32 MiB of memory, and 53 MiB while it grows them, all of which it
 * frees before it returns. It does not park. PCRE2's JIT compiler is not used, because it needs
 * memory that is writable and executable.
 */
#ifndef RELAY_REGEX_HPP
#define RELAY_REGEX_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace relay
{

class regex
{
public:
	/* False: there is no PCRE2 (regex_none.cc), so that no expression compiles. */
	static const bool is_built;

	/*
	 * Returns null if the text is not a regular expression, or if it can match the empty
	 * string, because such an expression is found in almost any answer. Then why says what is
	 * wrong and what was expected. Throws std::bad_alloc.
	 */
	static std::shared_ptr<const regex> compile(std::string_view text, std::string &why);

	virtual ~regex() = default;

	enum class result : unsigned char {
		found,
		not_yet,   /* more bytes may change that, unless these are all */
		never,     /* whatever follows */
		too_costly /* the search takes more steps, time or memory than it may */
	};

	/*
	 * Searches the bytes. is_all: no more follow, so $ matches at their end. Otherwise the
	 * result is `found` or `never` only if that holds whatever follows, unless the search of
	 * more bytes is too costly. until may be sn::no_deadline. Throws std::bad_alloc.
	 */
	virtual result search(std::string_view bytes, bool is_all, sn::deadline until) const = 0;
};

} // namespace relay

#endif
