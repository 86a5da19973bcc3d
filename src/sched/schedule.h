/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: which task runs next on which thread. switch.c leaves one and begins
 * another, ready.c makes them runnable, wake.c argues that no work is forgotten, idle.c has the poller
 * and naps, brief.c the tasks that stand in for it, steal.c the order of turns, processors.c the change of
 * processors.
 *
 * All of these are for threads inside the runtime (between sn_runtime_enter() and
 * sn_runtime_leave(), or in the scheduler's own loop). self is the calling thread; after a park it
 * is another, so it must be asked for anew.
 */
#ifndef SENNIT_SCHED_SCHEDULE_H
#define SENNIT_SCHED_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/runqueue.h"
#include "sched/thread.h"

struct sn_processor;
struct sn_task;

/*
 * Parks the running task: switches to another, then calls commit (see there). Returns, when
 * somebody has made the task runnable, the reason that he left in wake_reason: 0 unless stated.
 */
int sn_park(struct sn_thread *self, sn_commit *commit, void *arg);

/* Puts the running task at the end of the queue. False when there is nothing else to run. */
bool sn_reschedule(struct sn_thread *self);

/* The running task has ended. after is called as a commit; it disposes of the task and returns
 * true. */
_Noreturn void sn_exit_task(struct sn_thread *self, sn_commit *after);

enum sn_ready_place {
	SN_READY_NEXT, /* runs next on this processor: for whoever was handed something */
	SN_READY_LAST, /* at the end of this processor's queue */
};

/* Makes a parked task runnable. self: the calling thread's block; NULL, or one without a processor,
 * is allowed. */
void sn_ready(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place);

/*
 * An operation succeeded without parking. Every so often lets others run, so that a task whose
 * connection always has data cannot keep a processor for itself. Returns true when it did: self is
 * stale.
 */
bool sn_fair_chance(struct sn_thread *self);

/*
 * Between these the running task executes nothing but the runtime's own code, a few microseconds at
 * a time from one wait to the next, or calls sn_brief_turn() in between. So a thread that leaves
 * the poller for such a task need not wake another to take its place: it is back soon. Parks may be
 * in between; before a blocking bracket sn_brief_pay() wakes that other one. sn_brief_end() comes
 * before anything of the user's is run, unless the task is one of SN_TASK_BRIEF, for all its life.
 */
void sn_brief_begin(void);
void sn_brief_end(void);
void sn_brief_pay(struct sn_thread *self);
void sn_brief_poll(struct sn_thread *self);

static inline void sn_brief_turn(struct sn_thread *self)
{
	if (self->owes_poller)
		sn_brief_poll(self);
}

/* A new task is at the start of its stack: what sn_park() does after it has switched. */
void sn_task_entered(void);

/* The scheduler's loop; returns when the runtime ends. Begins and ends without a processor. */
void sn_schedule(struct sn_thread *self);

/*
 * Gives a processor that has no thread to one that has use for it, or puts it with the idle ones.
 * Any thread of the runtime.
 */
void sn_processor_give(struct sn_processor *p);

/* Waits for a processor, with the running task kept on this thread. Does not return when the
 * runtime ends. */
void sn_processor_regain(struct sn_thread *self);

/*
 * The running task has had its processor for long enough and does not park: lends the processor, if there
 * is anything else to do, and waits for one as after a revocation. Does not return when the runtime ends.
 */
void sn_processor_lend(struct sn_thread *self);

/* The monitor: from now on there are to be so many processors, at least 1 and at most the capacity.
 */
void sn_processors_adjust(int wanted);

/* The monitor: a timer is due, a processor idle, and a brief task that stands in for the poller does not come back. */
void sn_processors_notice(int64_t now);

/* Whether a task is queued anywhere; and when the first timer of all is due, SN_TIMER_NEVER: there is none. */
bool sn_work_exists(void);
int64_t sn_earliest_timer(void);

/* Puts a runnable task that is in no queue into one: a scanner who was left it. Any thread. */
void sn_requeue(struct sn_task *task);

/* Makes parked tasks runnable, for callers without a processor. */
void sn_ready_all(struct sn_queue *tasks);

/* If an idle thread sleeps in the poller until after the time given, it is woken to think again. */
void sn_poller_expect(int64_t when);

/* Abandons the running task for good and returns to the thread's own loop. The runtime ends. */
_Noreturn void sn_abandon(struct sn_thread *self);

#endif
