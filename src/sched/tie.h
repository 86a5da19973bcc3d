/* SPDX-License-Identifier: MIT */
/*
 * Ties: a task that parks in the middle of code which belongs to its thread continues there. Its
 * thread runs other tasks meanwhile, which is what sets a tie apart from a pin (pin.c).
 *
 * Contract. A library in a hooked task (sennit/hooks.h) may keep what belongs to its thread across
 * a call that parks: compilers keep the address of errno, of h_errno and of any thread-local, and
 * pthread_self(). So the hooks tie the task before they park and untie it when they are back
 * (sn_foreign_tie()). Only the thread to which a task is tied, its home, runs it. The exception is
 * a home that is stuck for the patience of the run: it is blocked in the kernel, computes, or is
 * pinned, and has not taken a tied task for so long although one waits. Then the monitor unties
 * those that wait; they go on elsewhere, and sn_foreign_untie() tells each of them.
 *
 * Queues. Each thread has a queue of its own for runnable tied tasks. They are in no ring and in no
 * next slot, so nobody steals them, and it costs a task that is not tied one load of a word of its
 * own thread per scheduling decision. While a thread has both, it takes from this queue and from
 * its processor's in turns, so neither starves.
 *
 * No tied task is forgotten. The party that makes one runnable puts it into its home's queue, and
 * then looks whether the home rests; a thread that goes to rest first says so, and then looks into
 * its queue:
 *
 *	waker: queue; ready++; rest?     (sn_tie_ready())
 *	home:  rest = how; ready?        (sleeper.c; time_to_sleep() and nap() in idle.c)
 *
 * All of these are sequentially consistent, so one sees the other. What the waker then does:
 *
 *	NONE      nothing: the home has a processor, or is about to look before it rests; or it is
 *	          stuck, and then the monitor comes to see
 *	PARKED    takes the home off the list of idle threads, and hands it an idle processor. If
 *	          there is none, the task stands in line for one
 *	POLLING   wakes the poller
 *	NAPS      ends the nap
 *	IN_LINE   nothing: the home gets a processor in its turn
 *
 * In line: a home without a processor is represented in the global queue by its first tied task,
 * and is in no list. The thread that takes this task there gives the home its processor and the
 * task (idle.c), as it does for a task whose thread has lost its lease. So homes get processors in
 * the order in which all other tasks do. models/tie.pml has this handshake.
 *
 * A home that sleeps while tasks are tied to it does not retire (owned). One on which a pinned task
 * has ended does (pin.c): what is tied to it continues anywhere when it is woken, and its block
 * stays until then (sn_ties_end()).
 *
 * Apart. A task that blocks its thread keeps what is tied there from running. So one that is known
 * to do so (SN_TASK_BLOCKS), or that has made tied tasks wait for a millisecond, runs on threads to
 * which nothing is tied. It is bound to no thread in particular (SN_NO_HOME), so that it goes by
 * the global queue; a thread that takes it there, and has tied tasks, gives it and its processor to
 * a thread that has none, or to a new one. At the limit of threads it runs where it is. When it
 * leaves, that thread gives the processor back, lest tasks be tied to it, too, and each such task
 * need a new one.
 *
 * Who may write what, in struct sn_ties:
 *   queue, ready  under lock; ready is read without
 *   rest          the thread itself; to IN_LINE and from there by compare-and-swap, the party that
 *                 hands it a processor; PARKED under the runtime's lock, with the list
 *   owned         the thread; the monitor, for tasks that it unties
 *   taken, turn   the thread; taken is read by the monitor
 *   seen_*        the monitor
 *   task->tied    the task; the monitor, while it has the task out of a queue
 *   task->apart   sn_spawn(), the task
 * The runtime's lock is taken inside a queue's lock, never the other way round. After a waker has
 * released a queue's lock, the home may run the task, untie it, retire and be freed: so it is not
 * touched any more, unless it was taken off the list, and waits for what it is handed.
 *
 * Rejected:
 *   - Pins: the thread runs nothing else, so there are as many threads as waiting tasks.
 *   - A queue without a lock: two atomic operations less, of some 10 ns, beside a hooked wait that
 *     makes six system calls.
 *   - Tied tasks in the rings: a thief takes half a ring by one compare-and-swap and cannot leave
 *     some of them, and a processor that is revoked takes its ring along to another thread.
 *   - Patience without end: what a call waits for that blocks the thread may come from a task that
 *     is tied to the same thread.
 *   - Patience by the age of the waiting task alone: on a loaded machine tasks wait for long after
 *     others, and would lose their threads for no gain.
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

/* How a thread rests, for those that have a tied task for it. */
enum sn_rest {
	SN_REST_NONE,
	SN_REST_PARKED,  /* in the list of idle threads */
	SN_REST_POLLING, /* in the poller */
	SN_REST_NAPS,
	SN_REST_IN_LINE, /* one of its tasks stands in the global queue, and it waits with that */
};

/* task->tied. While it is TIED, task->bound is the home. */
enum sn_tied {
	SN_TIED_NOT,
	SN_TIED,
	SN_TIED_LOST,  /* the monitor has untied it; it does not know yet */
	SN_TIED_APART, /* task->bound is SN_NO_HOME */
};

/* No thread: of a task that runs apart. */
#define SN_NO_HOME ((struct sn_thread *)(uintptr_t)1)

/* Of one thread. Zeros: nothing is tied to it. */
struct sn_ties {
	_Atomic uint32_t ready; /* length of queue */
	_Atomic uint32_t rest;  /* enum sn_rest */
	_Atomic uint32_t taken; /* how many it has taken out of queue, to see progress */
	_Atomic uint32_t owned; /* tasks that are tied to it */
	bool turn;              /* the last task was one of these */
	bool ended;             /* the thread runs nothing any more; under lock */
	struct sn_lock lock;
	struct sn_queue queue; /* runnable */

	uint32_t seen_taken;
	int64_t seen_since; /* since when it has taken none, although there were; 0: not */
	int64_t seen_cpu;   /* its CPU time then */
};

/* The running task is tied to its thread, unless it is bound already, or nothing is to be tied in
 * this run: false. */
bool sn_tie(struct sn_thread *self);

/* It is tied no more. Whether it had been untied before, and may be on another thread. */
bool sn_untie(struct sn_thread *self);

/* The running task has kept its thread, which lost its processor then (ms, by the status's clock),
 * and has one again. From now on the task runs apart if it has made others wait for long. */
void sn_tie_came_back(struct sn_thread *self, uint32_t lost_at);

/* A thread that has its processor for a task that runs apart gives it back when that leaves: makes
 * it look then. */
void sn_tie_leave_soon(struct sn_thread *self);

/* A run begins. 0, or -EINVAL for a SENNIT_HOOKS_STAY that is none. */
int sn_ties_begin(void);

/* Makes a tied task runnable that is RUNNABLE already, and recorded. self: the calling thread's
 * block, which may be NULL or have no processor. */
void sn_tie_ready(struct sn_thread *self, struct sn_task *task);

/* Does so with those of the queue that are tied, and returns how many these were; but: except to
 * that thread, NULL: none. They are recorded, and become RUNNABLE, here. */
int sn_ties_sort_out(struct sn_thread *self, struct sn_queue *tasks, const struct sn_thread *but);

/* The thread's first runnable tied task, or NULL. */
struct sn_task *sn_tie_take(struct sn_thread *self);

/* One of them or of the processor's own (turn.h), in turns; NULL if there is neither. */
struct sn_task *sn_tie_turn(struct sn_thread *self, struct sn_processor *p);

/* A tied task was taken from the global queue by another thread than its home. Whether the home
 * waits in line: then it has the task now, and the caller must hand it its processor. */
bool sn_tie_is_in_line(struct sn_task *task);

/* Before a thread goes to rest it says how. Then it looks whether there is anything after all. */
void sn_tie_rest(struct sn_thread *self, enum sn_rest how);

/* A home without a processor, in no list, waits for one with that task, which the caller announces
 * (wake.h). The runtime's lock is held. */
void sn_tie_stand_in_line(struct sn_thread *home, struct sn_task *task);

/* The calling thread runs nothing any more, but may be a home. */
void sn_ties_end(struct sn_thread *self);

/* A chore of the monitor: unties what has waited for a stuck home. */
void sn_ties_step(int64_t now, bool idle);
bool sn_ties_are_asked(void);

#endif
