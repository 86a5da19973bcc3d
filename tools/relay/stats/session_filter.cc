/* SPDX-License-Identifier: MIT */
#include "stats/session_filter.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <sys/socket.h>

namespace relay
{
namespace
{

std::string_view without_brackets(std::string_view host) noexcept
{
	const bool has_them = host.starts_with('[') && host.ends_with(']');
	return has_them ? host.substr(1, host.size() - 2) : host;
}

} // namespace

bool session_filter::name_client(std::string_view text)
{
	client = without_brackets(text);
	client_ip = parse_ip(client);
	client_scope = 0;
	if (client_ip || client.starts_with("unix:"))
		return true;
	if (client.find('%') == client.npos)
		return false;
	const auto scoped = sn::address::parse('[' + client + "]:0");
	if (!scoped || scoped->family != AF_INET6 || scoped->scope == 0)
		return false;
	client_ip = to_ip(scoped->bytes, true);
	client_scope = scoped->scope;
	return true;
}

bool session_filter::fits(std::string_view its_listener, std::string_view its_group,
			  std::string_view its_backend,
			  std::string_view its_endpoint) const noexcept
{
	const auto is_like = [](std::string_view wanted, std::string_view there) {
		return wanted.empty() || wanted == there;
	};
	return is_like(listener, its_listener) && is_like(group, its_group) &&
	       is_like(backend, its_backend) && is_like(endpoint, its_endpoint);
}

bool session_filter::fits_client(std::string_view address) const noexcept
{
	const auto host = without_brackets(host_of(address));
	if (!client_ip)
		return host == client;
	const auto ip = parse_ip(host);
	return ip && fits_client(*ip, 0);
}

} // namespace relay
