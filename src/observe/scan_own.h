/* SPDX-License-Identifier: MIT */
/*
 * The scanner's half of the protocol in sched/scan.h: owning a stack, and giving it back.
 * sched/scan.c has the half of the threads that run tasks. sched/scan.h has the contract, and says
 * who may write what.
 */
#ifndef SENNIT_OBSERVE_SCAN_OWN_H
#define SENNIT_OBSERVE_SCAN_OWN_H

#include <stdint.h>

struct sn_block_slab;
struct sn_task;

/*
 * Takes HELD, and `bits`, which is BRIEF or 0. Returns 0 if the caller owns the stack until
 * sn_scan_release(); -EBUSY if it has another owner; -EAGAIN if a thread runs the task; -ESRCH if
 * there is no task any more; -ENOSYS if sn_barrier_everywhere() has failed, so that this cannot be
 * known.
 */
int sn_scan_own(struct sn_task *task, uint32_t bits);

/*
 * For the runtime's own walks over all tasks: takes HELD (and BRIEF) on those of the blocks that
 * have a parked or runnable task, with one barrier for all of them. `blocks` and the result have a
 * bit for each block of the slab. The caller owns the stacks in the result, and must give each back
 * by sn_scan_release().
 */
uint64_t sn_scan_hold_slab(struct sn_block_slab *slab, uint64_t blocks);

/* Gives the stack back, and queues the task if a runner has left it to the owner. */
void sn_scan_release(struct sn_task *task);

#endif
