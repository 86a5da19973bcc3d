/* SPDX-License-Identifier: MIT */
/*
 * What a thread does between tasks, and without one.
 */
#ifndef SENNIT_SCHED_IDLE_H
#define SENNIT_SCHED_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/thread.h"

/* After so many fruitless looks, each soon after the last, a thread naps: idle.c. In debug builds,
 * every other sleep while other threads work is a nap. */
#if SENNIT_DEBUG
#	define SN_NAP_AFTER 2
#else
#	define SN_NAP_AFTER 3
#endif

/* sn_runtime.poll_until while no thread sleeps in the poller. */
#define SN_NOT_POLLING INT64_MIN

/* The task to run next, with a processor to run it on; NULL when the thread is to end. */
struct sn_task *sn_next_task(struct sn_thread *self);

/* Sleeps until another thread hands over a processor, or there is one for a task that is tied to
 * this thread. Returns false when the thread is to end. */
bool sn_sleep_without_processor(struct sn_thread *self);

#endif
