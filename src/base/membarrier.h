/* SPDX-License-Identifier: MIT */
/*
 * A full barrier on all threads of the process, executed by one of them. It serves handshakes in
 * which both sides need a barrier and only the rare side should pay. sched/lease.h and sched/scan.h
 * rely on it.
 *
 * Contract. When sn_barrier_everywhere() has returned true, every thread has passed a full barrier
 * since it was called, by membarrier(PRIVATE_EXPEDITED). There are two substitutes:
 *   - Where membarrier is not used from the beginning (old kernels, seccomp, TSan, which does not
 *     know it, SENNIT_MEMBARRIER=0), the function executes only a fence of its own, and the other
 *     side must execute fences, too.
 *   - Where the kernel refuses it later, the caller visits every CPU, which takes longer.
 *
 * Who may write what:
 *   whether it is used   sn_membarrier_init(), before the first thread of a run starts, or before
 *                        the first run
 *   the last outcome     each thread that executes a barrier; it is only shown to users
 */
#ifndef SENNIT_BASE_MEMBARRIER_H
#define SENNIT_BASE_MEMBARRIER_H

#include <stdbool.h>

/* Chooses between membarrier and fences. Called when a run begins. */
void sn_membarrier_init(void);

/* If false, every thread must execute fences itself. */
bool sn_membarrier_used(void);

/* How the last sn_barrier_everywhere() has reached the other threads. */
enum sn_barrier_way {
	SN_BARRIER_MEMBARRIER,
	SN_BARRIER_FENCES,   /* not at all: every thread executes fences */
	SN_BARRIER_VISITS,   /* membarrier() was refused; the caller has visited every CPU */
	SN_BARRIER_NOT_EVEN, /* not at all: sched_setaffinity() is refused, too */
};

/* Makes the choice of sn_membarrier_init() first, if no run has made it. Any thread may call it. */
enum sn_barrier_way sn_barrier_way(void);

/* Executes the barrier. If it returns false, there was none, and the caller may conclude nothing;
 * the first time, a line on stderr says so. Any thread may call it. */
bool sn_barrier_everywhere(void);

#endif
