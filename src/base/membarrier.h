/* SPDX-License-Identifier: MIT */
/*
 * A full barrier on all threads of the process, executed by one of them: what both sides of a
 * handshake need where only one should pay. sched/lease.h and sched/scan.h rely on it.
 *
 * Contract. When sn_barrier_everywhere() has returned true, every thread has passed a full barrier
 * since it was called. membarrier(PRIVATE_EXPEDITED) does that. Where it is not used from the
 * beginning (old kernels, seccomp, TSan, which does not know it, SENNIT_MEMBARRIER=0), the other
 * side has to execute fences. Where it is refused later, the caller visits every CPU, which takes
 * longer.
 *
 * Who may write what:
 *   whether it is used   sn_membarrier_init(), before the first thread of a run starts, or before
 *                        the first run
 *   what replaces it     the threads that are refused; they find the same
 */
#ifndef SENNIT_BASE_MEMBARRIER_H
#define SENNIT_BASE_MEMBARRIER_H

#include <stdbool.h>

/* Chooses between membarrier and fences. Idempotent. */
void sn_membarrier_init(void);

/* False: every thread executes fences. */
bool sn_membarrier_used(void);

/* How sn_barrier_everywhere() is had now, or what stands in for it. */
enum sn_barrier_way {
	SN_BARRIER_MEMBARRIER,
	SN_BARRIER_FENCES,   /* not at all: every thread executes fences */
	SN_BARRIER_VISITS,   /* membarrier() is refused now; the caller visits every CPU */
	SN_BARRIER_NOT_EVEN, /* sched_setaffinity() is refused, too */
};

/* Chooses if no run has done so. Any thread. */
enum sn_barrier_way sn_barrier_way(void);

/* False: it could not be had, so nothing may be concluded; a line on stderr has said so, once. Any
 * thread. */
bool sn_barrier_everywhere(void);

#endif
