// SPDX-License-Identifier: MIT
//
// What a socket reads from the control data of a datagram, on any machine: data that only the
// network of some machines would bring are written here as the kernel writes them.
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "support/internals.h"
#include "support/net.h"

namespace
{

// A datagram that was sent to the IPv6 address and came by the interface. Of the record there are
// so many bytes less than it should have.
struct sn_udp_message sent_to(const char *address, unsigned interface, size_t missing = 0)
{
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
	struct sn_udp_message message = {};
	struct msghdr header = {};
	in6_pktinfo info = {};

	EXPECT_EQ(1, inet_pton(AF_INET6, address, &info.ipi6_addr));
	info.ipi6_ifindex = interface;
	header.msg_control = control;
	header.msg_controllen = sizeof control;
	cmsghdr *record = CMSG_FIRSTHDR(&header);
	record->cmsg_level = IPPROTO_IPV6;
	record->cmsg_type = IPV6_PKTINFO;
	record->cmsg_len = CMSG_LEN(sizeof info - missing);
	memcpy(CMSG_DATA(record), &info, sizeof info);
	probe_udp_get_control(&header, &message);
	return message;
}

// Without its scope a link-local address could not be answered from.
TEST(UdpControl, ALinkLocalAddressHasTheInterfaceAsItsScope)
{
	const struct sn_udp_message message = sent_to("fe80::1", 7);

	EXPECT_EQ(AF_INET6, message.local.family);
	EXPECT_EQ(7u, message.interface);
	EXPECT_EQ(7u, message.local.scope);
}

// With a scope it would differ from the same address elsewhere.
TEST(UdpControl, OtherAddressesHaveNoScope)
{
	for (const char *address : {"::1", "2001:db8::1"}) {
		const struct sn_udp_message message = sent_to(address, 7);

		EXPECT_EQ(AF_INET6, message.local.family);
		EXPECT_EQ(7u, message.interface);
		EXPECT_EQ(0u, message.local.scope) << address;
	}
	const struct sn_udp_message message = sent_to("::ffff:127.0.0.1", 7);

	EXPECT_EQ(AF_INET, message.local.family);
	EXPECT_EQ(7u, message.interface);
	EXPECT_EQ(0u, message.local.scope);
}

TEST(UdpControl, ARecordThatIsCutOffIsIgnored)
{
	const struct sn_udp_message message = sent_to("fe80::1", 7, 1);

	EXPECT_EQ(0, message.local.family);
	EXPECT_EQ(0u, message.interface);
	EXPECT_EQ(0u, message.local.scope);
}

} // namespace
