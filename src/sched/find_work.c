/* SPDX-License-Identifier: MIT */
/*
 * Looking for work: in the timers, the network and the queues, and then on the other processors,
 * from which a thread steals. Before the network it looks at one processor that may have stalled
 * (models/stalled.pml). That costs the fair ticks nothing: they come before all of this.
 */
#include "sched/find_work.h"

#include <sennit/clock.h>

#include "sched/idle.h"
#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/turn.h"
#include "sched/wake.h"
#include "wait/backoff.h"

/*
 * Every so many decisions, the timers, the network and one task of the global queue, in this order,
 * come before the local queue. If a switch takes about 50 ns, that is every 3 us. If tasks run for
 * longer, the monitor makes the next decision a fair one after FAIR_NS (sysmon.c). The figure is a
 * power of two near the 61 of Go and tokio.
 */
#define FAIR_TICKS 64

/* The shortest time between two polls of the network by a busy processor, because each is a system
 * call of 0.5 us. */
#define BUSY_POLL_NS 100000

/* How many tasks one look may move from the global queue to a local one: half of the ring's
 * capacity. */
#define GLOBAL_BATCH (SN_RUNQUEUE_CAPACITY / 2)

/*
 * How long an idle thread looks for work before it sleeps. Waking a sleeper takes 5 to 50 us, and a
 * peer's answer over loopback 10 to 20; a longer search would take CPU from the thread that
 * prepares that answer. How often the search succeeds depends on the load ("idle" in
 * docs/waiting.md, where "slept" counts the searches that found nothing). If tasks spawn tasks
 * (bench-dump), 69 of 100 searches succeed, nearly always within 4 us. If they pass a lock
 * (bench-mutex), 80 of 100 do. In a relay one in 200 does, and the searches cost it 3 % of a CPU.
 */
#define IDLE_SPIN_NS 5000

/*
 * A thief that stole a single task and comes back this soon first lets the victim queue some more.
 * Otherwise, if a task spawns others that run for less than this, the thief would take each of them
 * as soon as it is queued. Thief and victim would then spend their time passing the cache lines of
 * the queue to each other and, whenever one of them is late, sleeping and waking.
 */
#define POOR_STEAL_NS 1500

/*
 * After how many decisions of its own a busy processor looks whether another one has taken any. If
 * not, its thread computes or blocks, or the kernel has put it aside.
 */
#define STALLED_TICKS 32

/* Fires the timers that are due, and returns how many there were. The thread has a processor. */
static uint32_t run_timers(struct sn_thread *self, struct sn_timers *timers, int64_t now)
{
	struct sn_due due;
	uint32_t count = sn_timers_run(timers, now, &due);
	struct sn_task *task;

	if (count)
		sn_record_timed(self->processor->record,
				sn_record_what(SN_RECORD_TIMERS, 0, count));
	/* After sn_timers_run() has released the heap's lock, because this may start a thread. */
	while ((task = sn_queue_get(&due.ready)) != NULL)
		sn_ready(self, task, SN_READY_LAST);
	while (due.later) {
		struct sn_deferred *deferred = due.later;

		due.later = deferred->next;
		deferred->run(self, deferred);
	}
	return count;
}

/* Polls without waiting. Returns whether there are tasks to wake, which are in *ready then. */
static bool poll_now(struct sn_thread *self, struct sn_processor *p, struct sn_queue *ready)
{
	int n = sn_netpoll_used() ? sn_netpoll(0, ready) : 0;

	if (n <= 0)
		return false;
	sn_record_timed(p->record, sn_record_what(SN_RECORD_POLL, 0, (unsigned)n));
	self->polled++;
	/* Only this thread writes it, and the poller only looks how fast it grows. */
	atomic_store_explicit(&p->polled,
			      atomic_load_explicit(&p->polled, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return true;
}

/*
 * Polls in place of the poller while that rests (idle.c). The first task that is found is not
 * announced, because this thread runs it next. It stores last_poll, so that the fair turns do not
 * poll as well: they announce what they find, and the thread that is woken for it finds nothing,
 * becomes idle, and thereby ends the rest. Without that store this happened every 0.1 ms, and round
 * trips over one Unix connection took 11 us of CPU instead of 9.
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
 * the ring. If each poll refilled the ring, the ring would always be served before the global
 * queue. This hurt a relay with a thousand connections that each had a request under way: a full
 * ring moves its older half to the global queue, and those tasks waited nearly three times as long
 * as the others. The 99th percentile of make bench-relay was 59 ms with the ring alone and is 30 ms
 * with this rule; it was 33 ms when a processor polled only if it had nothing else to do.
 */
void sn_poll_network(struct sn_thread *self, struct sn_processor *p, int64_t now)
{
	struct sn_queue ready = {0};

	p->last_poll = now;
	if (atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed) == SN_POLLING_SLEEPS ||
	    !poll_now(self, p, &ready))
		return;
	/* Relaxed: a task may go to either place, and only fairness depends on the choice. */
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

/* If desperate, also takes the next task, and fires the timers that are due there: a processor that
 * is busy, or that has no thread, does not fire its own in time. */
static struct sn_task *steal_from(struct sn_thread *self, struct sn_processor *p,
				  struct sn_processor *victim, bool desperate)
{
	const bool from_next = desperate && sn_runqueue_ring_empty(&victim->queue);
	struct sn_task *task = sn_runqueue_steal(&p->queue, &victim->queue, desperate);

	if (task) {
		self->stole_next = from_next;
		sn_count(&p->stats.steals, 1);
		sn_record_timed(p->record, sn_record_what(SN_RECORD_STEAL, 0, victim->id));
		return task;
	}
	if (desperate && sn_timers_earliest(&victim->timers) <= sn_now() &&
	    run_timers(self, &victim->timers, sn_now()) > 0)
		return sn_runqueue_get(&p->queue);
	return NULL;
}

/* Tries every other processor once, beginning with a random one. */
static struct sn_task *steal(struct sn_thread *self, struct sn_processor *p, bool desperate)
{
	int n = sn_runtime.capacity;
	uint32_t start = next_random(self);

	for (int i = 0; i < n; i++) {
		struct sn_processor *victim =
			&sn_runtime.processors[(start + (uint32_t)i) % (uint32_t)n];
		struct sn_task *task = victim == p ? NULL : steal_from(self, p, victim, desperate);

		if (task)
			return task;
	}
	return NULL;
}

/*
 * Watches the next processor that has a thread. The others have no tasks, and there may be many:
 * those for CPUs that the program must not use. So many at most are passed over at a time.
 */
#define PASSED_OVER 32

static void watch_next(struct sn_processor *p, uint32_t tick)
{
	const uint32_t n = (uint32_t)sn_runtime.capacity;
	struct sn_processor *next;

	for (int i = 0; i < PASSED_OVER; i++) {
		p->watched = (p->watched + 1) % n;
		next = &sn_runtime.processors[p->watched];
		if (next != p && atomic_load_explicit(&next->thread, memory_order_relaxed))
			break;
	}
	p->watched_tick = atomic_load_explicit(&next->tick, memory_order_relaxed);
	p->watched_since = tick;
}

/*
 * Steals from a processor that has taken no decision for a while. A thread that finds something in
 * the network each time it polls never comes to steal otherwise. What is queued on the other
 * processor would wait until the kernel runs that one's thread again, or until the monitor revokes
 * the processor. One processor is watched at a time, so the cost does not grow with their number.
 *
 * The tick is read relaxed: a value that is out of date makes this steal from a processor that
 * moves, or look at it once more, and the queue orders what is stolen (runqueue.c).
 */
static struct sn_task *steal_from_stalled(struct sn_thread *self, struct sn_processor *p,
					  uint32_t tick)
{
	struct sn_processor *victim = &sn_runtime.processors[p->watched];
	struct sn_task *task = NULL;

	if (tick - p->watched_since < STALLED_TICKS)
		return NULL;
	if (victim != p &&
	    atomic_load_explicit(&victim->tick, memory_order_relaxed) == p->watched_tick)
		task = steal_from(self, p, victim, true);
	watch_next(p, tick);
	return task;
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

/* Spins until another processor has work to share, or IDLE_SPIN_NS have passed. A thread that may
 * nap next looks only once. */
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

/* Does what comes before the queues at a fair tick: serves the timers and the network. */
static void be_fair(struct sn_thread *self, struct sn_processor *p, uint32_t tick)
{
	int64_t now = sn_now();

	sn_record_time_at(p->record, now);
	sn_status_clock_advance(now); /* for is_older(), in case the monitor is late */
	atomic_store_explicit(&p->next_fair, tick + FAIR_TICKS, memory_order_relaxed);
	/* Only this thread writes it, and the monitor only checks whether the value has changed. */
	atomic_store_explicit(&p->fair_turns,
			      atomic_load_explicit(&p->fair_turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (sn_timers_earliest(&p->timers) <= now)
		run_timers(self, &p->timers, now);
	if (now - p->last_poll > BUSY_POLL_NS)
		sn_poll_network(self, p, now);
}

/* Takes a task that is at hand: one that is tied to this thread, or one of its processor's. */
static struct sn_task *take_any(struct sn_thread *self, struct sn_processor *p)
{
	struct sn_task *task = sn_unlikely(sn_ties_wait(self)) ? sn_tie_turn(self, p) : NULL;

	return task ? task : sn_take_any_local(p);
}

struct sn_task *sn_find_work(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;
	struct sn_task *task;
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed);

	/* The timers and the network are promised to come first, so nothing before them may return
	 * a task. */
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
	if ((task = steal_from_stalled(self, p, tick)) != NULL)
		return task;
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
