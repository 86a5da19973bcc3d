/* SPDX-License-Identifier: MIT */
/* Which sessions an action of the control server means. A session matches if every field that is
 * not empty matches. */
#ifndef RELAY_SESSION_FILTER_HPP
#define RELAY_SESSION_FILTER_HPP

#include "base/ip.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace relay
{

struct session_filter {
	std::string listener{}; /* its name */
	std::string group{};
	std::string backend{};  /* as configured */
	std::string endpoint{}; /* the address that it is connected to */
	std::string client{};   /* its address without the port, and without brackets */
	/* Of `client`, if that is an IP address without a scope. Then any text of the same address
	 * matches, with any scope: the sessions of a client that has many ways to be written. */
	std::optional<ip_address> client_ip{};

	/* These compare without allocating memory, because all sessions wait for them. */

	/* Whether a session with these, each as above, matches in all but the client. */
	bool fits(std::string_view its_listener, std::string_view its_group,
		  std::string_view its_backend, std::string_view its_endpoint) const noexcept;

	/* Whether the client at this address, with its port, matches. */
	bool fits_client(std::string_view address) const noexcept;
	bool fits_client(const ip_address &its) const noexcept { return client_ip == its; }
};

} // namespace relay

#endif
