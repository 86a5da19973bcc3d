/* SPDX-License-Identifier: MIT */
/*
 * Checks the syntax of an address without looking anything up, so that a mistake on the command
 * line is reported before anything is opened, and is distinguished from a name that does not
 * resolve.
 */
#ifndef RELAY_ADDRESS_HPP
#define RELAY_ADDRESS_HPP

#include <optional>
#include <string>
#include <string_view>

namespace relay
{

enum class address_use {
	listen, /* no host means every address, port 0 any free one */
	connect,
};

/* Whether it is the address of a Unix socket: "unix:/path", "unix:./path" or "unix:@name". Anything
 * else that begins with "unix:" is a host of that name. */
bool is_unix(std::string_view address) noexcept;

/* Whether a listener at this address gets another one each time: port 0, or "unix:@". */
bool is_any(std::string_view address) noexcept;

/*
 * Whether a connection to this backend certainly comes back to a listener at that address: they are
 * the same, or the listener has every address and the backend is this machine. Names other than
 * localhost are not looked up.
 */
bool leads_back(std::string_view backend, std::string_view listener) noexcept;

/* Nothing if the address is well formed; otherwise what is wrong, and what is expected. */
std::optional<std::string> address_problem(std::string_view address, address_use use);

} // namespace relay

#endif
