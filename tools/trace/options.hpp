/* SPDX-License-Identifier: MIT */
/* The command line, parsed. Nothing is opened here: a file that cannot be read is no mistake of the
 * command line. */
#ifndef TRACE_OPTIONS_HPP
#define TRACE_OPTIONS_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tracing
{

inline constexpr int exit_unreadable = 1;
inline constexpr int exit_usage = 2;

struct options {
	std::string file; /* "-": standard input */
	std::optional<std::string> task;
	std::optional<std::string> chain;
	std::string since;
	std::optional<std::int64_t> from; /* negative: so long before the end */
	std::optional<std::int64_t> to;
	std::size_t top = 10;
	bool json = false;
};

/* Nothing is left to do: the text is the help, or says what is wrong. */
struct finished {
	int status = 0;
	std::string text;
};

std::variant<options, finished> parse_options(int argc, const char *const *argv);

} // namespace tracing

#endif
