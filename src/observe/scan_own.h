/* SPDX-License-Identifier: MIT */
/*
 * The scanner's half of the protocol in sched/scan.h: owning a stack, and giving it up.
 * sched/scan.c there has the half of the threads that run tasks.
 */
#ifndef SENNIT_OBSERVE_SCAN_OWN_H
#define SENNIT_OBSERVE_SCAN_OWN_H

#include <stdint.h>

struct sn_block_slab;
struct sn_task;

/*
 * Takes HELD, and bits: BRIEF or 0. 0: the stack is the caller's until sn_scan_release(). -EBUSY:
 * another owner's. -EAGAIN: a thread's. -ESRCH: there is no task any more. -ENOSYS: it cannot be
 * known, see sn_barrier_everywhere().
 */
int sn_scan_own(struct sn_task *task, uint32_t bits);

/*
 * For the runtime's own walks over all tasks: takes HELD (and BRIEF) on those of a slab's blocks
 * that have a parked or runnable task, with one barrier for all. Returns which are owned; each must
 * be given back by sn_scan_release().
 */
uint64_t sn_scan_hold_slab(struct sn_block_slab *slab, uint64_t blocks);

/* Gives the stack back, and queues the task if a runner has left it to the owner. */
void sn_scan_release(struct sn_task *task);

#endif
