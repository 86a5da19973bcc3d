/* SPDX-License-Identifier: MIT */
/*
 * What a thread does between tasks, and where it sleeps when there are none.
 *
 * Contract. Each thread calls these functions for itself, from the scheduler's loop and without any
 * lock. A thread that has released its processor looks for queued tasks once more, and becomes the
 * poller if there is none. No task therefore stays queued beside idle processors (wake.c), and none
 * of these stays idle while no thread polls (idle.c).
 *
 * Who may write what: polling, poll_until and nap, see runtime.h; in struct sn_thread nothing_at,
 * fruitless, asked_at, others_polled and others_poll, the thread itself.
 */
#ifndef SENNIT_SCHED_IDLE_H
#define SENNIT_SCHED_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/thread.h"

/* A thread naps after so many fruitless looks, each soon after the one before (idle.c). In debug
 * builds, every other sleep while other threads work is a nap. */
#if SENNIT_DEBUG
#	define SN_NAP_AFTER 2
#else
#	define SN_NAP_AFTER 3
#endif

/* The value of sn_runtime.poll_until while no thread sleeps in the poller. */
#define SN_NOT_POLLING INT64_MIN

/* Returns the task to run next, and a processor for it in self->processor. Returns NULL if the
 * thread is to end. */
struct sn_task *sn_next_task(struct sn_thread *self);

/* Sleeps until the thread has a processor: one that another thread hands over, or one for a task
 * that is tied to this thread. Returns false if the thread is to end. */
bool sn_sleep_without_processor(struct sn_thread *self);

#endif
