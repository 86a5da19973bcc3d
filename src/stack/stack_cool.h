/* SPDX-License-Identifier: MIT */
/*
 * Cooling: the pages of free stacks that nobody has needed go back to the kernel.
 *
 * Contract. Once a second the monitor determines how many stacks nobody has needed: the fewest warm
 * stacks that the store (stack_store.h) held during that second. It cools that many. The pages that
 * a burst of tasks has touched therefore go back one to two seconds after the burst, and a steady
 * load keeps its stacks. Cooling takes a tenth of a CPU at most. A large stack is cooled as soon as
 * it is freed (stack.c).
 *
 * Only the monitor calls these functions, except sn_stacks_cool_clear().
 *
 * Who may write what: all state is the monitor's; sn_stacks_cool_clear() clears it under
 * sn_stack_lock, at the end of a run, when there is no monitor.
 *
 * Rejected: cooling as soon as a processor's cache is full, which took 40 % of the time of a
 * million tasks that sleep, under a lock.
 */
#ifndef SENNIT_STACK_STACK_COOL_H
#define SENNIT_STACK_STACK_COOL_H

#include <stdbool.h>
#include <stdint.h>

/* A second, because many loads come in bursts of that period. */
#define SN_STACK_IDLE_NS 1000000000

/* Cools the idle stacks of one slab. Returns false if none are left, or if it is not due. Takes 50
 * us for the 64 of a slab. */
bool sn_stacks_cool(int64_t now);

/* The time (ns, as of sn_now()) from which sn_stacks_cool() is worth calling; 0 if it is not before
 * a stack is given to the store. */
int64_t sn_stacks_cool_due(int64_t now);

/* A chore of the monitor: cools slabs for a bounded time, and does nothing if it did so
 * recently. */
void sn_stacks_cool_step(int64_t now, bool idle);

/* Called when the store has been emptied: no stack is left to be cooled. */
void sn_stacks_cool_clear(void);

#endif
