/* SPDX-License-Identifier: MIT */
/*
 * What the network reports about the datagrams of a socket for one peer (ICMP), while the socket
 * keeps such errors (SN_UDP_ERRORS). Any thread; nothing parks.
 */
#ifndef RELAY_UDP_REPORTS_HPP
#define RELAY_UDP_REPORTS_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

namespace relay
{

/* Makes the socket keep errors, or keep no more: then the system discards those that it has, and
 * returns only those that it takes for final. is_v6: of the socket. */
void keep_reports(int fd, bool is_v6, bool keeps) noexcept;

/*
 * Removes reports, but no more than a task should look at in a flood of them. Returns the error of
 * the first one that is final; 0: there is none. is_any: whether there was a report. Not final is
 * what concerns one datagram alone: that it is too large for the next link, or that some of its
 * fragments were lost.
 */
int take_reports(sn_udp *from, bool &is_any) noexcept;

} // namespace relay

#endif
