// SPDX-License-Identifier: MIT
//
// A connection is only checked for being connected to itself if the kernel may have chosen the
// server's port as the client's.
#include <atomic>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <sys/socket.h>

extern "C" {
#include "io/client_ports.h"
}
#include "support/net.h"

namespace
{

std::atomic<int> asked;

using Name = int (*)(int, sockaddr *, socklen_t *);

} // namespace

extern "C" int getsockname(int fd, sockaddr *address, socklen_t *length) noexcept
{
	static const auto real = reinterpret_cast<Name>(dlsym(RTLD_NEXT, "getsockname"));

	asked++;
	return real(fd, address, length);
}

namespace
{

struct Range {
	Range()
	{
		std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");

		if (!(file >> first >> last))
			last = 0;
	}
	unsigned first = 0, last = 0;
};

TEST(ClientPorts, AreThoseOfTheSystem)
{
	const Range range;

	if (!range.last)
		GTEST_SKIP() << "the range cannot be read here";
	test::run([&range] {
		EXPECT_TRUE(sn_client_ports_include(uint16_t(range.first)));
		EXPECT_TRUE(sn_client_ports_include(uint16_t(range.last)));
		EXPECT_FALSE(sn_client_ports_include(uint16_t(range.first - 1)));
		EXPECT_EQ(range.last == 65535, sn_client_ports_include(uint16_t(range.last + 1)));
	});
}

// Connects to a listener at the address. Returns how often a socket was asked for its own name.
int questions(const std::string &address)
{
	sn_tcp_listener *listener = nullptr;

	if (sn_tcp_listen(&listener, address.c_str()) < 0)
		return -1;
	char at[SN_ADDRESS_MAX];
	sn_tcp *client = nullptr;

	EXPECT_GT(sn_tcp_listener_address(listener, at, sizeof at), 0);
	const int before = asked;
	EXPECT_EQ(0, sn_tcp_connect(&client, at, sn_now() + test::patience));
	const int count = asked - before;
	EXPECT_EQ(0, sn_tcp_close(client));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	return count;
}

TEST(ClientPorts, AConnectionToAnotherPortIsNotCheckedForBeingItsOwn)
{
	const Range range;

	if (!range.last || range.first < 2048)
		GTEST_SKIP() << "no port is left for servers here";
	test::run([&range] {
		int count = -1;

		for (unsigned port = range.first - 1; count < 0 && port > 1024; port--)
			count = questions("127.0.0.1:" + std::to_string(port));
		EXPECT_EQ(0, count);
		// The system chooses a port of the range.
		EXPECT_GT(questions("127.0.0.1:0"), 0);
	});
}

} // namespace
