/* SPDX-License-Identifier: MIT */
/*
 * Ties: a task that parks in the middle of code which belongs to its thread continues on that
 * thread. While the task is parked the thread runs other tasks, as it would not with a pin (pin.c).
 *
 * Contract. A library in a hooked task (sennit/hooks.h) may keep what belongs to its thread across
 * a call that parks: compilers keep the address of errno, of h_errno and of any thread-local, and
 * pthread_self(). The hooks therefore tie the task before they park and untie it when they are back
 * (sn_foreign_tie()). Only the thread to which a task is tied, its home, runs it. There is one
 * exception. A home is stuck if it is blocked in the kernel, computes, or is pinned, and has not
 * taken a tied task for the patience of the run (PATIENCE_MS) although one waits. Then the monitor
 * unties the tasks that wait. They continue on other threads, and each learns that from
 * sn_foreign_untie(). models/late.pml has what makes the monitor look, and when it unties.
 *
 * Queues. Each thread has a queue of its own for runnable tied tasks. They are in no ring and in no
 * next slot, so no thread steals them. For other tasks this costs one load of a word of their own
 * thread per scheduling decision. If a thread has tied tasks and others, it takes from this queue
 * and from its processor's in turns, so neither starves.
 *
 * No tied task is forgotten. The waker of a tied task first puts it into its home's queue, and then
 * looks whether the home rests. A home that goes to rest first says so, and then looks into its
 * queue:
 *
 *	waker: queue; ready++; rest?     (sn_tie_ready())
 *	home:  rest = how; ready?        (sleeper.c; time_to_sleep() and nap() in idle.c)
 *
 * All of these are sequentially consistent, so at least one sees the other. What the waker then
 * does:
 *
 *	NONE      nothing: the home has a processor, or is about to look before it rests; or it is
 *	          stuck, which the monitor finds out
 *	PARKED    takes the home off the list of idle threads, and hands it an idle processor. If
 *	          there is none, the task stands in line for one
 *	POLLING   wakes the poller
 *	NAPS      ends the nap
 *	IN_LINE   nothing: the home gets a processor in its turn
 *
 * In line: a home without a processor is represented in the global queue by its first tied task,
 * and is in no list. The thread that takes this task there gives the home its processor and the
 * task (idle.c), as it does for a task whose thread has lost its lease. Homes thus get processors
 * in the order in which all other tasks do. models/tie.pml has this handshake.
 *
 * Signal handlers. One on the task's stack may interrupt sn_tie() and sn_untie(), and enter the
 * runtime. The order of their stores allows for that. It may not park until the task is untied
 * again: sn_foreign_may_park() refuses that. models/untie.pml has both.
 *
 * A home that sleeps while tasks are tied to it does not retire (owned). But a home ends when its
 * pinned task has ended (pin.c). This is another exception: the tasks that are tied to it then
 * continue on any thread when they are woken, and its block stays until then (sn_ties_end()).
 *
 * Apart. A task that blocks its thread keeps the tasks that are tied to that thread from running. A
 * task that is known to block (SN_TASK_BLOCKS), or that has made tied tasks wait for APART_MS,
 * therefore runs on threads to which nothing is tied. It is bound to no thread in particular
 * (SN_NO_HOME), so it passes through the global queue. If the thread that takes it there has tied
 * tasks, it gives the task and its processor to a thread that has none, or to a new one. At the
 * limit of threads it runs the task itself. When the task leaves, the thread that got the processor
 * gives it back. Otherwise tasks would be tied to that thread, too, and each such task would need a
 * new thread.
 *
 * Who may write what, in struct sn_ties:
 *   queue, ready  any thread, under lock; ready is also read without it
 *   rest          the thread itself; PARKED only under the runtime's lock, with the list. The party
 *                 that puts the home in line stores IN_LINE, and the one that hands it a processor
 *                 changes that to NONE by compare-and-swap
 *   owned         the thread; the monitor, for tasks that it unties; the waker of a task whose home
 *                 has ended
 *   taken, turn   the thread; the monitor reads taken
 *   seen_*        the monitor
 *   ended         the thread, under lock
 *   task->tied    the task; the monitor, after it has taken the task out of a queue; the waker of
 *                 a task whose home has ended
 *   task->apart   sn_spawn(), the task
 * The runtime's lock is taken inside a queue's lock, never the other way round. A task that parks
 * may still hold the lock of what it waits for, so its thread takes a tied task only afterwards, in
 * the scheduler's loop (pick_local() in switch.c). After a waker has
 * released a queue's lock, the home may run the task, untie it, retire and be freed. The waker then
 * no longer touches the home, unless it has taken the home off the list: that home waits for what
 * the waker hands it.
 *
 * Rejected:
 *   - Pins: a pinned thread runs no other task, so there would be as many threads as waiting tasks.
 *   - A queue without a lock: that saves two atomic operations, about 10 ns, in a hooked wait that
 *     makes six system calls.
 *   - Tied tasks in the rings: a thief takes half a ring by one compare-and-swap and cannot leave
 *     some of them, and a processor that is revoked takes its ring along to another thread.
 *   - Patience without a limit: a call that blocks the thread may wait for something that only a
 *     task tied to the same thread can do.
 *   - Patience by the age of the waiting task alone: on a loaded machine tasks wait for long
 *     because of other tasks, and would lose their threads for no gain.
 */
#ifndef SENNIT_SCHED_TIE_H
#define SENNIT_SCHED_TIE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "sched/runqueue.h"
#include "wait/lock.h"

struct sn_processor;
struct sn_task;
struct sn_thread;

/* How a thread rests. The wakers of its tied tasks read this. */
enum sn_rest {
	SN_REST_NONE,
	SN_REST_PARKED,  /* in the list of idle threads */
	SN_REST_POLLING, /* in the poller */
	SN_REST_NAPS,
	SN_REST_IN_LINE, /* one of its tasks is in the global queue, and represents it there */
};

/* task->tied. While it is TIED, task->bound is the home. */
enum sn_tied {
	SN_TIED_NOT,
	SN_TIED,
	SN_TIED_LOST,  /* it was untied by another party, and does not know that yet */
	SN_TIED_APART, /* task->bound is SN_NO_HOME */
};

/* The value of task->bound of a task that runs apart: no particular thread. */
#define SN_NO_HOME ((struct sn_thread *)(uintptr_t)1)

/* The ties of one thread. All zeros if nothing is tied to it. */
struct sn_ties {
	_Atomic uint32_t ready; /* the length of queue */
	_Atomic uint32_t rest;  /* enum sn_rest */
	_Atomic uint32_t taken; /* counts the tasks taken out of queue, so that progress is seen */
	_Atomic uint32_t owned; /* how many tasks are tied to the thread */
	bool turn;              /* the last decision tried queue first */
	bool ended;             /* the thread runs no task any more */
	struct sn_lock lock;
	struct sn_queue queue; /* the runnable tied tasks */

	uint32_t seen_taken;
	int64_t seen_since; /* since when it has taken none, although there were some; or 0 */
	int64_t seen_cpu;   /* its CPU time then */
};

/* Ties the running task to its thread. Returns false, and does nothing, if the task is bound
 * already, or if tasks are not tied in this run. */
bool sn_tie(struct sn_thread *self);

/* Unties the running task. Returns true if another party had untied it before, in which case it may
 * be on another thread now. */
bool sn_untie(struct sn_thread *self);

/* Called when the running task has come back: its thread lost its processor at lost_at (ms of
 * sn_status_clock) and has one again. If the task has made tied tasks wait for long, it runs apart
 * from now on. */
void sn_tie_came_back(struct sn_thread *self, uint32_t lost_at);

/* If the thread has its processor for a task that runs apart, makes it give the processor back as
 * soon as that task leaves. */
void sn_tie_leave_soon(struct sn_thread *self);

/* Called when a run begins. Returns 0, or -EINVAL if SENNIT_HOOKS_STAY is invalid. */
int sn_ties_begin(void);

/* Queues a tied task whose status is RUNNABLE already, and whose wake-up is recorded. self is the
 * calling thread's block; it may be NULL or have no processor. */
void sn_tie_ready(struct sn_thread *self, struct sn_task *task);

/* Takes the tied tasks out of the list, except those of the thread `but` (which may be NULL), and
 * returns how many there were. Records each, makes it RUNNABLE, and queues it as sn_tie_ready(). */
int sn_ties_sort_out(struct sn_thread *self, struct sn_queue *tasks, const struct sn_thread *but);

/* Takes the thread's first runnable tied task; NULL if there is none. */
struct sn_task *sn_tie_take(struct sn_thread *self);

/* Takes a tied task of the thread or one of the processor's own (turn.h), in turns; NULL if there
 * is neither. */
struct sn_task *sn_tie_turn(struct sn_thread *self, struct sn_processor *p);

/* Called by a thread that takes a tied task from the global queue and is not its home. Returns
 * whether the home waits in line. If so, the home has the task now, and the caller must hand it a
 * processor. */
bool sn_tie_is_in_line(struct sn_task *task);

/* Called by a thread before it rests: says how it will. The thread must then look for tied tasks
 * once more (sn_ties_wait_after_all()). */
void sn_tie_rest(struct sn_thread *self, enum sn_rest how);

/* Puts a home without a processor, which is in no list, in line: puts that task into the global
 * queue. The caller announces it (wake.h). The runtime's lock is held. */
void sn_tie_stand_in_line(struct sn_thread *home, struct sn_task *task);

/* Called by a thread that runs no task any more, but may be a home. */
void sn_ties_end(struct sn_thread *self);

/* A chore of the monitor: unties the tasks that have waited for a stuck home. */
void sn_ties_step(int64_t now, bool idle);
bool sn_ties_are_asked(void);

#endif
