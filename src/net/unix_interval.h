/* SPDX-License-Identifier: MIT */
/*
 * How often to try again what the kernel does not announce (unix_wait.h).
 *
 * The first interval is about the time of an accept. Doubling up to 10 ms finds room soon if it
 * comes soon. From there on each interval is a tenth longer, up to 100 ms after about a second, so
 * no caller waits more than 10 ms plus a tenth longer than necessary. The growth matters because
 * many tasks can wait for minutes for one listener that hangs: with a hundred system calls a second
 * each, 400 of them took a quarter of a processor.
 */
#ifndef SENNIT_NET_UNIX_INTERVAL_H
#define SENNIT_NET_UNIX_INTERVAL_H

#include <stdint.h>

#define SN_UNIX_FIRST_INTERVAL_NS 50000
#define SN_UNIX_DOUBLED_INTERVAL_NS 10000000
#define SN_UNIX_LAST_INTERVAL_NS 100000000

/* The interval after this one. */
static inline int64_t sn_unix_next_interval(int64_t interval)
{
	int64_t most = interval < SN_UNIX_DOUBLED_INTERVAL_NS ? SN_UNIX_DOUBLED_INTERVAL_NS
							      : SN_UNIX_LAST_INTERVAL_NS;

	interval += interval < SN_UNIX_DOUBLED_INTERVAL_NS ? interval : interval / 10;
	return interval < most ? interval : most;
}

#endif
