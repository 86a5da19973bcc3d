/* SPDX-License-Identifier: MIT */
#include "stats/syslog_socket.hpp"

#include "stats/event.hpp"

#include <sennit/clock.h>
#include <sennit/sennit.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace relay
{

std::string syslog_path(std::string_view target)
{
	const auto colon = target.find(':');
	return colon == target.npos ? "/dev/log" : std::string(target.substr(colon + 1));
}

std::string own_host()
{
	char name[256] = "";
	if (gethostname(name, sizeof name - 1) < 0)
		return "";
	return name;
}

syslog_socket::syslog_socket(std::string_view target)
    : path_(syslog_path(target)), is_local_(target == "syslog"),
      fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
{
	const timeval patience{.tv_sec = 0, .tv_usec = 100'000};
	if (fd_ >= 0)
		setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

syslog_socket::~syslog_socket()
{
	if (fd_ >= 0)
		::close(fd_);
}

int syslog_socket::send(std::string_view name, std::string_view line, bool may_wait) const
{
	sockaddr_un at{};
	at.sun_family = AF_UNIX;
	if (path_.size() >= sizeof at.sun_path)
		return ENAMETOOLONG;
	std::memcpy(at.sun_path, path_.data(), path_.size());
	const std::chrono::nanoseconds now(sn_walltime());
	std::string record =
		is_local_ ? local_syslog_start(event_level::info, now, getpid())
			  : syslog_start(event_level::info, now, own_host(), getpid(), name) + "- ";
	record += line;
	const int flags = MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT);
	int error = EINTR;
	while (error == EINTR)
		error = sendto(fd_, record.data(), record.size(), flags,
			       reinterpret_cast<const sockaddr *>(&at), sizeof at) < 0
				? errno
				: 0;
	if (error != ENOBUFS && error != ENOMEM)
		return error;
	/* Nothing tells when there is memory again, and the call has not waited for it. */
	if (may_wait)
		usleep(5000);
	return EAGAIN;
}

} // namespace relay
