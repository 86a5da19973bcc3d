/* SPDX-License-Identifier: MIT */
#include "base/udp_reports.hpp"

#include <cerrno>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

namespace relay
{
namespace
{

/* The most reports that are removed at a time. If more have come, the next call returns one. */
constexpr int reports_at_once = 32;

/* Whether a report is about one datagram alone, and says nothing about those that follow. */
bool is_about_one(const sn_udp_error &report) noexcept
{
	/* The time for putting fragments together has run out. Linux returns the same error as for
	 * an unreachable host, and newer versions do so only for ICMPv6: they drop the other
	 * report. */
	const bool is_of_fragments =
		(report.from == SN_UDP_FROM_ICMP && report.type == ICMP_TIME_EXCEEDED &&
		 report.code == ICMP_EXC_FRAGTIME) ||
		(report.from == SN_UDP_FROM_ICMP6 && report.type == ICMP6_TIME_EXCEEDED &&
		 report.code == ICMP6_TIME_EXCEED_REASSEMBLY);
	return is_of_fragments || report.error == EMSGSIZE;
}

} // namespace

void keep_reports(int fd, bool is_v6, bool keeps) noexcept
{
	const int on = keeps;
	setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
	if (is_v6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
}

int take_reports(sn_udp *from, bool &is_any) noexcept
{
	int error = 0;
	is_any = false;
	sn_udp_error report;
	for (int i = 0; i < reports_at_once; i++) {
		if (sn_udp_next_error(from, &report) != 1)
			break;
		is_any = true;
		if (error == 0 && !is_about_one(report))
			error = report.error;
	}
	return error;
}

} // namespace relay
