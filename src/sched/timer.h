/* SPDX-License-Identifier: MIT */
/*
 * One-shot timers: a 4-ary heap for each processor, with a lock of its own, so that idle threads
 * can serve the timers of a processor that is busy or without a thread.
 *
 * A timer's memory is the caller's (usually on the stack of the task that waits), and must stay
 * valid until the timer has fired or sn_timer_stop() has returned. fire runs with the heap's lock
 * held, so it must not touch timers. It returns the task to make runnable, if any. From then on the
 * timer is not touched, because that task may free it at once. After sn_timer_stop() has returned,
 * fire neither runs nor will run.
 *
 * heap, when, index: under the heap's lock. The heap's earliest time is also read without it.
 */
#ifndef SENNIT_SCHED_TIMER_H
#define SENNIT_SCHED_TIMER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/runqueue.h"
#include "wait/lock.h"

struct sn_task;
struct sn_thread;
struct sn_timer;

/*
 * What is to be done when the heap's lock has been released, where it is more than making one task
 * runnable. It must not park. Its memory must last until run is called, so code that stops the
 * timer has to know that it had fired.
 */
struct sn_deferred {
	struct sn_deferred *next;
	void (*run)(struct sn_thread *self, struct sn_deferred *deferred);
};

/* What fire may ask for besides the task that it returns. */
struct sn_fired {
	int64_t again;             /* not 0: a later time at which it is to fire once more */
	struct sn_deferred *later; /* not NULL: to run without the lock */
};

typedef struct sn_task *sn_timer_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired);

#define SN_TIMER_NEVER INT64_MAX

struct sn_timer {
	struct sn_timers *_Atomic heap; /* the heap it is in, NULL when inactive */
	uint32_t index;
	int64_t when;
	sn_timer_fire *fire;
};

struct sn_timer_entry {
	int64_t when; /* a copy: sifting does not touch the timers' cache lines to compare */
	struct sn_timer *timer;
};

struct sn_timers {
	struct sn_lock lock;
	uint32_t count, capacity;
	struct sn_timer_entry *entries;
	_Atomic int64_t earliest; /* SN_TIMER_NEVER when empty */
};

void sn_timers_init(struct sn_timers *timers);
void sn_timers_destroy(struct sn_timers *timers);

/*
 * Starts an inactive timer in the heap of the calling thread's processor. Returns 0 or -ENOMEM.
 * Only one thread at a time may start, advance or move a given timer. self: NULL on a thread of the
 * program's own, between sn_foreign_enter() and sn_foreign_leave(). The timer then goes into the
 * first processor's heap, because that processor never retires.
 */
int sn_timer_start(struct sn_thread *self, struct sn_timer *timer, int64_t when);

/* Starts an inactive timer, or moves an active one to an earlier time; never to a later one. */
int sn_timer_advance(struct sn_thread *self, struct sn_timer *timer, int64_t when);

/*
 * Moves an active timer to another time, earlier or later. Needs no memory. False, and nothing is
 * done, when the timer is not active: it has fired, or was never started.
 */
bool sn_timer_move(struct sn_timer *timer, int64_t when);

/* True when the timer was active and now never fires; false when it had fired or was never
 * started. */
bool sn_timer_stop(struct sn_timer *timer);

/*
 * Moves all timers of a processor that no thread has to another processor's heap. Other threads may
 * run, stop or advance timers of both meanwhile, but must not start any in the first. False: there
 * was no memory, and the rest stays where it was.
 */
bool sn_timers_move(struct sn_timers *from, struct sn_timers *to);

/* What timers that have fired leave to their caller, which holds no lock: tasks to make runnable,
 * and then functions to run, by next. */
struct sn_due {
	struct sn_queue ready;
	struct sn_deferred *later;
};

/* Fires the timers that are due. Returns how many fired. */
uint32_t sn_timers_run(struct sn_timers *timers, int64_t now, struct sn_due *due);

static inline int64_t sn_timers_earliest(struct sn_timers *timers)
{
	/* Sequentially consistent: one half of the handshake with the poller, see idle.c. */
	return atomic_load(&timers->earliest);
}

#endif
