/* SPDX-License-Identifier: MIT */
/*
 * Looking for work: in the timers, the network and the queues, and then on the other processors,
 * from which a thread steals.
 */
#include "sched/steal.h"

#include <sennit/clock.h>

#include "sched/idle.h"
#include "sched/netpoll.h"
#include "sched/processors.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/turn.h"
#include "sched/wake.h"
#include "wait/backoff.h"

/*
 * Every so many decisions, the timers, the network and one task of the global queue, in this order,
 * come before the local queue. At some 50 ns a switch this is every 3 us. With tasks that run for
 * longer, the time decides: after FAIR_NS the monitor makes the next decision such a one
 * (sysmon.c). A power of two near the 61 of Go and tokio.
 */
#define FAIR_TICKS 64

/* A busy processor polls the network itself, at most this often: a system call of 0.5 us each. */
#define BUSY_POLL_NS 100000

/* At most so many tasks move from the global to a local queue at once: half of the ring's
 * capacity. */
#define GLOBAL_BATCH (SN_RUNQUEUE_CAPACITY / 2)

/*
 * How long an idle thread looks for work before it sleeps. Waking a sleeper takes 5 to 50 us, and a
 * peer's answer over loopback 10 to 20; a longer search would take CPU from the thread that
 * prepares that answer. How often the search succeeds depends on the load ("idle" in
 * docs/waiting.md, where "slept" counts the searches that found nothing): in 69 of 100 cases,
 * nearly always within 4 us, when tasks spawn tasks (bench-dump); in 80 when they pass a lock
 * (bench-mutex); once in 200 in a relay, which loses 3 % of a CPU to it.
 */
#define IDLE_SPIN_NS 5000

/*
 * A thief that stole a single task, and is back this soon, first lets the victim prepare some more.
 * Otherwise, where a task spawns others that are shorter than this, the thief would take each as
 * soon as it is there. The two would spend their time in passing the cache lines of the queue to
 * each other and, whenever one of them is late, in sleeping and waking.
 */
#define POOR_STEAL_NS 1500

/* Returns how many have fired. The thread has a processor. */
static uint32_t run_timers(struct sn_thread *self, struct sn_timers *timers, int64_t now)
{
	struct sn_due due;
	uint32_t count = sn_timers_run(timers, now, &due);
	struct sn_task *task;

	if (count)
		sn_record_timed(self->processor->record,
				sn_record_what(SN_RECORD_TIMERS, 0, count));
	/* Without the heap's lock, because this may start a thread. */
	while ((task = sn_queue_get(&due.ready)) != NULL)
		sn_ready(self, task, SN_READY_LAST);
	while (due.later) {
		struct sn_deferred *deferred = due.later;

		due.later = deferred->next;
		deferred->run(self, deferred);
	}
	return count;
}

/* Whether there are tasks to wake; they are in *ready then. */
static bool poll_now(struct sn_thread *self, struct sn_processor *p, struct sn_queue *ready)
{
	int n = sn_netpoll_used() ? sn_netpoll(0, ready) : 0;

	if (n <= 0)
		return false;
	sn_record_timed(p->record, sn_record_what(SN_RECORD_POLL, 0, (unsigned)n));
	self->polled++;
	/* There is one writer, and the poller only looks how fast it grows. */
	atomic_store_explicit(&p->polled,
			      atomic_load_explicit(&p->polled, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return true;
}

/*
 * While the poller rests (idle.c). The first task that is found is not announced, because this
 * thread runs it at once. The fair turns need not poll as well: what they find is announced, and
 * the thread that is woken for it finds nothing, becomes idle, and thereby ends the rest. (Without
 * the line that records the time, every 0.1 ms; round trips over one Unix connection then took
 * 11 us of CPU instead of 9.)
 */
static struct sn_task *poll_for_poller(struct sn_thread *self, struct sn_processor *p)
{
	struct sn_queue ready = {0};
	struct sn_task *task;

	if (atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed) != SN_POLLING_RESTS ||
	    !poll_now(self, p, &ready))
		return NULL;
	p->last_poll = sn_now();
	task = sn_queue_get(&ready);
	sn_record_wake(self, task, NULL);
	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
	sn_ready_each(self, &ready);
	return task;
}

/*
 * Tasks that the network wakes go to the end of the global queue if anything is in it, otherwise to
 * the ring. A ring that is refilled here would keep ahead of the global queue all the time: with a
 * thousand connections that each have a request under way, the older half of a full ring, which had
 * gone to the global queue, waited for nearly three times as long as the others (make bench-relay,
 * the 99th percentile: 59 ms with the ring alone, 30 with this; 33 where a processor polls only
 * when it has nothing else).
 */
void sn_poll_network(struct sn_thread *self, struct sn_processor *p, int64_t now)
{
	struct sn_queue ready = {0};

	p->last_poll = now;
	if (atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed) == SN_POLLING_SLEEPS ||
	    !poll_now(self, p, &ready))
		return;
	/* Relaxed: either place is sound. */
	if (atomic_load_explicit(&sn_runtime.global_size, memory_order_relaxed) > 0)
		sn_ready_all(&ready);
	else
		sn_ready_each(self, &ready);
}

/* ---- the others ---- */

static uint32_t next_random(struct sn_thread *self)
{
	/* xorshift: the order of victims only has to differ between threads. */
	self->random ^= self->random << 13;
	self->random ^= self->random >> 17;
	self->random ^= self->random << 5;
	return self->random;
}

/* One round over all other processors. */
static struct sn_task *steal(struct sn_thread *self, struct sn_processor *p, bool desperate)
{
	int n = sn_runtime.capacity;
	uint32_t start = next_random(self);

	for (int i = 0; i < n; i++) {
		struct sn_processor *victim =
			&sn_runtime.processors[(start + (uint32_t)i) % (uint32_t)n];
		struct sn_task *task;
		bool from_next;

		if (victim == p)
			continue;
		from_next = desperate && sn_runqueue_ring_empty(&victim->queue);
		task = sn_runqueue_steal(&p->queue, &victim->queue, desperate);
		if (task) {
			self->stole_next = from_next;
			sn_count(&p->stats.steals, 1);
			sn_record_timed(p->record, sn_record_what(SN_RECORD_STEAL, 0, victim->id));
			return task;
		}
		/* Otherwise the timers of a processor that is busy, or that has no thread, are
		 * late. */
		if (desperate && sn_timers_earliest(&victim->timers) <= sn_now() &&
		    run_timers(self, &victim->timers, sn_now()) > 0) {
			task = sn_runqueue_get(&p->queue);
			if (task)
				return task;
		}
	}
	return NULL;
}

static void let_work_gather(struct sn_thread *self)
{
	int64_t since = self->poor_at ? sn_now() - self->poor_at : POOR_STEAL_NS;

	if (since < POOR_STEAL_NS) {
		SN_BACKOFF(backoff, SN_WAIT_GATHER, POOR_STEAL_NS - since, 0);
		while (sn_backoff_pause(&backoff))
			;
	}
}

/* Spins until the others have work to share, or for long enough. */
static struct sn_task *look_at_others(struct sn_thread *self, struct sn_processor *p)
{
	SN_BACKOFF(backoff, SN_WAIT_IDLE, self->fruitless < SN_NAP_AFTER ? IDLE_SPIN_NS : 0, 0);
	struct sn_task *task;

	let_work_gather(self);
	do {
		if (atomic_load_explicit(&sn_runtime.stopping, memory_order_relaxed))
			return NULL;
		if ((task = sn_tie_take(self)) != NULL)
			return task;
		if ((task = steal(self, p, false)) != NULL) {
			self->poor_at = sn_runqueue_empty(&p->queue) ? sn_now() : 0;
			return task;
		}
		if ((task = sn_global_get(p, GLOBAL_BATCH, false)) != NULL)
			return task;
	} while (sn_backoff_pause(&backoff));
	return steal(self, p, true);
}

/* ---- everywhere ---- */

/* What comes before the local queue at a fair tick. */
static void be_fair(struct sn_thread *self, struct sn_processor *p, uint32_t tick)
{
	int64_t now = sn_now();

	sn_record_time_at(p->record, now);
	sn_status_clock_advance(now); /* for is_older(), in case the monitor is late */
	atomic_store_explicit(&p->next_fair, tick + FAIR_TICKS, memory_order_relaxed);
	/* There is one writer, and the monitor only checks whether the value has changed. */
	atomic_store_explicit(&p->fair_turns,
			      atomic_load_explicit(&p->fair_turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (sn_timers_earliest(&p->timers) <= now)
		run_timers(self, &p->timers, now);
	if (now - p->last_poll > BUSY_POLL_NS)
		sn_poll_network(self, p, now);
}

/* What this thread need not ask others for. */
static struct sn_task *take_any(struct sn_thread *self, struct sn_processor *p)
{
	struct sn_task *task = sn_unlikely(sn_ties_wait(self)) ? sn_tie_turn(self, p) : NULL;

	return task ? task : sn_take_any_local(p);
}

struct sn_task *sn_look_for_work(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;
	struct sn_task *task;
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed);

	/* The order is a promise: nothing that returns early may come before the timers and the
	 * network. */
	if (sn_is_fair_tick(p, tick)) {
		be_fair(self, p, tick);
		if ((task = sn_global_get(p, 1, true)) != NULL)
			return task;
	} else if (sn_timers_earliest(&p->timers) != SN_TIMER_NEVER) {
		int64_t now = sn_now();

		if (sn_timers_earliest(&p->timers) <= now)
			run_timers(self, &p->timers, now);
	}
	if ((task = take_any(self, p)) != NULL)
		return task;
	if ((task = sn_global_get(p, GLOBAL_BATCH, false)) != NULL)
		return task;
	if (sn_all_others_idle()) {
		task = poll_for_poller(self, p);
		return task ? task : steal(self, p, true);
	}
	sn_poll_network(self, p, p->last_poll);
	if ((task = take_any(self, p)) != NULL)
		return task;

	/* Half as many spinning threads as there are busy processors find work as fast as more
	 * would. */
	if (!self->spinning) {
		uint32_t busy = sn_processors_in_use() -
				atomic_load_explicit(&sn_runtime.idle_count, memory_order_relaxed);

		if (2 * atomic_load_explicit(&sn_runtime.spinning, memory_order_relaxed) >= busy)
			return NULL;
		sn_start_spinning(self);
	}
	return look_at_others(self, p);
}
