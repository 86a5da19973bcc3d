/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of the runtime.
 *
 * The end, in order: the first task returns and sets stopping (stop()). Every thread leaves its
 * loop as soon as it is in the scheduler, or at the next sennit call of its task. The thread of
 * sn_run() joins them. Threads that are still in foreign code after ORPHAN_NS become orphans: they
 * end when they return, and keep the memory that they may touch until then (their task's stack,
 * hence all stacks, and their block). Once no other thread is left, the thread of sn_run() frees
 * everything else. The statistics stay, for later queries.
 *
 * This is the only file that knows all the others. It names everything that has to be begun, ended,
 * or handled around fork(), so that no layer calls one above it.
 */
#include <sennit/run.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/sized.h"
#include "base/counters.h"
#include "base/cpus.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/membarrier.h"
#include "base/tools.h"
#include "copy/pipe_pool.h"
#include "debug/deadlock.h"
#include "debug/dump.h"
#include "debug/fault.h"
#include "debug/late.h"
#include "debug/profile.h"
#include "debug/profile_file.h"
#include "debug/stall.h"
#include "debug/trace.h"
#include "debug/trace_file.h"
#include "io/buffer.h"
#include "io/fd.h"
#include "io/select_any.h"
#include "io/shortage.h"
#include "io/watch.h"
#include "names/lookup.h"
#include "observe/scan_ask.h"
#include "observe/scan_signal.h"
#include "observe/stats.h"
#include "observe/trim.h"
#include "process/process.h"
#include "process/signal.h"
#include "sched/birth.h"
#include "sched/collector.h"
#include "sched/control_block.h"
#include "sched/cpu_timer.h"
#include "sched/foreign.h"
#include "sched/lease.h"
#include "sched/netpoll.h"
#include "sched/off_cpu.h"
#include "sched/processor.h"
#include "sched/processor_list.h"
#include "sched/ready.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/sysmon.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/task_stack.h"
#include "sched/thread_list.h"
#include "sched/tie.h"
#include "sched/wake.h"
#include "stack/sanitizer.h"
#include "stack/stack.h"
#include "stack/stack_cool.h"
#include "sync/select.h"
#include "sync/waits.h"
#include "task/cancel.h"
#include "task/label.h"
#include "task/life.h"
#include "task/local.h"
#include "task/pin.h"
#include "task/spawn.h"
#include "wait/backoff.h"
#include "wait/futex.h"
#include "wait/site.h"

/*
 * How long sn_run() waits at its end for tasks that are in foreign code. This is long enough for
 * calls that end soon, such as a disk access. A program that wants to end should not wait for a
 * read from a terminal.
 */
#define ORPHAN_NS 1000000000

/* Go's figure: far more than any sane program has, and well below the kernel's limits. */
#define MAX_THREADS 10000

/* How long a thread stays idle before it ends, when there are more threads than processors. */
#define IDLE_MS 2000

struct first_task {
	sn_fn *fn;
	void *arg;
	int result;
	/*
	 * sn_run() sleeps on these, not on a futex of src/wait, because the program's signals
	 * usually come to its thread, and the thread sanitizer delivers them only in the C
	 * library's blocking calls.
	 */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;
};

static _Atomic bool taken; /* set while a run is in progress */
static bool print_waits;   /* SENNIT_WAIT_STATS */

/* Begins the end of the runtime: every thread leaves its loop as soon as it can. */
static void stop(void)
{
	/* Under the lock, so a thread that is starting either sees the flag or is in the list. */
	sn_lock(&sn_runtime.lock);
	atomic_store(&sn_runtime.stopping, true);
	for (struct sn_thread *thread = sn_threads.all; thread; thread = thread->next_all) {
		sn_lease_end(thread);
		sn_parker_release(&thread->parker);
	}
	sn_sysmon_wake();
	sn_unlock(&sn_runtime.lock);
	sn_netpoll_wake();
}

static int first_main(void *arg)
{
	struct first_task *first = arg;

	first->result = first->fn(first->arg);
	if (sn_thread_self())
		sn_locals_destroy(sn_thread_self()->task);
	if (sn_thread_self()) {
		stop();
		pthread_mutex_lock(&first->lock);
		first->done = true;
		pthread_cond_signal(&first->ended);
		pthread_mutex_unlock(&first->lock);
	}
	return first->result; /* of interest only in a child of fork(), see task/life.c */
}

/* Creates `capacity` processors. The first n are in use; the others are retired, and serve CPUs
 * that may become usable later. */
static int processors_create(int n, int capacity)
{
	size_t size = (size_t)capacity * sizeof *sn_runtime.processors;

	sn_runtime.processors = aligned_alloc(SN_CACHE_LINE, size);
	if (!sn_runtime.processors)
		return -ENOMEM;
	memset(sn_runtime.processors, 0, size);
	for (int i = 0; i < capacity; i++) {
		struct sn_processor *p = &sn_runtime.processors[i];

		p->id = (uint32_t)i;
		p->retired = i >= n;
		p->record = sn_record_ring(i);
		sn_timers_init(&p->timers);
	}
	sn_runtime.capacity = capacity;
	atomic_store(&sn_runtime.nprocessors, (uint32_t)n);
	atomic_store(&sn_runtime.wanted, (uint32_t)n);
	return 0;
}

static void processors_destroy(void)
{
	for (int i = 0; i < sn_runtime.capacity; i++)
		sn_timers_destroy(&sn_runtime.processors[i].timers);
	free(sn_runtime.processors);
	sn_runtime.processors = NULL;
	sn_runtime.capacity = 0;
}

/* Makes orphans of the threads that are in foreign code, and returns how many there are. The lock
 * is held. */
static int disown_threads(void)
{
	struct sn_thread *next;
	int orphans = 0;

	for (struct sn_thread *thread = sn_threads.all; thread; thread = next) {
		next = thread->next_all;
		if (__atomic_load_n(&thread->lease.inside, __ATOMIC_ACQUIRE))
			continue;
		sn_thread_unlink(thread);
		atomic_store(&thread->orphan, true);
		pthread_detach(thread->pthread);
		orphans++;
	}
	return orphans;
}

/* Waits for the threads to end. Returns how many did not, and are orphans now. */
static int threads_join(void)
{
	SN_BACKOFF(backoff, SN_WAIT_END, 0, 0);
	int64_t give_up = sn_now() + ORPHAN_NS;
	uint32_t threads;
	int orphans = 0;

	while ((threads = atomic_load(&sn_threads.count)) > 0) {
		sn_backoff_pause(&backoff); /* only counts the wait */
		/* sn_thread_unlink() wakes this thread. */
		if (sn_futex_wait(&sn_threads.count, threads, give_up) == -ETIMEDOUT) {
			sn_lock(&sn_runtime.lock);
			orphans += disown_threads();
			sn_unlock(&sn_runtime.lock);
			give_up = sn_now() + ORPHAN_NS;
		}
	}
	sn_threads_join(give_up);
	return orphans;
}

/* The stack class of the first task, and that of all others that ask for no size. */
struct stack_classes {
	int others, first;
};

static int stack_classes(const struct sn_run_attr *attr, struct stack_classes *classes)
{
	size_t size = attr->stack_size, first = attr->first_stack_size, from_environment = 0;

	if (size > SN_STACK_MAX_SIZE || first > SN_STACK_MAX_SIZE) {
		sn_log("sn_run_with_attr(): a stack can have %zu MiB at most",
		       SN_STACK_MAX_SIZE >> 20);
		return -EINVAL;
	}
	if (sn_environment_size("SENNIT_STACK_SIZE", SN_STACK_MIN_SIZE, SN_STACK_MAX_SIZE,
				&from_environment) < 0)
		return -EINVAL;
	if (from_environment)
		size = from_environment;
	if (!size)
		size = SN_STACK_DEFAULT_SIZE;
	if (!first)
		first = size > SN_STACK_MAIN_SIZE ? size : SN_STACK_MAIN_SIZE;
	if (first < from_environment)
		first = from_environment;
	classes->others = sn_stack_class(size);
	classes->first = sn_stack_class(first);
	return 0;
}

static int create_first_task(struct sn_processor *p, struct first_task *first, int class)
{
	struct sn_stack stack;
	struct sn_task *task = sn_block_alloc(NULL);
	const char *why = "memory";
	int err = task ? sn_stack_alloc(&stack, class, NULL, &why) : -ENOMEM;

	if (err < 0) {
		if (task)
			sn_block_free(task, NULL);
		sn_log("no stack for the first task: out of %s", why);
		return err;
	}
	sn_task_create(task, &stack, first_main, first, &(struct sn_task_attr){.name = "main"});
	sn_count(&p->stats.spawned, 1);
	sn_record_outside(sn_record_what(SN_RECORD_SPAWN, 0, sn_record_id(task)), 0);
	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_CREATOR);
	sn_runqueue_set_next(&p->queue, task);
	return 0;
}

/* ---- fork() ---- */

static void run_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&sn_threads.start_lock, phase);
	sn_fork_lock(&sn_runtime.lock, phase);
	if (phase == SN_FORK_CHILD) {
		sn_births_forget();
		atomic_store(&taken, false);
	}
}

/*
 * In the order in which the locks nest, the runtime's first. A child makes no dumps: its handler
 * restores the previous action of the signal for them.
 */
static sn_fork_handler *const fork_handlers[] = {
	sn_thread_forks, /* before all locks */
	sn_stats_fork,         run_fork,
	sn_foreign_fork,       sn_signal_fork, /* opens descriptors under its lock */
	sn_fds_fork,           sn_watches_fork,
	sn_netpoll_fork,       sn_tasks_fork,
	sn_stacks_fork,        sn_blocks_fork,
	sn_buffers_fork,       sn_pipes_fork,
	sn_lookups_fork,       sn_processes_fork,
	sn_waits_fork,         sn_scopes_fork,
	sn_cancel_fork,        sn_dump_fork,
	sn_dump_signal_fork,   sn_scan_signal_fork,
	sn_collector_fork,     sn_thread_fork,
	sn_record_fork,        sn_trace_fork,
	sn_cpu_timers_fork,    sn_off_cpu_fork,
	sn_tasks_profile_fork, sn_cpu_profile_fork,
	sn_waits_profile_fork,
};

/* ---- what can be given up ---- */

static sn_give_up *const give_ups[] = {sn_pipes_trim};

/* ---- the monitor ---- */

static const struct sn_chore chores[] = {
	{.step = sn_scan_remind, .is_asked = sn_scan_pending},
	{.step = sn_late_step}, /* before the next one, because it may ask for a dump */
	{.step = sn_dump_serve, .is_asked = sn_dump_wanted},
	{.step = sn_tasks_feed, .is_left = sn_tasks_starve},
	{.step = sn_ties_step, .is_left = sn_ties_are_asked, .is_asked = sn_ties_are_asked},
	{.step = sn_trim_step, .due = sn_trim_due},
	{.step = sn_stacks_cool_step, .due = sn_stacks_cool_due},
	{.when_idle = sn_deadlock_look},
};

static int start_monitor(bool follow_cpus)
{
	struct sn_sysmon_attr attr = {.follow_cpus = follow_cpus,
				      .chores = chores,
				      .chore_count = sizeof chores / sizeof chores[0],
				      .stalled = sn_stall_report};
	int err = sn_stall_init(&attr.stall_ns);

	if (err == 0)
		err = sn_late_init();
	return err < 0 ? err : sn_sysmon_start(&attr);
}

/* ---- the beginning and the end ---- */

/* Clears what the last run has left, reads the settings, and begins every module. Returns 0 or a
 * negative errno. */
static int runtime_init(int fixed)
{
	int n = fixed ? fixed : sn_processors_allowed();
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	int capacity = fixed || configured < n           ? n
		       : configured > SN_MOST_PROCESSORS ? SN_MOST_PROCESSORS
							 : (int)configured;
	long max_threads = sn_environment_number("SENNIT_MAX_THREADS", 2, 1000000, MAX_THREADS);
	long idle_ms = sn_environment_number("SENNIT_IDLE_MS", 0, 86400000, IDLE_MS);
	long wait_stats = sn_environment_number("SENNIT_WAIT_STATS", 0, 1, 0);
	long only_spin = sn_environment_number("SENNIT_WAIT_SPIN", 0, 1, 0);
	int err;

	if (max_threads < 0 || idle_ms < 0 || wait_stats < 0 || only_spin < 0)
		return -EINVAL;
	/* Does not clear the lock, because an orphan of the last run may be about to read it. */
	memset((char *)&sn_runtime + sizeof sn_runtime.lock, 0,
	       offsetof(struct sn_runtime, run) - sizeof sn_runtime.lock);
	sn_blocks_outdate();
	sn_threads_begin((int)max_threads, idle_ms * INT64_C(1000000));
	sn_pins_begin();
	sn_ready_begin();
	sn_idle_begin();
	sn_wake_begin();
	print_waits = wait_stats == 1;
	sn_backoff_only_spin(only_spin == 1);
	sn_threads_inherit(sn_schedule);
	atomic_store(&sn_runtime.poll_until, INT64_MIN);
	atomic_store(&sn_runtime.stopping, false);
	sn_counters_clear();
	sn_select_beyond = sn_select_any;
	sn_task_main = sn_task_live;
	sn_fds_begin(sn_signal_event);
	sn_shortage_begin(give_ups, sizeof give_ups / sizeof give_ups[0]);
	sn_stacks_init();
	sn_fork_init(fork_handlers, sizeof fork_handlers / sizeof fork_handlers[0]);
	sn_membarrier_init();
	err = sn_scan_init();
	if (err == 0)
		err = sn_ties_begin();
	if (err == 0)
		err = sn_trim_init();
	if (err == 0)
		err = sn_deadlock_init();
	if (err == 0)
		err = sn_trace_file_begin();
	if (err == 0)
		err = sn_profile_file_init();
	if (err == 0)
		err = sn_dump_install(wait_stats == 1);
	if (err == 0)
		err = sn_record_begin(capacity);
	if (err == 0)
		err = processors_create(n, capacity);
	if (err == 0)
		err = sn_netpoll_init(sn_fds_events);
	if (err < 0) {
		processors_destroy();
		sn_dump_uninstall();
		return err;
	}
	/* The first processor is not idle, because the first thread starts with it. */
	for (int i = n - 1; i > 0; i--) {
		sn_runtime.processors[i].next_idle = sn_idle.processors;
		sn_idle.processors = &sn_runtime.processors[i];
	}
	atomic_store(&sn_runtime.idle_count, (uint32_t)n - 1);
	return 0;
}

static void runtime_destroy(void)
{
	/* First waits for the program's own threads, then for the runtime's. */
	uint32_t left_behind = sn_foreign_end(sn_now() + ORPHAN_NS);

	left_behind += (uint32_t)threads_join();
	sn_births_serve(); /* requests that the monitor has not served yet */
	sn_stats_end();
	sn_cpu_profile_end();
	sn_waits_profile_end();
	sn_signal_destroy();
	sn_processes_end();
	sn_fds_end(left_behind > 0);
	sn_netpoll_destroy();
	processors_destroy();
	sn_tasks_forget_starved();
	if (left_behind) {
		sn_stacks_forget();
		sn_blocks_forget();
	} else {
		sn_labels_end();
		sn_locals_end();
		/* The blocks are freed first, so that no block ever names a stack that is gone
		 * (collector.h). */
		sn_blocks_destroy();
		sn_stacks_destroy();
	}
}

static void await_end(struct first_task *first)
{
	pthread_mutex_lock(&first->lock);
	while (!first->done)
		pthread_cond_wait(&first->ended, &first->lock);
	pthread_mutex_unlock(&first->lock);
}

int sn_run(sn_fn *fn, void *arg)
{
	return sn_run_with_attr(fn, arg, NULL);
}

/* Runs the first task, and all tasks that it starts, until the first one has ended. */
static int run_tasks(struct first_task *first, int class, bool follow_cpus)
{
	int err = create_first_task(&sn_runtime.processors[0], first, class);

	if (err == 0)
		err = start_monitor(follow_cpus);
	sn_stats_begin();
	if (err < 0)
		return err;
	sn_foreign_begin();
	sn_profile_file_begin();
	/*
	 * The calling thread itself runs no task. It must be able to return when the first task
	 * does, whereas a thread whose task is in foreign code forever can only be left behind.
	 */
	err = sn_thread_start(&sn_runtime.processors[0], false, NULL);
	if (err < 0)
		stop();
	else
		await_end(first);
	sn_profile_file_end();
	sn_sysmon_stop();
	return err;
}

/* A reader that is stuck must not keep sn_run() from returning. */
static int write_patiently(int fd, const char *text, size_t size)
{
	int64_t patience = SN_STDERR_PATIENCE;

	(void)fd;
	return sn_stderr_write(text, size, &patience) == size ? 0 : -ETIMEDOUT;
}

static void runtime_end(void)
{
	runtime_destroy();
	sn_dump_uninstall();
	sn_scan_signal_end();
	sn_fault_uninstall();
	sn_stall_end();
	if (print_waits)
		(void)sn_wait_print_by(write_patiently, STDERR_FILENO);
}

int sn_run_with_attr(sn_fn *fn, void *arg, const struct sn_run_attr *attr)
{
	struct sn_run_attr own;
	struct first_task first = {.fn = fn,
				   .arg = arg,
				   .lock = PTHREAD_MUTEX_INITIALIZER,
				   .ended = PTHREAD_COND_INITIALIZER};
	/* The default 0 means as many processors as there are usable CPUs. */
	long fixed = sn_environment_number("SENNIT_PROCS", 1, SN_MOST_PROCESSORS, 0);
	long fault_reports = sn_environment_number("SENNIT_FAULT_REPORTS", 0, 1, 1);
	struct stack_classes classes;
	int err = SN_SIZED_TAKE(&own, attr);

	if (err < 0)
		return err;
	if (!fn || fixed < 0 || fault_reports < 0 || stack_classes(&own, &classes) < 0)
		return -EINVAL;
	if (atomic_exchange(&taken, true))
		return -EALREADY;
	sn_tools_check();
	sn_stack_set_default(classes.others);
	sn_collector_thread_begins(NULL);
	sn_cpus_begin();
	err = runtime_init((int)fixed);
	if (err < 0) {
		sn_collector_thread_ends(NULL);
		atomic_store(&taken, false);
		return err;
	}
	sn_fault_install(fault_reports);
	/* Before any task, because the number identifies what belongs to a run. */
	atomic_fetch_add(&sn_runtime.run, 1);
	err = run_tasks(&first, classes.first, fixed == 0);
	runtime_end();
	/* Read here, after the thread that ran the first task was joined, so the result is
	 * visible. */
	if (err == 0)
		err = first.result;
	sn_collector_thread_ends(NULL);
	atomic_store(&taken, false);
	return err;
}
