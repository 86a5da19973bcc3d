/* SPDX-License-Identifier: MIT */
/*
 * Channels.
 *
 * A channel is a lock, a ring of elements, and two queues of waiting parties, receivers and
 * senders. Every operation is an attempt under the lock (channel.h). When the attempt finds
 * nothing, the operation puts a node into a queue, under the same lock, and parks. No wake-up is
 * lost, because an attempt either sees what the other side did, or meets the other side's node.
 *
 * Invariants, for nodes whose wait has not been ended by a deadline or a cancellation:
 *   - Receivers wait only when the buffer is empty, and senders only when it is full (an unbuffered
 *     one is always both). Receivers and senders never wait at the same time, except those of one
 *     select.
 *   - Nothing waits in a closed channel.
 *
 * The party that meets a node takes it out of the queue and claims its waiter (task/waiter.h).
 * If it gets the claim, it copies the element from or to the other party's memory, most often its
 * stack, writes the node's status, releases the lock, and only then wakes the other party, which
 * may free the channel. If it does not get the claim, something else has ended the node's wait. The
 * node's owner reads the status under the lock, and sees that no element was touched. When a
 * deadline or a cancellation races with success, the result is therefore one or the other, and the
 * element is in exactly one place.
 *
 * A task that waits without a deadline or a scope is exclusive in the sense of task/waiter.h: the
 * lock protects its node until its park is committed. The whole hand-over costs this lock and what
 * the run queue takes.
 *
 * A node is out of its queue before the call returns: the party that ended the wait has taken it
 * out, or its owner does.
 *
 * Rejected: a lock-free ring for the buffer. It saves a lock's pair of atomic instructions only for
 * one producer and one consumer. With select, close and a deadline on either end, every operation
 * would need the sequence number of a slot, and then the queues' lock as well. Rejected, too:
 * waking the other side with the lock held, because a wake-up may have to start a thread.
 */
#include "sync/channel.h"
#include "sync/waits.h"
#include "wait/checked.h"

#include <sennit/collector.h>
#include <sennit/run.h>

/*
 * Returns a tag, which is not 0, that this thread has not used recently, so that the next channel
 * at an address has a different one. Each thread begins at a different value; otherwise two threads
 * that make channels in turn could use the same tags.
 */
static uintptr_t next_tag(void)
{
	static _Thread_local uint32_t last;

	if (last == 0)
		last = (uint32_t)((uintptr_t)&last >> 6) * 2654435761u;
	return last++ % SN_CHAN_TAG + 1;
}

/*
 * Frees the memory of a channel. Debug builds keep the channels that were freed last, so that they
 * can report a call with such a channel.
 */
static void free_memory(struct sn_chan *chan)
{
#if SENNIT_DEBUG
	static struct sn_chan *_Atomic kept[1024];
	static _Atomic uint32_t next;
	void *memory = chan;

	if (chan->size < 4096)
		memory = atomic_exchange(&kept[atomic_fetch_add(&next, 1) % 1024], chan);
	if (memory)
		sn_collector_free(memory);
#else
	sn_collector_free(chan);
#endif
}

int sn_chan_new_with_ops(sn_chan **chan, size_t elem_size, ssize_t capacity,
			 const struct sn_elem_ops *ops)
{
	struct sn_chan *made;
	size_t size, bytes;

	if (!chan || capacity < 0 || __builtin_mul_overflow(elem_size, (size_t)capacity, &size) ||
	    __builtin_add_overflow(size, sizeof *made + SN_CACHE_LINE, &bytes) ||
	    bytes > PTRDIFF_MAX)
		return -EINVAL;
	bytes = (bytes - 1) / SN_CACHE_LINE * SN_CACHE_LINE;
	/* The channel has cache lines of its own: tasks that use two channels in one line would
	 * contend for that line. */
	made = sn_collector_alloc(SN_CACHE_LINE, bytes);
	if (!made)
		return -ENOMEM;
	memset(made, 0, sizeof *made);
	sn_lock_init(&made->lock, SN_RANK_CHANNEL);
	made->elem_size = elem_size;
	made->capacity = (size_t)capacity;
	made->size = size;
	made->ops = ops;
	made->plain = !ops || (!ops->move && !ops->destroy);
	sn_relaxed_store(made->references, 1);
	*chan = (sn_chan *)((uintptr_t)made | next_tag());
	made->mark = sn_chan_mark(*chan);
	return 0;
}

int sn_chan_new(sn_chan **chan, size_t elem_size, ssize_t capacity)
{
	return sn_chan_new_with_ops(chan, elem_size, capacity, NULL);
}

sn_chan *sn_chan_ref(sn_chan *handle)
{
	struct sn_chan *chan = sn_chan_find(handle);

	if (!chan)
		return NULL;
	/* Relaxed: a caller that has a reference to copy keeps the count above 0. */
	atomic_fetch_add_explicit(&chan->references, 1, memory_order_relaxed);
	return handle;
}

/*
 * Whether the nodes in the queues are those of tasks that the end of their run has abandoned. Such
 * nodes must not be touched, because they lie on stacks that are gone, or that others use now.
 */
static bool is_abandoned(const struct sn_chan *chan)
{
	return chan->run != 0 && chan->run != sn_private_run();
}

/*
 * Whether others wait in a channel whose last reference is gone. That is a mistake, after which the
 * waiters would touch freed memory when their waits end: a lock in it could then make them spin
 * forever. The channel is closed, and its memory leaked, because nothing says when they have left.
 * A wait that begins at the same moment may be missed, as any use after free. Tasks of a run that
 * is over wait for nothing any more.
 */
static bool others_wait(struct sn_chan *chan)
{
	if (sn_likely(!sn_relaxed_load(chan->receivers.first) &&
		      !sn_relaxed_load(chan->senders.first)) ||
	    is_abandoned(chan))
		return false;
	SN_MISUSE("sn_chan_unref() drops the last reference to a channel in which others wait");
	return true;
}

void sn_chan_unref(sn_chan *handle)
{
	struct sn_chan *chan = sn_chan_find(handle);

	/* Release what was done with this reference; acquire what was done with the others. */
	if (!chan || atomic_fetch_sub_explicit(&chan->references, 1, memory_order_acq_rel) != 1)
		return;
	if (others_wait(chan)) {
		sn_chan_close(handle);
		return;
	}
	if (!chan->plain && chan->ops->destroy) {
		for (size_t n = sn_relaxed_load(chan->count); n > 0; n--) {
			sn_checked_callback("destroy function");
			chan->ops->destroy(chan->buffer + chan->head);
			chan->head = sn_chan_advance(chan, chan->head);
		}
	}
	chan->mark = (uint16_t)~chan->mark;
	free_memory(chan);
}

/* Waits that have ended, to be woken: linked by next. */
struct ended {
	struct sn_chan_node *threads, *tasks, *last_task;
};

/* Ends the waits in the queue. The lock is held. */
static void end_all(struct sn_chan_queue *queue, struct ended *ended)
{
	struct sn_chan_node *node;

	while ((node = sn_chan_dequeue(queue)) != NULL) {
		node->status = -EPIPE;
		if (!node->waiter->task) {
			node->next = ended->threads;
			ended->threads = node;
			continue;
		}
		node->next = NULL;
		if (ended->tasks)
			ended->last_task->next = node;
		else
			ended->tasks = node;
		ended->last_task = node;
	}
}

static void wake_all(struct sn_thread *self, struct sn_chan_node *node)
{
	unsigned tasks = 0;

	while (node) {
		struct sn_chan_node *next = node->next; /* read before the node is gone */

		if (node->waiter->task && ++tasks % SN_WAKE_BATCH == 0)
			sn_wakes_pause(self);
		sn_waiter_wake(self, node->waiter, node->wake, SN_READY_LAST);
		node = next;
	}
}

static int close_channel(struct sn_thread *self, struct sn_chan *chan)
{
	struct ended ended = {0};

	sn_lock(&chan->lock);
	if (sn_relaxed_load(chan->closed)) {
		sn_unlock(&chan->lock);
		return -EPIPE;
	}
	sn_relaxed_store(chan->closed, true);
	end_all(&chan->receivers, &ended);
	end_all(&chan->senders, &ended);
	sn_unlock(&chan->lock);
	/* Threads first: see waits.h. */
	wake_all(self, ended.threads);
	wake_all(self, ended.tasks);
	return 0;
}

int sn_chan_close(sn_chan *handle)
{
	struct sn_chan *chan = sn_chan_find(handle);
	struct sn_thread *self;
	int err;

	if (!chan)
		return -EINVAL;
	sn_sync_enter(&self); /* the reason of a cancelled scope does not matter here */
	err = close_channel(self, chan);
	sn_sync_leave(self);
	return err;
}

/* Waits after a failed attempt. The caller has the lock; this releases it. */
static sn_noinline int wait(struct sn_thread *self, struct sn_chan *chan, int op, void *elem,
			    int64_t deadline)
{
	struct sn_waiter waiter;
	struct sn_chan_node node = {.waiter = &waiter, .elem = elem};
	int err = sn_chan_may_wait(deadline);

	if (err < 0) {
		sn_unlock(&chan->lock);
		return err;
	}
	sn_waiter_init(&waiter, self, deadline, 0);
	sn_chan_enqueue(chan, op, &node);
	if (self)
		sn_task_waits(self->task, "a channel", sn_chan_handle(chan));
	err = sn_waiter_park(&waiter, &chan->lock);
	if (sn_likely(node.status != SN_NODE_PENDING))
		return node.status;
	/* A thread that finds the node now but loses the claim stops using it before it
	 * unlocks. */
	sn_lock(&chan->lock);
	if (node.queued)
		sn_chan_unlink(sn_chan_queue_of(chan, op), &node);
	sn_unlock(&chan->lock);
	return err;
}

/* Compiled once for sending and once for receiving, which removes a third of the branches. */
static inline __attribute__((always_inline)) int operate(struct sn_chan *chan, int op, void *elem,
							 int64_t deadline)
{
	struct sn_chan_node *met;
	struct sn_thread *self;
	int err;

	if (sn_unlikely(!sn_chan_elem_valid(chan, op, elem)))
		return -EINVAL;
	err = sn_sync_enter(&self);
	if (sn_likely(err == 0)) {
		sn_lock(&chan->lock);
		err = sn_chan_attempt(chan, op, elem, &met);
		if (err == -EAGAIN) {
			err = wait(self, chan, op, elem, deadline);
		} else {
			sn_unlock(&chan->lock);
			sn_chan_wake_met(self, met);
			if (sn_likely(self != NULL) && deadline != SN_TRY)
				sn_fair_chance(self);
		}
	}
	sn_sync_leave(self);
	return err;
}

static sn_noinline int do_send(struct sn_chan *chan, void *elem, int64_t deadline)
{
	return operate(chan, SN_CASE_SEND, elem, deadline);
}

static sn_noinline int do_recv(struct sn_chan *chan, void *elem, int64_t deadline)
{
	return operate(chan, SN_CASE_RECV, elem, deadline);
}

static inline int try(struct sn_chan *chan, int op, void *elem)
{
	struct sn_thread *self = sn_thread_self();

	if (sn_unlikely(!sn_chan_elem_valid(chan, op, elem)))
		return -EINVAL;
	if (!sn_chan_hopeless(chan, op))
		return op == SN_CASE_SEND ? do_send(chan, elem, SN_TRY)
					  : do_recv(chan, elem, SN_TRY);
	if (self && self->task && sn_cancel_reason(self->task) < 0)
		return sn_cancel_reason(self->task);
	return -EAGAIN;
}

/* The element is only read, but sending and receiving share their code. */
static inline void *readable(const void *elem)
{
	return (void *)(uintptr_t)elem;
}

int sn_chan_send(sn_chan *handle, const void *elem)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return sn_likely(chan != NULL) ? do_send(chan, readable(elem), SN_NO_DEADLINE) : -EINVAL;
}

int sn_chan_send_until(sn_chan *handle, const void *elem, int64_t deadline)
{
	struct sn_chan *chan = sn_chan_find(handle);

	if (sn_unlikely(!chan))
		return -EINVAL;
	if (deadline == SN_TRY)
		return try(chan, SN_CASE_SEND, readable(elem));
	return do_send(chan, readable(elem), deadline);
}

int sn_chan_try_send(sn_chan *handle, const void *elem)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return sn_likely(chan != NULL) ? try(chan, SN_CASE_SEND, readable(elem)) : -EINVAL;
}

int sn_chan_recv(sn_chan *handle, void *elem)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return sn_likely(chan != NULL) ? do_recv(chan, elem, SN_NO_DEADLINE) : -EINVAL;
}

int sn_chan_recv_until(sn_chan *handle, void *elem, int64_t deadline)
{
	struct sn_chan *chan = sn_chan_find(handle);

	if (sn_unlikely(!chan))
		return -EINVAL;
	if (deadline == SN_TRY)
		return try(chan, SN_CASE_RECV, elem);
	return do_recv(chan, elem, deadline);
}

int sn_chan_try_recv(sn_chan *handle, void *elem)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return sn_likely(chan != NULL) ? try(chan, SN_CASE_RECV, elem) : -EINVAL;
}

size_t sn_chan_len(const sn_chan *handle)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return chan ? sn_relaxed_load(chan->count) : 0;
}

size_t sn_chan_cap(const sn_chan *handle)
{
	struct sn_chan *chan = sn_chan_find(handle);

	return chan ? chan->capacity : 0;
}
