/* SPDX-License-Identifier: MIT */
/* The conversions of sn::result to and from std::expected. Compiled as C++23, and skipped if the
 * library has no std::expected. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cerrno>
#include <gtest/gtest.h>
#include <memory>
#include <utility>

#ifdef __cpp_lib_expected

namespace
{

template <class T>
using expected = std::expected<T, std::error_code>;

expected<int> as_standard(sn::result<int> r)
{
	return r;
}

sn::result<int> as_ours(expected<int> e)
{
	return e;
}

sn::result<void> fails()
{
	return std::unexpected(std::make_error_code(std::errc::broken_pipe));
}

} // namespace

TEST(ResultInCpp23, ConvertsToExpectedAndBack)
{
	EXPECT_EQ(as_standard(7).value(), 7);
	EXPECT_EQ(as_standard(sn::unexpected(std::errc::timed_out)).error(), std::errc::timed_out);
	EXPECT_EQ(as_ours(7).value(), 7);
	EXPECT_EQ(as_ours(std::unexpected(sn::from_errno(-EPIPE))).error(), std::errc::broken_pipe);
}

TEST(ResultInCpp23, OfNothingConverts)
{
	const expected<void> good = sn::result<void>(), bad = fails();

	EXPECT_TRUE(good.has_value());
	EXPECT_EQ(bad.error(), std::errc::broken_pipe);
	EXPECT_TRUE(sn::result<void>(good));
	EXPECT_EQ(sn::result<void>(bad).error(), std::errc::broken_pipe);
}

TEST(ResultInCpp23, MovesWhatCannotBeCopied)
{
	expected<std::unique_ptr<int>> e =
		sn::result<std::unique_ptr<int>>(std::make_unique<int>(3));
	const sn::result<std::unique_ptr<int>> r = std::move(e);

	EXPECT_EQ(**r, 3);
}

TEST(ResultInCpp23, OfABoolKeepsTheValue)
{
	const expected<bool> e = sn::result<bool>(false);

	EXPECT_TRUE(e.has_value());
	EXPECT_FALSE(*e);
}

#else

TEST(ResultInCpp23, ConvertsToExpectedAndBack)
{
	GTEST_SKIP() << "this library has no std::expected";
}

#endif
