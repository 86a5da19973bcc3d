/* SPDX-License-Identifier: MIT */
/*
 * The state of a TCP connection in the kernel.
 *
 * Not together with support/packets.h, whose <linux/tcp.h> excludes <netinet/tcp.h>.
 */
#ifndef SENNIT_TESTS_SUPPORT_TCP_STATE_H
#define SENNIT_TESTS_SUPPORT_TCP_STATE_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "support/runtime.h"

namespace test
{

// Such as TCP_CLOSE.
inline int tcp_state(int fd)
{
	union {
		struct tcp_info info;
		unsigned char bytes[4];
	} from = {};
	socklen_t length = sizeof from;

	EXPECT_EQ(0, getsockopt(fd, IPPROTO_TCP, TCP_INFO, &from, &length));
	// qemu-user takes the structure for an int. If the byte orders differ, the first byte comes
	// last.
	if (TEST_SWAPPED && length == sizeof from.bytes)
		return from.bytes[3];
	return from.info.tcpi_state;
}

} // namespace test

#endif
