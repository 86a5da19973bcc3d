/* SPDX-License-Identifier: MIT */
/*
 * Scans whose caller waits: sn_task_scan(), sn_scan_within().
 *
 * Contract. The function is called, on any thread, before the call returns, or never. The caller
 * waits outside the runtime, where it holds nothing of the runtime's: its processor may be revoked
 * during the wait. A caller that is a task spins for a while, then lends its processor to others,
 * then sleeps as a task does; it may therefore come back on another thread. While it waits it
 * serves requests for its own stack, so two tasks that scan each other both get their answer.
 */
#include <errno.h>

#include <sennit/clock.h>

#include "observe/scan_ask.h"
#include "observe/scan_own.h"
#include "sched/foreign.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "task/waiter.h"
#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/*
 * How long a caller that is no task, or may not park, spins and yields before it sleeps. If the
 * scanned task calls sennit often, it answers within the time of a system call; otherwise a signal
 * makes it answer, or the monitor's reminder. Of 5,808 waits in the tests of scans ("scan" in
 * docs/waiting.md) 1.8 of 100 were over after 2 us, and hardly any more after 16, when the answers
 * by signals begin: 98 were over after 66. With more threads than CPUs it was only half of them,
 * because the OS has to schedule the asked thread first; yielding allows that and spinning does
 * not.
 */
#define SERVED_SPIN_NS 2000
#define SERVED_YIELD_NS 40000

/*
 * The same for a task. It first spins for as long as a running thread takes to answer (in
 * bench-wait 447 of 455 less than 16 us), because if it let others run, its turn would come later
 * than the answer. If there is still no answer, the asked thread does not run, and may not run for
 * a time slice of the OS, 3 to 4 ms. The task then lets other tasks of its processor run, for
 * longer than that, but not without a limit, because they may be waiting in the same way. If there
 * are none it sleeps as a task does, and looks again before a time slice has passed. It does not
 * yield to the OS: with yielding, on a machine with 18 runnable threads, there were waits of 10 to
 * 40 ms that had neither slept nor let others run, because the OS did not run the waiting task.
 */
#define TASK_SPIN_NS 20000
#define TASK_LEND_NS 10000000
#define TASK_NAP_NS 50000
#define TASK_LONGEST_NAP_NS 200000

/* A sleeping caller checks at this interval whether the runtime ends, and whether there is a
 * request for its own stack. */
#define SERVED_SLEEP_NS 1000000

/* How to wait for an owner that is the runtime itself, which keeps a stack for some microseconds.
 * Such waits are so rare ("scan owner") that no load has shown a long one. */
#define BRIEF_SPIN_NS 5000
#define BRIEF_YIELD_NS 100000
#define BRIEF_SLEEP_NS 100000

/* The caller of a scan. A task that lets others run may come back on another thread. */
struct caller {
	struct sn_thread *thread; /* the one that runs the task; NULL if the caller is no task */
	struct sn_private_lease *hidden;
	bool counted; /* sn_foreign_enter() has counted it */
};

/* Makes the caller a task inside the runtime again, so that it can park. It must not be counted as
 * a foreign thread then, because it may be abandoned while it is parked. */
static struct sn_thread *come_out(struct caller *caller)
{
	sn_scan_unhide(caller->hidden);
	if (caller->counted)
		sn_foreign_leave();
	return sn_runtime_enter();
}

/* Undoes come_out(), perhaps on another thread. */
static void go_back(struct caller *caller)
{
	sn_runtime_leave();
	/* If the runtime has begun to end, the thread is not counted; but the end waits for it as
	 * for any thread with a task. */
	caller->counted = sn_foreign_enter() == 0;
	caller->thread = sn_thread_self();
	caller->hidden = sn_scan_hide();
}

/* Returns false if there are no others. */
static bool let_others_run(struct caller *caller)
{
	bool ran = sn_reschedule(come_out(caller));

	go_back(caller);
	return ran;
}

/* Sleeps as a task does. Returns false if that was not possible. */
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

/* Sleeps for a millisecond at most, so that the end of the run, which may wait for the caller,
 * waits no longer than that. */
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

/* One step of a task's wait. */
static void wait_as_task(struct sn_scan_sync *sync, struct caller *caller,
			 struct sn_backoff *backoff, int64_t *nap_ns)
{
	int64_t waited = sn_backoff_waited(backoff);

	/* The backoff's own spin_ns may differ from TASK_SPIN_NS: it is 0 on one CPU, and unlimited
	 * with SENNIT_WAIT_SPIN. */
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
		/* If two tasks scan each other, neither comes to the usual places where requests
		 * are served. */
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
		/* No thread wakes this one. The owner needs only a few microseconds of CPU time. */
		if (!sn_backoff_pause(&backoff))
			sleep_briefly(&task->word.scan, seen, BRIEF_SLEEP_NS);
	}
	return err;
}

/*
 * Calls the function while the caller owns the stack. The callback may block, and the end of the
 * run must not wait for that, so the caller goes out (sched/foreign.h). Returns 0, or -ESRCH if the
 * run has ended during the callback; the task must then not be touched any more.
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
	/* The caller holds nothing of the runtime's while it waits, so its processor may be
	 * revoked. */
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
