/* SPDX-License-Identifier: MIT */
/*
 * The join word: which call learns that a task has ended, and which one frees it.
 *
 * Contract. Exactly one party frees a task: the end of a detached task, sn_detach(), or the join
 * that has the claim. While a join waits, every other join or detach gets -EBUSY. One word,
 * task->join, decides this:
 *
 *	RUNNING  -> ENDED      the task has ended; the call that claims it later frees it
 *	RUNNING  -> DETACHED   sn_detach(): the task frees itself when it ends
 *	RUNNING  -> a task     that task waits in a join. The ending task wakes it and leaves its
 *	                       address in the word: the joiner has the claim, and frees the task
 *	ENDED    -> a task     a join that need not wait has the claim
 *	ENDED    -> DETACHED   sn_detach() has the claim
 *
 * A joiner whose address is in the word does not leave before it is woken. The ending task may
 * therefore choose it as its heir before it leaves its stack (sn_exit_task()): the word does not
 * change any more.
 *
 * Handles that outlive their task. The three states, which are no addresses, are stored with the
 * generation of the task, and the party that frees the task gives the block the next generation. A
 * call first checks whether the handle has the block's present generation. If the task is freed
 * after that, and another task is made in the block, the call's claim fails, because the state that
 * it expects has the old generation. A call thus never joins or detaches another task than its own.
 *
 * A join can be given up if it has a deadline, if the joining task can be cancelled, or if it is a
 * case of a select, in which another case may be faster. Such a join waits by a struct sn_waiter
 * (waiter.h), to which its struct sn_join_wait points. It puts the address of the struct
 * sn_join_wait into the word, with the bit SN_JOIN_WAITER:
 *
 *	RUNNING -> a wait    the joiner waits
 *	a wait  -> RUNNING   the joiner has given up; its memory is about to be reused
 *	a wait  -> ENDED     the task has ended, and found that the joiner is about to give up
 *
 * The last two changes, and the ending task's claim of the waiter, are made under the lock that
 * belongs to the task in cancel.h, so that the wait exists while the ending task looks at it. If
 * the ending task gets the waiter's claim, it says so in the wait, whose address stays in the word,
 * and the joiner frees the task.
 *
 * join.c has the side of the joiner, life.c that of the ending task. models/join.pml has both;
 * models/waiter.pml and models/select_any.pml have the joiner that gives up.
 *
 * Who may write what:
 *   join         any thread, by compare-and-swap; sn_task_create() and the spawn, before the task
 *                is published
 *   ended, of a wait   the ending task, when it has the claim of the waiter
 *   result       the ending task, before it stores ENDED; the party with the claim may read it
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

/* The lowest bits of the word say what it is. */
#define SN_JOIN_KIND ((uintptr_t)3)
#define SN_JOIN_JOINER ((uintptr_t)0) /* the address of a struct sn_task */
#define SN_JOIN_WAITER ((uintptr_t)1) /* the address of a struct sn_join_wait, plus this bit */
#define SN_JOIN_STATE ((uintptr_t)2)  /* a state, and the generation above it */

static inline uintptr_t sn_join_word(enum sn_join_state state, uint32_t generation)
{
	return (uintptr_t)generation << 4 | (uintptr_t)state << 2 | SN_JOIN_STATE;
}

/* A wait that can be given up, on the stack of the joiner. */
struct sn_join_wait {
	struct sn_waiter *waiter; /* not an exclusive one */
	struct sn_task *task;     /* the task that is joined */
	uint32_t generation;
	bool ended; /* the task has ended the waiter */
};

/*
 * For a select, in a task: whether sn_join_now() would return something other than -EAGAIN. The
 * handle must not be NULL.
 */
bool sn_join_looks_over(const sn_task *handle);

/* Joins a task that has ended. Returns 0, an error of sn_join(), or -EAGAIN if the task has not
 * ended. */
int sn_join_now(struct sn_thread *self, const sn_task *handle, int *result);

/*
 * Begins to wait for a task. Returns 0 if the waiter is registered: the task's end wakes it with 0,
 * unless something else has woken it first. Returns -EAGAIN if the task has ended: call
 * sn_join_now().
 */
int sn_join_begin(struct sn_join_wait *wait, struct sn_waiter *waiter, const sn_task *handle);

/* Ends a wait that was begun, after its waiter was ended. Returns true if the task's end has ended
 * the waiter; then the task is joined now. */
bool sn_join_end(struct sn_join_wait *wait, int *result);

/* The generation of a task's block. Relaxed: the caller keeps the task from being freed, or checks
 * the join word, which has the generation, as well. */
static inline uint32_t sn_task_generation(const struct sn_task *task)
{
	return atomic_load_explicit(&task->generation, memory_order_relaxed);
}

#endif
