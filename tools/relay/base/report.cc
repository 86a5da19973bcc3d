/* SPDX-License-Identifier: MIT */
#include "base/report.hpp"

#include "base/text.hpp"
#include "base/write_line.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <string>
#include <unistd.h>

namespace relay
{
namespace
{

constexpr std::chrono::milliseconds patience{100};

/* There is no other place to report that it cannot be written. */
void write_soon(int fd, std::string_view line)
{
	sn::blocking([&] { static_cast<void>(write_line(fd, line, patience)); });
}

} // namespace

void report(std::string_view text) noexcept
try {
	std::string line = "sennit-relay: ";
	append_printable(line, text);
	line += '\n';
	write_soon(STDERR_FILENO, line);
} catch (...) {
	/* There is no memory for the line. */
}

void print(std::string_view text) noexcept
try {
	write_soon(STDOUT_FILENO, std::string(text) + '\n');
} catch (...) {
	/* There is no memory for the line. */
}

} // namespace relay
