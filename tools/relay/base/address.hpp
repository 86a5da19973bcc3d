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
	serve,  /* like listen, or the address of a UDP listener */
	connect,
	backend, /* like connect, or the name of a service */
};

/* Whether it is the address of a Unix socket: "unix:/path", "unix:./path" or "unix:@name". Anything
 * else that begins with "unix:" is a host of that name. */
bool is_unix(std::string_view address) noexcept;

/* Whether it is the address of a UDP listener: "udp:127.0.0.1:53", "udp:[::1]:53" or "udp::53". The
 * second colon distinguishes it from a port of a host called udp. */
bool is_udp(std::string_view address) noexcept;

/* The address without that prefix; any other address unchanged. */
std::string_view without_udp(std::string_view address) noexcept;

/*
 * Whether it is the name of a service, which is found by its SRV records: "srv:_http._tcp.example".
 * Its labels distinguish it from a host called srv, because no port has an underscore or a dot.
 */
bool is_srv(std::string_view address) noexcept;

/* The name of the service, without "srv:". */
std::string_view srv_name(std::string_view address) noexcept;

/* Whether the system chooses a different address for each listener with this one: port 0, or
 * "unix:@". */
bool is_any(std::string_view address) noexcept;

/*
 * Whether a connection to this backend comes back to a listener at that address: they are the same,
 * the listener has every address and the backend is this machine, or the backend is localhost and
 * the listener has one of its two addresses. Other names are not looked up. A listener of UDP sends
 * datagrams to its backends.
 */
bool leads_back(std::string_view backend, std::string_view listener) noexcept;

/* Returns nothing if the address is well formed; otherwise what is wrong, and what is expected. */
std::optional<std::string> address_problem(std::string_view address, address_use use);

} // namespace relay

#endif
