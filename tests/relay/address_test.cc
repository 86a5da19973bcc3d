/* SPDX-License-Identifier: MIT */
#include "base/address.hpp"

#include <gtest/gtest.h>

using relay::address_problem;
using relay::address_use;

TEST(Address, WellFormedForBoth)
{
	for (const char *text :
	     {"127.0.0.1:80", "0.0.0.0:65535", "[::1]:80", "[::]:1", "[fe80::1%eth0]:80",
	      "[::ffff:10.0.0.1]:80", "localhost:80", "a-b.c_d.example.:443", "backend:http",
	      "3com.example:80", "backend:x11-1"})
		for (const auto use : {address_use::listen, address_use::connect})
			EXPECT_EQ(address_problem(text, use), std::nullopt) << text;
}

TEST(Address, AnyHostAndAnyPortAreForListeningOnly)
{
	for (const char *text : {":80", ":0", "127.0.0.1:0", "[::]:0", ":http"}) {
		EXPECT_EQ(address_problem(text, address_use::listen), std::nullopt) << text;
		EXPECT_NE(address_problem(text, address_use::connect), std::nullopt) << text;
	}
}

TEST(Address, OfUnixSockets)
{
	const std::string longest(107, 'n');
	for (const std::string &text :
	     {std::string("unix:/run/a.sock"), std::string("unix:./a"), std::string("unix:../a:0"),
	      std::string("unix:@a"), std::string("unix:/with space,;\xc3\xa9"),
	      "unix:@" + longest.substr(1)}) {
		EXPECT_TRUE(relay::is_unix(text)) << text;
		EXPECT_FALSE(relay::is_any(text)) << text;
		for (const auto use : {address_use::listen, address_use::connect})
			EXPECT_EQ(address_problem(text, use), std::nullopt) << text;
	}
	EXPECT_EQ(address_problem("unix:@", address_use::listen), std::nullopt);
	EXPECT_TRUE(relay::is_any("unix:@"));
	EXPECT_NE(address_problem("unix:@", address_use::connect), std::nullopt);
	/* Hosts with the name unix. */
	for (const char *text : {"unix:80", "unix:http", "unix", "unixes:80"}) {
		EXPECT_FALSE(relay::is_unix(text)) << text;
		EXPECT_FALSE(relay::is_any(text)) << text;
	}
	EXPECT_EQ(address_problem("unix:80", address_use::connect), std::nullopt);
	EXPECT_TRUE(relay::is_any("unix:0"));
	for (const std::string &text :
	     {std::string("unix:"), std::string("/run/a.sock"), std::string("unix:/a\nb"),
	      std::string("unix:/a\0b", 9), "unix:/" + longest, "unix:@" + longest,
	      std::string("unix:a.sock")})
		for (const auto use : {address_use::listen, address_use::connect})
			EXPECT_NE(address_problem(text, use).value_or("").find("expected"),
				  std::string::npos)
				<< text;
	EXPECT_NE(address_problem("unix:a.sock", address_use::listen)
			  .value_or("")
			  .find("unix:./PATH"),
		  std::string::npos);
}

TEST(Address, ABackendMayLeadBackToTheListener)
{
	using relay::leads_back;
	EXPECT_TRUE(leads_back("10.0.0.1:80", "10.0.0.1:80"));
	EXPECT_TRUE(leads_back("unix:/run/a", "unix:/run/a"));
	for (const char *every : {":80", "0.0.0.0:80", "[::]:80"})
		for (const char *here :
		     {"localhost:80", "127.0.0.1:80", "127.1.2.3:80", "[::1]:80"})
			EXPECT_TRUE(leads_back(here, every)) << here << ' ' << every;

	EXPECT_TRUE(leads_back("localhost:80", "127.0.0.1:80"));
	EXPECT_TRUE(leads_back("localhost:80", "[::1]:80"));
	EXPECT_FALSE(leads_back("localhost:80", "127.0.0.1:81"));
	EXPECT_FALSE(leads_back("localhost:80", "127.0.0.2:80"));
	EXPECT_FALSE(leads_back("127.0.0.1:81", ":80"));
	EXPECT_FALSE(leads_back("127.0.0.1:80", "127.0.0.2:80"));
	EXPECT_FALSE(leads_back("10.0.0.1:80", ":80")) << "may be another machine";
	EXPECT_FALSE(leads_back("127.0.0.1.example.org:80", ":80"));
	EXPECT_FALSE(leads_back("unix:/run/80", ":80"));
	EXPECT_FALSE(leads_back("localhost:80", "unix:/run/80"));
}

TEST(Address, Malformed)
{
	const std::string long_name(254, 'a');
	for (const std::string &text : {std::string(),
					std::string(":"),
					std::string("80"),
					std::string("host"),
					std::string("host:"),
					std::string("host:-1"),
					std::string("host:65536"),
					std::string("host:80a!"),
					std::string("host: 80"),
					std::string("ho st:80"),
					std::string("host/x:80"),
					std::string("1.2.3:80"),
					std::string("1.2.3.256:80"),
					std::string("1.2.3.4.5:80"),
					std::string("::1:80"),
					std::string("::1"),
					std::string("[::1]"),
					std::string("[::1]:"),
					std::string("[::1]80"),
					std::string("[]:80"),
					std::string("[::1:80"),
					std::string("[localhost]:80"),
					std::string("[127.0.0.1]:80"),
					std::string("[::1%]:80"),
					std::string("h:1:2"),
					std::string("h\0x:80", 6),
					std::string("h\n:80"),
					long_name + ":80"})
		for (const auto use : {address_use::listen, address_use::connect})
			EXPECT_NE(address_problem(text, use), std::nullopt) << text;
}

TEST(Address, TheErrorSaysWhatIsExpected)
{
	for (const char *text : {"", "host", "host:99999", "1.2.3.999:80", "::1:80", "h:8!"})
		for (const auto use : {address_use::listen, address_use::connect})
			EXPECT_NE(address_problem(text, use).value_or("").find("expected"),
				  std::string::npos)
				<< text;
}

TEST(Address, OfUdpIsForListenersOnly)
{
	using use = relay::address_use;
	for (const char *good :
	     {"udp:127.0.0.1:53", "udp:[::1]:53", "udp::53", "udp::0", "udp:localhost:domain"}) {
		EXPECT_TRUE(relay::is_udp(good)) << good;
		EXPECT_FALSE(relay::address_problem(good, use::serve)) << good;
		for (const auto other : {use::listen, use::connect, use::backend})
			EXPECT_TRUE(relay::address_problem(good, other)) << good;
	}
	EXPECT_EQ(relay::without_udp("udp:[::1]:53"), "[::1]:53");
	EXPECT_EQ(relay::without_udp("127.0.0.1:53"), "127.0.0.1:53");
	EXPECT_TRUE(relay::is_any("udp:127.0.0.1:0"));
	EXPECT_TRUE(relay::leads_back("127.0.0.1:53", "udp::53"));
	EXPECT_FALSE(relay::leads_back("127.0.0.1:54", "udp::53"));
	/* Hosts with the name udp, which are no address to listen at. */
	for (const char *host : {"udp:53", "udp:domain"}) {
		EXPECT_FALSE(relay::is_udp(host)) << host;
		EXPECT_FALSE(relay::address_problem(host, use::backend)) << host;
		EXPECT_TRUE(relay::address_problem(host, use::serve)) << host;
	}
	for (const char *bad : {"udp:127.0.0.1:", "udp:1.2.3.999:5", "udp:::1:5", "udp:a:70000",
				"udp:udp:127.0.0.1:5", "udp:unix:/a", "udp:srv:_a._udp.b"})
		EXPECT_TRUE(relay::address_problem(bad, use::serve)) << bad;
}

TEST(Address, OfAServiceIsForBackendsOnly)
{
	using use = relay::address_use;
	for (const char *good : {"srv:_http._tcp.example.org", "srv:_http._tcp.example.org.",
				 "srv:_web", "srv:web.service.consul", "srv:_a-b._udp.x"}) {
		EXPECT_TRUE(relay::is_srv(good)) << good;
		EXPECT_FALSE(relay::address_problem(good, use::backend)) << good;
		EXPECT_TRUE(relay::address_problem(good, use::connect)) << good;
		EXPECT_TRUE(relay::address_problem(good, use::listen)) << good;
		EXPECT_FALSE(relay::leads_back(good, ":80")) << good;
	}
	EXPECT_EQ(relay::srv_name("srv:_http._tcp.a"), "_http._tcp.a");
	/* Hosts with the name srv. */
	for (const char *host : {"srv:80", "srv:http"}) {
		EXPECT_FALSE(relay::is_srv(host)) << host;
		EXPECT_FALSE(relay::address_problem(host, use::backend)) << host;
	}
	for (const std::string &bad :
	     {std::string("srv:_http..tcp"), std::string("srv:."), std::string("srv:.a"),
	      std::string("srv:_a b.c"), std::string("srv:_a.b:80"), std::string("srv:_a/b.c"),
	      "srv:_" + std::string(63, 'a') + ".b", "srv:_a." + std::string(260, 'a')})
		EXPECT_TRUE(relay::address_problem(bad, use::backend)) << bad;
}
