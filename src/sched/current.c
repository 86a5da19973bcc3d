/* SPDX-License-Identifier: MIT */
/*
 * The calling thread's block: NULL on a thread that the runtime does not know.
 *
 * Contract. <sennit/blocking.h> reads it inline; thread.h has the accessor for the runtime.
 *
 * Who may write what:
 *   sn_private_current   the thread itself: at its beginning and its end, around the callback of a
 *                        scan (scan_serve.h), and in the child of fork()
 */
#include "sched/thread.h"

/* "used", because link-time optimisation does not see the name in sn_private_self()'s assembly. */
__thread struct sn_private_lease *sn_private_current
	__attribute__((tls_model("initial-exec"), used));

sn_noinline struct sn_private_lease *sn_private_current_slow(void)
{
	struct sn_private_lease *lease = sn_private_current;

	/* Keeps the compiler from assuming that two calls return the same value. */
	__asm__ volatile("" : "+r"(lease) : : "memory");
	return lease;
}
