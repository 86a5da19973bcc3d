/* SPDX-License-Identifier: MIT */
/*
 * Making tasks runnable, and the global queue.
 *
 * A runnable task goes to the processor of the thread that made it runnable: as its next task, or
 * into its ring. Tasks that do not fit into the ring, and tasks that are made runnable without a
 * processor, go to the global queue. Processors take tasks from it by age, so that no task there
 * waits for much longer than those in the rings.
 */
#include "sched/ready.h"

#include <string.h>

#include "arch/compiler.h"
#include "sched/processor_list.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/wake.h"

/*
 * The global queue is a list through the tasks, and a processor takes up to half a ring of it at a
 * time. If it is long, the tasks are in no cache, and each would have to arrive from memory before
 * the next one is known. Each task that is appended is therefore noted in the task that is this
 * many places before it (ahead), and is prefetched when that one is taken. The note is a hint: it
 * may date from an earlier stay in the queue, and name any block, which does no harm.
 */
#define AHEAD 16

/* Guarded by the runtime's lock; the length of the queue is sn_runtime.global_size. On a cache line
 * of its own, as struct sn_idle is. */
static struct {
	_Alignas(SN_CACHE_LINE) struct sn_queue queue;
	uint32_t bound; /* how many tasks in it only one thread can run: has_home() */
	/* The last AHEAD tasks of the queue. Valid only if the queue has that many, and ends with
	 * the newest one here; see note_ahead(). */
	struct sn_task *last[AHEAD];
	uint32_t next_last; /* modulo AHEAD, the place in `last` for the next task */
} global;

void sn_ready_begin(void)
{
	global.queue = (struct sn_queue){0};
	global.bound = 0;
	memset(global.last, 0, sizeof global.last);
}

/* How soon a fair turn follows while an older task is in the global queue:
 * hurry_if_older_is_left(). */
#define HURRY_TICKS 8

/* ---- the global queue ---- */

/*
 * Whether a has been runnable for longer than b, by the monitor's clock. Both are in queues, where
 * that time does not change, except for a moment while a thread queues the task with which it waits
 * (sn_processor_regain()). A task in a ring may be stolen during this, but its block may still be
 * read.
 */
static bool is_older(struct sn_task *a, struct sn_task *b)
{
	return (int32_t)(atomic_load_explicit(&a->word.since, memory_order_relaxed) -
			 atomic_load_explicit(&b->word.since, memory_order_relaxed)) < 0;
}

/*
 * Notes tasks that are about to be appended in the tasks before them, which must still be in the
 * queue when they are written. Every append passes through here, and tasks are taken from the
 * front, or else `last` is emptied. The tasks in `last` are therefore in the queue if the queue
 * ends with the newest of them and has at least AHEAD tasks. The lock is held.
 */
static void note_ahead(struct sn_queue *tasks)
{
	struct sn_task *newest = global.last[(global.next_last + AHEAD - 1) % AHEAD];

	if (global.queue.tail != newest ||
	    atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) < AHEAD)
		memset(global.last, 0, sizeof global.last);
	for (struct sn_task *task = tasks->head; task; task = task->next) {
		struct sn_task **last = &global.last[global.next_last++ % AHEAD];

		if (*last)
			(*last)->ahead = task;
		*last = task;
	}
}

/* The lock is held. */
static void global_append(struct sn_queue *tasks, uint32_t n)
{
	note_ahead(tasks);
	sn_queue_append(&global.queue, tasks);
	atomic_fetch_add(&sn_runtime.global_size, n);
}

/* Whether only one thread can run the task. A task that runs apart is bound to none in particular,
 * and no thread waits for it, so at the limit of threads nobody need look for it. */
static bool has_home(const struct sn_task *task)
{
	return task->is_bound && task->bound != SN_NO_HOME;
}

void sn_global_put(struct sn_queue *tasks, uint32_t n)
{
	uint32_t bound = 0;

	/* Needs no lock: only the thread that runs a task binds and unbinds it. */
	for (struct sn_task *task = tasks->head; task; task = task->next)
		bound += has_home(task);
	sn_lock(&sn_runtime.lock);
	global_append(tasks, n);
	global.bound += bound;
	sn_unlock(&sn_runtime.lock);
}

void sn_global_put_bound(struct sn_task *task)
{
	struct sn_queue one = {0};

	sn_queue_put(&one, task);
	global_append(&one, 1);
	global.bound++;
}

/*
 * Queues tasks that leave a ring, the oldest first. If that one has waited for longer than any task
 * in the global queue, they go to the front of that queue. Otherwise a task that was fetched from
 * the global queue could be sent back to its end each time that the ring fills up, or loses its
 * thread, and never run. None of the tasks is bound, because bound tasks are in no ring. The lock
 * is held.
 */
static void global_put_by_age(struct sn_queue *tasks, uint32_t n)
{
	if (global.queue.head && is_older(tasks->head, global.queue.head)) {
		/* note_ahead() does not know of them. */
		memset(global.last, 0, sizeof global.last);
		sn_queue_append(tasks, &global.queue);
		global.queue = *tasks;
		atomic_fetch_add(&sn_runtime.global_size, n);
	} else {
		global_append(tasks, n);
	}
}

/* Queues the tasks that a ring cannot hold: its older half, and the task that did not fit. That one
 * is the youngest, and may get to the front, too; that is one in each half a ring. */
static void global_put_spilled(struct sn_queue *tasks, uint32_t n)
{
	sn_lock(&sn_runtime.lock);
	global_put_by_age(tasks, n);
	sn_unlock(&sn_runtime.lock);
}

void sn_global_put_ring(struct sn_processor *p)
{
	struct sn_queue tasks = {0};
	struct sn_task *task;
	uint32_t n = 0;

	if (sn_runqueue_empty(&p->queue))
		return;
	/* The next task comes last, because it is the youngest. */
	for (; (task = sn_runqueue_get(&p->queue)) != NULL; n++)
		sn_queue_put(&tasks, task);
	if ((task = sn_runqueue_take_next(&p->queue)) != NULL) {
		sn_queue_put(&tasks, task);
		n++;
	}
	if (n)
		global_put_by_age(&tasks, n);
}

/* Whether the task's thread has no processor and waits for one, to run this task. If the task is
 * tied, that thread counts as served from here on (sn_tie_is_in_line()). */
static bool is_awaited(struct sn_task *task, bool only_tied)
{
	/* The home of a tied task may be running another task. */
	if (task->tied == SN_TIED)
		return sn_tie_is_in_line(task);
	return has_home(task) && !only_tied;
}

struct sn_task *sn_global_take_bound(bool only_tied)
{
	struct sn_queue rest = {0};
	struct sn_task *task, *found = NULL;

	/* At the limit of threads each wake-up calls this, and the queue may be long. */
	if (global.bound == 0)
		return NULL;
	memset(global.last, 0, sizeof global.last);
	while ((task = sn_queue_get(&global.queue)) != NULL)
		if (!found && is_awaited(task, only_tied))
			found = task;
		else
			sn_queue_put(&rest, task);
	global.queue = rest;
	if (found) {
		atomic_fetch_sub(&sn_runtime.global_size, 1);
		global.bound--;
	}
	return found;
}

/*
 * While the first task in the global queue is older than the first in the ring, one turn in
 * HURRY_TICKS is fair, rather than one in FAIR_TICKS (find_work.c). Each task then waits for at
 * most about HURRY_TICKS times as many turns as there are tasks, in whichever queue it is.
 *
 * Rejected: a fair turn every second time. A program that spawns a tree of tasks would then go
 * through it level by level, and a million tasks would have begun before the first ends. With 2,
 * skynet took 5 times as many pages and 2.3 times as long; with 8 it is as fast as with 64 (make
 * bench-tasks ROWS=skynet). The lock is held.
 */
static void hurry_if_older_is_left(struct sn_processor *p)
{
	struct sn_task *mine = sn_runqueue_first(&p->queue);
	uint32_t soon = atomic_load_explicit(&p->tick, memory_order_relaxed) + HURRY_TICKS;
	uint32_t next = atomic_load_explicit(&p->next_fair, memory_order_relaxed);

	/* Makes the next fair turn earlier, never later. */
	if (mine && global.queue.head && is_older(global.queue.head, mine) &&
	    (int32_t)(next - soon) > 0)
		atomic_store_explicit(&p->next_fair, soon, memory_order_relaxed);
}

/*
 * Whether the processor has a task that has been runnable for longer than the first in the global
 * queue. At a fair turn that task goes first. If tasks run for long, every turn is fair (FAIR_NS in
 * sysmon.c), and without this a global queue that others keep filled would get all turns
 * (models/fair.pml, LONG). The lock is held.
 */
static bool older_is_local(struct sn_processor *p)
{
	struct sn_task *head = global.queue.head;
	struct sn_task *mine = sn_runqueue_first(&p->queue);
	/* A hint, as is `mine`: a thief may take the task, but its block may still be read. */
	struct sn_task *next = atomic_load_explicit(&p->queue.next, memory_order_acquire);

	return head && ((mine && is_older(mine, head)) || (next && is_older(next, head)));
}

bool sn_global_since(uint32_t *since)
{
	enum sn_task_status status = SN_TASK_FREE;
	struct sn_task *head;

	/* Does not take the lock if the queue is empty. */
	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) == 0)
		return false;
	sn_lock(&sn_runtime.lock);
	head = global.queue.head;
	if (head) {
		/* In the reverse order of the stores: the status was stored after since. */
		status = sn_status_get(&head->word);
		*since = atomic_load_explicit(&head->word.since, memory_order_relaxed);
	}
	sn_unlock(&sn_runtime.lock);
	/* A task that is back from foreign code is in the queue before its status is RETURNING.
	 * Until then since is the time at which its thread lost its processor
	 * (sn_processor_regain()). */
	return status == SN_TASK_RUNNABLE || status == SN_TASK_RETURNING;
}

struct sn_task *sn_global_get(struct sn_processor *p, uint32_t most, bool by_age)
{
	struct sn_task *first = NULL;
	struct sn_queue overflow = {0};

	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) == 0)
		return NULL;
	sn_lock(&sn_runtime.lock);
	uint32_t size = atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed);
	uint32_t share = size / sn_processors_in_use() + 1, taken = 0;

	if (share > most)
		share = most;
	if (by_age && older_is_local(p))
		share = 0;
	while (taken < share && global.queue.head) {
		struct sn_task *task = global.queue.head;

		if (first && task->is_bound)
			break;
		sn_queue_get(&global.queue);
		__builtin_prefetch(task->ahead, 1);
		taken++;
		if (!first) {
			first = task;
			if (task->is_bound) {
				global.bound -= has_home(task);
				break;
			}
		} else if (sn_runqueue_put(&p->queue, task, &overflow)) {
			break; /* the ring was full; the overflow goes back below */
		}
		/* From here on a thief may run the task, so this thread must not read it. */
	}
	atomic_fetch_sub(&sn_runtime.global_size, taken);
	if (overflow.head) {
		uint32_t n = 0;

		for (struct sn_task *task = overflow.head; task; task = task->next)
			n++;
		global_append(&overflow, n);
	}
	if (taken > 0)
		hurry_if_older_is_left(p);
	sn_unlock(&sn_runtime.lock);
	if (first)
		sn_task_prefetch_stack(first);
	return first;
}

/* ---- making runnable ---- */

static void local_put(struct sn_processor *p, struct sn_task *task)
{
	struct sn_queue overflow = {0};
	uint32_t n = sn_runqueue_put(&p->queue, task, &overflow);

	if (n)
		global_put_spilled(&overflow, n);
}

static bool has_few(struct sn_runqueue *queue)
{
	return atomic_load_explicit(&queue->tail, memory_order_relaxed) -
		       atomic_load_explicit(&queue->head, memory_order_relaxed) <=
	       SN_FEW_BRIEF;
}

/* Inlined twice, because one more call is noticeable in a wake-up of 20 ns. */
static inline __attribute__((always_inline)) void
make_ready(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place)
{
	bool only_next = false;

	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
	if (!self || !self->processor || task->is_bound) {
		struct sn_queue one = {0};

		if (task->tied == SN_TIED) {
			sn_tie_ready(self, task);
			return;
		}
		sn_queue_put(&one, task);
		sn_global_put(&one, 1);
		if (!self || !self->processor)
			sn_sysmon_hurry();
	} else if (place == SN_READY_NEXT) {
		struct sn_processor *p = self->processor;
		struct sn_task *displaced = sn_runqueue_set_next(&p->queue, task);

		if (displaced)
			local_put(p, displaced);
		only_next = !displaced;
	} else {
		/* If the thread owes, the running task is brief as well: otherwise it would have
		 * paid. Reads task->brief before the task is queued, because after that another
		 * thread may run the task. */
		bool may_be_left = self->owes_poller && task->brief;

		local_put(self->processor, task);
		if (may_be_left && has_few(&self->processor->queue))
			return;
	}
	sn_submitted_by(self, only_next);
}

void sn_ready_recorded(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place)
{
	make_ready(self, task, place);
}

void sn_ready(struct sn_thread *self, struct sn_task *task, enum sn_ready_place place)
{
	sn_record_wake(self, task, self ? self->task : NULL);
	make_ready(self, task, place);
}

void sn_requeue(struct sn_task *task)
{
	struct sn_queue one = {0};

	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_SCANNER);
	sn_queue_put(&one, task);
	sn_global_put(&one, 1);
	sn_submitted();
}

void sn_ready_all(struct sn_queue *tasks)
{
	struct sn_thread *self = sn_thread_self();
	uint32_t n = 0;

	sn_ties_sort_out(self, tasks, NULL);
	for (struct sn_task *task = tasks->head; task; task = task->next, n++) {
		sn_record_wake(self, task, NULL);
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
	}
	if (n)
		sn_global_put(tasks, n);
	sn_submitted();
	/* A thread with a processor will take the tasks itself. */
	if (!self || !self->processor)
		sn_sysmon_hurry();
}

void sn_ready_each(struct sn_thread *self, struct sn_queue *ready)
{
	struct sn_task *task;

	while ((task = sn_queue_get(ready)) != NULL)
		sn_ready(self, task, SN_READY_LAST);
}
