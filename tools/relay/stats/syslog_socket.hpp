/* SPDX-License-Identifier: MIT */
/*
 * Lines for the syslog daemon of this machine, one datagram each, with facility "daemon" and level
 * "info". Their form is that of event.hpp.
 *
 * Each line is sent to the path again, because a daemon that has restarted has another socket
 * there.
 */
#ifndef RELAY_SYSLOG_SOCKET_HPP
#define RELAY_SYSLOG_SOCKET_HPP

#include <string>
#include <string_view>

namespace relay
{

/* "syslog" or "syslog:/PATH", which event_target_problem() has found nothing wrong with. */
constexpr bool is_syslog(std::string_view target) noexcept
{
	return target == "syslog" || target.starts_with("syslog:");
}

/* The path of the socket: by default the C library's. */
std::string syslog_path(std::string_view target);

/* The name of this machine; empty if it has none. */
std::string own_host();

class syslog_socket
{
public:
	/* target: as above. On failure descriptor() is below 0, and errno has the error. */
	explicit syslog_socket(std::string_view target);
	syslog_socket(const syslog_socket &) = delete;
	syslog_socket &operator=(const syslog_socket &) = delete;
	~syslog_socket();

	int descriptor() const noexcept { return fd_; }

	/*
	 * Sends the line, which has no end. Returns 0, or the error: EAGAIN if the daemon has no
	 * room for it, or the system has none; with may_wait it had none within a tenth of a
	 * second, or some milliseconds have passed. Blocks the thread if it may wait. name: RFC
	 * 5424's MSGID.
	 */
	int send(std::string_view name, std::string_view line, bool may_wait) const;

private:
	const std::string path_;
	const bool is_local_; /* in the C library's form, not RFC 5424 */
	int fd_;
};

} // namespace relay

#endif
