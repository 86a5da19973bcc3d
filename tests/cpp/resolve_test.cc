// SPDX-License-Identifier: MIT
//
// The C++ interface of names and addresses.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <utility>

#include <netinet/in.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include "support/names.h"

namespace
{

using namespace std::chrono_literals;

static_assert(std::is_nothrow_move_constructible_v<sn::resolved>);
static_assert(!std::is_copy_constructible_v<sn::resolved>);

uint32_t v4_of(const sn_resolved_address &at)
{
	sockaddr_in v4{};

	EXPECT_EQ(sizeof v4, at.length);
	memcpy(&v4, &at.address, sizeof v4);
	return ntohl(v4.sin_addr.s_addr);
}

TEST(CppResolve, IsARangeOfAddresses)
{
	EXPECT_EQ(0, sn::run([] {
			  test::set_answer("two.test", {0, {"127.0.0.2", "127.0.0.1"}});
			  sn::resolved found = sn::resolve("two.test", "80").value();
			  ASSERT_EQ(2u, found.size());
			  EXPECT_EQ(INADDR_LOOPBACK + 1, v4_of(found.front()));
			  EXPECT_EQ(INADDR_LOOPBACK, v4_of(found[1]));
			  EXPECT_EQ(2,
				    std::count_if(found.begin(), found.end(), [](const auto &at) {
					    return at.address.ss_family == AF_INET;
				    }));
			  const sn::resolved taken = std::move(found);
			  EXPECT_FALSE(taken.empty());
			  // NOLINT: the test uses the moved-from object on purpose
			  EXPECT_TRUE(found.empty());
			  EXPECT_EQ(found.begin(), found.end());
			  EXPECT_EQ(nullptr, found.get());
			  EXPECT_EQ(nullptr, sn::srv_list().get());
		  }));
}

TEST(CppResolve, ErrorsAreResults)
{
	EXPECT_EQ(
		0, sn::run([] {
			test::set_answer("unknown.test", {EAI_NONAME, {}});
			EXPECT_EQ(sn::resolve("unknown.test", "80").error(),
				  std::errc::no_such_file_or_directory);
			EXPECT_EQ(
				sn::resolve("::1", "80", sn::no_deadline, SN_RESOLVE_IPV4).error(),
				std::errc::address_not_available);
			EXPECT_EQ(sn::resolve_srv("").error(), std::errc::invalid_argument);
			test::Hanging names;
			EXPECT_EQ(sn::resolve("hangs.test", "80", sn::after(20ms)).error(),
				  std::errc::timed_out);
		}));
	EXPECT_EQ(sn::resolve("127.0.0.1", "80").error(), std::errc::not_supported);
}

TEST(CppResolve, NamesAnAddress)
{
	EXPECT_EQ(0, sn::run([] {
			  const auto found = sn::resolve("127.0.0.99", "80").value();

			  EXPECT_EQ("ninety-nine.test", sn::resolve_name(found[0]).value());
			  EXPECT_EQ(sn::resolve_name(nullptr, 0).error(),
				    std::errc::invalid_argument);
		  }));
}

} // namespace
