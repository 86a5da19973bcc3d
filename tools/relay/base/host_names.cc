/* SPDX-License-Identifier: MIT */
#include "base/host_names.hpp"

#include "base/address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <utility>

namespace relay
{
namespace
{

std::string lower_case(std::string_view text)
{
	std::string out;
	for (const char c : text)
		out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
	return out;
}

/* The host of "host:port", "host", "[::1]:port" or "[::1]"; brackets are kept. */
std::string_view without_port(std::string_view address)
{
	const auto end = address.rfind(':');
	if (end == address.npos || address.find(']', end) != address.npos ||
	    !std::ranges::all_of(address.substr(end + 1),
				 [](char c) { return c >= '0' && c <= '9'; }))
		return address;
	return address.substr(0, end);
}

bool is_numeric(const std::string &host)
{
	unsigned char unused[16];
	if (inet_pton(AF_INET, host.c_str(), unused) == 1)
		return true;
	if (!host.starts_with('[') || !host.ends_with(']'))
		return false;
	/* A zone, such as %eth0, is not a part of the address. */
	const auto inside = host.substr(1, host.size() - 2);
	return inet_pton(AF_INET6, inside.substr(0, inside.find('%')).c_str(), unused) == 1;
}

} // namespace

host_names::host_names(const std::vector<std::string> &names, std::string_view listen)
{
	for (const auto &each : names)
		names_.push_back(lower_case(each.starts_with("*.") ? each.substr(1) : each));
	if (is_unix(listen))
		return;
	/* The port of an address may have a name. */
	const auto host = listen.substr(0, std::min(listen.rfind(':'), listen.size()));
	if (!host.empty() && !is_numeric(std::string(host)))
		names_.push_back(lower_case(host));
}

bool host_names::accept(std::string_view value) const
{
	auto host = lower_case(without_port(value));
	if (host.ends_with('.'))
		host.pop_back();
	if (value.empty() || host == "localhost" || is_numeric(host))
		return true;
	return std::ranges::any_of(names_, [&host](const std::string &name) {
		return name.starts_with('.') ? host.size() > name.size() && host.ends_with(name)
					     : host == name;
	});
}

std::optional<std::string> host_name_problem(std::string_view name)
{
	const auto rest = name.starts_with("*.") ? name.substr(2) : name;
	if (const auto problem = address_problem(std::string(rest) + ":1", address_use::connect);
	    rest.empty() || problem || rest.find_first_of(":[*") != rest.npos)
		return "is not the name of a host; expected one such as relay.example.org or "
		       "*.example.org, without a port";
	return std::nullopt;
}

bool is_everywhere(std::string_view listen) noexcept
{
	const auto host = listen.substr(0, std::min(listen.rfind(':'), listen.size()));
	return !is_unix(listen) && (host.empty() || host == "0.0.0.0" || host == "[::]");
}

} // namespace relay
