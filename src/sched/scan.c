/* SPDX-License-Identifier: MIT */
#include "sched/scan.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <sennit/clock.h>

#include "arch/registers.h"
#include "sched/environment.h"
#include "sched/foreign.h"
#include "sched/lease.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/stack.h"
#include "sched/sysmon.h"
#include "sched/thread.h"
#include "sched/waiter.h"
#include "wait/backoff.h"
#include "wait/futex.h"

/*
 * A scan of a task that a thread runs is served within a system call's time when that task calls
 * sennit often, otherwise by a signal, or when the monitor thinks of it. Of 5,808 waits in the tests of
 * scans ("scan" in docs/waiting.md) 1.8 of 100 were over after 2 us, and hardly any more after 16, when
 * the signal's answers begin: 98 after 66. With more threads than CPUs it is half of them, as
 * the asked thread has to be scheduled first, which yielding allows and spinning does not.
 */
#define SERVED_SPIN_NS 2000
#define SERVED_YIELD_NS 40000

/*
 * A task that waits spins for as long as threads that run take to answer (in bench-wait 447 of 455 less
 * than 16 us), because behind others its turn would come later than the answer. After that the asked
 * thread does not run, and may not for a time slice of the OS, 3 to 4 ms: the task gives its
 * processor to others that it has to run, for longer than that, but not for ever, as they may be
 * tasks that wait in the same way. If there are none it sleeps as a task does, and looks again before
 * a time slice has passed. It does not yield to the OS: with yielding, waits of 10 to 40 ms on a
 * machine with 18 runnable threads had neither slept nor let others run, so it was the one who waited
 * that did not run.
 */
#define TASK_SPIN_NS 20000
#define TASK_LEND_NS 10000000
#define TASK_NAP_NS 50000
#define TASK_LONGEST_NAP_NS 200000

/* Asleep, the waiter looks so often whether the runtime ends, or somebody waits for itself. */
#define SERVED_SLEEP_NS 1000000

/* The runtime's own owners keep a stack for some microseconds. So rare ("scan owner") that no load
 * has shown any that lasted. */
#define BRIEF_SPIN_NS 5000
#define BRIEF_YIELD_NS 100000
#define BRIEF_SLEEP_NS 100000

/* A signal disturbs its thread's system calls: not more often. */
#define REMIND_NS 1000000

uint32_t sn_scan_initial;
__thread int sn_scan_depth __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t pending; /* requests that are ASKED or SERVING */
static int scan_signal;          /* 0: none */
static bool caught;              /* under the runtime's lock */
static struct sigaction former;
static int64_t last_reminded; /* the monitor's */

/* ---- owning ---- */

/* Makes the thread one that the runtime does not know. Out of line, both: who waits for an answer may be
 * on another thread by the time he comes back, and the compiler keep the address of the first's. */
static sn_noinline struct sn__lease *hide(void)
{
	struct sn__lease *lease = sn__current;

	sn__current = NULL;
	sn_compiler_barrier();
	return lease;
}

static sn_noinline void unhide(struct sn__lease *lease)
{
	sn_compiler_barrier();
	sn__current = lease;
}

static void call(sn_task_scan_fn *fn, const struct sn_scan *scan, void *arg)
{
	struct sn__lease *lease = hide();
	int saved = errno;

	sn_scan_depth++;
	fn(scan, arg);
	sn_scan_depth--;
	errno = saved;
	unhide(lease);
}

static struct sn_stack stack_of(struct sn_task *task)
{
	return task->stack;
}

struct saved {
	struct sn_scan scan;
	struct sn_registers registers;
};

static void describe_saved(struct sn_task *task, struct saved *saved)
{
	if (task->context.sp)
		sn_registers_saved(task->context.sp, &saved->registers);
	else
		saved->registers = (struct sn_registers){0}; /* it has not begun */
	saved->scan = (struct sn_scan){.task = sn_task_handle(task),
				       .stack_low = task->context.sp,
				       .stack_high = stack_of(task).high,
				       .own_low = &task->arg,
				       .own_high = task + 1,
				       .registers = saved->registers.at,
				       .register_count = SN_REGISTERS};
}

/* Serves the request, if there is one; the caller has the right to the stack. scan: NULL at the end. */
static void serve(struct sn_task *task, const struct sn_scan *scan)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	sn_task_scan_fn *fn;
	void *arg;

	do {
		if (!(seen & SN_SCAN_ASKED))
			return;
	} while (!atomic_compare_exchange_weak(
		word, &seen, (seen & ~(uint32_t)SN_SCAN_ASKED) | SN_SCAN_SERVING));
	fn = task->asked_fn;
	arg = task->asked_arg;
	SN_RACE_WINDOW();
	/* Before the call: who waits for it may start another at once. */
	atomic_fetch_and(word, ~(uint32_t)SN_SCAN_SERVING);
	call(fn, scan, arg);
	atomic_fetch_sub(&pending, 1);
}

static void serve_saved(struct sn_task *task)
{
	struct saved saved;

	if (!(atomic_load(&task->word.scan) & SN_SCAN_ASKED))
		return;
	describe_saved(task, &saved);
	serve(task, &saved.scan);
}

void sn_scan_release(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);

	for (;;) {
		if (seen & SN_SCAN_ASKED) {
			serve_saved(task);
			seen = atomic_load(word);
		} else if (atomic_compare_exchange_weak(word, &seen,
							seen & ~(uint32_t)(SN_SCAN_HELD |
									   SN_SCAN_BRIEF |
									   SN_SCAN_WANTED))) {
			break;
		}
	}
	if (seen & SN_SCAN_WANTED)
		sn_requeue(task);
}

/*
 * HELD was set, but the task is on a thread, or none. True: somebody has asked meanwhile, and relies on
 * this thread, because the task has parked; then everything is to be tried once more.
 */
static bool give_up(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	enum sn_task_status status;

	do {
		if (seen & SN_SCAN_WANTED) {
			/* A runner has left it to us after all, so it is ours. */
			sn_scan_release(task);
			return false;
		}
	} while (!atomic_compare_exchange_weak(word, &seen,
					       seen & ~(uint32_t)(SN_SCAN_HELD | SN_SCAN_BRIEF)));
	if (!(seen & SN_SCAN_ASKED))
		return false;
	status = sn_status_get(&task->word);
	return status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE;
}

static bool take(struct sn_task *task, uint32_t bits)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);

	do {
		if (seen & SN_SCAN_HELD)
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen | SN_SCAN_HELD | bits));
	return true;
}

/* 0: the stack is the caller's until sn_scan_release(). -EBUSY: somebody else's. -EAGAIN: a thread's.
 * -ESRCH: there is no task any more. -ENOSYS: it cannot be known, see sn_barrier_everywhere(). */
static int own(struct sn_task *task, uint32_t bits)
{
	enum sn_task_status status;

	do {
		if (!take(task, bits))
			return -EBUSY;
		SN_RACE_WINDOW();
		if (!sn_barrier_everywhere()) {
			give_up(task);
			return -ENOSYS;
		}
		SN_RACE_WINDOW();
		status = sn_status_get(&task->word);
		if (status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE)
			return 0;
	} while (give_up(task));
	return status == SN_TASK_FREE || status == SN_TASK_NEW || status == SN_TASK_ENDED ? -ESRCH
											  : -EAGAIN;
}

uint64_t sn_scan_hold_slab(struct sn_block_slab *slab, uint64_t blocks)
{
	uint64_t held = 0, owned = 0;
	bool passed;

	for (uint64_t left = blocks; left; left &= left - 1) {
		int number = __builtin_ctzll(left);
		struct sn_task *task = sn_block_slab_at(slab, number);
		enum sn_task_status status = sn_status_get(&task->word);

		if ((status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE) &&
		    take(task, SN_SCAN_BRIEF))
			held |= (uint64_t)1 << number;
	}
	if (!held)
		return 0;
	SN_RACE_WINDOW();
	passed = sn_barrier_everywhere();
	for (uint64_t left = held; left; left &= left - 1) {
		int number = __builtin_ctzll(left);
		struct sn_task *task = sn_block_slab_at(slab, number);
		enum sn_task_status status = sn_status_get(&task->word);

		if (!passed)
			give_up(task);
		else if (status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE ||
			 (give_up(task) && own(task, SN_SCAN_BRIEF) == 0))
			owned |= (uint64_t)1 << number;
	}
	return owned;
}

/* ---- the other side ---- */

bool sn_scan_before_run(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen;

	for (;;) {
		atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
		SN_RACE_WINDOW();
		seen = atomic_load(word);
		if (!(seen & SN_SCAN_HELD))
			break;
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
		SN_RACE_WINDOW();
		if (atomic_compare_exchange_strong(word, &seen, seen | SN_SCAN_WANTED))
			return false;
		sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	}
	/* It stands still until this thread switches to it. */
	serve_saved(task);
	return true;
}

bool sn_scan_is_free(struct sn_task *task)
{
	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	return !(atomic_load(&task->word.scan) & (SN_SCAN_HELD | SN_SCAN_ASKED));
}

bool sn_scan_hold_left(struct sn_task *task)
{
	uint32_t seen;

	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	seen = atomic_load(&task->word.scan);
	do {
		/* Somebody else who has HELD looks at the status, and for ASKED, after this. */
		if (!(seen & SN_SCAN_ASKED) || (seen & SN_SCAN_HELD))
			return false;
	} while (!atomic_compare_exchange_weak(&task->word.scan, &seen, seen | SN_SCAN_HELD));
	return true;
}

void sn_scan_ended(struct sn_task *task)
{
	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	serve(task, NULL);
}

/* On the task's own stack, or above it on the signal stack. */
static void serve_here(struct sn_task *task, const ucontext_t *context, bool interrupted)
{
	struct sn_registers registers;
	struct sn_stack stack = stack_of(task);
	struct sn_scan scan = {.task = sn_task_handle(task),
			       .stack_high = stack.high,
			       .own_low = &task->arg,
			       .own_high = task + 1,
			       .registers = registers.at,
			       .register_count = SN_REGISTERS,
			       .interrupted = interrupted};
	const char *sp;

	sn_registers_interrupted(context, &registers);
	sp = (const char *)registers.at[SN_REGISTER_SP];
	/* Elsewhere, as on an alternate stack of the program's: another time. */
	if (sp < stack.low || sp >= stack.high)
		return;
	scan.stack_low = interrupted && sp - stack.low > SN_RED_ZONE ? sp - SN_RED_ZONE : sp;
	serve(task, &scan);
}

sn_noinline void sn_scan_serve_own(struct sn_thread *self)
{
	ucontext_t context;

	atomic_store(&self->asked, 0);
	if (!(atomic_load(&self->task->word.scan) & SN_SCAN_ASKED))
		return;
	/* It lies on this stack, and so do all registers. */
	if (getcontext(&context) == 0)
		serve_here(self->task, &context, false);
}

/*
 * In user code, or asleep until there is a processor. Elsewhere in the runtime the thread may hold locks,
 * and will come by the places where it looks for requests.
 */
static bool may_be_interrupted(struct sn_thread *thread, struct sn_task *task)
{
	return !__atomic_load_n(&thread->lease.inside, __ATOMIC_RELAXED) ||
	       sn_status_get(&task->word) == SN_TASK_RETURNING;
}

static void handle_signal(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *task = self ? self->task : NULL;
	int saved = errno;

	if (self && atomic_exchange(&self->reminded, 0)) {
		if (task && may_be_interrupted(self, task))
			serve_here(task, context, true);
	} else if (former.sa_flags & SA_SIGINFO) {
		former.sa_sigaction(signum, info, context);
	} else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
		former.sa_handler(signum);
	}
	errno = saved;
}

/* The runtime's lock is held. */
static bool catch_signal(void)
{
	struct sigaction action = {.sa_sigaction = handle_signal,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (caught || !scan_signal)
		return caught;
	sigemptyset(&action.sa_mask);
	caught = sigaction(scan_signal, &action, &former) == 0;
	if (!caught) {
		sn_log("SENNIT_SCAN_SIGNAL=%d: that signal cannot be caught", scan_signal);
		scan_signal = 0;
	}
	return caught;
}

int sn_scan_init(void)
{
	long signum = sn_environment_number("SENNIT_SCAN_SIGNAL", 0, SIGRTMAX, SIGURG);

	if (signum < 0)
		return -EINVAL;
	scan_signal = (int)signum;
	sn_scan_initial = sn_lease_held() == SN_LEASE_HELD ? 0 : SN_SCAN_FENCED;
	atomic_store(&pending, 0);
	last_reminded = 0;
	return 0;
}

int sn_scan_own_signal(void)
{
	bool had_none = !(former.sa_flags & SA_SIGINFO) &&
			(former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN);

	return caught && had_none ? scan_signal : 0;
}

void sn_scan_end(void)
{
	struct sigaction current;

	/* Only if the handler is still ours. */
	if (caught && sigaction(scan_signal, NULL, &current) == 0 &&
	    (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle_signal)
		sigaction(scan_signal, &former, NULL);
	caught = false;
}

void sn_scan_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		sn_scan_end();
}

/* ---- asking ---- */

bool sn_scan_pending(void)
{
	return atomic_load(&pending) > 0;
}

/* Of the thread, if it runs a task that was asked. The runtime's lock is held, so it does not end. */
static void remind(struct sn_thread *thread, bool at_once)
{
	struct sn_task *task = __atomic_load_n(&thread->task, __ATOMIC_RELAXED);
	enum sn_task_status status;

	/* The stacks stay mapped, so the word may be read even if the task is gone. */
	if (!task || !(atomic_load(&task->word.scan) & SN_SCAN_ASKED))
		return;
	status = sn_status_get(&task->word);
	sn_lease_ask(thread);
	if ((at_once || status == SN_TASK_BLOCKING || status == SN_TASK_RETURNING ||
	     __atomic_load_n(&thread->lease.blocking, __ATOMIC_RELAXED)) &&
	    may_be_interrupted(thread, task) && catch_signal()) {
		atomic_store(&thread->reminded, 1);
		pthread_kill(thread->pthread, scan_signal);
	}
}

static void remind_all(bool at_once)
{
	sn_lock(&sn_runtime.lock);
	for (struct sn_thread *thread = sn_runtime.all_threads; thread; thread = thread->next_all)
		remind(thread, at_once);
	sn_unlock(&sn_runtime.lock);
}

void sn_scan_remind(int64_t now, bool idle)
{
	(void)idle;
	if (!sn_scan_pending() || now - last_reminded < REMIND_NS)
		return;
	last_reminded = now;
	remind_all(true);
}

/* Takes back a request that nobody has begun to serve. */
static bool withdraw(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);

	do {
		if (!(seen & SN_SCAN_ASKED))
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen & ~(uint32_t)SN_SCAN_ASKED));
	atomic_fetch_sub(&pending, 1);
	return true;
}

/* 0: it was, or will be, called. at_once: by a signal also when the thread computes. */
static int ask(struct sn_task *task, sn_task_scan_fn *fn, void *arg, bool at_once)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	int err;

	do {
		if (seen & (SN_SCAN_ASKING | SN_SCAN_ASKED | SN_SCAN_SERVING))
			return -EBUSY;
	} while (!atomic_compare_exchange_weak(word, &seen, seen | SN_SCAN_ASKING));
	task->asked_fn = fn;
	task->asked_arg = arg;
	atomic_fetch_add(&pending, 1);
	atomic_fetch_xor(word, SN_SCAN_ASKING | SN_SCAN_ASKED);
	/*
	 * Not only own()'s barrier: it has none when somebody else has HELD. He looks whether the task is
	 * parked after he has seen ASKED; a thread whose PARKED is not visible to him by then sees ASKED.
	 */
	if (!sn_barrier_everywhere() && withdraw(task))
		return -ENOSYS;
	SN_RACE_WINDOW();
	err = own(task, 0);
	if (err == 0)
		sn_scan_release(task); /* which serves */
	else if (sn_status_get(&task->word) == SN_TASK_ENDED && withdraw(task))
		return -ESRCH; /* it ended before the barrier, so without a look at ASKED */
	if (!(atomic_load(word) & SN_SCAN_ASKED))
		return 0;
	remind_all(at_once);
	sn_lock(&sn_runtime.lock);
	if (sn_runtime.monitor_sleeps)
		sn_sysmon_wake();
	sn_unlock(&sn_runtime.lock);
	return 0;
}

struct sync {
	sn_task_scan_fn *fn;
	void *arg;
	int result;
	_Atomic uint32_t done;
};

static void serve_sync(const struct sn_scan *scan, void *arg)
{
	struct sync *sync = arg;

	if (scan)
		sync->fn(scan, sync->arg);
	else
		sync->result = -ESRCH;
	atomic_store_explicit(&sync->done, 1, memory_order_release);
	/* From here on sync may be gone; the address is only a name. */
	sn_futex_wake(&sync->done, 1);
}

/* Who scans. A task that lets others run may come back on another thread. */
struct caller {
	struct sn_thread *thread; /* with the task; NULL: not a task */
	struct sn__lease *hidden;
	bool counted; /* sn_foreign_enter() */
};

/* As a task again, which may be abandoned when it parks, and so is not to be counted. */
static struct sn_thread *come_out(struct caller *caller)
{
	unhide(caller->hidden);
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
	caller->hidden = hide();
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

static bool may_park(const struct caller *caller)
{
	return caller->thread && !caller->thread->pinned && !caller->thread->lease.blocking;
}

/* One moment of a task's wait. */
static void wait_as_task(struct sync *sync, struct caller *caller, struct sn_backoff *backoff,
			 int64_t *nap_ns)
{
	int64_t waited = sn_backoff_waited(backoff);

	/* backoff's own time for spinning: none on one CPU, without end where SENNIT_WAIT_SPIN says so. */
	if (waited > 0 && waited >= backoff->spin_ns && waited < TASK_LEND_NS &&
	    let_others_run(caller))
		return;
	if (sn_backoff_pause(backoff))
		return;
	if (!nap(caller, *nap_ns))
		sn_futex_wait(&sync->done, 0, sn_now() + SERVED_SLEEP_NS);
	if (*nap_ns < TASK_LONGEST_NAP_NS)
		*nap_ns *= 2;
}

static int await_served(struct sn_task *task, struct caller *caller, struct sync *sync,
			int64_t deadline)
{
	bool as_task = may_park(caller);
	int64_t nap_ns = TASK_NAP_NS;
	SN_BACKOFF(backoff, SN_WAIT_SCAN, as_task ? TASK_SPIN_NS : SERVED_SPIN_NS,
		   as_task ? 0 : SERVED_YIELD_NS);

	while (!atomic_load_explicit(&sync->done, memory_order_acquire)) {
		/* Two that scan each other: this thread does not come to the places where it looks. */
		if (caller->thread)
			sn_scan_serve_own(caller->thread);
		if (atomic_load(&sn_runtime.stopping) && withdraw(task))
			return -ESRCH;
		if (deadline && sn_now() > deadline && withdraw(task))
			return -ETIMEDOUT;
		if (as_task)
			wait_as_task(sync, caller, &backoff, &nap_ns);
		else if (!sn_backoff_pause(&backoff))
			sn_futex_wait(&sync->done, 0, sn_now() + SERVED_SLEEP_NS);
	}
	return sync->result;
}

/* As own(), but waits for the runtime's own owners. */
static int own_soon(struct sn_task *task)
{
	SN_BACKOFF(backoff, SN_WAIT_SCAN_OWNER, BRIEF_SPIN_NS, BRIEF_YIELD_NS);
	int err;

	while ((err = own(task, 0)) == -EBUSY) {
		uint32_t seen = atomic_load(&task->word.scan);

		if ((seen & SN_SCAN_HELD) && !(seen & SN_SCAN_BRIEF))
			return -EBUSY;
		/* Nobody wakes us: the owner is some microseconds from its end, when it runs. */
		if (!sn_backoff_pause(&backoff))
			sn_futex_wait(&task->word.scan, seen, sn_now() + BRIEF_SLEEP_NS);
	}
	return err;
}

static int scan(struct sn_task *task, struct caller *caller, sn_task_scan_fn *fn, void *arg,
		int64_t deadline)
{
	struct sync sync = {.fn = fn, .arg = arg};
	struct saved saved;
	int err = own_soon(task);

	if (err == 0) {
		describe_saved(task, &saved);
		call(fn, &saved.scan, arg);
		sn_scan_release(task);
	} else if (err == -EAGAIN) {
		err = ask(task, serve_sync, &sync, deadline != 0);
		if (err == 0)
			err = await_served(task, caller, &sync, deadline);
	}
	return err;
}

/* The caller knows the task alive, so a handle that is stale now is an error, and stays good otherwise. */
static int begin(struct sn_task **task, const sn_task *handle, sn_task_scan_fn *fn)
{
	struct sn_thread *self = sn_thread_self();

	if (!handle || !fn)
		return -EINVAL;
	*task = sn_task_of(handle);
	if (!*task)
		return -ESRCH;
	if (sn_scan_depth > 0 || (self && self->task == *task))
		return -EDEADLK;
	return sn_foreign_enter();
}

int sn_task_scan(sn_task *handle, sn_task_scan_fn *fn, void *arg)
{
	struct sn_task *task;
	struct sn_thread *self = sn_thread_self();
	struct caller caller = {.thread = self && self->task ? self : NULL, .counted = true};
	int err = begin(&task, handle, fn);

	if (err < 0)
		return err;
	/* Outside, with nothing of the runtime's: the processor may be taken away while this waits. */
	caller.hidden = hide();
	err = scan(task, &caller, fn, arg, 0);
	unhide(caller.hidden);
	if (caller.counted)
		sn_foreign_leave();
	return err;
}

int sn_scan_within(struct sn_task *task, sn_task_scan_fn *fn, void *arg, int64_t ns)
{
	struct caller caller = {0};

	return scan(task, &caller, fn, arg, sn_now() + ns);
}

int sn_task_scan_async(sn_task *handle, sn_task_scan_fn *fn, void *arg)
{
	struct sn__lease *lease;
	struct sn_task *task;
	int err = begin(&task, handle, fn);

	if (err < 0)
		return err;
	lease = hide();
	err = ask(task, fn, arg, false);
	unhide(lease);
	sn_foreign_leave();
	return err;
}
