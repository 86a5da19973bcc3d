/* SPDX-License-Identifier: MIT */
/*
 * What the readers of a connection's first bytes say (proxy_header.hpp, tls_hello.hpp). They are
 * given all bytes that have come so far, and are asked again when there are more: no state is kept,
 * so nothing depends on how the bytes were cut.
 *
 * For bytes that begin the same: once it is `done` or `bad`, more bytes change nothing; as long as
 * it is `more`, `size` is larger than what was given and never beyond the end of what is read. A
 * reader that waits for that many bytes wakes seldom and takes nothing that is not its own.
 */
#ifndef RELAY_PARSED_HPP
#define RELAY_PARSED_HPP

#include <cstddef>
#include <string_view>

namespace relay
{

struct parsed {
	enum class state : unsigned char { more, done, bad };

	state is = state::bad;
	/* more: bytes that are needed at least; done: bytes that it took; bad: 0 */
	std::size_t size = 0;
	/* bad: what is wrong, for people; a constant. */
	const char *why = "";

	static constexpr parsed more(std::size_t at_least) noexcept
	{
		return {state::more, at_least, ""};
	}
	static constexpr parsed done(std::size_t taken) noexcept
	{
		return {state::done, taken, ""};
	}
	static constexpr parsed bad(const char *why) noexcept { return {state::bad, 0, why}; }

	explicit operator bool() const noexcept { return is == state::done; }
	bool operator==(const parsed &other) const noexcept
	{
		return is == other.is && size == other.size && std::string_view(why) == other.why;
	}
};

} // namespace relay

#endif
