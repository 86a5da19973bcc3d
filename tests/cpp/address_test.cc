/* SPDX-License-Identifier: MIT */
/* Addresses print themselves, by each of the ways of printing in C++. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <iomanip>
#include <sstream>
#include <string>
#include <unordered_set>

TEST(CppAddress, PrintsItself)
{
	for (const std::string text : {"127.0.0.1:53", "[::1]:443", "[2001:db8::17]:1"}) {
		const auto at = sn::address::parse(text).value();
		std::ostringstream out;

		out << at << '|' << std::setw(20) << std::left << at << '|';
		EXPECT_EQ(out.str(), text + '|' + text + std::string(20 - text.size(), ' ') + '|');
		EXPECT_EQ(to_string(at), text);
		EXPECT_EQ(at.text(), text);
#ifdef __cpp_lib_format
		EXPECT_EQ(std::format("<{}>", at), '<' + text + '>');
		EXPECT_EQ(std::format("{:>20}", at), std::string(20 - text.size(), ' ') + text);
#endif
	}
	EXPECT_EQ(to_string(sn::address()), "");
}

TEST(CppAddress, IsMadeOfWhatTheSystemGives)
{
	sockaddr_in in{};
	in.sin_family = AF_INET;
	in.sin_port = htons(53);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	const auto *plain = reinterpret_cast<const sockaddr *>(&in);

	EXPECT_EQ(sn::address::from(plain, sizeof in).value(),
		  sn::address::parse("127.0.0.1:53").value());
	EXPECT_EQ(sn::address::from(plain, 3).error(), std::errc::invalid_argument);
	in.sin_family = AF_UNIX;
	EXPECT_EQ(sn::address::from(plain, sizeof in).error(),
		  std::errc::address_family_not_supported);

	std::unordered_set<sn::address> seen{sn::address::parse("127.0.0.1:53").value()};
	sn::run([&] {
		for (const auto &each : sn::resolve("127.0.0.1", "53").value())
			EXPECT_TRUE(seen.contains(sn::to_address(each)));
	});
}
