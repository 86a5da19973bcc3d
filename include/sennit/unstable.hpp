/* SPDX-License-Identifier: MIT */
/*
 * The C++ form of unstable.h, just as unstable: tuning that sennit-relay needs. What is here may
 * change or disappear in any version. sennit.hpp does not include it.
 *
 * The call parks, as tcp::connect() does. The caller owns the connection that it returns. All
 * errors are results.
 *
 * Threads outside the runtime and signal handlers: none.
 */
#ifndef SENNIT_UNSTABLE_HPP
#define SENNIT_UNSTABLE_HPP

#include <sennit/net.hpp>
#include <sennit/unstable.h>

#include <string>

namespace sennit::unstable
{

/* tcp::connect() for a caller that writes immediately: sn_tcp_connect_to_write(). May park. */
inline result<tcp> connect_to_write(const std::string &address, time_limit until = no_deadline)
{
	if (!detail::lacks_zeros(address))
		return unexpected(detail::zero_inside);
	return detail::made<tcp>([&](sn_tcp **conn) {
		return sn_tcp_connect_to_write(conn, address.c_str(), detail::to_ns(until));
	});
}

} // namespace sennit::unstable

#endif
