/* SPDX-License-Identifier: MIT */
#include "base/report.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <poll.h>
#include <string>
#include <unistd.h>

namespace relay
{
namespace
{

constexpr int longest_wait_ms = 100;

void write_soon(int fd, std::string_view line)
{
	sn::blocking([&] {
		pollfd out{fd, POLLOUT, 0};
		if (poll(&out, 1, longest_wait_ms) <= 0)
			return;
		if (write(fd, line.data(), line.size()) < 0)
			return; /* there is no other place to report this */
	});
}

} // namespace

void report(std::string_view text) noexcept
try {
	std::string line = "sennit-relay: ";
	for (const char c : text)
		line += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
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
