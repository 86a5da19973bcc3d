/* SPDX-License-Identifier: MIT */
/* How the tests of the configuration file begin: with a text that is correct, or one that is
 * not. */
#ifndef TESTS_RELAY_CONFIG_CASE_HPP
#define TESTS_RELAY_CONFIG_CASE_HPP

#include "config/config.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <variant>
#include <vector>

namespace config_case
{

inline relay::config good(const std::string &text)
{
	auto read = relay::parse_config(text, "f");
	if (const auto *errors = std::get_if<relay::config_errors>(&read)) {
		for (const auto &line : errors->lines)
			ADD_FAILURE() << line;
		return {};
	}
	return std::get<relay::config>(read);
}

inline std::vector<std::string> bad(const std::string &text)
{
	auto read = relay::parse_config(text, "f");
	auto *errors = std::get_if<relay::config_errors>(&read);
	return errors ? errors->lines : std::vector<std::string>{"it was accepted"};
}

/* Expects that the errors begin with these texts, in this order. */
inline void expect_starts(const std::vector<std::string> &errors,
			  const std::vector<std::string> &starts)
{
	ASSERT_EQ(errors.size(), starts.size()) << testing::PrintToString(errors);
	for (std::size_t i = 0; i < starts.size(); i++)
		EXPECT_TRUE(errors[i].starts_with(starts[i])) << errors[i] << "\n" << starts[i];
}

} // namespace config_case

#endif
