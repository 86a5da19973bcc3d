/* SPDX-License-Identifier: MIT */
/*
 * What a thread does between tasks, and without one.
 */
#ifndef SENNIT_SCHED_IDLE_H
#define SENNIT_SCHED_IDLE_H

#include <stdint.h>

#include "sched/thread.h"

/* So many looks for nothing, each soon after the last, make a thread nap: idle.c. Debug builds nap
 * instead of every other sleep while others work. */
#if SENNIT_DEBUG
#	define SN_NAP_AFTER 2
#else
#	define SN_NAP_AFTER 3
#endif

/* sn_runtime.poll_until while no thread sleeps in the poller. */
#define SN_NOT_POLLING INT64_MIN

/* The task to run next, with a processor to run it on; NULL when the thread is to end. */
struct sn_task *sn_next_task(struct sn_thread *self);

/*
 * Waits in the parker for a processor. -ETIMEDOUT past the deadline (0: none); 0 otherwise, also
 * when the runtime ends.
 */
int sn_await_processor(struct sn_thread *self, int64_t deadline);

#endif
