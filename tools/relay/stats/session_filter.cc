/* SPDX-License-Identifier: MIT */
#include "stats/session_filter.hpp"

namespace relay
{

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
	auto host = host_of(address);
	if (host.starts_with('[') && host.ends_with(']'))
		host = host.substr(1, host.size() - 2);
	return client_ip ? parse_ip(host.substr(0, host.find('%'))) == client_ip : host == client;
}

} // namespace relay
