/* SPDX-License-Identifier: MIT */
/*
 * The calling thread's block: NULL on a thread that the runtime does not know.
 *
 * Contract. <sennit/blocking.h> reads it inline; thread.h has the accessor for the runtime.
 *
 * Who may write what:
 *   sn__current   the thread itself: at its beginning and its end, around the callback of a scan
 *                 (scan_serve.h), and in the child of fork()
 */
#include "sched/thread.h"

/* "used", because link-time optimisation does not see the name in sn__self()'s assembly. */
__thread struct sn__lease *sn__current __attribute__((tls_model("initial-exec"), used));

sn_noinline struct sn__lease *sn__current_slow(void)
{
	struct sn__lease *lease = sn__current;

	/* Not even this function's own result may be taken for constant. */
	__asm__ volatile("" : "+r"(lease) : : "memory");
	return lease;
}
