/* SPDX-License-Identifier: MIT */
#include "sched/runqueue.h"

#include "sched/task.h"
#include "wait/backoff.h"

#define MASK (SN_RUNQUEUE_CAPACITY - 1)
_Static_assert((SN_RUNQUEUE_CAPACITY & MASK) == 0, "the capacity must be a power of two");

/*
 * How long a next task must have stayed before it may be stolen. This is many times as long as a
 * switch (tens of ns), so that two tasks that wake each other stay together, and far shorter than a
 * time slice. The histogram of "steal" (docs/waiting.md) has few shorter stays: if the task is
 * still there when a thief finds it, its processor is usually busy with something else, and a
 * longer wait would only delay the task.
 */
#define STEAL_NEXT_AFTER_NS 3000

/* How many turns ahead a task is prefetched (sn_task_prefetch_turn()). A turn of a short task takes
 * about half as long as an access to memory. */
#define FETCHED_AHEAD 3

/*
 * While more tasks than DEEP are in the ring, the stacks of the next ones have probably left the
 * caches since their last turns, and are prefetched STACK_AHEAD turns ahead. The stack pointer is
 * in the task's block, which has been prefetched a turn earlier. If a thief has taken the task
 * since then, and the task has ended, the block may be another task's; it stays mapped, and a wrong
 * address does no harm.
 */
#define DEEP 8
#define STACK_AHEAD 2

void sn_queue_put(struct sn_queue *queue, struct sn_task *task)
{
	task->next = NULL;
	if (queue->tail)
		queue->tail->next = task;
	else
		queue->head = task;
	queue->tail = task;
}

struct sn_task *sn_queue_get(struct sn_queue *queue)
{
	struct sn_task *task = queue->head;

	if (task) {
		queue->head = task->next;
		if (!queue->head)
			queue->tail = NULL;
		task->next = NULL;
	}
	return task;
}

void sn_queue_append(struct sn_queue *to, struct sn_queue *from)
{
	if (!from->head)
		return;
	if (to->tail)
		to->tail->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	*from = (struct sn_queue){0};
}

static struct sn_task *slot(struct sn_runqueue *queue, uint32_t at)
{
	return atomic_load_explicit(&queue->slots[at & MASK], memory_order_relaxed);
}

static void set_slot(struct sn_runqueue *queue, uint32_t at, struct sn_task *task)
{
	atomic_store_explicit(&queue->slots[at & MASK], task, memory_order_relaxed);
}

uint32_t sn_runqueue_put(struct sn_runqueue *queue, struct sn_task *task, struct sn_queue *overflow)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	for (;;) {
		uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
		struct sn_task *batch[SN_RUNQUEUE_CAPACITY / 2];
		const uint32_t n = SN_RUNQUEUE_CAPACITY / 2;

		if (tail - head < SN_RUNQUEUE_CAPACITY) {
			set_slot(queue, tail, task);
			atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
			return 0;
		}
		for (uint32_t i = 0; i < n; i++)
			batch[i] = slot(queue, head + i);
		if (!atomic_compare_exchange_strong_explicit(&queue->head, &head, head + n,
							     memory_order_acq_rel,
							     memory_order_relaxed))
			continue; /* a thief has made room */
		for (uint32_t i = 0; i < n; i++)
			sn_queue_put(overflow, batch[i]);
		sn_queue_put(overflow, task);
		return n + 1;
	}
}

/* Not inlined: where few tasks are queued, the loop should not be in their way. */
static sn_noinline void prefetch_stack(const struct sn_task *task)
{
	sn_task_prefetch_stack(task);
}

struct sn_task *sn_runqueue_get(struct sn_runqueue *queue)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);

	while (head != tail) {
		struct sn_task *task = slot(queue, head);

		if (atomic_compare_exchange_strong_explicit(&queue->head, &head, head + 1,
							    memory_order_acq_rel,
							    memory_order_acquire)) {
			if (tail - head > FETCHED_AHEAD)
				sn_task_prefetch_turn(slot(queue, head + FETCHED_AHEAD));
			if (sn_unlikely(tail - head > DEEP))
				prefetch_stack(slot(queue, head + STACK_AHEAD));
			return task;
		}
	}
	return NULL;
}

struct sn_task *sn_runqueue_first(struct sn_runqueue *queue)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);

	return head == tail ? NULL : slot(queue, head);
}

struct sn_task *sn_runqueue_peek(struct sn_runqueue *queue)
{
	/* In the order of a thief. The acquiring load of tail orders the load of the slot, and what
	 * is read of the task in it. */
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);

	return head == tail ? NULL : slot(queue, head);
}

static struct sn_task *steal_next_task(struct sn_runqueue *victim)
{
	struct sn_task *task = atomic_load_explicit(&victim->next, memory_order_acquire);

	if (!task)
		return NULL;
	SN_BACKOFF(backoff, SN_WAIT_STEAL, STEAL_NEXT_AFTER_NS, 0);
	while (sn_backoff_pause(&backoff))
		if (atomic_load_explicit(&victim->next, memory_order_relaxed) != task)
			return NULL;
	/* If the task has run and was woken again, the address is the same, and it may be stolen
	 * just as well. */
	if (atomic_compare_exchange_strong_explicit(&victim->next, &task, NULL,
						    memory_order_acq_rel, memory_order_relaxed))
		return task;
	return NULL;
}

struct sn_task *sn_runqueue_steal(struct sn_runqueue *mine, struct sn_runqueue *victim,
				  bool steal_next)
{
	uint32_t my_tail = atomic_load_explicit(&mine->tail, memory_order_relaxed);

	for (;;) {
		uint32_t head = atomic_load_explicit(&victim->head, memory_order_acquire);
		uint32_t tail = atomic_load_explicit(&victim->tail, memory_order_acquire);
		uint32_t n = tail - head;

		n -= n / 2;
		if (n == 0)
			return steal_next ? steal_next_task(victim) : NULL;
		if (n > SN_RUNQUEUE_CAPACITY / 2)
			continue; /* head and tail are of different moments */
		/*
		 * The caller's own ring is empty, so it has room for half of another ring. Its
		 * owner, the caller, has seen that in sn_runqueue_get(), by an acquiring load of a
		 * head that thieves released. A thief that still reads the slots written here read
		 * an older head, so its compare-and-swap fails and its reads have no effect.
		 *
		 * The reads of the victim's slots are relaxed. They come after the acquiring load
		 * of tail, which saw them published, and before the release of the
		 * compare-and-swap.
		 */
		for (uint32_t i = 0; i < n; i++)
			set_slot(mine, my_tail + i, slot(victim, head + i));
		if (!atomic_compare_exchange_strong_explicit(&victim->head, &head, head + n,
							     memory_order_acq_rel,
							     memory_order_relaxed))
			continue;
		/* Returns the last task, and publishes the others. */
		n--;
		if (n > 0)
			atomic_store_explicit(&mine->tail, my_tail + n, memory_order_release);
		return slot(mine, my_tail + n);
	}
}

bool sn_runqueue_empty(struct sn_runqueue *queue)
{
	/*
	 * A task moves from next into the ring when it is displaced, so the order matters: if next
	 * were read first, the task could be missed in both places. Tail is read again to know that
	 * nothing was put into the ring in between.
	 *
	 * Sequentially consistent, because sn_stop_spinning() calls this right after it has left
	 * the count of spinning threads. sn_runqueue_take_next() only acquires, so a machine may
	 * show its effect before that of an earlier put. The task of that put is then missed here,
	 * but its waker, whose fence comes after both, sees that the caller no longer counts as
	 * spinning (wake.c).
	 */
	for (;;) {
		uint32_t tail = atomic_load(&queue->tail);
		uint32_t head = atomic_load(&queue->head);
		struct sn_task *next = atomic_load(&queue->next);

		if (atomic_load(&queue->tail) == tail)
			return head == tail && next == NULL;
	}
}
