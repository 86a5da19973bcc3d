/* SPDX-License-Identifier: MIT */
#include "io/side_queue.h"

#include "sched/switch.h"
#include "sched/thread.h"
#include "sync/waits.h"

#define LEAD 1u
#define QUEUED 2u
#define ENDED 4u /* one lead that has ended */

void sn_side_queue_reset(struct sn_side_queue *queue)
{
	atomic_store_explicit(&queue->word, 0, memory_order_relaxed);
	queue->waits = (struct sn_private_waits){0};
}

/* Takes the lead if it is free. Returns true if it was, and the word before. Acquire: sees what the
 * previous leader did. */
static bool take_lead(struct sn_side_queue *queue, uint32_t *word)
{
	*word = atomic_load_explicit(&queue->word, memory_order_relaxed);
	while (!(*word & LEAD))
		if (atomic_compare_exchange_weak_explicit(&queue->word, word, *word | LEAD,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Sets QUEUED if another task leads; returns false if none does. The lock is held. */
static bool announce(struct sn_side_queue *queue)
{
	uint32_t word = atomic_load_explicit(&queue->word, memory_order_relaxed);

	while (word & LEAD)
		if (atomic_compare_exchange_weak_explicit(&queue->word, &word, word | QUEUED,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Waits for the lead. Returns 0 when it was handed over, 1 when it is free now, or an error. */
static int queue_up(struct sn_side_queue *queue, enum sn_side_index side)
{
	struct sn_lock *lock = sn_waits_lock_of(queue);
	struct sn_wait wait;
	int err;

	sn_lock(lock);
	if (!announce(queue)) {
		sn_unlock(lock);
		return 1;
	}
	sn_waiter_init(&wait.waiter, sn_thread_self(), SN_NO_DEADLINE, 0);
	sn_waits_put_last(&queue->waits, &wait);
	err = sn_wait_park(&wait, lock,
			   side == SN_SIDE_READ ? "its turn to receive" : "its turn to send");
	if (err < 0)
		sn_unlock(lock);
	return err;
}

/* Returns 0 or 1 with the lead, or an error without it. 0: the operation has to be tried again. 1:
 * anything that has arrived since the last try is an edge that is still there. */
static int lead(struct sn_side_queue_place *place)
{
	uint32_t word;
	int err;

	do {
		if (take_lead(place->queue, &word)) {
			place->leads = true;
			return word / ENDED == place->seen / ENDED;
		}
		SN_RACE_WINDOW();
		err = queue_up(place->queue, place->side);
	} while (err == 1);
	place->leads = err == 0;
	return err;
}

int sn_side_queue_wait(struct sn_side_queue_place *place)
{
	int n = 1;

	if (!place->leads) {
		n = lead(place);
		if (place->leads && place->side == SN_SIDE_WRITE)
			sn_fd_want_room(place->d, true);
	}
	if (n == 0) /* the lead may have been passed on because of a close or the like */
		n = sn_fd_error(atomic_load(&place->d->control));
	return n == 1 ? sn_fd_await(place->d, place->side) : n;
}

void sn_side_queue_give(struct sn_side_queue_place *place)
{
	struct sn_side_queue *queue = place->queue;
	struct sn_lock *lock = sn_waits_lock_of(queue);
	uint32_t word = atomic_load_explicit(&queue->word, memory_order_relaxed), rest;
	struct sn_wait *next;

	if (place->side == SN_SIDE_WRITE)
		sn_fd_want_room(place->d, false);
	place->leads = false;
	/* Release: the next leader sees the new number, and the effect of the edge that was
	 * taken. */
	while (!(word & QUEUED))
		if (atomic_compare_exchange_weak_explicit(
			    &queue->word, &word, (word & ~LEAD) + ENDED, memory_order_release,
			    memory_order_relaxed))
			return;
	SN_RACE_WINDOW();
	sn_lock(lock);
	next = sn_waits_claim(&queue->waits);
	rest = (word & ~(LEAD | QUEUED)) + ENDED;
	if (next)
		rest |= LEAD | (queue->waits.first ? QUEUED : 0);
	atomic_store_explicit(&queue->word, rest, memory_order_release);
	sn_unlock(lock);
	if (next)
		sn_waiter_wake(sn_thread_self(), &next->waiter, 0, SN_READY_LAST);
}
