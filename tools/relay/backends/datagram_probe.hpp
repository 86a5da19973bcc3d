/* SPDX-License-Identifier: MIT */
/*
 * A check by datagrams: sends the check's text from a socket that is connected to the address, and
 * is good if a datagram that is as expected comes back by the deadline.
 *
 * Datagrams get lost, so the text is sent again after each quarter of the timeout in which nothing
 * has come. The first datagram that comes decides; what another address sends does not arrive at a
 * connected socket. A report of the network, such as a refused port or an unreachable host, ends
 * the check immediately, as it does for a check by TCP; not if it concerns one question alone, as
 * when its fragments were lost. A question that this machine drops, because a queue is full or by a
 * rule, is lost like any other. A lack of memory is an error of its own (is_shortage()).
 */
#ifndef RELAY_DATAGRAM_PROBE_HPP
#define RELAY_DATAGRAM_PROBE_HPP

#include "config/config.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <string>
#include <system_error>

namespace relay
{

/* header: what each datagram begins with. Returns no error if the answer is good. Throws
 * std::bad_alloc. May park. */
std::error_code probe_by_datagrams(const std::string &to, const check_config &how,
				   const std::string &header, sn::deadline until);

} // namespace relay

#endif
