/* SPDX-License-Identifier: MIT */
/*
 * IP addresses without ports, and networks of them: how lists and limits identify a client.
 *
 * An IPv4 address that a dual-stack socket reports as "::ffff:10.0.0.1" is that IPv4 address here,
 * so that lists do not depend on how a listener listens; "::/0" contains only IPv6 addresses. The
 * scopes of link-local addresses are dropped: lists cannot name them.
 */
#ifndef RELAY_IP_HPP
#define RELAY_IP_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace relay
{

struct ip_address {
	bool is_ipv6 = false;
	std::array<unsigned char, 16>
		bytes{}; /* network order; IPv4 uses the first four, then zeros */

	bool operator==(const ip_address &) const = default;
};

/* With a secret key of this process, so that nobody can choose addresses that collide in a
 * table. */
std::uint64_t keyed_hash(const ip_address &of) noexcept;

/* An end of a connection. */
struct ip_end {
	ip_address ip;
	std::uint16_t port = 0;
};

/* The ends of a connected TCP socket; nothing if it is no longer connected. */
std::optional<ip_end> peer_of(int fd) noexcept;
std::optional<ip_end> local_of(int fd) noexcept;

/* An address as text, in which an IPv4 address that a dual-stack socket reports as
 * "[::ffff:10.0.0.1]:80" is "10.0.0.1:80", so that a client is the same whichever listener it uses.
 * Others are as they were. */
std::string without_mapping(std::string address);

/* From four bytes, or from sixteen, which may be a mapped IPv4 address. */
ip_address to_ip(const unsigned char *bytes, bool is_ipv6) noexcept;

class ip_network
{
public:
	/* "10.0.0.0/8", "::1", "fe80::/10"; or else what is wrong, and what is expected. */
	static std::variant<ip_network, std::string> parse(std::string_view text);

	bool contains(const ip_address &one) const noexcept;

	const ip_address &first() const noexcept { return first_; }
	unsigned prefix() const noexcept { return prefix_; }

private:
	ip_address first_;
	unsigned prefix_ = 0; /* bits */
};

using ip_networks = std::vector<ip_network>;

/* Sorts them, and removes those within others, so that a list of a hundred thousand is searched as
 * quickly as one of twenty. */
void compact(ip_networks &all);

/* Only after compact(). */
bool contains(const ip_networks &all, const ip_address &one) noexcept;

} // namespace relay

#endif
