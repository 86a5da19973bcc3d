/* SPDX-License-Identifier: MIT */
/* The host name that TLS takes from a backend's address, and the TLS errors of checks; the same
 * with OpenSSL and without. */
#include "backends/endpoint.hpp"
#include "base/address.hpp"
#include "tls/tls_context.hpp"

#include <string_view>

namespace relay
{

std::string tls_host_of(std::string_view address)
{
	if (is_unix(address) || is_srv(address))
		return "";
	std::string_view host = address.substr(0, address.rfind(':'));
	if (host.starts_with('[') && host.ends_with(']'))
		host = host.substr(1, host.size() - 2);
	/* The zone of a link-local address says nothing to the peer. */
	return std::string(host.substr(0, host.find('%')));
}

} // namespace relay
