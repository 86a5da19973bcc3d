/* SPDX-License-Identifier: MIT */
/* Reads a whole file into memory; the size of a file that is no trace is bounded. */
#ifndef TRACE_FILE_HPP
#define TRACE_FILE_HPP

#include <string>
#include <variant>

namespace tracing
{

/* Reads all of a file, or of standard input for "-". On failure, returns what is wrong. */
struct file_error {
	std::string why;
};
std::variant<std::string, file_error> read_file(const std::string &name);

} // namespace tracing

#endif
