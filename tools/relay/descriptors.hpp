/* SPDX-License-Identifier: MIT */
/*
 * The limit of open descriptors, and how many connections it has room for.
 *
 * The soft limit is low by default for the sake of programs that call select(2); this one does not,
 * and needs two descriptors for each connection, the client's and the backend's. Were connections
 * accepted for as long as there are descriptors, a burst could take them all for clients, none of
 * which could then have a backend. So the relay reckons at its start how many connections fit, and
 * lets no more in (sessions.hpp).
 */
#ifndef RELAY_DESCRIPTORS_HPP
#define RELAY_DESCRIPTORS_HPP

#include <cstddef>
#include <system_error>

namespace relay
{

/* Whether the error says that the system has no more of something that it may have again. */
bool is_shortage(const std::error_code &error) noexcept;

/* Raises the soft limit to the hard one. When that fails, the relay runs with what it has. */
void raise_descriptor_limit() noexcept;

/*
 * How many connections, at two descriptors each, fit beside what is open now, one client that waits
 * at each of the doors, and a few for name lookups and the like. At least 1.
 */
std::size_t connections_that_fit(std::size_t doors) noexcept;

} // namespace relay

#endif
