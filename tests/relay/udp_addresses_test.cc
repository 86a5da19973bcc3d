/* SPDX-License-Identifier: MIT */
/* Which addresses are the relay's own. */
#include "sessions/udp_addresses.hpp"

#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>

namespace
{

sn::address at(const std::string &text)
{
	return sn::address::parse(text).value();
}

TEST(UdpAddresses, AreThoseOfSockets)
{
	EXPECT_EQ(sn::run([] {
			  relay::udp_addresses own;
			  own.add(at("127.0.0.1:5000"));
			  own.add(at("0.0.0.0:6000"));
			  EXPECT_TRUE(own.has(at("127.0.0.1:5000")));
			  EXPECT_FALSE(own.has(at("127.0.0.1:5001")));
			  EXPECT_FALSE(own.has(at("127.0.0.2:5000")));
			  EXPECT_FALSE(own.has_among_all(at("127.0.0.2:5000")).value());
			  EXPECT_TRUE(own.has_among_all(at("127.0.0.2:6000")).value());
			  EXPECT_FALSE(own.has_among_all(at("192.0.2.1:6000")).value());
			  own.remove(at("0.0.0.0:6000"));
			  EXPECT_FALSE(own.has_among_all(at("127.0.0.2:6000")).value());
			  return 0;
		  }),
		  0);
}

/* Nobody knows whether the address is the machine's, so it is not taken for another one. Only the
 * ports of sockets with every address need to be looked for. */
TEST(UdpAddresses, AreNotKnownWithoutADescriptor)
{
	EXPECT_EQ(sn::run([] {
			  relay::udp_addresses own;
			  own.add(at("0.0.0.0:6000"));
			  EXPECT_FALSE(own.has_among_all(at("192.0.2.1:6000")).value());
			  rlimit before{};
			  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
			  const rlimit none{0, before.rlim_max};
			  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
			  EXPECT_FALSE(own.has_among_all(at("192.0.2.1:6001")).value());
			  const auto found = own.has_among_all(at("192.0.2.1:6000"));
			  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
			  EXPECT_FALSE(found);
			  EXPECT_EQ(found.error(), std::errc::too_many_files_open);
			  return 0;
		  }),
		  0);
}

} // namespace
