/* SPDX-License-Identifier: MIT */
#include "base/address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>

namespace relay
{
namespace
{

/* Addresses do not depend on the locale, so isalnum() is not used. */
bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ipv6(std::string_view text)
{
	/* A scope ("fe80::1%eth0") is checked by the system when it resolves the address. */
	const auto percent = text.find('%');
	if (percent != text.npos && percent + 1 == text.size())
		return false;
	in6_addr unused;
	return inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &unused) == 1;
}

bool is_ipv4(std::string_view text)
{
	in_addr unused;
	return inet_pton(AF_INET, std::string(text).c_str(), &unused) == 1;
}

bool is_name(std::string_view text)
{
	return text.size() <= 253 && std::ranges::all_of(text, [](char c) {
		       return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
	       });
}

/* The longest path or name that fits into sockaddr_un. */
constexpr std::size_t unix_most = 107;

constexpr std::string_view unix_prefix = "unix:";

std::optional<std::string> unix_problem(std::string_view address, address_use use)
{
	const auto name = address.substr(unix_prefix.size());
	/* A control character could break lines of the log and of stdout. */
	if (std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
		return "the path has a control character; expected one without";
	if (name.size() > unix_most)
		return "the path is too long; expected at most " + std::to_string(unix_most) +
		       " bytes";
	if (use != address_use::listen && is_any(address))
		return "the name is empty; expected one, such as unix:@backend";
	return std::nullopt;
}

constexpr std::string_view srv_prefix = "srv:";

constexpr std::string_view udp_prefix = "udp:";

/* What is wrong with the use of "udp:" in the address. */
std::optional<std::string> udp_problem(std::string_view address, address_use use)
{
	if (use == address_use::listen)
		return "UDP is for listeners; expected an address of TCP, or unix:/PATH";
	if (use == address_use::connect)
		return "the relay connects there by TCP; expected HOST:PORT without udp:";
	if (use == address_use::backend)
		return "a backend gets what its listener does, connections or datagrams; expected "
		       "HOST:PORT without udp:";
	if (is_unix(without_udp(address)))
		return "a Unix socket has no datagrams here; expected udp:ADDRESS:PORT";
	return std::nullopt;
}

std::optional<std::string> srv_problem(std::string_view name, address_use use)
{
	if (use != address_use::backend)
		return "only a backend can be the name of a service; expected HOST:PORT or "
		       "unix:/PATH";
	if (name.ends_with('.'))
		name.remove_suffix(1);
	bool is_good = is_name(name);
	for (std::size_t at = 0; is_good && at <= name.size();) {
		const auto end = std::min(name.find('.', at), name.size());
		is_good = end > at && end - at <= 63;
		at = end + 1;
	}
	if (is_good)
		return std::nullopt;
	return "malformed name of a service; expected srv:_SERVICE._PROTOCOL.DOMAIN, such as "
	       "srv:_http._tcp.example.org";
}

std::optional<std::string> port_problem(std::string_view port, address_use use)
{
	if (std::ranges::all_of(port, is_digit)) {
		const unsigned lowest = use == address_use::listen ? 0 : 1;
		unsigned number = 0;
		const auto [rest, err] =
			std::from_chars(port.data(), port.data() + port.size(), number);
		static_cast<void>(rest);
		if (err == std::errc{} && number >= lowest && number <= 65535)
			return std::nullopt;
		return "the port is out of range; expected " + std::to_string(lowest) + " to 65535";
	}
	if (port.size() <= 32 && std::ranges::any_of(port, is_letter) &&
	    std::ranges::all_of(port,
				[](char c) { return is_letter(c) || is_digit(c) || c == '-'; }))
		return std::nullopt;
	return "the port is malformed; expected a number or the name of a service, such as http";
}

std::optional<std::string> host_problem(std::string_view host)
{
	/* Digits and dots alone are an attempt at an IPv4 address, never a name. */
	if (std::ranges::all_of(host, [](char c) { return is_digit(c) || c == '.'; })) {
		if (is_ipv4(host))
			return std::nullopt;
		return "malformed IPv4 address; expected four numbers from 0 to 255, such as "
		       "127.0.0.1";
	}
	if (is_name(host))
		return std::nullopt;
	if (host == "*")
		return "* is not a host; expected none for every address, such as :8080";
	return "malformed host name; expected letters, digits, dots and hyphens";
}

bool is_loopback(std::string_view host)
{
	return host == "localhost" || host == "[::1]" ||
	       (host.starts_with("127.") && is_ipv4(host));
}

bool is_every_address(std::string_view host)
{
	return host.empty() || host == "0.0.0.0" || host == "[::]";
}

} // namespace

bool leads_back(std::string_view backend, std::string_view listener) noexcept
{
	if (is_any(listener))
		return false;
	listener = without_udp(listener);
	if (backend == listener)
		return true;
	if (is_unix(backend) || is_unix(listener) || is_srv(backend))
		return false;
	const auto port = listener.rfind(':');
	const auto to_port = backend.rfind(':');
	const auto at = listener.substr(0, port);
	const auto to = backend.substr(0, to_port);
	if (listener.substr(port) != backend.substr(to_port))
		return false;
	/* On some machines localhost resolves to only one of the two, but the name means both
	 * (RFC 6761). */
	if (to == "localhost" && (at == "127.0.0.1" || at == "[::1]"))
		return true;
	return is_every_address(at) && is_loopback(to);
}

bool is_unix(std::string_view address) noexcept
{
	return address.starts_with(unix_prefix) && address.size() > unix_prefix.size() &&
	       std::string_view("/.@").find(address[unix_prefix.size()]) != std::string_view::npos;
}

bool is_udp(std::string_view address) noexcept
{
	return address.starts_with(udp_prefix) &&
	       address.find(':', udp_prefix.size()) != address.npos;
}

std::string_view without_udp(std::string_view address) noexcept
{
	return is_udp(address) ? address.substr(udp_prefix.size()) : address;
}

bool is_srv(std::string_view address) noexcept
{
	if (!address.starts_with(srv_prefix))
		return false;
	const auto name = srv_name(address);
	return name.starts_with('_') || name.find('.') != name.npos;
}

std::string_view srv_name(std::string_view address) noexcept
{
	return address.substr(srv_prefix.size());
}

bool is_any(std::string_view address) noexcept
{
	return is_unix(address) ? address.size() == unix_prefix.size() + 1 && address.ends_with('@')
				: address.ends_with(":0");
}

std::optional<std::string> address_problem(std::string_view address, address_use use)
{
	const std::string form =
		use == address_use::listen || use == address_use::serve
			? "expected ADDRESS:PORT, such as 127.0.0.1:8080, [::1]:8080 or :8080, or "
			  "unix:/PATH"
			: "expected HOST:PORT, such as 10.0.0.7:80, [::1]:80 or backend:http, or "
			  "unix:/PATH";

	if (address.find("://") != address.npos)
		return "a URL is not an address; " + form;
	if (is_udp(address)) {
		auto problem = udp_problem(address, use);
		return problem ? problem
			       : address_problem(without_udp(address), address_use::listen);
	}
	if (use == address_use::serve && address.starts_with(udp_prefix))
		return "expected udp:ADDRESS:PORT, such as udp:127.0.0.1:53 or udp::53";
	if (use == address_use::serve)
		use = address_use::listen;
	if (is_unix(address))
		return unix_problem(address, use);
	if (is_srv(address))
		return srv_problem(srv_name(address), use);
	if (address.starts_with('/') || address == unix_prefix)
		return form;
	if (address.starts_with('[')) {
		const auto end = address.find(']');
		if (end == address.npos || end + 2 >= address.size() || address[end + 1] != ':')
			return form;
		if (!is_ipv6(address.substr(1, end - 1)))
			return "malformed IPv6 address; " + form;
		return port_problem(address.substr(end + 2), use);
	}

	const auto colon = address.find(':');
	if (colon == address.npos || colon + 1 == address.size())
		return form;
	if (address.find(':', colon + 1) != address.npos)
		return "too many colons, and an IPv6 address needs brackets; " + form;
	if (colon == 0)
		return use == address_use::listen ? port_problem(address.substr(1), use) : form;
	if (const auto problem = host_problem(address.substr(0, colon)))
		return problem;
	auto problem = port_problem(address.substr(colon + 1), use);
	if (problem && address.starts_with(unix_prefix))
		*problem += "; a Unix socket is unix:/PATH, unix:./PATH or unix:@NAME";
	return problem;
}

} // namespace relay
