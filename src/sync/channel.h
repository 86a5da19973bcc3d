/* SPDX-License-Identifier: MIT */
/*
 * What channel.c and select.c share: a channel, and the two steps of every send and receive, the
 * attempt and the wait. channel.c argues the protocol.
 *
 * Handles. A program's handle is the channel's address plus a tag, which is less than the
 * alignment, and different for each channel that is made. Until the channel is freed, it has a mark
 * that contains the tag. One comparison, with a word on a cache line that is needed anyway,
 * recognizes a stale handle, whose channel is gone. If another channel has taken its place, one in
 * SN_CACHE_LINE - 1 has the same mark, and the handle is not recognized; if other data is there,
 * only where its bytes happen to equal the mark. Debug builds keep freed channels for a while. An
 * address with a tag still points into the channel, for leak checkers and collectors. Rejected: a
 * tag in the unused high bits, which leak checkers and collectors would not take for a reference.
 *
 * Who may write what: any thread may write any field while it has the channel's lock, as may the
 * creator before it publishes the channel, and the thread that frees the channel writes mark.
 * first, count and closed are also read without the lock, to see that an attempt would fail, so
 * they are atomic. Their stores need no order: see sn_chan_hopeless().
 */
#ifndef SENNIT_SYNC_CHANNEL_H
#define SENNIT_SYNC_CHANNEL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <sennit/channel.h>
#include <sennit/clock.h>
#include <sennit/select.h>

#include "arch/compiler.h"
#include "sched/runtime.h"
#include "sched/thread.h"
#include "sync/waits.h"
#include "task/waiter.h"
#include "wait/lock.h"

/* The status of a node whose wait has not been ended by anything in the channel. */
#define SN_NODE_PENDING 1

/*
 * A place in a channel's queue. Like the waiter, it lies on the stack of the waiting party; a
 * select has one for each case, all with the same waiter. The waiting party writes the node before
 * it is queued, and from then on any thread under the channel's lock; status is written by the
 * party that has claimed the waiter.
 */
struct sn_chan_node {
	struct sn_chan_node *next, *prev;
	struct sn_waiter *waiter;
	void *elem;  /* where to copy the element from or to */
	int wake;    /* what the waiter is woken with: the index of the case */
	int status;  /* 0, -EPIPE or SN_NODE_PENDING */
	bool queued; /* in the queue */
};

struct sn_chan_queue {
	struct sn_chan_node *_Atomic first;
	struct sn_chan_node *last;
};

struct sn_chan {
	struct sn_lock lock;
	_Atomic bool closed;
	bool plain;    /* elements are copied bytewise, and need no destruction */
	uint16_t mark; /* see sn_chan_find() */
	_Atomic size_t count;
	size_t capacity;
	size_t head; /* offset of the oldest element in the buffer */
	size_t tail; /* offset of the place of the next element */
	size_t elem_size;
	size_t size; /* of the buffer */
	struct sn_chan_queue receivers, senders;
	_Atomic uint32_t references;
	uint32_t run; /* the run whose tasks may be in the queues; 0: no task has been in them since
	               * they were last empty */
	const struct sn_elem_ops *ops;
	_Alignas(16) char buffer[];
};

#define sn_relaxed_load(object) atomic_load_explicit(&(object), memory_order_relaxed)
#define sn_relaxed_store(object, value) \
	atomic_store_explicit(&(object), (value), memory_order_relaxed)

#define SN_CHAN_TAG ((uintptr_t)SN_CACHE_LINE - 1)

/* The mark of a handle: its lowest 16 bits, which are the tag and some bits of the address. It is
 * not 0, because no tag is. */
static inline uint16_t sn_chan_mark(const sn_chan *handle)
{
	return (uint16_t)(uintptr_t)handle;
}

/* The channel of a handle that sn_chan_find() has accepted. */
static inline struct sn_chan *sn_chan_at(const sn_chan *handle)
{
	return (struct sn_chan *)((uintptr_t)handle & ~SN_CHAN_TAG);
}

/* The reverse: the handle that programs use. */
static inline const sn_chan *sn_chan_handle(const struct sn_chan *chan)
{
	return (const sn_chan *)((uintptr_t)chan | (chan->mark & SN_CHAN_TAG));
}

/* The channel of any handle. NULL for NULL, and for a stale handle, whose channel is gone; debug
 * builds abort on a stale handle and name the calling function. */
#define sn_chan_find(handle) sn_chan_find_for(handle, __func__)
static inline struct sn_chan *sn_chan_find_for(const sn_chan *handle, const char *call)
{
	struct sn_chan *chan = sn_chan_at(handle);

	if (sn_unlikely(!chan))
		return NULL;
	if (sn_likely(chan->mark == sn_chan_mark(handle)))
		return chan;
	(void)call; /* only debug builds report it */
	SN_MISUSE("%s() called on a channel that was freed, or on what is no channel", call);
	return NULL;
}

static inline struct sn_chan_queue *sn_chan_queue_of(struct sn_chan *chan, int op)
{
	return op == SN_CASE_SEND ? &chan->senders : &chan->receivers;
}

/* The lock is held. */
static inline void sn_chan_enqueue(struct sn_chan *chan, int op, struct sn_chan_node *node)
{
	struct sn_chan_queue *queue = sn_chan_queue_of(chan, op);
	struct sn_chan_node *last = queue->last;

	if (node->waiter->task)
		chan->run = atomic_load_explicit(&sn_runtime.run, memory_order_relaxed);
	else if (!sn_relaxed_load(chan->receivers.first) && !sn_relaxed_load(chan->senders.first))
		chan->run = 0;
	node->next = NULL;
	node->prev = last;
	node->status = SN_NODE_PENDING;
	node->queued = true;
	queue->last = node;
	if (last)
		last->next = node;
	else
		sn_relaxed_store(queue->first, node);
}

static inline void sn_chan_unlink(struct sn_chan_queue *queue, struct sn_chan_node *node)
{
	if (node->next)
		node->next->prev = node->prev;
	else
		queue->last = node->prev;
	if (node->prev)
		node->prev->next = node->next;
	else
		sn_relaxed_store(queue->first, node->next);
	node->queued = false;
}

/*
 * Takes the first node out of the queue whose wait the caller may end; NULL when there is none.
 * Nodes whose wait has been ended by something else are dropped on the way; their owners notice
 * that themselves.
 */
static inline struct sn_chan_node *sn_chan_dequeue(struct sn_chan_queue *queue)
{
	struct sn_chan_node *node;

	while ((node = sn_relaxed_load(queue->first)) != NULL) {
		sn_chan_unlink(queue, node);
		if (sn_likely(sn_waiter_claim(node->waiter)))
			break;
	}
	return node;
}

static sn_noinline void sn_chan_copy_specially(struct sn_chan *chan, void *to, void *from)
{
	if (chan->ops && chan->ops->move)
		chan->ops->move(to, from);
	else if (to)
		memcpy(to, from, chan->elem_size);
}

/* to: NULL only where the element is plain, or has no size. */
static inline void sn_chan_copy(struct sn_chan *chan, void *to, void *from)
{
	/* The common sizes, without a call. */
	if (sn_likely(chan->plain && to)) {
		switch (chan->elem_size) {
		case 4:
			memcpy(to, from, 4);
			return;
		case 8:
			memcpy(to, from, 8);
			return;
		case 16:
			memcpy(to, from, 16);
			return;
		}
	}
	if (chan->elem_size > 0)
		sn_chan_copy_specially(chan, to, from);
}

static inline size_t sn_chan_advance(const struct sn_chan *chan, size_t offset)
{
	offset += chan->elem_size;
	return offset == chan->size ? 0 : offset;
}

/*
 * The attempts, with the lock held. Return -EAGAIN if the operation is not possible now. After 0,
 * *met is the node that was met on the other side, whose waiter is claimed: the caller wakes it
 * once it has released the lock. *met is NULL if the buffer sufficed.
 */
static inline int sn_chan_send_locked(struct sn_chan *chan, void *elem, struct sn_chan_node **met)
{
	size_t count = sn_relaxed_load(chan->count);
	struct sn_chan_node *node;

	*met = NULL;
	if (sn_unlikely(sn_relaxed_load(chan->closed)))
		return -EPIPE;
	if ((node = sn_chan_dequeue(&chan->receivers)) != NULL) {
		sn_chan_copy(chan, node->elem, elem);
		node->status = 0;
		*met = node;
		return 0;
	}
	if (count == chan->capacity)
		return -EAGAIN;
	sn_chan_copy(chan, chan->buffer + chan->tail, elem);
	chan->tail = sn_chan_advance(chan, chan->tail);
	sn_relaxed_store(chan->count, count + 1);
	return 0;
}

static inline int sn_chan_recv_locked(struct sn_chan *chan, void *elem, struct sn_chan_node **met)
{
	size_t count = sn_relaxed_load(chan->count);
	struct sn_chan_node *node;

	*met = NULL;
	if (count > 0) {
		char *slot = chan->buffer + chan->head;

		sn_chan_copy(chan, elem, slot);
		if (sn_unlikely(!chan->plain) && chan->ops->move && chan->ops->destroy)
			chan->ops->destroy(slot);
		chan->head = sn_chan_advance(chan, chan->head);
		/* Senders wait only when the buffer is full, so the slot is also the one after the
		 * last. */
		node = sn_chan_dequeue(&chan->senders);
		if (!node) {
			sn_relaxed_store(chan->count, count - 1);
			return 0;
		}
		sn_chan_copy(chan, slot, node->elem);
		chan->tail = sn_chan_advance(chan, chan->tail);
	} else {
		if (sn_unlikely(sn_relaxed_load(chan->closed)))
			return -EPIPE;
		node = sn_chan_dequeue(&chan->senders);
		if (!node)
			return -EAGAIN;
		sn_chan_copy(chan, elem, node->elem);
	}
	node->status = 0;
	*met = node;
	return 0;
}

/*
 * Whether there was a moment during the call at which an attempt would have returned -EAGAIN. The
 * try forms use it to answer without the lock. closed is read last, and once set it stays set: if
 * it is not set, the channel was open when the other two fields were read. Either of those two
 * alone shows that the attempt is possible: while a buffer has room (or something in it), nothing
 * waits on the other side. Acquire keeps the loads in this order. What happened before the call is
 * seen, as it is by any load.
 */
static inline bool sn_chan_hopeless(struct sn_chan *chan, int op)
{
	if (op == SN_CASE_SEND) {
		if (atomic_load_explicit(&chan->count, memory_order_acquire) < chan->capacity ||
		    atomic_load_explicit(&chan->receivers.first, memory_order_acquire))
			return false;
	} else {
		if (atomic_load_explicit(&chan->count, memory_order_acquire) > 0 ||
		    atomic_load_explicit(&chan->senders.first, memory_order_acquire))
			return false;
	}
	return !atomic_load_explicit(&chan->closed, memory_order_relaxed);
}

/* The lock is held. */
static inline int sn_chan_attempt(struct sn_chan *chan, int op, void *elem,
				  struct sn_chan_node **met)
{
	return op == SN_CASE_SEND ? sn_chan_send_locked(chan, elem, met)
				  : sn_chan_recv_locked(chan, elem, met);
}

/* Called without the lock. The party that was met runs next, and may free the channel. */
static inline void sn_chan_wake_met(struct sn_thread *self, struct sn_chan_node *met)
{
	if (met)
		sn_waiter_wake(self, met->waiter, met->wake, SN_READY_NEXT);
}

/* Whether elem is valid for the operation. */
static inline bool sn_chan_elem_valid(const struct sn_chan *chan, int op, const void *elem)
{
	return elem || chan->elem_size == 0 || (op == SN_CASE_RECV && chan->plain);
}

/* Returns 0 if a call may wait, otherwise the error with which it ends. */
static inline int sn_chan_may_wait(int64_t deadline)
{
	if (sn_likely(deadline == SN_NO_DEADLINE))
		return 0;
	if (deadline == SN_TRY)
		return -EAGAIN;
	return deadline <= sn_now() ? -ETIMEDOUT : 0;
}

/* Begin and end a public call of a task or a plain thread; *self is NULL for a plain thread.
 * sn_sync_enter() returns 0, or the reason for which the task's scope is cancelled. */
static inline int sn_sync_enter(struct sn_thread **self)
{
	*self = sn_waits_enter(__func__);
	return sn_likely(*self != NULL) ? sn_cancel_reason((*self)->task) : 0;
}

static inline void sn_sync_leave(bool task)
{
	sn_waits_leave(task);
}

#endif
