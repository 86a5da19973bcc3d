/* SPDX-License-Identifier: MIT */
/*
 * The profile of tasks: sn_profile_tasks().
 *
 * A walk over the slabs, as in dump.c: it owns the parked and runnable tasks of each slab together,
 * walks their stacks, and releases them. The threads of all other tasks walk their own stacks, in a
 * scan's callback. Each task is one event in the table of samples.
 *
 * Who may write what: under_way, any thread, atomically; the rest belongs to the calling thread.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "arch/registers.h"
#include "debug/profile.h"
#include "observe/inspect.h"
#include "observe/scan_ask.h"
#include "observe/scan_own.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/task.h"
#include "sched/thread.h"

#define ANSWER_NS 100000000

/* How many pages one call of mincore() asks about. */
#define PAGES 256

enum { COUNT, IN_USE, RESIDENT, RESERVED };

static const struct sn_pprof_type types[] = {
	[COUNT] = {"tasks", "count"},
	[IN_USE] = {"stack_in_use", "bytes"},
	[RESIDENT] = {"stack_resident", "bytes"},
	[RESERVED] = {"stack_reserved", "bytes"},
};

struct tasks {
	struct sn_profile profile; /* first */
	struct sn_modules modules; /* without a table of rules, for other threads */
};

/* A task that is about to be added to the table. */
struct seen {
	struct sn_task_info info;
	struct sn_sample_key key;
	const char *sp; /* NULL if it is unknown */
	struct sn_modules *modules;
};

/* How many bytes between the two addresses are resident. */
static int64_t resident(const char *low, const char *high)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char pages[PAGES];
	int64_t sum = 0;

	for (uintptr_t at = (uintptr_t)low & -page; at < (uintptr_t)high; at += PAGES * page) {
		size_t count = ((uintptr_t)high - at + page - 1) / page;

		if (count > PAGES)
			count = PAGES;
		if (mincore((void *)at, count * page, pages) < 0)
			return sum;
		for (size_t i = 0; i < count; i++)
			sum += pages[i] & 1;
	}
	return sum * (int64_t)page;
}

static void add(struct sn_profile *profile, struct seen *seen)
{
	const char *low = seen->info.stack_low, *high = seen->info.stack_high;
	struct sn_labels *labels = seen->key.labels; /* sn_samples_add() may change the key */
	int64_t values[SN_SAMPLE_VALUES] = {[COUNT] = 1};

	if (high) {
		if (seen->sp >= low && seen->sp < high)
			values[IN_USE] = high - seen->sp;
		values[RESIDENT] = resident(low, high);
		values[RESERVED] = high - low;
	}
	seen->key.state = sn_status_name((enum sn_task_status)seen->info.state);
	seen->key.waits_for = seen->info.waits_for;
	sn_samples_add(&profile->samples, &seen->key, values);
	sn_labels_drop(labels);
}

static void see_owned(struct sn_profile *profile, struct sn_task *task)
{
	struct seen seen = {0};
	const bool there = sn_task_describe(task, &seen.info);

	if (there) {
		sn_sample_task(&seen.key, task);
		sn_labels_hold(seen.key.labels);
		sn_sample_walk_saved(&seen.key, &profile->modules, task);
		seen.sp = seen.info.stack_saved;
	}
	sn_scan_release(task);
	if (there)
		add(profile, &seen);
}

/* A scan's callback. It may run on any thread, so it does not use the table of rules. */
static void walk_other(const struct sn_scan *scan, void *arg)
{
	struct seen *seen = arg;
	struct sn_registers registers;

	if (sn_task_id(scan->task) != seen->info.id)
		return;
	sn_sample_task(&seen->key, sn_task_of(scan->task));
	sn_labels_hold(seen->key.labels);
	memcpy(&registers, scan->registers, sizeof registers);
	seen->sp = scan->stack_low;
	sn_sample_walk(&seen->key, seen->modules, &registers, scan->stack_low, scan->stack_high,
		       scan->interrupted);
}

static void see_myself(struct seen *seen, struct sn_task *me)
{
	struct sn_registers registers;
	ucontext_t context;

	sn_sample_task(&seen->key, me);
	sn_labels_hold(seen->key.labels);
	if (!sn_registers_here(&context))
		return;
	sn_registers_interrupted(&context, &registers);
	seen->sp = (const char *)registers.at[SN_REGISTER_SP];
	sn_sample_walk(&seen->key, seen->modules, &registers, seen->info.stack_low,
		       seen->info.stack_high, true);
}

static void see_other(struct tasks *tasks, struct sn_task *task, struct sn_task *me)
{
	struct seen seen = {.modules = &tasks->modules};

	if (!sn_task_describe(task, &seen.info) || seen.info.state == SN_STATE_ENDED)
		return;
	if (task == me) {
		see_myself(&seen, me);
	} else if (sn_scan_within(task, walk_other, &seen, ANSWER_NS) == -ESRCH) {
		return;
	} else if (!seen.key.has_task) {
		/* Its thread has not answered. This takes only fields that may be read without
		 * owning the task. */
		seen.key.has_task = true;
		seen.key.spawned_at = seen.info.spawned_at;
		memcpy(seen.key.name, seen.info.name, sizeof seen.key.name);
	}
	add(&tasks->profile, &seen);
}

static void see_all(struct tasks *tasks, struct sn_task *me)
{
	struct sn_block_slab *slab = NULL;

	while ((slab = sn_block_slab_next(slab)) != NULL) {
		uint64_t owned = sn_scan_hold_slab(slab, SN_BLOCK_SLAB_ALL);

		for (uint64_t left = owned; left; left &= left - 1)
			see_owned(&tasks->profile, sn_block_slab_at(slab, __builtin_ctzll(left)));
		for (uint64_t left = SN_BLOCK_SLAB_ALL & ~owned; left; left &= left - 1)
			see_other(tasks, sn_block_slab_at(slab, __builtin_ctzll(left)), me);
	}
}

/* The caller is inside (sched/foreign.h), and has left when this returns. */
static int profile_to(int fd, struct sn_task *me)
{
	struct sn_pprof_attr attr = {.types = types, .count = 4, .main = COUNT};
	struct tasks *tasks = (struct tasks *)sn_profile_begin(sizeof *tasks);
	uint32_t run;
	int err;

	if (!tasks) {
		sn_foreign_leave();
		return -ENOMEM;
	}
	tasks->modules = tasks->profile.modules;
	tasks->profile.modules.rules = tasks->profile.rules;
	see_all(tasks, me);
	/* Writing may block, so the thread goes out. It reads labels, which stay while there are
	 * guests. */
	run = sn_foreign_go_out();
	err = sn_profile_write(&tasks->profile, fd, &attr, 1, NULL);
	if (sn_foreign_come_back(run) == 0)
		sn_foreign_leave();
	sn_profile_end(&tasks->profile, sizeof *tasks);
	return err;
}

static _Atomic bool under_way;

int sn_profile_tasks(int fd)
{
	struct sn_task *me = sn_task_of(sn_self());
	struct sn_private_lease *lease;
	int err;

	if (sn_scan_depth > 0)
		return -EDEADLK;
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	/* As in sn_dump(), the thread is outside the runtime, and unknown to it. */
	lease = sn_scan_hide();
	if (atomic_exchange(&under_way, true)) {
		sn_foreign_leave();
		err = -EBUSY;
	} else {
		err = profile_to(fd, me);
		atomic_store(&under_way, false);
	}
	sn_scan_unhide(lease);
	return err;
}

void sn_tasks_profile_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		atomic_store(&under_way, false);
}
