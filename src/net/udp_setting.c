/* SPDX-License-Identifier: MIT */
/*
 * Settings of UDP sockets, and multicast groups. An IPv6 socket that also serves IPv4 has the
 * settings of both. Any thread; nothing parks.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include "io/sys.h"
#include "names/address_value.h"
#include "net/sys_udp.h"
#include "net/udp.h"

/* From <linux/in6.h> and <linux/udp.h>, which conflict with the C library's headers. */
#ifndef IPV6_MULTICAST_ALL
#	define IPV6_MULTICAST_ALL 29
#endif
#ifndef SOL_UDP
#	define SOL_UDP 17
#endif
#ifndef UDP_GRO
#	define UDP_GRO 104
#endif

/* The kernel doubles the size that is set, for its own structures, and returns the doubled size.
 * With CAP_NET_ADMIN there is no limit. */
static int set_buffer(int fd, int forced, int option, int size)
{
	int err;

	if (size < 0)
		return -EINVAL;
	if (size > INT32_MAX / 2)
		size = INT32_MAX / 2;
	err = sn_sys_set_option(fd, SOL_SOCKET, forced, size);
	return err == -EPERM ? sn_sys_set_option(fd, SOL_SOCKET, option, size) : err;
}

static int set_receive_buffer(int fd, int size)
{
	return set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, size);
}

static int set_send_buffer(int fd, int size)
{
	return set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, size);
}

/* ---- before a socket is bound ---- */

struct option {
	unsigned flag; /* the option is set to 1 with any of these flags; 0: it is always set to
			* 0 */
	int family;    /* the family of the sockets that have it; 0: all */
	int level, option;
	bool optional; /* a system without the option does not need it */
};

static const struct option options[] = {
	{SN_UDP_REUSE_PORT, 0, SOL_SOCKET, SO_REUSEPORT, false},
	{SN_UDP_REUSE_ADDRESS, 0, SOL_SOCKET, SO_REUSEADDR, false},
	{SN_UDP_BROADCAST, 0, SOL_SOCKET, SO_BROADCAST, false},
	{SN_UDP_PACKET_INFO, AF_INET, IPPROTO_IP, IP_PKTINFO, false},
	{SN_UDP_PACKET_INFO, AF_INET6, IPPROTO_IPV6, IPV6_RECVPKTINFO, false},
	{SN_UDP_TOS, 0, IPPROTO_IP, IP_RECVTOS, false},
	{SN_UDP_TOS, AF_INET6, IPPROTO_IPV6, IPV6_RECVTCLASS, false},
	{SN_UDP_GRO, 0, SOL_UDP, UDP_GRO, false},
	{SN_UDP_ERRORS, 0, IPPROTO_IP, IP_RECVERR, false},
	{SN_UDP_ERRORS, AF_INET6, IPPROTO_IPV6, IPV6_RECVERR, false},
	/* Without these a socket receives what is sent to the groups that other sockets have
	 * joined. */
	{0, 0, IPPROTO_IP, IP_MULTICAST_ALL, true},
	{0, AF_INET6, IPPROTO_IPV6, IPV6_MULTICAST_ALL, true},
};

int sn_udp_prepare(int fd, int family, const struct sn_udp_options *wanted)
{
	int err = 0;

	/* Unlike the others this option has to be set or cleared, because the system's default may
	 * be either. It cannot be changed once the socket is bound, so adopted sockets keep
	 * theirs. */
	if (family == AF_INET6)
		sn_sys_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY,
				  (wanted->flags & SN_UDP_V6_ONLY) != 0);
	for (size_t i = 0; i < sizeof options / sizeof *options && err == 0; i++) {
		const struct option *each = &options[i];

		if (each->family && each->family != family)
			continue;
		if (each->flag && !(each->flag & wanted->flags))
			continue;
		err = sn_sys_set_option(fd, each->level, each->option, each->flag != 0);
		if (each->optional)
			err = 0;
	}
	if (err == 0 && wanted->receive_buffer)
		err = set_receive_buffer(fd, wanted->receive_buffer);
	if (err == 0 && wanted->send_buffer)
		err = set_send_buffer(fd, wanted->send_buffer);
	return err;
}

/* ---- settings ---- */

/* An option of IPv4 and its counterpart of IPv6. */
struct pair {
	int v4, v6;
	int least, most; /* the values that are allowed */
};

static const struct pair pairs[] = {
	[SN_UDP_TTL] = {IP_TTL, IPV6_UNICAST_HOPS, 1, 255},
	[SN_UDP_TYPE_OF_SERVICE] = {IP_TOS, IPV6_TCLASS, 0, 255},
	[SN_UDP_DONT_FRAGMENT] = {IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, 0, 1},
	[SN_UDP_MULTICAST_TTL] = {IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, 0, 255},
	[SN_UDP_MULTICAST_LOOP] = {IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP, 0, 1},
};

/* Whether the setting is a pair of options that are ints. */
static bool is_pair(enum sn_udp_setting setting)
{
	return (unsigned)setting < sizeof pairs / sizeof *pairs && pairs[setting].v4;
}

static bool takes_v4(const struct sn_udp_state *udp)
{
	return udp->family == AF_INET || !(udp->flags & SN_UDP_V6_ONLY);
}

/* Translates the value of SN_UDP_DONT_FRAGMENT: the kernel's values for "never fragment" and
 * "fragment" are not 1 and 0. */
static int to_kernel(enum sn_udp_setting setting, int value)
{
	if (setting != SN_UDP_DONT_FRAGMENT)
		return value;
	return value ? IP_PMTUDISC_DO : IP_PMTUDISC_DONT;
}
_Static_assert(IP_PMTUDISC_DO == IPV6_PMTUDISC_DO && IP_PMTUDISC_DONT == IPV6_PMTUDISC_DONT,
	       "one value serves both families");

static int set_pair(const struct sn_fd *d, enum sn_udp_setting setting, int value)
{
	const struct pair *pair = &pairs[setting];
	int err = 0;

	if (value < pair->least || value > pair->most)
		return -EINVAL;
	value = to_kernel(setting, value);
	if (sn_udp_state(d)->family == AF_INET6)
		err = sn_sys_set_option(d->fd, IPPROTO_IPV6, pair->v6, value);
	if (err == 0 && takes_v4(sn_udp_state(d)))
		err = sn_sys_set_option(d->fd, IPPROTO_IP, pair->v4, value);
	return err;
}

static int set_interface(const struct sn_fd *d, int index)
{
	const struct ip_mreqn v4 = {.imr_ifindex = index};
	int err = 0;

	if (index < 0)
		return -EINVAL;
	if (sn_udp_state(d)->family == AF_INET6)
		err = sn_sys_set_option(d->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, index);
	if (err == 0 && takes_v4(sn_udp_state(d)))
		err = sn_sys_set_value(d->fd, IPPROTO_IP, IP_MULTICAST_IF, &v4, sizeof v4);
	if (err == 0)
		atomic_store_explicit(&sn_udp_state(d)->group_interface, index,
				      memory_order_relaxed);
	return err;
}

static int set(const struct sn_fd *d, enum sn_udp_setting setting, int value)
{
	if (is_pair(setting))
		return set_pair(d, setting, value);
	switch (setting) {
	case SN_UDP_RECEIVE_BUFFER:
		return set_receive_buffer(d->fd, value);
	case SN_UDP_SEND_BUFFER:
		return set_send_buffer(d->fd, value);
	case SN_UDP_MULTICAST_INTERFACE:
		return set_interface(d, value);
	default:
		return -EINVAL;
	}
}

static int get(const struct sn_fd *d, enum sn_udp_setting setting)
{
	const bool v6 = sn_udp_state(d)->family == AF_INET6;
	const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	int value = 0, err;

	if (is_pair(setting)) {
		err = sn_sys_get_option(d->fd, level, v6 ? pairs[setting].v6 : pairs[setting].v4,
					&value);
		if (setting == SN_UDP_DONT_FRAGMENT)
			value = value == IP_PMTUDISC_DO;
		return err < 0 ? err : value;
	}
	switch (setting) {
	case SN_UDP_RECEIVE_BUFFER:
	case SN_UDP_SEND_BUFFER:
		err = sn_sys_get_option(d->fd, SOL_SOCKET,
					setting == SN_UDP_SEND_BUFFER ? SO_SNDBUF : SO_RCVBUF,
					&value);
		return err < 0 ? err : value / 2;
	case SN_UDP_MULTICAST_INTERFACE:
		if (!v6)
			return atomic_load_explicit(&sn_udp_state(d)->group_interface,
						    memory_order_relaxed);
		err = sn_sys_get_option(d->fd, level, IPV6_MULTICAST_IF, &value);
		return err < 0 ? err : value;
	case SN_UDP_MTU:
		err = sn_sys_get_option(d->fd, level, v6 ? IPV6_MTU : IP_MTU, &value);
		return err < 0 ? err : value;
	default:
		return -EINVAL;
	}
}

int sn_udp_set(sn_udp *udp, enum sn_udp_setting setting, int value)
{
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, udp);

	if (err < 0)
		return err;
	err = set(d, setting, value);
	sn_fd_unuse(d);
	return err;
}

int sn_udp_get(sn_udp *udp, enum sn_udp_setting setting)
{
	struct sn_fd *d;
	int n = sn_fd_use_handle(&d, udp);

	if (n < 0)
		return n;
	n = get(d, setting);
	sn_fd_unuse(d);
	return n;
}

/* ---- groups ---- */

static int change_group(sn_udp *udp, const struct sn_address *group, unsigned interface, int option)
{
	struct group_req request = {.gr_interface = interface};
	union sn_sockaddr at;
	struct sn_fd *d;
	int err = group && sn_address_is_some(group) ? sn_fd_use_handle(&d, udp) : -EINVAL;

	if (err < 0)
		return err;
	memcpy(&request.gr_group, &at, sn_address_to(&at, group, AF_UNSPEC));
	/* A socket of IPv6 can join groups of both families. */
	err = sn_sys_set_value(d->fd, group->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, option,
			       &request, sizeof request);
	sn_fd_unuse(d);
	return err;
}

int sn_udp_join(sn_udp *udp, const struct sn_address *group, unsigned interface)
{
	return change_group(udp, group, interface, MCAST_JOIN_GROUP);
}

int sn_udp_leave(sn_udp *udp, const struct sn_address *group, unsigned interface)
{
	return change_group(udp, group, interface, MCAST_LEAVE_GROUP);
}
