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

} // namespace

void report(std::string_view text) noexcept
try {
	std::string line = "sennit-relay: ";
	for (const char c : text)
		line += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
	line += '\n';
	sn::blocking([&line] {
		pollfd out{STDERR_FILENO, POLLOUT, 0};
		if (poll(&out, 1, longest_wait_ms) <= 0)
			return;
		if (write(STDERR_FILENO, line.data(), line.size()) < 0)
			return; /* there is no other place to report this */
	});
} catch (...) {
	/* There is no memory for the line. */
}

} // namespace relay
