/* SPDX-License-Identifier: MIT */
/*
 * IP addresses without ports, and networks of them: who a client is, for lists and limits.
 *
 * An IPv4 address that a socket of both families tells as "::ffff:10.0.0.1" is that IPv4 address
 * here, so that lists need not know how a listener listens; "::/0" has IPv6 addresses only. Scopes of
 * link-local addresses are left out: lists cannot name them.
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
		bytes{}; /* network order; IPv4 has the first four, then zeros */

	bool operator==(const ip_address &) const = default;
};

/* An end of a connection. */
struct ip_end {
	ip_address ip;
	std::uint16_t port = 0;
};

/* Those of a connected TCP socket; nothing when it is connected no more. */
std::optional<ip_end> peer_of(int fd) noexcept;
std::optional<ip_end> local_of(int fd) noexcept;

/* From four or sixteen bytes, the latter perhaps IPv4's. */
ip_address to_ip(const unsigned char *bytes, bool is_ipv6) noexcept;

class ip_network
{
public:
	/* "10.0.0.0/8", "::1", "fe80::/10"; or what is wrong with it and what is expected. */
	static std::variant<ip_network, std::string> parse(std::string_view text);

	bool contains(const ip_address &one) const noexcept;

private:
	ip_address first_;
	unsigned prefix_ = 0; /* bits */
};

using ip_networks = std::vector<ip_network>;

bool contains(const ip_networks &all, const ip_address &one) noexcept;

} // namespace relay

#endif
