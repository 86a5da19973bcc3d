/* SPDX-License-Identifier: MIT */
#include "sessions/udp_send.hpp"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/uio.h>

namespace relay
{
namespace
{

/* The address in the form for a socket of that family: an IPv6 socket takes IPv4 addresses as
 * mapped ones. */
sn_address mapped(const sn_address &at, int family) noexcept
{
	if (family != AF_INET6 || at.family != AF_INET)
		return at;
	sn_address made{};
	made.family = AF_INET6;
	made.port = at.port;
	made.bytes[10] = made.bytes[11] = 0xff;
	std::memcpy(made.bytes + 12, at.bytes, 4);
	return made;
}

/* Adds a control record to a message, which has no other. */
template <class Data>
void put(msghdr &message, int level, int type, const Data &data) noexcept
{
	cmsghdr *const record = CMSG_FIRSTHDR(&message);
	record->cmsg_level = level;
	record->cmsg_type = type;
	record->cmsg_len = CMSG_LEN(sizeof data);
	std::memcpy(CMSG_DATA(record), &data, sizeof data);
	message.msg_controllen = CMSG_SPACE(sizeof data);
}

} // namespace

ssize_t send_at_once(int fd, const msghdr &message) noexcept
{
	ssize_t n = 0;
	do
		n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

void answer_at_once(const udp_port &from, const udp_key &to, std::string_view bytes) noexcept
{
	const int family = from.bound.family;
	const auto peer = mapped(to.client, family);
	sockaddr_storage at;
	const int size = sn_address_to_sockaddr(&peer, &at);
	if (size < 0)
		return;
	iovec piece{const_cast<char *>(bytes.data()), bytes.size()};
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
	msghdr message{};
	message.msg_name = &at;
	message.msg_namelen = static_cast<socklen_t>(size);
	message.msg_iov = &piece;
	message.msg_iovlen = 1;
	if (to.local) {
		message.msg_control = control;
		message.msg_controllen = sizeof control;
		const auto local = mapped(to.local, family);
		if (family == AF_INET6) {
			in6_pktinfo info{};
			std::memcpy(&info.ipi6_addr, local.bytes, sizeof info.ipi6_addr);
			put(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
		} else {
			in_pktinfo info{};
			std::memcpy(&info.ipi_spec_dst, local.bytes, sizeof info.ipi_spec_dst);
			put(message, IPPROTO_IP, IP_PKTINFO, info);
		}
	}
	static_cast<void>(send_at_once(from.socket.native_handle(), message));
}

} // namespace relay
