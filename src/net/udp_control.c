/* SPDX-License-Identifier: MIT */
/*
 * Translates between struct sn_udp_message and the control data of a system call: the local address
 * and the interface, the type of service, the size of segments. Any thread; nothing parks.
 *
 * An IPv6 socket reports the local address of an IPv4 datagram in IPv6's form, but its type of
 * service in IPv4's. When it sends, it takes them in the same forms.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#include "names/address_value.h"
#include "net/udp.h"

/* From <linux/udp.h>, which conflicts with the C library's header. The C library's may lack
 * these. */
#ifndef SOL_UDP
#	define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#	define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#	define UDP_GRO 104
#endif

/* ---- to send ---- */

/* Appends a record to the control data, which has room for everything that this file writes. */
static void put(struct msghdr *header, int level, int type, const void *data, size_t size)
{
	unsigned char *at = (unsigned char *)header->msg_control + header->msg_controllen;
	struct cmsghdr *record = (struct cmsghdr *)(void *)at;

	record->cmsg_level = level;
	record->cmsg_type = type;
	record->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(record), data, size);
	header->msg_controllen += CMSG_SPACE(size);
}
_Static_assert(CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
			       CMSG_SPACE(sizeof(uint16_t)) <=
		       SN_UDP_CONTROL_SIZE,
	       "all that is written fits");

/* The address from which a message is sent that has this one: itself, except that a group and the
 * broadcast of all networks are no sources, so that the system chooses one of the same family. */
static struct sn_address source_of(const struct sn_address *local)
{
	static const unsigned char all[4] = {255, 255, 255, 255};
	struct sn_address source = *local;

	if ((local->family == AF_INET &&
	     (local->bytes[0] >> 4 == 14 || memcmp(local->bytes, all, sizeof all) == 0)) ||
	    (local->family == AF_INET6 && local->bytes[0] == 255)) {
		memset(source.bytes, 0, sizeof source.bytes);
		source.scope = 0;
	}
	return source;
}

static int put_local(struct msghdr *header, const struct sn_udp_message *message, int family)
{
	struct in6_pktinfo v6 = {.ipi6_ifindex = message->interface};
	struct in_pktinfo v4 = {.ipi_ifindex = (int)message->interface};
	const struct sn_address source = source_of(&message->local);
	union sn_sockaddr local;
	const socklen_t length = sn_address_to(&local, &source, family);

	if (family == AF_INET) {
		if (message->local.family == AF_INET6)
			return -EINVAL;
		if (length)
			v4.ipi_spec_dst = local.v4.sin_addr;
		put(header, IPPROTO_IP, IP_PKTINFO, &v4, sizeof v4);
		return 0;
	}
	if (length)
		v6.ipi6_addr = local.v6.sin6_addr;
	put(header, IPPROTO_IPV6, IPV6_PKTINFO, &v6, sizeof v6);
	return 0;
}

int sn_udp_put_control(struct msghdr *header, struct sn_udp_control *control,
		       const struct sn_udp_message *message, int family)
{
	const int tos = message->tos;
	int err = 0;

	header->msg_control = control;
	header->msg_controllen = 0;
	/* Zeroed, because the padding between records would pass bytes of the program's stack to
	 * the kernel. */
	memset(control, 0, sizeof *control);
	if (message->interface || message->local.family)
		err = put_local(header, message, family);
	/* Sets the option of both protocols, because which one is used may depend on the socket's
	 * peer. Each protocol skips the other's record. */
	if (message->flags & SN_UDP_HAS_TOS)
		put(header, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
	if ((message->flags & SN_UDP_HAS_TOS) && family == AF_INET6)
		put(header, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
	if (message->segment)
		put(header, SOL_UDP, UDP_SEGMENT, &message->segment, sizeof message->segment);
	if (header->msg_controllen == 0)
		header->msg_control = NULL;
	return err;
}

/* ---- received ---- */

/* Copies a record's data. Returns false if the kernel has cut the data off, because there was no
 * room for all that the program has asked for. */
static bool get(const struct cmsghdr *record, void *data, size_t size)
{
	if (record->cmsg_len < CMSG_LEN(size))
		return false;
	memcpy(data, CMSG_DATA(record), size);
	return true;
}

static void get_v4(const struct cmsghdr *record, struct sn_udp_message *message)
{
	struct in_pktinfo info;

	if (record->cmsg_type == IP_PKTINFO && get(record, &info, sizeof info)) {
		message->interface = (unsigned)info.ipi_ifindex;
		message->local.family = AF_INET;
		memcpy(message->local.bytes, &info.ipi_addr, sizeof info.ipi_addr);
	} else if (record->cmsg_type == IP_TOS && get(record, &message->tos, sizeof message->tos)) {
		message->flags |= SN_UDP_HAS_TOS;
	}
}

static void get_v6(const struct cmsghdr *record, struct sn_udp_message *message)
{
	struct in6_pktinfo info;
	int class;

	if (record->cmsg_type == IPV6_PKTINFO && get(record, &info, sizeof info)) {
		message->interface = info.ipi6_ifindex;
		if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
			message->local.scope = info.ipi6_ifindex;
		sn_address_of_v6(&message->local, &info.ipi6_addr);
	} else if (record->cmsg_type == IPV6_TCLASS && get(record, &class, sizeof class)) {
		message->tos = (uint8_t) class;
		message->flags |= SN_UDP_HAS_TOS;
	}
}

void sn_udp_get_control(struct msghdr *header, struct sn_udp_message *message)
{
	struct cmsghdr *record;
	int segment;

	for (record = CMSG_FIRSTHDR(header); record; record = CMSG_NXTHDR(header, record)) {
		if (record->cmsg_level == IPPROTO_IP) {
			get_v4(record, message);
		} else if (record->cmsg_level == IPPROTO_IPV6) {
			get_v6(record, message);
		} else if (record->cmsg_level == SOL_UDP && record->cmsg_type == UDP_GRO &&
			   get(record, &segment, sizeof segment)) {
			message->segment = (uint16_t)segment;
		}
	}
}
