/* SPDX-License-Identifier: MIT */
/*
 * What must hold for searches for regular expressions, whatever the expression and the bytes are:
 * more bytes change no result but not_yet, unless their search is too costly. The input is the
 * expression, a byte of 0, and the bytes. A build without PCRE2 has no expressions, so only its
 * error is checked.
 */
#ifndef FUZZ_RELAY_REGEX_PROPERTIES_HPP
#define FUZZ_RELAY_REGEX_PROPERTIES_HPP

#include "base/regex.hpp"
#include "properties.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace properties
{

inline void regex(std::string_view input)
{
	using result = relay::regex::result;
	const auto zero = input.find('\0');
	const auto text = input.substr(0, zero);
	const auto bytes = zero == input.npos ? std::string_view() : input.substr(zero + 1);
	std::string why;
	const auto compiled = relay::regex::compile(text, why);
	require((compiled != nullptr) == why.empty(), "either it compiles, or there is a reason");
	if (!compiled) {
		require(why.find("; expected ") != why.npos, "the reason says what was expected");
		return;
	}
	/* In memory of just that size, so that the sanitizer notices a byte beyond it. */
	const auto search = [&](std::size_t size, bool is_all) {
		const std::unique_ptr<char[]> copy(new char[size ? size : 1]);
		bytes.copy(copy.get(), size);
		/* Less than the 50 ms that a search may take, because there are many. */
		return compiled->search({copy.get(), size}, is_all,
					sn::after(std::chrono::milliseconds(2)));
	};
	require(search(0, true) != result::found, "no expression matches nothing");
	const auto began = sn::now();
	auto before = result::not_yet;
	for (std::size_t size = 0; size <= bytes.size(); size++) {
		const auto now = search(size, false);
		/* Too costly depends on the machine. */
		if (now == result::too_costly || sn::now() - began > std::chrono::seconds(1))
			return;
		require(before == result::not_yet || now == before, "a result stays");
		before = now;
	}
	const auto all = search(bytes.size(), true);
	if (all == result::too_costly)
		return;
	require(before != result::found || all == result::found, "what is found stays found");
	require(before != result::never || all != result::found, "what cannot be found is not");
}

} // namespace properties

#endif
