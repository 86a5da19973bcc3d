/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of the runtime.
 *
 * The end, in order: the first task returns and sets stopping (sn_runtime_stop()); every thread
 * leaves its loop as soon as it is in the scheduler, or at its task's next sennit call; sn_run()'s
 * thread joins the others; then nobody else is left, and everything is freed. Statistics stay, for
 * whoever asks afterwards.
 */
#include <sennit/run.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/fault.h"
#include "sched/netpoll.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/sanitizer.h"
#include "sched/schedule.h"
#include "sched/signal.h"
#include "sched/stack.h"
#include "sched/task.h"

/* Go's figure: far more than any sane program has, well below the kernel's limits. */
#define MAX_THREADS 10000

struct first_task {
	sn_fn *fn;
	void *arg;
	int result;
};

static struct sn_lock stats_lock; /* orders sn_stats() against the beginning and the end */
static struct sn_stats last_stats;
static bool has_run;

static int first_main(void *arg)
{
	struct first_task *first = arg;

	first->result = first->fn(first->arg);
	sn_runtime_stop();
	return 0;
}

static int processors_create(int n)
{
	sn_runtime.processors =
		aligned_alloc(SN_CACHE_LINE, (size_t)n * sizeof *sn_runtime.processors);
	if (!sn_runtime.processors)
		return -ENOMEM;
	memset(sn_runtime.processors, 0, (size_t)n * sizeof *sn_runtime.processors);
	for (int i = 0; i < n; i++) {
		sn_runtime.processors[i].id = (uint32_t)i;
		sn_timers_init(&sn_runtime.processors[i].timers);
	}
	sn_runtime.nprocessors = n;
	return 0;
}

static void processors_destroy(void)
{
	for (int i = 0; i < sn_runtime.nprocessors; i++)
		sn_timers_destroy(&sn_runtime.processors[i].timers);
	free(sn_runtime.processors);
	sn_runtime.processors = NULL;
	sn_runtime.nprocessors = 0;
}

/*
 * Only the calling thread is left. The oldest go first: a thread is started by an older one, which
 * may still be about to note that it did (sn_thread_start()); once that one has been joined, it
 * has. Whoever stopped the runtime has the lock for as long as he goes through the list.
 */
static void threads_destroy(struct sn_thread *self)
{
	struct sn_thread *thread, *oldest = NULL, *next;

	sn_lock(&sn_runtime.lock);
	for (thread = atomic_load(&sn_runtime.all_threads); thread; thread = next) {
		next = thread->next_all;
		thread->next_all = oldest;
		oldest = thread;
	}
	sn_unlock(&sn_runtime.lock);
	for (thread = oldest; thread; thread = next) {
		next = thread->next_all;
		if (thread->joinable)
			pthread_join(thread->pthread, NULL);
		if (thread != self)
			free(thread);
	}
}

static int create_first_task(struct sn_thread *self, struct first_task *first)
{
	struct sn_stack stack;
	struct sn_task *task;
	const char *why;
	int err = sn_stack_alloc(&stack, sn_stack_class(SN_STACK_MAIN_SIZE), NULL, &why);

	if (err < 0) {
		sn_log("no stack for the first task: out of %s", why);
		return err;
	}
	task = sn_task_create(stack, first_main, first, "main");
	sn_count(&self->processor->stats.spawned, 1);
	atomic_store_explicit(&task->status, SN_TASK_RUNNABLE, memory_order_relaxed);
	sn_runqueue_set_next(&self->processor->queue, task);
	return 0;
}

static void collect_stats(struct sn_stats *stats)
{
	memset(stats, 0, sizeof *stats);
	stats->tasks_spawned = atomic_load(&sn_runtime.foreign_spawned);
	for (int i = 0; i < sn_runtime.nprocessors; i++) {
		struct sn_processor *p = &sn_runtime.processors[i];

		/* Ended before spawned: a task that passes in between must not make alive negative.
		 */
		stats->tasks_alive -= atomic_load(&p->stats.ended);
	}
	for (int i = 0; i < sn_runtime.nprocessors; i++) {
		struct sn_processor *p = &sn_runtime.processors[i];

		stats->tasks_spawned += atomic_load(&p->stats.spawned);
		stats->switches += atomic_load(&p->stats.switches);
		stats->steals += atomic_load(&p->stats.steals);
	}
	stats->tasks_alive += stats->tasks_spawned;
	stats->polls = atomic_load(&sn_runtime.polls);
	stats->threads = atomic_load(&sn_runtime.nthreads);
	stats->threads_blocking = atomic_load(&sn_runtime.blocking);
	stats->processors = (uint64_t)sn_runtime.nprocessors;
	stats->stacks_mapped = sn_stacks_mapped();
	stats->accept_pauses = atomic_load(&sn_runtime.accept_pauses);
}

int sn_stats(struct sn_stats *stats)
{
	int err = 0;

	sn_lock(&stats_lock);
	if (!has_run)
		err = -ENODEV;
	else if (atomic_load(&sn_runtime.running))
		collect_stats(stats);
	else
		*stats = last_stats;
	sn_unlock(&stats_lock);
	return err;
}

/* Clears what the last run has left. */
static int runtime_init(struct sn_thread *self)
{
	int n = sn_processors_wanted();
	long max_threads = sn_environment_number("SENNIT_MAX_THREADS", 2, 1000000, MAX_THREADS);
	int err;

	if (n < 0 || max_threads < 0)
		return -EINVAL;
	memset((void *)&sn_runtime, 0, offsetof(struct sn_runtime, running));
	sn_runtime.max_threads = (int)max_threads;
	atomic_store(&sn_runtime.poll_until, INT64_MIN);
	atomic_store(&sn_runtime.stopping, false);
	atomic_store(&sn_runtime.blocking, 0);
	atomic_store(&sn_runtime.polls, 0);
	atomic_store(&sn_runtime.accept_pauses, 0);
	atomic_store(&sn_runtime.foreign_spawned, 0);
	sn_stacks_init();
	err = processors_create(n);
	if (err == 0)
		err = sn_netpoll_init();
	if (err < 0) {
		processors_destroy();
		return err;
	}
	self->processor = &sn_runtime.processors[0];
	for (int i = n - 1; i > 0; i--) {
		sn_runtime.processors[i].next_idle = sn_runtime.idle_processors;
		sn_runtime.idle_processors = &sn_runtime.processors[i];
	}
	atomic_store(&sn_runtime.idle_count, (uint32_t)n - 1);
	atomic_store(&sn_runtime.all_threads, self);
	atomic_store(&sn_runtime.nthreads, 1);
	return 0;
}

static void runtime_destroy(struct sn_thread *self)
{
	threads_destroy(self);
	sn_lock(&stats_lock);
	collect_stats(&last_stats);
	last_stats.threads = 0;
	atomic_store(&sn_runtime.running, false);
	sn_unlock(&stats_lock);
	sn_signal_destroy();
	sn_netpoll_destroy();
	processors_destroy();
	sn_stacks_destroy();
}

int sn_run(sn_fn *fn, void *arg)
{
	static _Atomic bool taken;
	struct sn_thread self = {0};
	struct first_task first = {.fn = fn, .arg = arg};
	int err;

	if (atomic_exchange(&taken, true))
		return -EALREADY;
	err = runtime_init(&self);
	if (err < 0) {
		atomic_store(&taken, false);
		return err;
	}
	sn_thread_attach(&self);
	sn_fault_install();
	sn_lock(&stats_lock);
	has_run = true;
	atomic_store(&sn_runtime.running, true);
	sn_unlock(&stats_lock);

	err = create_first_task(&self, &first);
	if (err == 0) {
		atomic_store_explicit(&self.inside, 1, memory_order_relaxed);
		sn_schedule(&self);
		err = first.result;
	}

	runtime_destroy(&self);
	sn_fault_uninstall();
	sn_thread_detach(&self);
	atomic_store(&taken, false);
	return err;
}
