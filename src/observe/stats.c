/* SPDX-License-Identifier: MIT */
#include "observe/stats.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <sennit/run.h>

#include "arch/sized.h"
#include "base/counters.h"
#include "observe/trim.h"
#include "sched/foreign.h"
#include "sched/processor.h"
#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/scan_serve.h"
#include "sched/thread.h"
#include "sched/thread_list.h"
#include "stack/stack.h"

static struct sn_lock stats_lock =
	SN_LOCK_INIT(SN_RANK_STATS); /* keeps a run from beginning or ending in sn_run_stats() */
static struct sn_run_stats last_stats;
static bool has_run, stats_live; /* guarded by stats_lock */

static uint64_t count_blocking(void)
{
	uint64_t n = 0;

	sn_lock(&sn_runtime.lock);
	for (struct sn_thread *thread = sn_threads.all; thread; thread = thread->next_all)
		n += __atomic_load_n(&thread->lease.blocking, __ATOMIC_RELAXED) != NULL;
	sn_unlock(&sn_runtime.lock);
	return n;
}

static void collect_stats(struct sn_run_stats *stats)
{
	memset(stats, 0, sizeof *stats);
	for (int i = 0; i < sn_runtime.capacity; i++) {
		struct sn_processor *p = &sn_runtime.processors[i];

		/* Reads the tasks that ended before those that were spawned: a task that begins and
		 * ends in between must not make the number of live ones negative. */
		stats->tasks_alive -= atomic_load(&p->stats.ended);
	}
	stats->tasks_spawned = atomic_load(&sn_counters.foreign_spawned);
	for (int i = 0; i < sn_runtime.capacity; i++) {
		struct sn_processor *p = &sn_runtime.processors[i];

		stats->tasks_spawned += atomic_load(&p->stats.spawned);
		stats->switches += atomic_load(&p->stats.switches);
		stats->steals += atomic_load(&p->stats.steals);
	}
	stats->tasks_alive += stats->tasks_spawned;
	stats->polls = sn_processors_polls();
	stats->threads = atomic_load(&sn_threads.count);
	stats->threads_blocking = count_blocking();
	stats->revocations = atomic_load(&sn_counters.revocations);
	stats->thread_limit_hits = atomic_load(&sn_counters.thread_limit_hits);
	stats->processors = atomic_load(&sn_runtime.nprocessors);
	stats->stacks_mapped = sn_stacks_mapped();
	stats->stacks_trimmed = sn_trim_count();
	stats->accept_pauses = atomic_load(&sn_counters.accept_pauses);
}

/* Keeps the counters of a run that has ended. The lock is held. */
static void keep_stats(void)
{
	collect_stats(&last_stats);
	last_stats.threads = last_stats.threads_blocking = 0;
	stats_live = false;
}

int sn_run_stats(struct sn_run_stats *stats)
{
	struct sn_private_lease *lease;
	struct sn_run_stats current;
	int err = 0;

	if (!stats)
		return -EINVAL;
	/* A task may be in a blocking bracket, and must not enter the runtime, which would wait for
	 * a processor. It is hidden instead, so that a signal handler knows of the locks. */
	sn_foreign_mark();
	lease = sn_scan_hide();
	sn_lock(&stats_lock);
	if (!has_run)
		err = -ENODEV;
	else if (stats_live)
		collect_stats(&current);
	else
		current = last_stats;
	sn_unlock(&stats_lock);
	sn_scan_unhide(lease);
	sn_foreign_unmark();
	return err < 0 ? err : SN_SIZED_GIVE(stats, &current);
}

void sn_stats_begin(void)
{
	sn_lock(&stats_lock);
	has_run = stats_live = true;
	sn_unlock(&stats_lock);
}

void sn_stats_end(void)
{
	sn_lock(&stats_lock);
	keep_stats();
	sn_unlock(&stats_lock);
}

void sn_stats_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&stats_lock, phase);
	if (phase == SN_FORK_CHILD && stats_live)
		keep_stats();
}
