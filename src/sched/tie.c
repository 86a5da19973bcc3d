/* SPDX-License-Identifier: MIT */
#include "sched/tie.h"

#include <errno.h>

#include <sennit/clock.h>

#include "base/counters.h"
#include "base/environment.h"
#include "sched/processor_list.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/status.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/thread_list.h"
#include "sched/thread_sleeps.h"
#include "sched/turn.h"
#include "sched/wake.h"

/* How long a tied task waits for a home that is stuck. Longer than a disk access usually takes, so
 * that a library keeps its thread; shorter than what a person takes for a hang, because many tasks
 * wait in vain: they could have moved to another thread right away. */
#define PATIENCE_MS 1000

/* A task that has made tied tasks wait for so long runs apart. The limit is longer than it takes to
 * wake the threads that this needs. The real wait may be just over 1 ms, because both times are cut
 * to ms. */
#define APART_MS 2

/* How often the monitor looks for stuck homes within the patience. */
#define LOOKS 8

/* How many late homes are served at one look; the next look, which follows soon, serves others. */
#define MOST_LATE 64

/* Written before the first thread of a run starts. */
static int64_t patience; /* 0 if tasks are not tied in this run */

/* A tied task has been made runnable since the monitor last saw none. */
static _Atomic bool asked;

/* Written by the monitor alone, after sn_ties_begin(). */
static int64_t looked;
static int passed; /* late homes that the looks just before have seen, and that are still late */
static bool logged;

int sn_ties_begin(void)
{
	const long ms = sn_environment_number("SENNIT_HOOKS_STAY", 0, 1000000000, PATIENCE_MS);

	if (ms < 0)
		return -EINVAL;
	patience = (int64_t)ms * 1000000;
	atomic_store(&asked, false);
	looked = 0;
	passed = 0;
	logged = false;
	return 0;
}

/* ---- the task ---- */

bool sn_tie(struct sn_thread *self)
{
	struct sn_task *task = self->task;

	if ((task->bound && task->tied != SN_TIED_APART) || patience == 0)
		return false;
	sn_task_bind_to(task, self);
	task->tied = SN_TIED;
	/* Relaxed: only the thread itself adds, and it reads this before it retires. */
	atomic_fetch_add_explicit(&self->ties.owned, 1, memory_order_relaxed);
	return true;
}

bool sn_untie(struct sn_thread *self)
{
	struct sn_task *task = self->task;
	const uint8_t tied = task->tied;

	if (tied == SN_TIED) {
		SN_ASSERT(task->bound == self);
		atomic_fetch_sub_explicit(&self->ties.owned, 1, memory_order_relaxed);
	}
	if (tied == SN_TIED || tied == SN_TIED_LOST)
		sn_tie_unbind(task);
	return tied == SN_TIED_LOST;
}

void sn_tie_leave_soon(struct sn_thread *self)
{
	struct sn_processor *p = self->processor;

	/* The next decision becomes a fair one. That is made in the loop, which gives the processor
	 * back. */
	if (self->apart)
		atomic_store_explicit(&p->next_fair,
				      atomic_load_explicit(&p->tick, memory_order_relaxed),
				      memory_order_relaxed);
}

void sn_tie_came_back(struct sn_thread *self, uint32_t lost_at)
{
	struct sn_task *task = self->task;

	sn_tie_leave_soon(self);
	if (task->apart || !sn_ties_wait(self) ||
	    (uint32_t)(sn_now() / 1000000) - lost_at < APART_MS)
		return;
	task->apart = true;
	/* The caller may be a signal handler that has interrupted sn_untie() of the same task. That
	 * stores `tied` last, by what it has read of `apart`. models/untie.pml models this. */
	if (!task->bound && task->tied == SN_TIED_NOT)
		sn_tie_unbind(task);
}

/* ---- the queue ---- */

/* The lock of the queue is held. */
static void put(struct sn_ties *ties, struct sn_task *task)
{
	sn_queue_put(&ties->queue, task);
	/* Sequentially consistent: the first half of the waker's handshake, before it reads
	 * rest. */
	atomic_store(&ties->ready, atomic_load_explicit(&ties->ready, memory_order_relaxed) + 1);
}

/* The lock of the queue is held. */
static struct sn_task *get(struct sn_ties *ties)
{
	struct sn_task *task = sn_queue_get(&ties->queue);

	if (task)
		atomic_store_explicit(&ties->ready,
				      atomic_load_explicit(&ties->ready, memory_order_relaxed) - 1,
				      memory_order_relaxed);
	return task;
}

struct sn_task *sn_tie_take(struct sn_thread *self)
{
	struct sn_ties *ties = &self->ties;
	struct sn_task *task;

	if (!sn_ties_wait(self))
		return NULL;
	sn_lock(&ties->lock);
	task = get(ties);
	sn_unlock(&ties->lock);
	/* Relaxed: this thread is the only writer, and the monitor only checks whether the value
	 * has changed. */
	atomic_store_explicit(&ties->taken,
			      atomic_load_explicit(&ties->taken, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return task;
}

sn_noinline struct sn_task *sn_tie_turn(struct sn_thread *self, struct sn_processor *p)
{
	struct sn_task *task;

	self->ties.turn = !self->ties.turn;
	if (self->ties.turn && (task = sn_tie_take(self)) != NULL)
		return task;
	task = sn_take_local(p);
	return task ? task : sn_tie_take(self);
}

/* ---- the home ---- */

void sn_tie_rest(struct sn_thread *self, enum sn_rest how)
{
	atomic_store(&self->ties.rest, how);
}

/* The runtime's lock is held. */
void sn_tie_stand_in_line(struct sn_thread *home, struct sn_task *task)
{
	atomic_store(&home->ties.rest, SN_REST_IN_LINE);
	sn_global_put_bound(task);
}

bool sn_tie_is_in_line(struct sn_task *task)
{
	struct sn_thread *home = task->bound;
	uint32_t in_line = SN_REST_IN_LINE;

	/* The thread whose compare-and-swap succeeds hands the home a processor, so only that
	 * thread writes picked. */
	if (!atomic_compare_exchange_strong(&home->ties.rest, &in_line, SN_REST_NONE))
		return false;
	home->picked = task;
	return true;
}

/* Takes the home off the list of idle threads, in which it was seen. Returns the processor that the
 * caller must hand it. Otherwise returns NULL; if *in_line, one of the home's tasks is in the
 * global queue, and the caller must announce it. The lock of the home's queue is held, and the
 * queue is not empty. */
static struct sn_processor *rouse(struct sn_thread *home, bool *in_line)
{
	struct sn_processor *p = NULL;

	sn_lock(&sn_runtime.lock);
	/* If it is not in the list any more, another thread has taken it out, or it has left, and
	 * it looks into its queue. */
	if (home->is_idle) {
		sn_idle_thread_remove(home);
		p = sn_idle_get();
		*in_line = !p;
		if (!p)
			sn_tie_stand_in_line(home, get(&home->ties));
	}
	sn_unlock(&sn_runtime.lock);
	return p;
}

/* Makes the monitor look, in case the home is stuck. The monitor sleeps deeply only while all
 * processors are idle, and checks `asked` under the lock before it does. If the home works, a
 * processor is in use, and the monitor need not be woken. */
static void ask(bool home_works)
{
	if (atomic_load(&asked) || atomic_exchange(&asked, true) || home_works)
		return;
	sn_lock(&sn_runtime.lock);
	sn_sysmon_wake_if_asleep();
	sn_unlock(&sn_runtime.lock);
}

/* Makes a task runnable whose home has ended. The home's block may be freed as soon as nothing is
 * tied to it: release, so that the monitor frees it after this thread's last access. */
static void ready_anywhere(struct sn_thread *home, struct sn_task *task)
{
	struct sn_queue one = {0};

	sn_task_bind_to(task, NULL);
	task->tied = SN_TIED_LOST;
	atomic_fetch_sub_explicit(&home->ties.owned, 1, memory_order_release);
	sn_queue_put(&one, task);
	sn_global_put(&one, 1);
	sn_submitted();
}

void sn_tie_ready(struct sn_thread *self, struct sn_task *task)
{
	struct sn_thread *home = task->bound;
	const bool here = home == self && self->processor;
	struct sn_processor *p = NULL;
	bool in_line = false;
	uint32_t rest;

	sn_lock(&home->ties.lock);
	if (sn_unlikely(home->ties.ended)) {
		sn_unlock(&home->ties.lock);
		ready_anywhere(home, task);
		return;
	}
	put(&home->ties, task);
	rest = atomic_load(&home->ties.rest);
	if (rest == SN_REST_PARKED)
		p = rouse(home, &in_line);
	sn_unlock(&home->ties.lock);
	/* From here on the home may be gone, unless rouse() has taken it off the list, so that it
	 * waits. */
	if (p)
		sn_processor_hand(home, p, false);
	else if (in_line)
		sn_submitted();
	else if (rest == SN_REST_POLLING)
		sn_netpoll_wake();
	else if (rest == SN_REST_NAPS)
		sn_end_nap();
	else if (rest == SN_REST_NONE)
		ask(here);
}

int sn_ties_sort_out(struct sn_thread *self, struct sn_queue *tasks, const struct sn_thread *but)
{
	struct sn_queue others = {0};
	struct sn_task *task;
	int n = 0;

	while ((task = sn_queue_get(tasks)) != NULL) {
		if (task->tied != SN_TIED || task->bound == but) {
			sn_queue_put(&others, task);
			continue;
		}
		n++;
		sn_record_wake(self, task, NULL);
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_WAKER);
		sn_tie_ready(self, task);
	}
	*tasks = others;
	return n;
}

/* ---- stuck homes ---- */

/* Whether tasks wait for the thread, and it has taken none for as long as the patience. The
 * runtime's lock is held. */
static bool is_late(struct sn_thread *thread, int64_t now)
{
	struct sn_ties *ties = &thread->ties;
	const uint32_t taken = atomic_load_explicit(&ties->taken, memory_order_relaxed);

	if (ties->seen_since == 0 || ties->seen_taken != taken) {
		ties->seen_taken = taken;
		ties->seen_since = now;
		ties->seen_cpu = sn_thread_cpu_time(thread);
		return false;
	}
	return now - ties->seen_since >= patience;
}

/*
 * Whether a late thread is stuck. A thread that waits for a processor, or that the OS does not run,
 * is not stuck, because another thread would be no faster. All reads here are hints: an error costs
 * a task its thread, or some time.
 */
static bool is_stuck(struct sn_thread *thread)
{
	if (__atomic_load_n(&thread->pinned, __ATOMIC_RELAXED))
		return true;
	if (sn_thread_cpu_time(thread) - thread->ties.seen_cpu >= patience)
		return true;
	return !__atomic_load_n(&thread->lease.inside, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&thread->task, __ATOMIC_RELAXED) && sn_thread_sleeps(thread);
}

/* Unties the tasks that wait for the thread and makes them runnable on any thread. Returns whether
 * there were any. */
static bool untie_waiting(struct sn_thread *thread)
{
	struct sn_ties *ties = &thread->ties;
	struct sn_queue tasks;
	uint32_t n = 0;

	sn_lock(&ties->lock);
	tasks = ties->queue;
	ties->queue = (struct sn_queue){0};
	for (struct sn_task *task = tasks.head; task; task = task->next, n++) {
		sn_task_bind_to(task, NULL);
		task->tied = SN_TIED_LOST;
	}
	atomic_store_explicit(&ties->ready, 0, memory_order_relaxed);
	atomic_fetch_sub_explicit(&ties->owned, n, memory_order_relaxed);
	sn_unlock(&ties->lock);
	if (n == 0)
		return false;
	sn_global_put(&tasks, n);
	sn_submitted();
	return true;
}

void sn_ties_end(struct sn_thread *self)
{
	sn_lock(&self->ties.lock);
	self->ties.ended = true;
	sn_unlock(&self->ties.lock);
	untie_waiting(self);
}

static void say_that_some_have_moved(void)
{
	if (!logged)
		sn_log("a thread has been blocked or busy for %lld ms: tasks in hooked calls "
		       "that wait for it move to another thread (SENNIT_HOOKS_STAY)",
		       (long long)(patience / 1000000));
	logged = true;
}

void sn_ties_step(int64_t now, bool idle)
{
	struct sn_thread *late[MOST_LATE];
	bool some = false;
	int n = 0, pass = passed;

	(void)idle;
	if (!atomic_load(&asked) || now - looked < patience / LOOKS)
		return;
	looked = now;
	/* Cleared before the look, so that the waker of a task that the look misses sets it
	 * again. */
	atomic_store(&asked, false);
	sn_lock(&sn_runtime.lock);
	for (struct sn_thread *thread = sn_threads.all; thread; thread = thread->next_all) {
		if (atomic_load(&thread->ties.ready) == 0) {
			thread->ties.seen_since = 0;
			continue;
		}
		some = true;
		/* Late ones that are not stuck stay late. They must not keep others from a look. */
		if (is_late(thread, now) && --pass < 0 && n < MOST_LATE)
			late[n++] = thread;
	}
	sn_unlock(&sn_runtime.lock);
	if (some)
		atomic_store(&asked, true);
	/* Needs no lock: only the monitor, which this is, frees their blocks. */
	for (int i = 0; i < n; i++) {
		if (is_stuck(late[i]) && untie_waiting(late[i]))
			say_that_some_have_moved();
		else
			passed++;
	}
	if (n == MOST_LATE)
		looked = 0;
	else
		passed = 0;
}

bool sn_ties_are_asked(void)
{
	return atomic_load(&asked);
}
