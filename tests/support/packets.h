/* SPDX-License-Identifier: MIT */
/*
 * Counting the packets of a TCP connection.
 *
 * Include it before the C library's <netinet/tcp.h>, whose struct tcp_info has no packet counts.
 * The two headers exclude each other.
 */
#ifndef SENNIT_TESTS_SUPPORT_PACKETS_H
#define SENNIT_TESTS_SUPPORT_PACKETS_H

#include <cstddef>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace test
{

// How many packets the connection has received; -1 if the kernel, or an emulator of it, does not
// report that.
inline int packets_in(int fd)
{
	struct tcp_info info = {};
	socklen_t length = sizeof info;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
	    length < offsetof(struct tcp_info, tcpi_segs_in) + sizeof info.tcpi_segs_in)
		return -1;
	return int(info.tcpi_segs_in);
}

} // namespace test

#endif
