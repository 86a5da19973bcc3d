/* SPDX-License-Identifier: MIT */
/*
 * The monitor.
 *
 * It looks at each processor every PERIOD_MIN_NS while there is something to do, and less and less
 * often otherwise: every SN_MONITOR_BUSY_NS while no processor is idle, and not at all while all
 * are. A thread that has work and finds every processor taken may end the monitor's nap
 * (sysmon_sleep.h).
 *
 * Of a processor the monitor sees which thread has it, how often that thread has gone outside, and
 * how many scheduling decisions were made. If anything waits for the processor, the monitor revokes
 * it
 *   - after BLOCKED_NS in one stretch of user code, if the thread sleeps: it is in a bracket, or
 *     the kernel says so;
 *   - after HOG_NS without a scheduling decision, whatever the task has done: it may have computed,
 *     or called functions that do not park in a loop. If the processor was taken from another such
 *     task a moment ago and a timer is due, the limit is NEXT_HOG_NS.
 * A thread that is inside the runtime at that moment cannot be revoked. The monitor then asks it to
 * lend its processor at its next entry (sn_lease_expire()). Either way the task stays on its
 * thread, so calls that do not park, according to the headers, never move it.
 *
 * A processor is waited for by a task in a queue, by a timer that is due, and by descriptors and
 * timers that no thread would notice, because threads that block or compute have all processors and
 * no thread is in the poller.
 *
 * Decisions are fair by their number (find_work.c), which is a promise in time only if tasks are
 * short. If anything waits, and a processor's timers, network and global queue have not had their
 * turn for FAIR_NS, the monitor therefore gives them the next decision. Tasks that wake each other,
 * so that the next task always overtakes the ring, may do so for HOG_NS at most.
 *
 * A thread seems to sleep if its CPU clock stands still between two looks (a system call of 0.3
 * us). Only then does the monitor read in /proc whether the thread waits or was preempted by the OS
 * (10 us). Revoking from a thread that is merely preempted would put one more runnable thread on a
 * machine that has too many already.
 *
 * While a collector stops the world the monitor revokes nothing: a stopped thread does not use its
 * processor, but another thread in its place would have to be stopped, too. (With Boehm's collector
 * at 200 collections a second, a program of two processors had 9 to 11 threads, for all of which
 * every collection waited; with this rule it has 5 to 9.)
 *
 * The monitor also does work that no thread waits for, from a list of chores (sysmon.h). It trims
 * the stacks of tasks that have been parked for long (observe/trim.h), cools stacks that nobody has
 * needed (stack/stack_cool.h), and more. Chores work in small steps, because looks wait for them.
 *
 * What the monitor sees is only a hint: the lease's protocol decides whether the thread is outside.
 */
#include "sched/sysmon.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <sennit/clock.h>

#include "base/counters.h"
#include "base/cpus.h"
#include "sched/birth.h"
#include "sched/collector.h"
#include "sched/lease.h"
#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/status.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/thread.h"
#include "sched/thread_list.h"
#include "sched/thread_sleeps.h"
#include "wait/checked.h"
#include "wait/futex.h"

/* Go's figures. 20 us is a few times the cost of handing a processor over, and 10 ms is a usual
 * time slice for a task that computes. */
#define PERIOD_MIN_NS 20000
#define PERIOD_MAX_NS 10000000
#define BLOCKED_NS 20000
#define HOG_NS 10000000

/*
 * Tasks that compute come in rows, and a timer that is due would have to wait for several of them.
 * The second one within HOG_ROW_NS therefore gets less time, if a timer is due. If only tasks that
 * compute wait for each other, it does not: to run more of their threads at the same time does not
 * help.
 */
#define NEXT_HOG_NS 2500000
#define HOG_ROW_NS 100000000

/* How often a processor with long tasks serves its timers, the network and the global queue. */
#define FAIR_NS 5000000

/* How many looks without a revocation precede the growth of the period; they take 1 ms at least. */
#define QUIET_LOOKS 50

/* The same after a deep sleep. It is less, because a program that wakes for a moment ten times a
 * second should not pay for 50 looks each time. */
#define WOKEN_LOOKS 5

/* While no processor is idle, or something waits, the period does not grow beyond
 * SN_MONITOR_BUSY_NS. A thread that blocks thus loses its processor by the end of the second such
 * period, and HOG_NS is exceeded by a tenth at most. Nor does the period grow further while
 * decisions are made, because the next decision would end a longer nap. */

/*
 * When the monitor first sees a thread outside while something waits, it looks again after the
 * shortest period, however long the period has grown. Otherwise it would never see a blocking call
 * twice that is shorter than the period, and never revoke from it.
 *
 * After an urgent nap it looks HINT_LOOKS more times, each after twice the time of the one before.
 * The thread that ended the nap has often only just taken the last processor for another thread,
 * which still has to wake before it can block.
 *
 * For all of these looks there must be credit (sysmon_sleep.h).
 */
#define HINT_LOOKS 3

/* When every processor has been idle for this many of the longest periods (0.1 s), the monitor
 * sleeps until one is not idle any more. */
#define DEEP_SLEEP_LOOKS 10

/* The monitor polls the network if no other thread has done so for this long. */
#define POLL_NS 10000000

/* The period at which the monitor counts the CPUs again, which takes a few system calls, 30 us. */
#define RECOUNT_NS 1000000000

struct look {
	struct sn_thread *thread;
	uint32_t inside, stays;
	int64_t since; /* when this stretch of user code was first seen */
	uint32_t tick; /* the number of scheduling decisions */
	int64_t held;  /* when this number was first seen */
	uint32_t turn; /* the number of turns of the ring */
	int64_t next;  /* when this number was first seen: since then only next tasks have run */
	uint32_t fair_turns;
	int64_t unfair;     /* when this number was first seen */
	int64_t cpu_time;   /* the thread's, at the last look; -1 if it was not read */
	bool reported;      /* the stay was reported as a stall */
	int64_t hogged;     /* when the processor was last taken from a thread that computed */
	uint32_t last_tick; /* the processor's, whichever thread has it */
};

static pthread_t monitor;
static struct look *looks;
static bool revoking;
static struct sn_sysmon_attr attr;

/* ---- is it asleep? ---- */

/* Whether the thread sleeps. Reads /proc only if its CPU clock has stood still since the last
 * look. */
static bool asleep(struct look *look, const struct sn_thread *thread)
{
	int64_t former = look->cpu_time;

	look->cpu_time = sn_thread_cpu_time(thread);
	return former >= 0 && look->cpu_time == former && sn_thread_sleeps(thread);
}

/* ---- one look ---- */

/* Whether the absence of this processor's thread delays anything. */
static bool something_waits(struct sn_processor *p, struct sn_thread *thread, int64_t now)
{
	if (atomic_load(&sn_runtime.global_size) > 0 || !sn_runqueue_empty(&p->queue))
		return true;
	if (sn_timers_earliest(&p->timers) <= now)
		return true;
	/* Tasks that are tied to the thread gain nothing immediately. But a task whose thread has
	 * lost its processor learns that it has made them wait (sn_tie_came_back()). */
	if (sn_ties_wait(thread))
		return true;
	/* An idle processor, or a napping thread that looks again soon, notices the rest. */
	if (atomic_load(&sn_runtime.idle_count) > 0 || atomic_load(&sn_runtime.nap))
		return false;
	/* No other thread is left to notice events and timers, or to take tasks of other
	 * processors. */
	if (sn_netpoll_used() || sn_timers_earliest(&p->timers) != SN_TIMER_NEVER)
		return true;
	for (int i = 0; i < sn_runtime.capacity; i++)
		if (!sn_runqueue_empty(&sn_runtime.processors[i].queue))
			return true;
	return false;
}

/* How long the thread may compute while something waits. */
static int64_t hog_limit(struct sn_processor *p, const struct look *look, int64_t now)
{
	return look->hogged && now - look->hogged < HOG_ROW_NS &&
			       sn_timers_earliest(&p->timers) <= now
		       ? NEXT_HOG_NS
		       : HOG_NS;
}

static void report_stall(struct look *look, struct sn_thread *thread, int64_t stayed)
{
	if (!attr.stall_ns || look->reported || stayed < attr.stall_ns)
		return;
	look->reported = true;
	attr.stalled(thread, look->stays, stayed);
}

/* What a round of looks found. */
struct findings {
	bool revoked;
	bool active;  /* a decision was made since the last round */
	bool waiting; /* something waits for a thread that stays outside */
	bool unsure;  /* another look soon would show more */
};

/*
 * Records what has changed since the last look. Returns true if the thread is outside, in the same
 * stretch of user code as then. The reads are relaxed, because they and the times derived from them
 * are only hints.
 */
static bool note_changes(struct sn_processor *p, struct sn_thread *thread, struct look *look,
			 int64_t now)
{
	/* Only this thread frees threads (sn_threads_reap()), so reading the block is safe. */
	uint32_t inside = __atomic_load_n(&thread->lease.inside, __ATOMIC_RELAXED);
	uint32_t stays = __atomic_load_n(&thread->lease.stays, __ATOMIC_RELAXED);
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed);
	uint32_t turn = atomic_load_explicit(&p->next_runs, memory_order_relaxed) / SN_RING_TURN;
	uint32_t fair_turns = atomic_load_explicit(&p->fair_turns, memory_order_relaxed);
	bool other = look->thread != thread;
	bool decided = other || look->tick != tick;
	bool same_stay = !decided && look->inside == inside && look->stays == stays;

	if (decided)
		look->held = now;
	if (other || look->turn != turn)
		look->next = now;
	if (other || look->fair_turns != fair_turns)
		look->unfair = now;
	if (!same_stay) {
		look->since = now;
		look->cpu_time = -1;
		look->reported = false;
	}
	look->thread = thread;
	look->inside = inside;
	look->stays = stays;
	look->tick = tick;
	look->turn = turn;
	look->fair_turns = fair_turns;
	return same_stay && !inside;
}

/* Something waits: makes the processor's next decisions serve it, if it has waited for too long.
 * See next_fair in turn.h. */
static void make_fair(struct sn_processor *p, struct look *look, int64_t now)
{
	if (now - look->unfair >= FAIR_NS)
		atomic_store_explicit(&p->next_fair, look->tick, memory_order_relaxed);
	if (now - look->next >= HOG_NS)
		atomic_store_explicit(&p->next_runs, look->turn * SN_RING_TURN + SN_NEXT_RUNS,
				      memory_order_relaxed);
}

static void take_processor(struct sn_processor *p, struct findings *found)
{
	atomic_fetch_add_explicit(&sn_counters.revocations, 1, memory_order_relaxed);
	sn_processor_give(p);
	found->revoked = true;
}

/* Takes the processor from a task that has had it for too long, or asks the thread to lend it. The
 * task may have blocked all the while: then something waits for the processor only now. */
static void end_hog(struct sn_processor *p, struct look *look, int64_t now, struct findings *found)
{
	const bool blocks = !look->inside && sn_thread_sleeps(look->thread);

	if (!sn_lease_revoke(look->thread, p, blocks)) {
		sn_lease_expire(look->thread, look->tick);
	} else {
		take_processor(p, found);
		if (blocks)
			sn_sysmon_note_blocked(now);
	}
	look->hogged = now;
}

static void look_at(struct sn_processor *p, struct look *look, int64_t now, struct findings *found)
{
	struct sn_thread *thread = atomic_load_explicit(&p->thread, memory_order_acquire);
	uint32_t tick = atomic_load_explicit(&p->tick, memory_order_relaxed);
	bool stays, blocking, unread;

	found->active |= tick != look->last_tick;
	look->last_tick = tick;
	/* When a collector lets the thread continue, its time outside is counted from zero. */
	if (!thread || sn_collector_stops()) {
		look->thread = NULL;
		return;
	}
	stays = note_changes(p, thread, look, now);
	if (stays)
		report_stall(look, thread, now - look->since);
	if (!something_waits(p, thread, now))
		return;
	make_fair(p, look, now);
	found->waiting |= stays || now > look->held;
	if (now - look->held >= hog_limit(p, look, now)) {
		if (revoking)
			end_hog(p, look, now, found);
		return;
	}
	if (look->inside)
		return;
	blocking = __atomic_load_n(&thread->lease.blocking, __ATOMIC_RELAXED);
	unread = look->cpu_time < 0;
	if (unread)
		look->cpu_time = sn_thread_cpu_time(thread);
	if (!stays || now - look->since < BLOCKED_NS || (unread && !blocking)) {
		found->unsure = true;
		return;
	}
	if ((blocking || asleep(look, thread)) && revoking && sn_lease_revoke(thread, p, true)) {
		take_processor(p, found);
		sn_sysmon_note_blocked(now);
	}
}

/* Polls the network if no thread has done so for long: then all processors are busy with tasks. */
static void poll_if_nobody_does(int64_t now)
{
	static int64_t last;
	static uint64_t polls;
	struct sn_queue ready = {0};
	uint64_t polls_now = sn_processors_polls();

	if (polls_now != polls || atomic_load(&sn_runtime.polling)) {
		polls = polls_now;
		last = now;
	}
	if (!sn_netpoll_used() || now - last < POLL_NS)
		return;
	if (sn_netpoll(0, &ready) > 0)
		sn_ready_all(&ready);
}

/* Follows changes of the affinity mask and of the cgroup's quota, unless SENNIT_PROCS has fixed the
 * number. */
static void recount_processors(int64_t now)
{
	static int64_t last;
	int wanted;

	if (!attr.follow_cpus || now - last < RECOUNT_NS)
		return;
	last = now;
	sn_checked_pass(); /* files in /proc and of cgroups, which wait for no device */
	wanted = sn_processors_allowed();
	sn_checked_pass_end();
	if (wanted > sn_runtime.capacity)
		wanted = sn_runtime.capacity;
	/* nprocessors differs from wanted if a processor could not retire for want of memory. */
	if (wanted != (int)atomic_load(&sn_runtime.wanted) ||
	    wanted != (int)atomic_load(&sn_runtime.nprocessors))
		sn_processors_adjust(wanted);
}

/* ---- chores ---- */

static void chores_step(int64_t now, bool idle)
{
	for (int i = 0; i < attr.chore_count; i++)
		if (attr.chores[i].step)
			attr.chores[i].step(now, idle);
}

static bool chores_are_left(void)
{
	for (int i = 0; i < attr.chore_count; i++)
		if (attr.chores[i].is_left && attr.chores[i].is_left())
			return true;
	return false;
}

static bool chores_are_asked(void)
{
	for (int i = 0; i < attr.chore_count; i++)
		if (attr.chores[i].is_asked && attr.chores[i].is_asked())
			return true;
	return false;
}

/* The earliest time that a chore names, or 0 if none does. */
static int64_t chores_due(int64_t now)
{
	int64_t earliest = 0;

	for (int i = 0; i < attr.chore_count; i++) {
		int64_t due = attr.chores[i].due ? attr.chores[i].due(now) : 0;

		if (due != 0 && (earliest == 0 || due < earliest))
			earliest = due;
	}
	return earliest;
}

/* Returns true if a chore wants to be called again soon. */
static bool chores_when_idle(void)
{
	for (int i = 0; i < attr.chore_count; i++)
		if (attr.chores[i].when_idle && attr.chores[i].when_idle())
			return true;
	return false;
}

/* ---- sleeping and waking ---- */

static void start_what_is_asked(void)
{
	sn_processors_start_asked();
	sn_births_serve();
}

/* The runtime's lock is held. */
static bool everything_is_idle(void)
{
	return atomic_load(&sn_runtime.idle_count) == atomic_load(&sn_runtime.nprocessors) &&
	       !chores_are_asked() && !sn_births_asked() && !sn_only_the_monitor_serves() &&
	       !atomic_load(&sn_runtime.stopping);
}

static bool nobody_works(void)
{
	return atomic_load(&sn_runtime.idle_count) >= atomic_load(&sn_runtime.nprocessors);
}

/* Returns after which time to look once more, apart from the period; 0 if not. The last look came
 * after such a time, too, if last is not 0. *hinted counts those that still follow a hint. */
static int64_t next_extra_look(const struct findings *found, int64_t period, int64_t last,
			       int *hinted)
{
	int64_t ns = 0;

	if (found->revoked)
		*hinted = 0;
	else if (*hinted > 0)
		ns = PERIOD_MIN_NS << (HINT_LOOKS - (*hinted)--);
	else if (found->unsure && last != PERIOD_MIN_NS)
		ns = PERIOD_MIN_NS;
	return ns < period && ns > 0 && sn_sysmon_spend_look() ? ns : 0;
}

static void *monitor_main(void *arg)
{
	int64_t period = PERIOD_MIN_NS;
	int quiet = 0, idle_looks = 0, hinted = 0;
	int64_t extra = 0; /* how long the nap before an extra look is, or 0 */

	(void)arg;
	sn_births_here();
	prctl(PR_SET_NAME, "sennit-monitor");
	/* The default slack of 50 us would more than double the shortest period. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	sn_checked_thread("the monitor");
	while (!atomic_load(&sn_runtime.stopping)) {
		struct findings found = {0};
		int64_t now, due;

		const enum sn_nap_end end =
			sn_sysmon_nap(extra ? extra : period, start_what_is_asked);

		switch (end) {
		case SN_NAP_IS_TOO_LONG:
			period = SN_MONITOR_BUSY_NS;
			continue;
		case SN_NAP_IS_EXPECTED:
		case SN_NAP_IS_URGENT:
			if (end == SN_NAP_IS_EXPECTED)
				sn_sysmon_grant_looks(1 + HINT_LOOKS + 1);
			sn_sysmon_spend_look();
			if (period > SN_MONITOR_BUSY_NS)
				period = SN_MONITOR_BUSY_NS;
			hinted = HINT_LOOKS;
			extra = 0;
			break;
		case SN_NAP_IS_OVER:
			if (!extra)
				sn_sysmon_earn_look();
			break;
		}
		now = sn_now();
		sn_status_clock_set(now);
		for (int i = 0; i < sn_runtime.capacity; i++)
			look_at(&sn_runtime.processors[i], &looks[i], now, &found);
		extra = next_extra_look(&found, period, extra, &hinted);
		if (extra)
			continue;
		poll_if_nobody_does(now);
		sn_processors_notice(now);
		recount_processors(now);
		sn_threads_reap();
		chores_step(now, nobody_works());

		if (found.revoked) {
			quiet = 0;
			period = PERIOD_MIN_NS;
		} else if (++quiet > QUIET_LOOKS) {
			const bool at_rest = !found.active && !found.waiting &&
					     atomic_load(&sn_runtime.idle_count) > 0;
			const int64_t most = at_rest ? PERIOD_MAX_NS : SN_MONITOR_BUSY_NS;

			period = period * 2 > most ? most : period * 2;
		}
		if (!nobody_works()) {
			idle_looks = 0;
		} else if (period == PERIOD_MAX_NS && !chores_are_left() &&
			   ++idle_looks >= DEEP_SLEEP_LOOKS) {
			if (chores_when_idle())
				continue;
			due = chores_due(now);
			if ((due != 0 && due <= now) || !sn_sysmon_sleep(due, everything_is_idle))
				continue;
			idle_looks = 0;
			quiet = QUIET_LOOKS - WOKEN_LOOKS;
			period = PERIOD_MIN_NS;
		}
	}
	sn_checked_thread(NULL);
	return NULL;
}

int sn_sysmon_start(const struct sn_sysmon_attr *wanted)
{
	const char *leases = getenv("SENNIT_LEASES");
	pthread_attr_t thread_attr;
	sigset_t all, former;
	int err;

	attr = *wanted;
	revoking = !(leases && strcmp(leases, "0") == 0);
	sn_sysmon_sleep_begin();
	looks = calloc((size_t)sn_runtime.capacity, sizeof *looks);
	if (!looks)
		return -ENOMEM;
	sn_status_clock_set(sn_now()); /* tasks may park before the monitor has looked once */
	/* The monitor blocks all signals, because the program's handlers belong on other
	 * threads. */
	sigfillset(&all);
	if (SENNIT_CHECKED)
		sigdelset(&all, SIGSYS); /* wait/system_call.c */
	pthread_sigmask(SIG_SETMASK, &all, &former);
	sn_thread_attr_init(&thread_attr);
	err = pthread_create(&monitor, &thread_attr, monitor_main, NULL);
	pthread_attr_destroy(&thread_attr);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	if (err)
		free(looks);
	return -err;
}

void sn_sysmon_stop(void)
{
	sn_lock(&sn_runtime.lock);
	sn_sysmon_wake();
	sn_unlock(&sn_runtime.lock);
	pthread_join(monitor, NULL);
	free(looks);
}
