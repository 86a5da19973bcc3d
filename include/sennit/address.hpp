/* SPDX-License-Identifier: MIT */
/*
 * Addresses as values (address.h), which print themselves:
 *
 *	const auto at = sn::address::parse("[::1]:53").value();
 *	std::cout << at << '\n' << std::format("{:>24}\n", at) << sn::to_string(at);
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_ADDRESS_HPP
#define SENNIT_ADDRESS_HPP

#include <sennit/address.h>
#include <sennit/result.hpp>

#include <compare>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <version>

#ifdef __cpp_lib_format
#	include <format>
#endif

namespace sennit
{

/* An IP address with its port, or none: struct sn_address. A value. */
class address : public sn_address
{
public:
	address() noexcept : sn_address() {}
	address(const sn_address &other) noexcept : sn_address(other) {}

	/* Parses a numeric address, such as "127.0.0.1:53". */
	static result<address> parse(const std::string &text)
	{
		if (!detail::lacks_zeros(text))
			return unexpected(detail::zero_inside);
		address parsed;
		const int err = sn_address_parse(&parsed, text.c_str());
		if (err < 0)
			return detail::failed(err);
		return parsed;
	}

	/* Converts an address of the system's calls. Fails with
	 * std::errc::address_family_not_supported for families other than IPv4 and IPv6. */
	static result<address> from(const sockaddr *other, socklen_t size)
	{
		address converted;
		const int err = sn_address_from_sockaddr(&converted, other, size);
		if (err < 0)
			return detail::failed(err);
		return converted;
	}

	/* The text that parse() reads; empty for no address. */
	std::string text() const
	{
		char buf[SN_ADDRESS_MAX];
		const int n = sn_address_text(this, buf, sizeof buf);
		return std::string(buf, n < 0 ? 0 : static_cast<std::size_t>(n));
	}

	/* Whether this is an address, and not "none". */
	explicit operator bool() const noexcept { return family != 0; }

	/* Every byte is significant (address.h). */
	friend bool operator==(const address &a, const address &b) noexcept
	{
		return std::memcmp(&a, &b, sizeof a) == 0;
	}
	friend std::strong_ordering operator<=>(const address &a, const address &b) noexcept
	{
		return std::memcmp(&a, &b, sizeof a) <=> 0;
	}

	/* Print the text; std::format() takes an address, too, where the library has it. */
	friend std::string to_string(const address &at) { return at.text(); }
	template <class Traits>
	friend std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out,
							    const address &at)
	{
		return out << at.text();
	}
};

} // namespace sennit

/* For unordered containers. The hash has no secret, so peers that choose their addresses can make
 * them collide. */
template <>
struct std::hash<sennit::address> {
	/* Hashes all bytes, each of which is significant. */
	std::size_t operator()(const sennit::address &at) const noexcept
	{
		return std::hash<std::string_view>()(
			{reinterpret_cast<const char *>(&at), sizeof at});
	}
};

#ifdef __cpp_lib_format
/* Takes the width, the alignment and the precision as for strings. */
template <>
struct std::formatter<sennit::address> : std::formatter<std::string_view> {
	/* The text. */
	template <class Context>
	auto format(const sennit::address &at, Context &context) const
	{
		return std::formatter<std::string_view>::format(at.text(), context);
	}
};
#endif

#endif
