/* SPDX-License-Identifier: MIT */
#include "base/notify.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace relay
{
namespace
{

/* Does not wait: if the manager is not reading, the message is lost. */
void notify(const std::string &state)
{
	const char *const where = std::getenv("NOTIFY_SOCKET");
	sockaddr_un to{};
	to.sun_family = AF_UNIX;
	const std::size_t length = where ? std::strlen(where) : 0;
	if (length < 2 || length >= sizeof to.sun_path || (*where != '/' && *where != '@'))
		return;
	std::memcpy(to.sun_path, where, length);
	if (*where == '@')
		to.sun_path[0] = '\0';
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	static_cast<void>(sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
				 reinterpret_cast<const sockaddr *>(&to),
				 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)));
	close(fd);
}

void try_to_notify(const char *state) noexcept
try {
	notify(state);
} catch (const std::exception &) {
	/* No memory. */
}

} // namespace

void notify_ready() noexcept
{
	try_to_notify("READY=1");
}

void notify_reloading() noexcept
try {
	/* From this time the manager knows that an earlier READY=1 does not end this reload. */
	timespec now{};
	clock_gettime(CLOCK_MONOTONIC, &now);
	notify("RELOADING=1\nMONOTONIC_USEC=" +
	       std::to_string(now.tv_sec * 1000000LL + now.tv_nsec / 1000));
} catch (const std::exception &) {
}

void notify_stopping() noexcept
{
	try_to_notify("STOPPING=1");
}

void notify_main_pid(long pid) noexcept
try {
	notify("MAINPID=" + std::to_string(pid));
} catch (const std::exception &) {
}

void notify_status(std::string_view text) noexcept
try {
	std::string line = "STATUS=";
	for (const char c : text)
		line += c == '\n' ? ' ' : c;
	notify(line);
} catch (const std::exception &) {
}

} // namespace relay
