/* SPDX-License-Identifier: MIT */
#include "task/life.h"

#include <stdlib.h>

#include "sched/control_block.h"
#include "sched/processor.h"
#include "sched/record.h"
#include "sched/switch.h"
#include "sched/task_stack.h"
#include "sched/thread.h"
#include "stack/sanitizer.h"
#include "task/cancel.h"
#include "task/join.h"
#include "task/local.h"
#include "task/pin.h"
#include "task/waiter.h"

/* Puts the fields that the task used when it ran into the state of a free block (sched/task.h).
 * This is done at the task's end, because their cache lines are at hand then. */
static void clean(struct sn_task *task)
{
	sn_task_bind_to(task, NULL);
	task->tied = SN_TIED_NOT;
	task->may_block = 0;
	task->apart = false;
	task->cancel = NULL;
	task->on_begin = NULL;
	task->cancel_masks = 0;
	task->foreign = (struct sn_foreign){0};
	if (task->on_end) {
		task->on_end = NULL;
		task->scope = NULL;
	}
}

void sn_task_free(struct sn_thread *self, struct sn_task *task)
{
	/* Relaxed: the cache or the store that hands the block to its next user also orders this
	 * write before that user's reads. Others need not see it soon. */
	atomic_store_explicit(&task->generation, sn_handle_next(sn_task_generation(task)),
			      memory_order_relaxed);
	sn_status_set(&task->word, SN_TASK_FREE, SN_BY_FREER);
	if (sn_unlikely(task->named)) {
		/* A reader that sees the name cleared also sees that there is no task any more. */
		atomic_thread_fence(memory_order_release);
		sn_task_put_name(task, NULL);
		task->named = false;
	}
	sn_block_free(task, self && self->processor ? &self->processor->blocks : NULL);
}

/*
 * Called if another task joins this one, or has just given that up. Takes the lock that a joiner
 * that gives up takes, too, before it reuses the memory of its wait.
 */
static sn_noinline void end_joined(struct sn_thread *self, struct sn_task *task)
{
	const uintptr_t ended = sn_join_word(SN_JOIN_ENDED, sn_task_generation(task));
	const uintptr_t detached = sn_join_word(SN_JOIN_DETACHED, sn_task_generation(task));
	struct sn_lock *lock = sn_cancel_lock_of(task);
	const uint64_t ended_id = sn_record_id(task);
	struct sn_task *woken = NULL;
	uintptr_t state;

	sn_lock(lock);
	/* Read under the lock, so that a wait whose address is found still exists. */
	state = atomic_load_explicit(&task->join, memory_order_acquire);
	for (;;) {
		struct sn_join_wait *wait = (struct sn_join_wait *)(state & ~SN_JOIN_KIND);
		bool waits = (state & SN_JOIN_KIND) == SN_JOIN_WAITER;

		if (state == detached || (state & SN_JOIN_KIND) == SN_JOIN_JOINER)
			break; /* these do not change any more */
		if (waits && sn_waiter_claim(wait->waiter)) {
			wait->ended = true;
			woken = sn_waiter_finish(wait->waiter, 0);
			break;
		}
		if (atomic_compare_exchange_strong_explicit(
			    &task->join, &state, ended, memory_order_acq_rel, memory_order_acquire))
			break;
	}
	sn_unlock(lock);
	/* In all cases except these two, another thread may have freed the task by now. */
	if (state == detached)
		sn_task_free(self, task);
	else if ((state & SN_JOIN_KIND) == SN_JOIN_JOINER)
		woken = (struct sn_task *)state;
	if (woken) {
		/* Records the wake-up as made by the ended task, not by the one that runs now. */
		sn_record_ready(self, woken, sn_record_what(SN_RECORD_WAKE, 0, sn_record_id(woken)),
				ended_id);
		sn_ready_recorded(self, woken, SN_READY_LAST);
	}
}

static bool commit_end(struct sn_thread *self, struct sn_task *task, void *arg)
{
	const uint32_t generation = sn_task_generation(task);
	uintptr_t state = sn_join_word(SN_JOIN_RUNNING, generation);

	if (self->processor)
		sn_count(&self->processor->stats.ended, 1);
	sn_task_take_stack(self, task);
	clean(task);
	/* sn_exit_task() has chosen the joiner to run next, and the joiner frees the task. */
	if (arg)
		return true;
	/* Release, so that the joiner sees the result; acquire, to see what the joiner wrote before
	 * it parked. */
	if (atomic_compare_exchange_strong_explicit(&task->join, &state,
						    sn_join_word(SN_JOIN_ENDED, generation),
						    memory_order_acq_rel, memory_order_acquire))
		return true;
	if (state == sn_join_word(SN_JOIN_DETACHED, generation))
		sn_task_free(self, task);
	else
		end_joined(self, task);
	return true;
}

/* The task that waits for this one's end and cannot give up, if it may run on any thread. */
static struct sn_task *joiner_of(struct sn_task *task)
{
	/* Acquire, to see what the joiner wrote before it parked. */
	uintptr_t state = atomic_load_explicit(&task->join, memory_order_acquire);
	struct sn_task *joiner = (struct sn_task *)state;

	return (state & SN_JOIN_KIND) == SN_JOIN_JOINER && !joiner->is_bound ? joiner : NULL;
}

/* Enters the runtime for the last time. */
static struct sn_thread *enter_to_end(struct sn_task *task)
{
	struct sn_thread *self = sn_runtime_enter();

	/* In a child of fork() there is no runtime to return to. The task was the process's only
	 * thread. */
	if (!self)
		exit(task->result);
	return self;
}

void sn_task_live(void *arg)
{
	struct sn_task *task = arg;
	struct sn_thread *self;

	sn_sanitizer_entered(&task->context);
	sn_task_entered();
	if (sn_unlikely(task->on_begin != NULL))
		task->on_begin(task);
	sn_runtime_leave();
	task->result = task->fn(task->arg);
	if (sn_unlikely(task->locals))
		sn_locals_destroy(task);
	self = enter_to_end(task);
	if (task->on_end) {
		task->on_end(task);
		self = sn_thread_self();
	}
	/* After on_end, which may park: a task that is still bound can be resumed by its thread
	 * only, which must not be ending then. */
	if (sn_unlikely(self->pinned != NULL))
		sn_thread_task_ends(self);
	sn_record_name(self->processor, task);
	sn_exit_task(self, commit_end, joiner_of(task));
}
