/* SPDX-License-Identifier: MIT */
/* sn::result: a value or an error, even if the value is an int or cannot be copied, with the
 * operations of std::expected. result_cpp23_test.cc tests the conversions. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace
{

sn::result<int> parse(const std::string &text)
{
	if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
		return sn::unexpected(std::errc::invalid_argument);
	return std::stoi(text);
}

} // namespace

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
	const sn::result<int> r = sn::unexpected(std::errc::connection_refused);
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
	// By value, so that a loop over the value of a temporary keeps it.
	static_assert(std::is_same_v<decltype(std::declval<sn::result<int>>().value()), int>);
	sn::result<std::unique_ptr<int>> r = std::make_unique<int>(3);
	EXPECT_EQ(**r, 3);
	EXPECT_EQ(*r->get(), 3);
	const std::unique_ptr<int> p = std::move(r).value();
	EXPECT_EQ(*p, 3);

	sn::result<std::unique_ptr<int>> none = sn::unexpected(std::errc::broken_pipe);
	EXPECT_THROW(static_cast<void>(std::move(none).value()), std::system_error);
}

TEST(Result, OfNothing)
{
	const sn::result<void> good;
	EXPECT_TRUE(good);
	EXPECT_FALSE(good.error());
	EXPECT_NO_THROW(good.value());

	const sn::result<void> bad = sn::unexpected(std::errc::timed_out);
	EXPECT_FALSE(bad);
	EXPECT_EQ(bad.error(), std::errc::timed_out);
	EXPECT_THROW(bad.value(), std::system_error);
}

TEST(Result, OfNegativeErrnoValuesAndBack)
{
	EXPECT_FALSE(sn::from_errno(0));
	EXPECT_FALSE(sn::from_errno(17));
	EXPECT_EQ(sn::from_errno(-ETIMEDOUT), std::errc::timed_out);
	EXPECT_EQ(sn::to_errno(sn::from_errno(-EKEYREJECTED)), -EKEYREJECTED);
	EXPECT_EQ(sn::to_errno({}), 0);
	EXPECT_EQ(sn::to_errno({ECONNRESET, std::system_category()}), -ECONNRESET);
	EXPECT_EQ(sn::to_errno({EKEYREJECTED, std::system_category()}), -EKEYREJECTED);
	EXPECT_EQ(sn::to_errno(std::make_error_code(std::future_errc::no_state)), -EIO);
}

TEST(Result, ComparesWithErrorsOfTheSystemCategory)
{
	const std::error_code system(ETIMEDOUT, std::system_category());
	const sn::result<int> r = sn::unexpected(system);

	EXPECT_EQ(r.error(), system) << "the category is kept";
	EXPECT_EQ(r.error(), std::errc::timed_out);
	EXPECT_EQ(sn::from_errno(-ETIMEDOUT), system.default_error_condition());
}

TEST(Result, IsNeverAnErrorOfNumberZero)
{
	const sn::result<int> r = sn::unexpected(std::error_code());
	const sn::result<void> nothing = sn::unexpected(std::error_code());

	EXPECT_FALSE(r);
	EXPECT_EQ(r.error(), std::errc::invalid_argument);
	EXPECT_FALSE(nothing);
}

TEST(Result, PassesItsValueOn)
{
	const auto twice = [](int n) { return 2 * n; };

	EXPECT_EQ(parse("21").transform(twice).value(), 42);
	EXPECT_EQ(parse("21")
			  .transform([](int n) { return std::to_string(n); })
			  .and_then(parse)
			  .value(),
		  21);
	EXPECT_EQ(parse("x").transform(twice).error(), std::errc::invalid_argument);
	EXPECT_EQ(parse("x").and_then([](int) { return parse("1"); }).error(),
		  std::errc::invalid_argument);
	EXPECT_EQ(parse("x").value_or(-1), -1);

	/* From a value to nothing, and back. */
	int seen = 0;
	const sn::result<void> done = parse("5").transform([&](int n) { seen = n; });
	EXPECT_TRUE(done);
	EXPECT_EQ(seen, 5);
	EXPECT_EQ(done.transform([] { return 3; }).value(), 3);
	EXPECT_EQ(done.and_then([] { return parse("7"); }).value(), 7);
	EXPECT_FALSE(parse("x").transform([](int) { FAIL(); }));
}

TEST(Result, PassesItsErrorOn)
{
	const auto zero_if_invalid = [](std::error_code error) -> sn::result<int> {
		if (error == std::errc::invalid_argument)
			return 0;
		return sn::unexpected(error);
	};
	const auto renamed = [](std::error_code) { return std::errc::protocol_error; };

	EXPECT_EQ(parse("x").or_else(zero_if_invalid).value(), 0);
	EXPECT_EQ(parse("4").or_else(zero_if_invalid).value(), 4);
	const sn::result<int> lost = sn::unexpected(std::errc::connection_reset);
	EXPECT_EQ(lost.or_else(zero_if_invalid).error(), std::errc::connection_reset);
	EXPECT_EQ(lost.transform_error(renamed).error(), std::errc::protocol_error);
	EXPECT_EQ(parse("4").transform_error(renamed).value(), 4);

	const sn::result<void> bad = sn::unexpected(std::errc::connection_reset);
	EXPECT_TRUE(bad.or_else([](std::error_code) { return sn::result<void>(); }));
	EXPECT_EQ(bad.transform_error(renamed).error(), std::errc::protocol_error);
}

TEST(Result, PassesOnWhatCannotBeCopied)
{
	sn::result<std::unique_ptr<int>> r = std::make_unique<int>(3);

	EXPECT_EQ(r.transform([](std::unique_ptr<int> &p) { return *p; }).value(), 3);
	EXPECT_TRUE(*r) << "the value was not moved";
	const auto moved = std::move(r).and_then(
		[](std::unique_ptr<int> p) -> sn::result<std::unique_ptr<int>> { return p; });
	EXPECT_EQ(**moved, 3);
}
