/* SPDX-License-Identifier: MIT */
/*
 * The limit of open descriptors, how many connections it has room for, and the standard ones.
 *
 * The soft limit is low by default for the sake of programs that call select(2). The relay does not
 * call it, and needs two descriptors for each connection, the client's and the backend's. If it
 * accepted connections for as long as there are descriptors, a burst could take all of them for
 * clients, and no client could then get a backend. So at its start the relay computes how many
 * connections fit, and admits no more (sessions.hpp).
 */
#ifndef RELAY_DESCRIPTORS_HPP
#define RELAY_DESCRIPTORS_HPP

#include <cstddef>
#include <system_error>

namespace relay
{

/* Whether the error means that the system is temporarily out of a resource. When connecting to an
 * endpoint, address_not_available means that no local port is free (names.hpp). */
bool is_shortage(const std::error_code &error) noexcept;

/* The same when a socket of UDP is connected. There resource_unavailable_try_again means that no
 * local port is free, and address_not_available that there is no address to send from, which is no
 * shortage. */
bool is_shortage_for_datagrams(const std::error_code &error) noexcept;

/*
 * Opens /dev/null in place of stdin, stdout and stderr if they are closed. Otherwise other
 * descriptors, such as a client's connection, would get these numbers, and messages would go there.
 */
void open_standard_descriptors() noexcept;

/* Raises the soft limit to the hard one. If that fails, the soft limit stays as it is. */
void raise_descriptor_limit() noexcept;

/*
 * How many connections, at two descriptors each, fit beside the descriptors that are open now, one
 * waiting client per listener, and a few for name lookups and the like. At least 1.
 */
std::size_t connections_that_fit(std::size_t listeners) noexcept;

/* The limit in effect, and the lowest one with which a single connection can be served beside the
 * descriptors that are open now. */
std::size_t descriptor_limit() noexcept;
std::size_t descriptors_needed() noexcept;

} // namespace relay

#endif
