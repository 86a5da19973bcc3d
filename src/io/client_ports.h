/* SPDX-License-Identifier: MIT */
/*
 * The ports from which the kernel chooses one for a socket that connects
 * (net.ipv4.ip_local_port_range, for IPv6 too).
 *
 * A socket can only be connected to itself if it connects to one of them, so that a connection to
 * any other port needs no system call to find that out. Servers usually listen at other ports,
 * because one of these may be taken by a client when they start.
 */
#ifndef SENNIT_IO_CLIENT_PORTS_H
#define SENNIT_IO_CLIENT_PORTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the kernel may choose the port (in host order). A change of the range is noticed within a
 * second: a task that calls this then reads the file, which takes some microseconds and does not
 * wait. True for all ports if the range cannot be read. Does not know about ports that a BPF
 * program binds sockets to when they connect.
 */
bool sn_client_ports_include(uint16_t port);

#endif
