/* SPDX-License-Identifier: MIT */
/* sn::result: a value or an error, even if the value is an int or cannot be copied. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <gtest/gtest.h>
#include <memory>

TEST(Result, HoldsAValue)
{
	sn::result<int> r = 7;
	EXPECT_TRUE(r.has_value());
	EXPECT_TRUE(r);
	EXPECT_EQ(*r, 7);
	EXPECT_EQ(r.value(), 7);
	EXPECT_FALSE(r.error());
	*r = 8;
	EXPECT_EQ(std::as_const(r).value(), 8);
	EXPECT_EQ(std::move(r).value_or(1), 8);
}

TEST(Result, HoldsAnError)
{
	const sn::result<int> r = sn::failure{ECONNREFUSED};
	EXPECT_FALSE(r.has_value());
	EXPECT_FALSE(r);
	EXPECT_EQ(r.error(), std::errc::connection_refused);
	EXPECT_EQ(sn::result<int>(r).value_or(1), 1);
	try {
		static_cast<void>(r.value());
		FAIL() << "value() returned";
	} catch (const std::system_error &error) {
		EXPECT_EQ(error.code(), std::errc::connection_refused);
	}
}

TEST(Result, MovesWhatCannotBeCopied)
{
	sn::result<std::unique_ptr<int>> r = std::make_unique<int>(3);
	EXPECT_EQ(**r, 3);
	EXPECT_EQ(*r->get(), 3);
	const std::unique_ptr<int> p = std::move(r).value();
	EXPECT_EQ(*p, 3);

	sn::result<std::unique_ptr<int>> none = sn::failure{EPIPE};
	EXPECT_THROW(static_cast<void>(std::move(none).value()), std::system_error);
}

TEST(Result, OfNothing)
{
	const sn::result<void> good;
	EXPECT_TRUE(good);
	EXPECT_FALSE(good.error());
	EXPECT_NO_THROW(good.value());

	const sn::result<void> bad = sn::failure{ETIMEDOUT};
	EXPECT_FALSE(bad);
	EXPECT_EQ(bad.error(), std::errc::timed_out);
	EXPECT_THROW(bad.value(), std::system_error);
}
