/* SPDX-License-Identifier: MIT */
/*
 * The waiting policy: spin briefly, then yield to the OS, then ask the caller to park.
 *
 *	SN_BACKOFF(b, SN_WAIT_LOCK, spin_ns, yield_ns);
 *	while (!condition)
 *		if (!sn_backoff_pause(&b))
 *			park on a futex until the condition may have changed;
 *
 * Nothing in the tree spins in any other way, so nothing spins without a bound. On a machine with
 * one usable CPU the spin budget is zero, because the thread that is waited for cannot be running.
 *
 * The wait lasts from the first pause to the end of the variable's scope, including any sleep in
 * between; the histogram of its site (site.h) then counts it. Without a pause there was no wait,
 * and nothing is counted. Declare the variable only where an immediate attempt has failed.
 *
 * Benchmarks can replace the policy by plain spinning, to compare the two. Waits for another thread
 * (SN_BACKOFF_FOR_THREADS) then spin until their condition holds, however long that takes, even on
 * one CPU. Waits for work or for a task are not affected, because the task may have to run on the
 * waiter's own processor. The setting is read in a wait's first pause, so code that does not wait
 * does not pay for it.
 */
#ifndef SENNIT_WAIT_BACKOFF_H
#define SENNIT_WAIT_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "wait/site.h"

struct sn_backoff {
	int64_t spin_ns, yield_ns;
	int64_t began;     /* 0 before the first pause */
	uint32_t pause_ns; /* length of the next pause, which doubles up to a limit */
	bool slept;        /* the budgets are used up */
	enum sn_wait_site site;
};

/* Declares a wait that is counted at the end of its scope. Budgets in ns. */
#define SN_BACKOFF(name, at, spin, yield)                                   \
	struct sn_backoff name __attribute__((cleanup(sn_backoff_end))) = { \
		.spin_ns = (spin), .yield_ns = (yield), .site = (at)}

/* Pauses once. Returns false when the budgets are used up and the caller should park. Preserves
 * errno. */
bool sn_backoff_pause(struct sn_backoff *backoff);

/* Returns the time since the first pause in ns, 0 if there was none yet; for callers that after a
 * while do something other than what the policy says. */
int64_t sn_backoff_waited(const struct sn_backoff *backoff);

/* The caller is about to sleep, and has waited since this time at the latest, with or without
 * pauses. */
static inline void sn_backoff_sleeps(struct sn_backoff *backoff, int64_t since)
{
	if (backoff->began == 0)
		backoff->began = since;
	backoff->slept = true;
}

#define SN_BACKOFF_FOR_THREADS                                           \
	(1u << SN_WAIT_LOCK | 1u << SN_WAIT_LEASE | 1u << SN_WAIT_SCAN | \
	 1u << SN_WAIT_SCAN_OWNER | 1u << SN_WAIT_ALARM)

/* For SENNIT_WAIT_SPIN: waits for threads that begin from now on spin without a bound. Any
 * thread. */
void sn_backoff_only_spin(bool only);

/* Counts the wait. */
void sn_backoff_record(const struct sn_backoff *backoff);

static inline void sn_backoff_end(const struct sn_backoff *backoff)
{
	if (sn_unlikely(backoff->began != 0))
		sn_backoff_record(backoff);
}

/* Returns how many CPUs this process may run on, at least 1, as of the last count. Any thread. */
int sn_usable_cpus(void);

/* Counts these CPUs again, and returns their number. */
int sn_count_cpus(void);

#endif
