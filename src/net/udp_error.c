/* SPDX-License-Identifier: MIT */
/*
 * The error queue (IP_RECVERR), in which the kernel keeps what the network has reported about
 * earlier datagrams. Any thread; nothing parks.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h> /* needs <time.h> */

#include "names/address_value.h"
#include "net/sys_udp.h"
#include "net/udp.h"

_Static_assert(SN_UDP_FROM_LOCAL == SO_EE_ORIGIN_LOCAL && SN_UDP_FROM_ICMP == SO_EE_ORIGIN_ICMP &&
		       SN_UDP_FROM_ICMP6 == SO_EE_ORIGIN_ICMP6,
	       "the kernel's origins are ours");

/* Reads a record. Returns false if it is not the report of an error: the queue also has time stamps
 * and the like. */
static bool read_report(struct sn_udp_error *error, const struct cmsghdr *record)
{
	struct {
		struct sock_extended_err report;
		union sn_sockaddr reporter;
	} data = {0};
	const size_t size = record->cmsg_len - CMSG_LEN(0);

	if (!(record->cmsg_level == IPPROTO_IP && record->cmsg_type == IP_RECVERR) &&
	    !(record->cmsg_level == IPPROTO_IPV6 && record->cmsg_type == IPV6_RECVERR))
		return false;
	memcpy(&data, CMSG_DATA(record), size < sizeof data ? size : sizeof data);
	if (data.report.ee_origin < SN_UDP_FROM_LOCAL || data.report.ee_origin > SN_UDP_FROM_ICMP6)
		return false;
	error->error = (int)data.report.ee_errno;
	error->from = (enum sn_udp_reporter)data.report.ee_origin;
	error->type = data.report.ee_type;
	error->code = data.report.ee_code;
	error->mtu = data.report.ee_errno == EMSGSIZE ? data.report.ee_info : 0;
	sn_address_from(&error->reporter, &data.reporter);
	return true;
}

/* Takes a record from the error queue. Returns 1, 0 if it is of a kind that is not reported, or an
 * error. */
static int take(struct sn_fd *d, struct sn_udp_error *error)
{
	struct sn_udp_control control;
	union sn_sockaddr peer = {.any = {.sa_family = AF_UNSPEC}};
	char byte; /* of the datagram, because some emulators do not make the call without a
		    * buffer */
	struct iovec part = {.iov_base = &byte, .iov_len = sizeof byte};
	struct msghdr header = {.msg_name = &peer,
				.msg_namelen = sizeof peer,
				.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof control};
	ssize_t n;

	memset(error, 0, sizeof *error);
	n = sn_sys_recv_error(d->fd, &header);
	if (n < 0)
		return (int)n;
	if (!(header.msg_flags & MSG_ERRQUEUE)) /* not from the queue, so trying again may take
						 * datagrams */
		return -EAGAIN;
	sn_address_from(&error->peer, &peer);
	for (struct cmsghdr *record = CMSG_FIRSTHDR(&header); record;
	     record = CMSG_NXTHDR(&header, record))
		if (read_report(error, record))
			return 1;
	return 0;
}

int sn_udp_next_error(sn_udp *udp, struct sn_udp_error *error)
{
	struct sn_fd *d;
	int n = error ? sn_fd_use_handle(&d, udp) : -EINVAL;

	if (n < 0)
		return n;
	do {
		n = take(d, error);
	} while (n == 0);
	sn_fd_unuse(d);
	return n == -EAGAIN ? 0 : n;
}
