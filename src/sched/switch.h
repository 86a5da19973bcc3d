/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: which task runs next on which thread. switch.c leaves one task and begins another.
 * ready.c makes tasks runnable. wake.c argues that no work is forgotten. idle.c has the poller and
 * naps, brief.c the tasks that stand in for the poller, find_work.c the order of turns, and
 * processor_list.c the ways in which processors change hands.
 *
 * Contract. Unless stated otherwise, these calls are for threads inside the runtime: between
 * sn_runtime_enter() and sn_runtime_leave(), or in the scheduler's own loop. self is the calling
 * thread. After a park the task may be on another thread, so self must be read again.
 */
#ifndef SENNIT_SCHED_SWITCH_H
#define SENNIT_SCHED_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/runqueue.h"
#include "sched/thread.h"

struct sn_processor;
struct sn_task;

/*
 * Parks the running task: switches to another, then calls commit (see sn_commit). Returns when the
 * task has been made runnable and runs again. The result is the wake_reason that the waker has
 * stored: 0 unless stated otherwise.
 */
int sn_park(struct sn_thread *self, sn_commit *commit, void *arg);

/* Puts the running task at the end of the queue, and returns true when it runs again. Returns false
 * without doing so if there is nothing else to run. */
bool sn_reschedule(struct sn_thread *self);

/*
 * Called when the running task has ended, and no task is pinned to the thread. `after` is called as
 * a commit; it disposes of the task and returns true.
 *
 * heir is NULL, or a parked task that only the ended one may wake and that is bound to no thread.
 * If no other task is at hand, the heir runs next, without a detour through a queue and the
 * scheduler's loop, and `after` gets it as its argument. Otherwise `after` gets NULL, and wakes the
 * heir.
 */
_Noreturn void sn_exit_task(struct sn_thread *self, sn_commit *after, struct sn_task *heir);

enum sn_ready_place {
	SN_READY_NEXT, /* runs next on this processor: for a task that was handed something */
	SN_READY_LAST, /* at the end of this processor's queue */
};

/* Makes a parked task runnable. self is the calling thread's block; it may be NULL or have no
 * processor. */
void sn_ready(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place);

/* The same for callers that have recorded why (record.h). */
void sn_ready_recorded(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place);

/*
 * Called when an operation has succeeded without parking. From time to time this lets other tasks
 * run, so that a task whose connection always has data cannot keep a processor for itself. Returns
 * true if it did; self is then stale.
 */
bool sn_fair_chance(struct sn_thread *self);

/*
 * Between the first two, the running task executes only the runtime's own code. It needs a few
 * microseconds from one wait to the next, or calls sn_brief_turn() more often than it waits. A
 * thread that leaves the poller for such a task need not wake another to take its place, because it
 * is back soon (brief.c). The task may park in between. Before a blocking bracket sn_brief_pay()
 * wakes that other thread. sn_brief_end() comes before any code of the user runs, unless the task
 * was spawned with SN_TASK_BRIEF, which makes it brief for all its life.
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

/* Called first on the stack of a new task: does what a resumed task does after the switch to it. */
void sn_task_entered(void);

/* The scheduler's loop. Returns when the runtime ends. Begins and ends without a processor. */
void sn_schedule(struct sn_thread *self);

/*
 * Gives a processor that no thread has to a thread that can use it, or puts it with the idle ones.
 * Any thread of the runtime may call it.
 */
void sn_processor_give(struct sn_processor *p);

/* Waits for a processor, with the running task kept on this thread. Does not return when the
 * runtime ends. */
void sn_processor_regain(struct sn_thread *self);

/*
 * The running task has had its processor for long enough and does not park. If there is anything
 * else to do, lends the processor, and waits for one as after a revocation. Does not return when
 * the runtime ends.
 */
void sn_processor_lend(struct sn_thread *self);

/* Called by the monitor: changes the number of processors, to at least 1 and at most the
 * capacity. */
void sn_processors_adjust(int wanted);

/* Called by the monitor: wakes a thread for a processor that is idle although there is something to
 * do. That happens if a timer is due and a brief task that stands in for the poller does not
 * return, or if the system has refused a thread. If there is no thread to wake, the monitor fires
 * the timers itself. */
void sn_processors_notice(int64_t now);

/* Whether only the monitor's polls, and sn_processors_notice(), let the program make progress,
 * because threads are missing. The runtime's lock is held. */
bool sn_only_the_monitor_serves(void);

/* The first says whether a task is queued anywhere. The second returns the time at which the
 * earliest of all timers is due; SN_TIMER_NEVER if there is none. */
bool sn_work_exists(void);
int64_t sn_earliest_timer(void);

/* Queues a runnable task that a runner has left to the calling scanner, and that is therefore in no
 * queue. Any thread may call this. */
void sn_requeue(struct sn_task *task);

/* Makes parked tasks runnable, for callers without a processor. */
void sn_ready_all(struct sn_queue *tasks);

#endif
