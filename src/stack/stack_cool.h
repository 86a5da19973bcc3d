/* SPDX-License-Identifier: MIT */
/*
 * Cooling: the pages of free stacks that nobody has needed go back to the kernel.
 *
 * Contract. What the store (stack_store.h) has held for a second and nobody needed, which is the
 * fewest warm stacks that it held in that time, is cooled. So what a burst of tasks has touched is
 * given back one to two seconds after it, and what a steady load needs is kept. Cooling takes a
 * tenth of a CPU at most. A large stack is not waited for: it is cooled when it is freed (stack.c).
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

/* A second, the period of many a load that comes in bursts. */
#define SN_STACK_IDLE_NS 1000000000

/* Cools the free stacks of one slab that have been idle: false when there are none (left). Takes
 * 50 us for the 64 of a slab. */
bool sn_stacks_cool(int64_t now);

/* From which time on (ns, as of sn_now()) sn_stacks_cool() is worth calling; 0: not before a stack
 * is given to the store. */
int64_t sn_stacks_cool_due(int64_t now);

/* The monitor's chore: some of that, at its pace. */
void sn_stacks_cool_step(int64_t now, bool idle);

/* There is nothing to be cooled any more. */
void sn_stacks_cool_clear(void);

#endif
