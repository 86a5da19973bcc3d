/* SPDX-License-Identifier: MIT */
#include "base/ip.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <iterator>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tuple>
#include <unistd.h>

namespace relay
{
namespace
{

constexpr std::array<unsigned char, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::optional<ip_end> to_end(const sockaddr_storage &from) noexcept
{
	if (from.ss_family == AF_INET) {
		sockaddr_in in;
		std::memcpy(&in, &from, sizeof in);
		unsigned char bytes[4];
		std::memcpy(bytes, &in.sin_addr, sizeof bytes);
		return ip_end{to_ip(bytes, false), ntohs(in.sin_port)};
	}
	if (from.ss_family == AF_INET6) {
		sockaddr_in6 in;
		std::memcpy(&in, &from, sizeof in);
		return ip_end{to_ip(in.sin6_addr.s6_addr, true), ntohs(in.sin6_port),
			      in.sin6_scope_id};
	}
	return std::nullopt;
}

/* The first bits of an address, followed by zeros. */
ip_address first_of(ip_address one, unsigned prefix) noexcept
{
	for (unsigned i = 0; i < one.bytes.size(); i++) {
		const unsigned kept = prefix > 8 * i ? std::min(prefix - 8 * i, 8U) : 0;
		one.bytes[i] = static_cast<unsigned char>(one.bytes[i] & (0xff00U >> kept));
	}
	return one;
}

struct hash_key {
	/* If the kernel has no random bytes yet, just after the machine's start, the words stay
	 * 0. */
	hash_key() noexcept { static_cast<void>(getentropy(words.data(), sizeof words)); }

	std::array<std::uint64_t, 4> words{};
};

/* Joins both halves of the product, so that each bit of the result depends on all bits of both
 * factors. */
std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept
{
	const std::uint64_t a_low = a & 0xffffffff;
	const std::uint64_t a_high = a >> 32;
	const std::uint64_t b_low = b & 0xffffffff;
	const std::uint64_t b_high = b >> 32;
	const std::uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
	const std::uint64_t cross = a_low * b_high + (middle & 0xffffffff);
	return a * b ^ (a_high * b_high + (middle >> 32) + (cross >> 32));
}

bool is_before(const ip_address &a, const ip_address &b) noexcept
{
	return std::tie(a.is_ipv6, a.bytes) < std::tie(b.is_ipv6, b.bytes);
}

} // namespace

std::uint64_t keyed_hash(const ip_address &of) noexcept
{
	static const hash_key key;
	std::uint64_t first = 0;
	std::uint64_t second = 0;
	std::memcpy(&first, of.bytes.data(), sizeof first);
	std::memcpy(&second, of.bytes.data() + sizeof first, sizeof second);
	const std::uint64_t kind = of.is_ipv6 ? key.words[2] : key.words[3];
	return fold(fold(first ^ key.words[0], kind | 1) ^ second, key.words[1] | 1);
}

ip_address to_ip(const unsigned char *bytes, bool is_ipv6) noexcept
{
	ip_address made;
	if (is_ipv6 && !std::equal(mapped.begin(), mapped.end(), bytes)) {
		made.is_ipv6 = true;
		std::copy_n(bytes, 16, made.bytes.begin());
	} else {
		std::copy_n(bytes + (is_ipv6 ? 12 : 0), 4, made.bytes.begin());
	}
	return made;
}

std::optional<ip_address> parse_ip(std::string_view text) noexcept
{
	char copy[INET6_ADDRSTRLEN];
	unsigned char bytes[16];
	if (text.size() >= sizeof copy || text.find('\0') != text.npos)
		return std::nullopt;
	copy[text.copy(copy, text.size())] = '\0';
	const bool is_ipv6 = text.find(':') != text.npos;
	if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, copy, bytes) != 1)
		return std::nullopt;
	return to_ip(bytes, is_ipv6);
}

std::string without_mapping(std::string address)
{
	static constexpr std::string_view before = "[::ffff:";
	const auto end = address.rfind("]:");
	/* Other addresses that begin like this have groups of digits without dots. */
	if (!address.starts_with(before) || end == address.npos ||
	    address.find('.') == address.npos)
		return address;
	return address.substr(before.size(), end - before.size()) + address.substr(end + 1);
}

std::string_view host_of(std::string_view address) noexcept
{
	return address.starts_with("unix:") ? address : address.substr(0, address.rfind(':'));
}

std::optional<ip_end> peer_of(int fd) noexcept
{
	sockaddr_storage from{};
	socklen_t size = sizeof from;
	if (getpeername(fd, reinterpret_cast<sockaddr *>(&from), &size) < 0)
		return std::nullopt;
	return to_end(from);
}

std::optional<ip_end> local_of(int fd) noexcept
{
	sockaddr_storage at{};
	socklen_t size = sizeof at;
	if (getsockname(fd, reinterpret_cast<sockaddr *>(&at), &size) < 0)
		return std::nullopt;
	return to_end(at);
}

std::variant<ip_network, std::string> ip_network::parse(std::string_view text)
{
	const std::string form =
		"expected an address or a network, such as 10.0.0.0/8, 127.0.0.1 or fe80::/10";
	const auto slash = text.find('/');
	const std::string address(text.substr(0, slash));
	unsigned char bytes[16];
	const bool is_ipv6 = address.find(':') != std::string::npos;
	if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, address.c_str(), bytes) != 1)
		return form;
	const unsigned bits = is_ipv6 ? 128 : 32;

	unsigned prefix = bits;
	if (slash != text.npos) {
		const auto digits = text.substr(slash + 1);
		const auto [rest, err] =
			std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
		if (err != std::errc{} || rest != digits.data() + digits.size())
			return form;
		if (prefix > bits)
			return "the prefix is too long; expected 0 to " + std::to_string(bits);
	}
	ip_network made;
	made.first_ = to_ip(bytes, is_ipv6);
	made.prefix_ = prefix;
	if (is_ipv6 && !made.first_.is_ipv6) {
		if (prefix < 96)
			return "an IPv4 address in an IPv6 network; " + form;
		made.prefix_ = prefix - 96;
	}
	if (first_of(made.first_, made.prefix_) != made.first_)
		return "it has bits beyond its prefix; expected the first address of the network";
	return made;
}

bool ip_network::contains(const ip_address &one) const noexcept
{
	return one.is_ipv6 == first_.is_ipv6 && first_of(one, prefix_) == first_;
}

void compact(ip_networks &all)
{
	std::ranges::sort(all, [](const ip_network &a, const ip_network &b) {
		if (a.first() != b.first())
			return is_before(a.first(), b.first());
		return a.prefix() < b.prefix();
	});
	ip_networks kept;
	for (const auto &each : all)
		if (kept.empty() || !kept.back().contains(each.first()))
			kept.push_back(each);
	all.swap(kept);
}

bool contains(const ip_networks &all, const ip_address &one) noexcept
{
	/* The networks are disjoint, so only the last one that does not begin after the address
	 * can have it. */
	const auto after = std::ranges::upper_bound(all, one, is_before, &ip_network::first);
	return after != all.begin() && std::prev(after)->contains(one);
}

} // namespace relay
