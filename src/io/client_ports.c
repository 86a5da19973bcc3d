/* SPDX-License-Identifier: MIT */
/*
 * The range is one word, so that the two ends always fit together. Any thread that finds it too old
 * reads the file. Several may do so at the same time, and then they store the same. `until` is
 * stored after the range (release), so a thread that finds it in the future (acquire) sees a range
 * that is at least as new.
 */
#include "io/client_ports.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <sennit/clock.h>

#define FRESH_NS 1000000000
#define ALL_PORTS UINT16_MAX

static _Atomic uint32_t range = ALL_PORTS; /* the first port in the upper half, and the last one */
static _Atomic int64_t until;              /* when the range is too old */

static uint32_t read_range(void)
{
	char text[32];
	int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	unsigned long first, last;
	char *rest;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return ALL_PORTS;
	text[n] = '\0';
	first = strtoul(text, &rest, 10);
	last = strtoul(rest, NULL, 10);
	return last == 0 || last > UINT16_MAX || first > last ? ALL_PORTS
							      : (uint32_t)(first << 16 | last);
}

bool sn_client_ports_include(uint16_t port)
{
	const int64_t now = sn_now();
	uint32_t ports;

	if (now >= atomic_load_explicit(&until, memory_order_acquire)) {
		atomic_store_explicit(&range, read_range(), memory_order_relaxed);
		atomic_store_explicit(&until, now + FRESH_NS, memory_order_release);
	}
	ports = atomic_load_explicit(&range, memory_order_relaxed);
	return port >= ports >> 16 && port <= (ports & UINT16_MAX);
}
