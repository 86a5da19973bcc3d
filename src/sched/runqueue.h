/* SPDX-License-Identifier: MIT */
/*
 * Queues of runnable tasks.
 *
 * sn_queue is a plain linked list, for which its user provides the locking. sn_runqueue is a
 * processor's own queue: a bounded ring. The thread that has the processor (the owner) fills and
 * empties it without a lock; other threads (thieves) steal from it.
 *
 * Ring. head and tail only grow; the tasks are at [head, tail) modulo the capacity.
 *   tail: written by the owner alone. Its store-release publishes the slot written before it.
 *   head: advanced by compare-and-swap, by the owner and by thieves. Its release orders a thief's
 *         reads of slots before the owner's reuse of them (the owner acquires head before it
 *         writes a slot).
 * A thief reads head before tail, so it may see a tail that is newer than its head, never older.
 * Its reads of slots count only if its compare-and-swap on head succeeds: then head has not moved
 * since it was read, so no slot in the range was reused. This would be wrong only if the 32-bit
 * counters wrapped within one attempt.
 *
 * The ring gets another owner only through the runtime's lock or a parker, which order all accesses
 * of the old owner before those of the new one.
 *
 * next: the task that the current task woke last, which runs before those in the ring. The owner
 * exchanges it. Thieves set it to NULL by compare-and-swap, and only after the same task has stayed
 * there for a while, because usually it is about to run.
 */
#ifndef SENNIT_SCHED_RUNQUEUE_H
#define SENNIT_SCHED_RUNQUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/compiler.h"

struct sn_task;

struct sn_queue {
	struct sn_task *head, *tail;
};

void sn_queue_put(struct sn_queue *queue, struct sn_task *task);
struct sn_task *sn_queue_get(struct sn_queue *queue);
/* Moves all tasks of `from` to the end of `to`. */
void sn_queue_append(struct sn_queue *to, struct sn_queue *from);

/* A power of two. This is Go's figure; tests make it smaller to reach the overflow and its
 * races. */
#ifndef SN_RUNQUEUE_CAPACITY
#	define SN_RUNQUEUE_CAPACITY 256u
#endif

struct sn_runqueue {
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t head;
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t tail;
	struct sn_task *_Atomic next;
	struct sn_task *_Atomic slots[SN_RUNQUEUE_CAPACITY];
};

/*
 * Owner: puts the task at the end. When the ring is full, half of it and the task go to *overflow,
 * and the result is how many went; otherwise it is 0.
 */
uint32_t sn_runqueue_put(struct sn_runqueue *queue, struct sn_task *task,
			 struct sn_queue *overflow);

/* Owner: the first task in the ring, or NULL. */
struct sn_task *sn_runqueue_get(struct sn_runqueue *queue);

/* Owner: the task that sn_runqueue_get() would return. A hint, because a thief may take it any
 * time. */
struct sn_task *sn_runqueue_first(struct sn_runqueue *queue);

/* Owner: takes the next task (NULL when there is none), or sets it and returns the previous one. */
static inline struct sn_task *sn_runqueue_take_next(struct sn_runqueue *queue)
{
	if (!atomic_load_explicit(&queue->next, memory_order_relaxed))
		return NULL;
	return atomic_exchange_explicit(&queue->next, NULL, memory_order_acquire);
}
static inline struct sn_task *sn_runqueue_set_next(struct sn_runqueue *queue, struct sn_task *task)
{
	return atomic_exchange_explicit(&queue->next, task, memory_order_acq_rel);
}

/*
 * Called by a thief that owns mine: moves half of the victim's ring to mine and returns one of the
 * tasks, or NULL when there was nothing. With steal_next it also takes the victim's next task, when
 * that is all there is.
 */
struct sn_task *sn_runqueue_steal(struct sn_runqueue *mine, struct sn_runqueue *victim,
				  bool steal_next);

/* Any thread: the first task in the ring at some moment during the call, or NULL. The task may have
 * left the ring when this returns. */
struct sn_task *sn_runqueue_peek(struct sn_runqueue *queue);

/* Any thread: whether the ring and next were empty at some moment during the call. */
bool sn_runqueue_empty(struct sn_runqueue *queue);

/*
 * Any thread: the same for the ring alone, without the next task. Head is read first. Tail only
 * grows and is never less than head, so if the tail that is read later equals head, the ring was
 * empty when head was read.
 */
static inline bool sn_runqueue_ring_empty(struct sn_runqueue *queue)
{
	uint32_t head = atomic_load(&queue->head);

	return head == atomic_load(&queue->tail);
}

#endif
