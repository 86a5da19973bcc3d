/* SPDX-License-Identifier: MIT */
/*
 * The waiting policy: spin briefly, then yield to the OS, then be told to park.
 *
 *	struct sn_backoff b = SN_BACKOFF(spin_ns, yield_ns);
 *	while (!condition)
 *		if (!sn_backoff_pause(&b))
 *			park on a futex until the condition may have changed;
 *
 * Nothing in the tree spins in any other way, so nothing spins without a bound. On a machine with
 * one usable CPU the spin budget is nil: whoever we wait for cannot be running.
 */
#ifndef SENNIT_WAIT_BACKOFF_H
#define SENNIT_WAIT_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct sn_backoff {
	int64_t spin_ns, yield_ns;
	int64_t began;    /* 0 before the first pause */
	uint32_t relaxes; /* of the next pause: doubles up to a limit */
};

#define SN_BACKOFF(spin, yield) ((struct sn_backoff){.spin_ns = (spin), .yield_ns = (yield)})

/* Waits a moment. False when the budgets are used up and the caller should park. Keeps errno. */
bool sn_backoff_pause(struct sn_backoff *backoff);

/* CPUs that this process may run on, at least 1; as counted last. Any thread. */
int sn_usable_cpus(void);

/* Counts them anew. */
int sn_count_cpus(void);

#endif
