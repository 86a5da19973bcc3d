/* SPDX-License-Identifier: MIT */
/* Which sessions an action of the control server means. A session matches if every field that is
 * not empty matches. */
#ifndef RELAY_SESSION_FILTER_HPP
#define RELAY_SESSION_FILTER_HPP

#include "base/ip.hpp"

#include <cstdint>
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
	/* These are set by name_client(). */
	std::string client{};                  /* without brackets */
	std::optional<ip_address> client_ip{}; /* none: `client` is compared as it is */
	std::uint32_t client_scope = 0;        /* 0: any */

	/*
	 * Sets the client to an IP address without a port, with or without brackets and a scope, or
	 * to the address of a Unix socket; "unix:" means every client of a Unix socket without a
	 * path. A scope is the name or the number of an interface. An IP address is compared as a
	 * number, because it can be written in many ways. Returns false if the text is none of
	 * these.
	 */
	bool name_client(std::string_view text);

	/* These compare without allocating memory, because all sessions wait for them. */

	/* Whether a session with these, each as above, matches in all but the client. */
	bool fits(std::string_view its_listener, std::string_view its_group,
		  std::string_view its_backend, std::string_view its_endpoint) const noexcept;

	/* Whether the client at this address, with its port and without a scope, matches. */
	bool fits_client(std::string_view address) const noexcept;
	bool fits_client(const ip_address &its, std::uint32_t scope) const noexcept
	{
		return client_ip == its && (client_scope == 0 || client_scope == scope);
	}
};

} // namespace relay

#endif
