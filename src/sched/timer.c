/* SPDX-License-Identifier: MIT */
#include "sched/timer.h"

#include <errno.h>

#include "base/pages.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"
#include "sched/wake.h"

/*
 * At most this many deferred functions run before other tasks get their turn and the timers are
 * served again. A function may start a task: if a million timers were due, a million stacks would
 * otherwise have to exist at the same time. It is as many as there are decisions between two turns
 * of the timers (find_work.c).
 */
#define MOST_DEFERRALS 64

/* At most this many timers fire at a time. That takes about 200 us, during which the thread cannot
 * lose its processor, and no other thread can use this heap. The rest fires at the next decision,
 * after one task. */
#define MOST_FIRINGS 1024

/* The first capacity of a heap: as many timers as a page of 4 KiB has room for. */
#define FIRST_CAPACITY (4096 / sizeof(struct sn_timer_entry))

/* How many timers move before the locks are released, after about 20 us. */
#define MOVED_AT_ONCE 256

/* Four children, because then there are half as many levels as in a binary heap, and the four are
 * in at most two neighbouring cache lines. Rejected: an array that begins where the four are in one
 * line. It was no faster, with a thousand timers or with a million. */
#define ARITY 4

void sn_timers_init(struct sn_timers *timers)
{
	*timers = (struct sn_timers){0};
	sn_lock_init(&timers->lock, SN_RANK_TIMERS);
	atomic_store_explicit(&timers->earliest, SN_TIMER_NEVER, memory_order_relaxed);
}

void sn_timers_destroy(struct sn_timers *timers)
{
	sn_pages_give(timers->entries, timers->capacity * sizeof *timers->entries);
}

static void place(struct sn_timers *timers, uint32_t at, struct sn_timer_entry entry)
{
	timers->entries[at] = entry;
	entry.timer->index = at;
}

static void sift_up(struct sn_timers *timers, uint32_t at, struct sn_timer_entry entry)
{
	while (at > 0) {
		uint32_t parent = (at - 1) / ARITY;

		if (timers->entries[parent].when <= entry.when)
			break;
		place(timers, at, timers->entries[parent]);
		at = parent;
	}
	place(timers, at, entry);
}

static void sift_down(struct sn_timers *timers, uint32_t at, struct sn_timer_entry entry)
{
	for (;;) {
		uint32_t first = at * ARITY + 1, least = first;

		if (first >= timers->count)
			break;
		for (uint32_t i = first + 1; i < first + ARITY && i < timers->count; i++)
			if (timers->entries[i].when < timers->entries[least].when)
				least = i;
		if (timers->entries[least].when >= entry.when)
			break;
		place(timers, at, timers->entries[least]);
		at = least;
	}
	place(timers, at, entry);
}

static void remove_at(struct sn_timers *timers, uint32_t at)
{
	struct sn_timer_entry last = timers->entries[--timers->count];

	if (at == timers->count)
		return;
	if (at > 0 && last.when < timers->entries[(at - 1) / ARITY].when)
		sift_up(timers, at, last);
	else
		sift_down(timers, at, last);
}

static void publish_earliest(struct sn_timers *timers)
{
	int64_t earliest = timers->count ? timers->entries[0].when : SN_TIMER_NEVER;

	if (earliest != atomic_load_explicit(&timers->earliest, memory_order_relaxed))
		atomic_store(&timers->earliest, earliest);
}

/* A timer at SN_TIMER_NEVER, which says that there is no timer, would be invisible. It is set one
 * ns earlier, in 292 years. */
static int64_t bounded(int64_t when)
{
	return when == SN_TIMER_NEVER ? when - 1 : when;
}

/* The lock is held. */
static int insert(struct sn_timers *timers, struct sn_timer *timer, int64_t when)
{
	when = bounded(when);
	if (timers->count == timers->capacity) {
		uint32_t capacity = timers->capacity ? timers->capacity * 2 : FIRST_CAPACITY;
		void *entries =
			sn_pages_grow(timers->entries, timers->capacity * sizeof *timers->entries,
				      capacity * sizeof *timers->entries);

		if (!entries)
			return -ENOMEM;
		timers->entries = entries;
		timers->capacity = capacity;
	}
	timer->when = when;
	atomic_store_explicit(&timer->heap, timers, memory_order_relaxed);
	sift_up(timers, timers->count++, (struct sn_timer_entry){when, timer});
	publish_earliest(timers);
	return 0;
}

/*
 * Locks the heap that the timer is in, and returns it; NULL if the timer is in none. A timer leaves
 * its heap only under that heap's lock, so it stays in the heap until the caller unlocks.
 */
static struct sn_timers *lock_heap_of(struct sn_timer *timer)
{
	struct sn_timers *timers;

	while ((timers = atomic_load_explicit(&timer->heap, memory_order_acquire)) != NULL) {
		sn_lock(&timers->lock);
		if (atomic_load_explicit(&timer->heap, memory_order_relaxed) == timers)
			return timers;
		sn_unlock(&timers->lock);
	}
	return NULL;
}

static int start(struct sn_thread *self, struct sn_timer *timer, int64_t when, _Atomic int64_t *by)
{
	struct sn_timers *timers =
		self ? &self->processor->timers : &sn_runtime.processors[0].timers;
	int err;

	sn_lock(&timers->lock);
	err = insert(timers, timer, when);
	if (err == 0 && by)
		atomic_store(by, when);
	sn_unlock(&timers->lock);
	if (err == 0)
		sn_poller_expect(when);
	return err;
}

int sn_timer_start(struct sn_thread *self, struct sn_timer *timer, int64_t when)
{
	return start(self, timer, when, NULL);
}

int sn_timer_advance(struct sn_thread *self, struct sn_timer *timer, int64_t when,
		     _Atomic int64_t *by)
{
	struct sn_timers *timers = lock_heap_of(timer);

	if (!timers)
		return start(self, timer, when, by);
	if (by)
		atomic_store(by, when);
	when = bounded(when);
	if (when < timer->when) {
		timer->when = when;
		sift_up(timers, timer->index, (struct sn_timer_entry){when, timer});
		publish_earliest(timers);
	}
	sn_unlock(&timers->lock);
	sn_poller_expect(when);
	return 0;
}

bool sn_timer_move(struct sn_timer *timer, int64_t when)
{
	struct sn_timers *timers = lock_heap_of(timer);

	if (!timers)
		return false;
	remove_at(timers, timer->index);
	insert(timers, timer, when); /* cannot fail, because one was just removed */
	sn_unlock(&timers->lock);
	sn_poller_expect(when);
	return true;
}

bool sn_timer_stop(struct sn_timer *timer)
{
	struct sn_timers *timers = lock_heap_of(timer);

	if (!timers)
		return false;
	remove_at(timers, timer->index);
	publish_earliest(timers);
	atomic_store_explicit(&timer->heap, NULL, memory_order_release);
	sn_unlock(&timers->lock);
	return true;
}

/*
 * The last entries of the array move first, so the rest is always a heap, whose earliest time stays
 * the same until it is empty. At the end the poller is notified of that time again: it may have
 * looked at the other heap before the timer was there, and at this one after it had left.
 */
bool sn_timers_move(struct sn_timers *from, struct sn_timers *to)
{
	int64_t earliest = sn_timers_earliest(from);
	bool left = true, fits = true;

	while (left && fits) {
		sn_lock(&from->lock);
		/* Only here is a second heap's lock taken, and `to` is the first processor's. */
		sn_lock(&to->lock);
		for (int i = 0; i < MOVED_AT_ONCE && from->count > 0 && fits; i++) {
			struct sn_timer_entry last = from->entries[from->count - 1];

			fits = insert(to, last.timer, last.when) == 0;
			if (fits)
				from->count--;
		}
		publish_earliest(from);
		left = from->count > 0;
		sn_unlock(&to->lock);
		sn_unlock(&from->lock);
	}
	if (earliest != SN_TIMER_NEVER)
		sn_poller_expect(earliest);
	return fits;
}

uint32_t sn_timers_run(struct sn_timers *timers, int64_t now, struct sn_due *due)
{
	struct sn_deferred **last = &due->later;
	uint32_t count = 0, deferrals = 0;

	*due = (struct sn_due){0};
	sn_lock(&timers->lock);
	while (timers->count && timers->entries[0].when <= now && deferrals < MOST_DEFERRALS &&
	       count < MOST_FIRINGS) {
		struct sn_timer *timer = timers->entries[0].timer;
		struct sn_fired fired = {0};
		struct sn_task *task = timer->fire(timer, now, &fired);

		remove_at(timers, 0);
		count++;
		if (fired.again)
			insert(timers, timer,
			       fired.again); /* cannot fail, because one was just removed */
		else
			atomic_store_explicit(&timer->heap, NULL, memory_order_release);
		if (task)
			sn_queue_put(&due->ready, task);
		if (fired.later) {
			*last = fired.later;
			last = &fired.later->next;
			*last = NULL;
			deferrals++;
		}
	}
	publish_earliest(timers);
	sn_unlock(&timers->lock);
	return count;
}
