/* SPDX-License-Identifier: MIT */
/*
 * One-shot timers: a 4-ary heap for each processor, with a lock of its own, so that idle threads
 * can serve the timers of a processor that is busy or without a thread.
 *
 * Contract. A timer's memory is the caller's (usually on the stack of the task that waits), and
 * must stay valid until the timer has fired or sn_timer_stop() has returned. fire() runs with the
 * heap's lock held, so it must not touch timers. It returns the task to make runnable, if any. When
 * that task has been made runnable, the timer is not touched any more, because the task may free
 * it. After sn_timer_stop() has returned, fire() neither runs nor will run.
 *
 * Who may write what:
 *   a timer's heap, when, index   any thread, under the heap's lock; heap is also read without it
 *   a heap                        any thread, under its lock; earliest is also read without it
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
 * A function to call after the heap's lock has been released, for timers that have to do more than
 * make one task runnable. It must not park. Its memory must last until run is called, so code that
 * stops the timer has to check whether it had fired.
 */
struct sn_deferred {
	struct sn_deferred *next;
	void (*run)(struct sn_thread *self, struct sn_deferred *deferred);
};

/* What fire() may request besides returning a task. */
struct sn_fired {
	int64_t again;             /* if not 0, a later time at which the timer fires again */
	struct sn_deferred *later; /* if not NULL, runs after the lock is released */
};

typedef struct sn_task *sn_timer_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired);

#define SN_TIMER_NEVER INT64_MAX

struct sn_timer {
	struct sn_timers *_Atomic heap; /* the heap it is in, or NULL if it is inactive */
	uint32_t index;
	int64_t when;
	sn_timer_fire *fire;
};

struct sn_timer_entry {
	int64_t when; /* a copy, so that comparisons do not touch the timers' cache lines */
	struct sn_timer *timer;
};

struct sn_timers {
	struct sn_lock lock;
	uint32_t count, capacity;
	struct sn_timer_entry *entries;
	_Atomic int64_t earliest; /* SN_TIMER_NEVER if the heap is empty */
};

void sn_timers_init(struct sn_timers *timers);
void sn_timers_destroy(struct sn_timers *timers);

/*
 * Starts an inactive timer in the heap of the calling thread's processor. Returns 0 or -ENOMEM.
 * Only one thread at a time may start, advance or move a given timer. self is NULL on a thread of
 * the program's own, between sn_foreign_enter() and sn_foreign_leave(). The timer then goes into
 * the first processor's heap, because that processor never retires.
 */
int sn_timer_start(struct sn_thread *self, struct sn_timer *timer, int64_t when);

/*
 * Starts an inactive timer, or moves an active one to an earlier time; never to a later one. If it
 * succeeds and by is not NULL, also stores `when` in *by. It does so before the timer can fire, so
 * that fire() may store another value there when it begins.
 */
int sn_timer_advance(struct sn_thread *self, struct sn_timer *timer, int64_t when,
		     _Atomic int64_t *by);

/*
 * Moves an active timer to another time, earlier or later. Needs no memory. Returns false, and does
 * nothing, if the timer is not active: it has fired, or was never started.
 */
bool sn_timer_move(struct sn_timer *timer, int64_t when);

/* Stops a timer. Returns true if it was active, and will not fire; false if it had fired or was
 * never started. */
bool sn_timer_stop(struct sn_timer *timer);

/*
 * Moves all timers of a processor that no thread has to another processor's heap. While this runs,
 * other threads may run, stop or advance timers of both, but must not start any in the first.
 * Returns false if there was no memory; then the rest stays where it was.
 */
bool sn_timers_move(struct sn_timers *from, struct sn_timers *to);

/* What remains to be done after timers have fired. The caller, which holds no lock, makes the tasks
 * runnable, and then calls the functions in the list `later`. */
struct sn_due {
	struct sn_queue ready;
	struct sn_deferred *later;
};

/* Fires the timers that are due. Returns how many fired. */
uint32_t sn_timers_run(struct sn_timers *timers, int64_t now, struct sn_due *due);

static inline int64_t sn_timers_earliest(struct sn_timers *timers)
{
	/* Sequentially consistent: one half of the poller's handshake, see idle.c. */
	return atomic_load(&timers->earliest);
}

#endif
