/* SPDX-License-Identifier: MIT */
/*
 * Scans that are waited for: sn_task_scan(), sn_scan_within().
 *
 * Contract. The function is called before the call returns, on whichever thread, or never. The
 * caller waits outside the runtime, with nothing of the runtime's: its processor may be taken away
 * meanwhile. A caller that is a task spins for a while, then lends its processor to others, then
 * sleeps as a task does; so it may come back on another thread. While it waits it serves requests
 * for its own stack, so two tasks that scan each other both get their answer.
 */
#include <errno.h>

#include <sennit/clock.h>

#include "observe/scan_ask.h"
#include "observe/scan_own.h"
#include "sched/foreign.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/schedule.h"
#include "sched/thread.h"
#include "task/waiter.h"
#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/*
 * A scan of a task that a thread runs is served within a system call's time when that task calls
 * sennit often, otherwise by a signal, or when the monitor reminds it. Of 5,808 waits in the tests
 * of scans ("scan" in docs/waiting.md) 1.8 of 100 were over after 2 us, and hardly any more after
 * 16, when the signal's answers begin: 98 after 66. With more threads than CPUs it is half of them,
 * because the asked thread has to be scheduled first, which yielding allows and spinning does not.
 */
#define SERVED_SPIN_NS 2000
#define SERVED_YIELD_NS 40000

/*
 * A task that waits spins for as long as threads that run take to answer (in bench-wait 447 of 455
 * less than 16 us), because after others its turn would come later than the answer. After that the
 * asked thread does not run, and may not for a time slice of the OS, 3 to 4 ms: the task gives its
 * processor to others that it has to run, for longer than that, but not forever, as they may be
 * tasks that wait in the same way. If there are none it sleeps as a task does, and looks again
 * before a time slice has passed. It does not yield to the OS: with yielding, waits of 10 to 40 ms
 * on a machine with 18 runnable threads had neither slept nor let others run, so it was the waiting
 * task that did not run.
 */
#define TASK_SPIN_NS 20000
#define TASK_LEND_NS 10000000
#define TASK_NAP_NS 50000
#define TASK_LONGEST_NAP_NS 200000

/* A sleeping caller re-checks at this interval whether the runtime ends, and whether its own stack
 * is asked for. */
#define SERVED_SLEEP_NS 1000000

/* The runtime's own owners keep a stack for some microseconds. Waits for them are so rare ("scan
 * owner") that no load has shown one that lasted. */
#define BRIEF_SPIN_NS 5000
#define BRIEF_YIELD_NS 100000
#define BRIEF_SLEEP_NS 100000

/* The caller of a scan. A task that lets others run may come back on another thread. */
struct caller {
	struct sn_thread *thread; /* with the task; NULL: not a task */
	struct sn_private_lease *hidden;
	bool counted; /* sn_foreign_enter() */
};

/* As a task again, which may be abandoned when it parks, and so is not to be counted. */
static struct sn_thread *come_out(struct caller *caller)
{
	sn_scan_unhide(caller->hidden);
	if (caller->counted)
		sn_foreign_leave();
	return sn_runtime_enter();
}

static void go_back(struct caller *caller)
{
	sn_runtime_leave();
	/* Not when the runtime has ended meanwhile. It waits for this thread all the same. */
	caller->counted = sn_foreign_enter() == 0;
	caller->thread = sn_thread_self();
	caller->hidden = sn_scan_hide();
}

/* False when there are none. */
static bool let_others_run(struct caller *caller)
{
	bool ran = sn_reschedule(come_out(caller));

	go_back(caller);
	return ran;
}

/* False when it cannot be had. */
static bool nap(struct caller *caller, int64_t ns)
{
	struct sn_thread *self = come_out(caller);
	struct sn_waiter waiter;
	int err;

	sn_task_waits(self->task, "an answer to a scan", NULL);
	sn_waiter_init(&waiter, self, sn_now() + ns, SN_WAITER_UNCANCELLABLE);
	err = sn_waiter_park(&waiter, NULL);
	go_back(caller);
	return err == -ETIMEDOUT;
}

/* A sleep of a millisecond at most, after which the caller looks again. So the end of the run,
 * which may wait for the caller, waits no longer for this. */
static void sleep_briefly(_Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
	sn_checked_pass();
	sn_futex_wait(word, seen, sn_now() + ns);
	sn_checked_pass_end();
}

static bool may_park(const struct caller *caller)
{
	return caller->thread && !caller->thread->pinned && !caller->thread->lease.blocking;
}

/* One moment of a task's wait. */
static void wait_as_task(struct sn_scan_sync *sync, struct caller *caller,
			 struct sn_backoff *backoff, int64_t *nap_ns)
{
	int64_t waited = sn_backoff_waited(backoff);

	/* backoff's own time for spinning: none on one CPU, without end where SENNIT_WAIT_SPIN says
	 * so. */
	if (waited > 0 && waited >= backoff->spin_ns && waited < TASK_LEND_NS &&
	    let_others_run(caller))
		return;
	if (sn_backoff_pause(backoff))
		return;
	if (!nap(caller, *nap_ns))
		sleep_briefly(&sync->done, 0, SERVED_SLEEP_NS);
	if (*nap_ns < TASK_LONGEST_NAP_NS)
		*nap_ns *= 2;
}

static int await_served(struct sn_task *task, struct caller *caller, struct sn_scan_sync *sync,
			int64_t deadline)
{
	bool as_task = may_park(caller);
	int64_t nap_ns = TASK_NAP_NS;
	SN_BACKOFF(backoff, SN_WAIT_SCAN, as_task ? TASK_SPIN_NS : SERVED_SPIN_NS,
		   as_task ? 0 : SERVED_YIELD_NS);

	while (!atomic_load_explicit(&sync->done, memory_order_acquire)) {
		/* Two that scan each other: this thread does not come to the places where it
		 * looks. */
		if (caller->thread)
			sn_scan_serve_own(caller->thread);
		if (atomic_load(&sn_runtime.stopping) && sn_scan_withdraw(task))
			return -ESRCH;
		if (deadline && sn_now() > deadline && sn_scan_withdraw(task))
			return -ETIMEDOUT;
		if (as_task)
			wait_as_task(sync, caller, &backoff, &nap_ns);
		else if (!sn_backoff_pause(&backoff))
			sleep_briefly(&sync->done, 0, SERVED_SLEEP_NS);
	}
	return sync->result;
}

/* As sn_scan_own(), but waits for the runtime's own owners. */
static int own_soon(struct sn_task *task)
{
	SN_BACKOFF(backoff, SN_WAIT_SCAN_OWNER, BRIEF_SPIN_NS, BRIEF_YIELD_NS);
	int err;

	while ((err = sn_scan_own(task, 0)) == -EBUSY) {
		uint32_t seen = atomic_load(&task->word.scan);

		if ((seen & SN_SCAN_HELD) && !(seen & SN_SCAN_BRIEF))
			return -EBUSY;
		/* No thread wakes this one: the owner, when it runs, needs a few microseconds
		 * more. */
		if (!sn_backoff_pause(&backoff))
			sleep_briefly(&task->word.scan, seen, BRIEF_SLEEP_NS);
	}
	return err;
}

/*
 * With the stack owned. The callback may block, and the end of the run must not wait for that, so
 * the caller goes out. -ESRCH: the run has ended meanwhile; the task is not to be touched any more.
 */
static int call(struct caller *caller, sn_task_scan_fn *fn, const struct sn_scan *scan, void *arg)
{
	uint32_t run;

	if (!caller->counted) {
		sn_scan_call(fn, scan, arg);
		return 0;
	}
	run = sn_foreign_go_out();
	sn_checked_callback("scan function");
	sn_scan_call(fn, scan, arg);
	caller->counted = sn_foreign_come_back(run) == 0;
	return caller->counted ? 0 : -ESRCH;
}

static int scan(struct sn_task *task, struct caller *caller, sn_task_scan_fn *fn, void *arg,
		int64_t deadline)
{
	struct sn_scan_sync sync = {.fn = fn, .arg = arg};
	struct sn_scan_saved saved;
	int err = own_soon(task);

	if (err == 0) {
		sn_scan_describe_saved(task, &saved);
		err = call(caller, fn, &saved.scan, arg);
		if (err == 0)
			sn_scan_release(task);
	} else if (err == -EAGAIN) {
		err = sn_scan_ask(task, NULL, &sync, deadline != 0);
		if (err == 0)
			err = await_served(task, caller, &sync, deadline);
	}
	return err;
}

int sn_task_scan(sn_task *handle, sn_task_scan_fn *fn, void *arg)
{
	struct sn_task *task;
	struct sn_thread *self = sn_thread_self();
	struct caller caller = {.thread = self && self->task ? self : NULL, .counted = true};
	int err = sn_scan_begin(&task, handle, fn);

	if (err < 0)
		return err;
	/* Outside, with nothing of the runtime's: the processor may be taken away while this
	 * waits. */
	caller.hidden = sn_scan_hide();
	err = scan(task, &caller, fn, arg, 0);
	sn_scan_unhide(caller.hidden);
	if (caller.counted)
		sn_foreign_leave();
	return err;
}

int sn_scan_within(struct sn_task *task, sn_task_scan_fn *fn, void *arg, int64_t ns)
{
	struct caller caller = {0};

	return scan(task, &caller, fn, arg, sn_now() + ns);
}
