/* SPDX-License-Identifier: MIT */
/* The command line, parsed. Nothing is opened here: a file that cannot be read is no mistake of the
 * command line. */
#ifndef TLS_CHECK_OPTIONS_HPP
#define TLS_CHECK_OPTIONS_HPP

#include "graph.hpp"

#include <string>
#include <variant>
#include <vector>

namespace checking
{

inline constexpr int exit_found = 1;
inline constexpr int exit_error = 2;

struct options {
	std::vector<std::string> files;
	choice calls;
	bool json = false;
};

/* Nothing is left to do: the text is the help, or says what is wrong. */
struct finished {
	int status = 0;
	std::string text;
};

std::variant<options, finished> parse_options(int argc, const char *const *argv);

} // namespace checking

#endif
