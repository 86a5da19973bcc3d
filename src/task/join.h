/* SPDX-License-Identifier: MIT */
/*
 * The join word: which call learns that a task has ended, and which one frees it.
 *
 * Contract. Exactly one call frees a task: the end of a detached task, sn_detach(), or the join
 * that has the claim. Every other one that comes while that one waits gets -EBUSY. It is settled in
 * one word, task->join:
 *
 *	RUNNING  -> ENDED      the task ended; the call that claims it later frees it
 *	RUNNING  -> DETACHED   the task frees itself when it ends
 *	RUNNING  -> a task     that one waits; the ending task wakes it and leaves its address:
 *	                       it has the claim, and frees
 *	ENDED    -> a task, or DETACHED    claimed: by a join that need not wait, by sn_detach()
 *
 * A joiner whose address is in the word stays until it is woken. So the ending task may choose it
 * as its heir before it leaves its stack (sn_exit_task()), and the word does not change any more.
 *
 * Handles that outlive their task. The three states, which are no addresses, have the generation of
 * the task with them, and the party that frees the task makes the block of the next generation. A
 * call finds the handle to be of the present generation or stale. If the task is freed after that,
 * and another one lives in the block, the call's claim fails, as the state that it expects is of
 * the old generation. So it never joins or detaches another task than its own.
 *
 * A join that may be given up, past its deadline, because the joining task is cancelled, or because
 * it is a case of a select and another case was faster, waits by a struct sn_waiter (waiter.h),
 * which its struct sn_join_wait names. It leaves the address of that with the bit SN_JOIN_WAITER:
 *
 *	RUNNING -> a wait    that one waits
 *	a wait  -> RUNNING   it has given up; the wait is about to go away
 *	a wait  -> ENDED     the task ended, and found that the waiter is about to give up
 *
 * These last two, and the ending task's claim of the waiter, are done under the lock that belongs
 * to the task in cancel.h, so that the wait is there as long as the ending task looks at it. When
 * the ending task gets the waiter's claim it says so in the wait, whose address stays, and the
 * joiner frees the task.
 *
 * join.c has the side of the joiner, life.c that of the ending task. models/join.pml has both,
 * models/waiter.pml and models/select_any.pml the joiner that gives up.
 *
 * Who may write what:
 *   join         anyone, by compare-and-swap; sn_task_create() and the spawn, before the task is
 *                published
 *   ended, of a wait   the ending task, with the claim of the waiter
 *   result       the ending task, before it says ENDED; with the claim it may be read
 *   generation   see base/handle.h
 */
#ifndef SENNIT_TASK_JOIN_H
#define SENNIT_TASK_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/task.h"

struct sn_thread;
struct sn_waiter;

enum sn_join_state { SN_JOIN_RUNNING = 0, SN_JOIN_ENDED = 1, SN_JOIN_DETACHED = 2 };

/* What the word is, in its lowest bits. */
#define SN_JOIN_KIND ((uintptr_t)3)
#define SN_JOIN_JOINER ((uintptr_t)0) /* the address of a struct sn_task */
#define SN_JOIN_WAITER ((uintptr_t)1) /* of a struct sn_join_wait, and this bit */
#define SN_JOIN_STATE ((uintptr_t)2)  /* a state, and the generation above it */

static inline uintptr_t sn_join_word(enum sn_join_state state, uint32_t generation)
{
	return (uintptr_t)generation << 4 | (uintptr_t)state << 2 | SN_JOIN_STATE;
}

/* On the stack of a joiner that may give up. */
struct sn_join_wait {
	struct sn_waiter *waiter; /* not an exclusive one */
	struct sn_task *task;     /* what is joined */
	uint32_t generation;
	bool ended; /* the task has ended the waiter */
};

/*
 * For a select, in a task. Whether sn_join_now() would return something other than -EAGAIN. Any
 * handle but NULL.
 */
bool sn_join_looks_over(const sn_task *handle);

/* Joins a task that has ended: 0, or an error of sn_join(), or -EAGAIN: it has not. */
int sn_join_now(struct sn_thread *self, const sn_task *handle, int *result);

/*
 * Begins to wait for a task. Returns 0 if the waiter is registered: the task's end wakes it with 0,
 * unless something else has woken it first. Returns -EAGAIN if the task has ended: call
 * sn_join_now().
 */
int sn_join_begin(struct sn_join_wait *wait, struct sn_waiter *waiter, const sn_task *handle);

/* Ends a wait that was begun, once the waiter was ended. True when the task's end has ended it:
 * then the task was joined. */
bool sn_join_end(struct sn_join_wait *wait, int *result);

/* Of a task that is not freed meanwhile; relaxed for that reason. */
static inline uint32_t sn_task_generation(const struct sn_task *task)
{
	return atomic_load_explicit(&task->generation, memory_order_relaxed);
}

#endif
