/* SPDX-License-Identifier: MIT */
/*
 * IP addresses without ports, and networks of such addresses, by which lists and limits identify a
 * client.
 *
 * An IPv4 address that a dual-stack socket reports as "::ffff:10.0.0.1" is that IPv4 address here,
 * so that lists do not depend on how a listener listens; "::/0" contains only IPv6 addresses. An
 * address has no scope, because lists cannot name those of link-local addresses.
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

/* A hash with a secret key of this process, so that nobody can choose addresses that collide in
 * a table. */
std::uint64_t keyed_hash(const ip_address &of) noexcept;

/* An end of a connection. */
struct ip_end {
	ip_address ip;
	std::uint16_t port = 0;
	std::uint32_t scope = 0; /* the interface's index for a link-local address; else 0 */
};

/* The ends of a connected TCP socket; nothing if it is no longer connected. */
std::optional<ip_end> peer_of(int fd) noexcept;
std::optional<ip_end> local_of(int fd) noexcept;

/* Turns an IPv4 address that a dual-stack socket reports as "[::ffff:10.0.0.1]:80" into
 * "10.0.0.1:80", so that a client has the same address at every listener. Other addresses stay
 * as they are. */
std::string without_mapping(std::string address);

/* The host of "host:port" or "[host]:port", which keeps its brackets; all of "unix:...". */
std::string_view host_of(std::string_view address) noexcept;

/* Makes an address from four bytes, or from sixteen, which may be a mapped IPv4 address. */
ip_address to_ip(const unsigned char *bytes, bool is_ipv6) noexcept;

/* Parses "10.0.0.1" or "2001:DB8::1", without a scope; nothing if the text is anything else. */
std::optional<ip_address> parse_ip(std::string_view text) noexcept;

class ip_network
{
public:
	/* Parses "10.0.0.0/8", "::1" or "fe80::/10". If that fails, returns what is wrong, and
	 * what is expected. */
	static std::variant<ip_network, std::string> parse(std::string_view text);

	bool contains(const ip_address &one) const noexcept;

	const ip_address &first() const noexcept { return first_; }
	unsigned prefix() const noexcept { return prefix_; }

private:
	ip_address first_;
	unsigned prefix_ = 0; /* bits */
};

using ip_networks = std::vector<ip_network>;

/* Sorts the networks, and removes those within others, for contains(): it searches a list of a
 * hundred thousand by bisection. */
void compact(ip_networks &all);

/* Whether one of the networks has the address. Call it only after compact(). */
bool contains(const ip_networks &all, const ip_address &one) noexcept;

} // namespace relay

#endif
