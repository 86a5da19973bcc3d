// SPDX-License-Identifier: MIT
//
// Whether multicast groups can be tested here.
#ifndef SENNIT_TESTS_SUPPORT_GROUPS_H
#define SENNIT_TESTS_SUPPORT_GROUPS_H

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/runtime.h"

namespace test
{

// Emulators translate the options of sockets one by one, and some do not know this one.
inline bool emulator_lacks_groups()
{
	group_req request = {};
	sockaddr_in group = {};
	int fd, joined, error;

	if (!TEST_EMULATED)
		return false;
	group.sin_family = AF_INET;
	inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
	memcpy(&request.gr_group, &group, sizeof group);
	request.gr_interface = if_nametoindex("lo");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	joined = setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &request, sizeof request);
	error = errno;
	close(fd);
	return joined < 0 && error == ENOPROTOOPT;
}

} // namespace test

#endif
