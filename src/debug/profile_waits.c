/* SPDX-License-Identifier: MIT */
/*
 * The profile of waits: sn_profile_waits().
 *
 * sched/off_cpu.h reports each wait when it is over, on the thread that is about to run the task,
 * before the thread does so. The stack is walked at that time, and not when the task parks, because
 * a task that parks may hold the lock of the queue in which it waits. The waits that last when the
 * profile begins or ends are cut there. The waits of a task therefore add up to the time of the
 * profile in which it did not run.
 *
 * Short waits. Walking a stack takes a microsecond or two, which would be most of the time of tasks
 * that wait for less. Therefore a wait of d ns is recorded with the probability d / period, if that
 * is less than 1, and then counts period / d times. That does not change the expected sums, and the
 * walks take no more than a fixed part of the time waited. (Go's profiles of blocking do the same.)
 * Counts are sums of fractions, in units of 1 / SCALE.
 *
 * Each processor has a table of rules for frames, which only the thread that has it uses.
 *
 * Who may write what:
 *   made                             as in profile_cpu.c
 *   active, by_task, start, end      the party that has set under_way
 *   caches                           the thread that has the processor
 *   the table                        see samples.h
 */
#include <errno.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "arch/compiler.h"
#include "arch/registers.h"
#include "debug/profile.h"
#include "observe/scan_own.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/off_cpu.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/task.h"

#define DEFAULT_PERIOD_NS 10000

/* Counts are in units of 1 / SCALE. */
#define SCALE 256

enum { COUNT, WAITED };

static const struct sn_pprof_type types[] = {
	[COUNT] = {"waits", "count"},
	[WAITED] = {"wait", "nanoseconds"},
};

struct cache {
	struct sn_modules modules;
	struct sn_frame_rule rules[SN_FRAME_RULES];
};

struct waits {
	struct sn_profile profile; /* first */
	int64_t period_ns;
	_Atomic int64_t start, end; /* as of sn_ticks_now(); INT64_MAX until they are known */
	size_t size;
	uint32_t processors;   /* how many processors have a cache */
	struct cache caches[]; /* one for each processor, and one for the profile's thread */
};

static _Atomic bool under_way;
static struct waits *_Atomic made, *_Atomic active;
static bool by_task; /* a task has begun it, not a thread of the program's own */

/* ---- a wait ---- */

/* A uniform value of 64 bits: a hash of the task and the time, so that it differs for each wait. */
static uint64_t random_of(const struct sn_off_cpu *wait)
{
	uint64_t x =
		((uint64_t)wait->now ^ (uint64_t)(uintptr_t)wait->task << 20) + 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* How many times the wait counts, in units of 1 / SCALE; 0 if it is not recorded. */
static int64_t weight_of(const struct waits *waits, const struct sn_off_cpu *wait, int64_t ns)
{
	if (ns >= waits->period_ns)
		return SCALE;
	if ((int64_t)(random_of(wait) % (uint64_t)waits->period_ns) >= ns)
		return 0;
	return SCALE * waits->period_ns / ns;
}

static void walk(struct sn_sample_key *key, struct sn_modules *modules,
		 const struct sn_off_cpu *wait)
{
	const struct sn_stack stack = sn_task_stack(wait->task);
	struct sn_registers registers;

	if (!wait->here) {
		sn_sample_walk_saved(key, modules, wait->task);
		return;
	}
	sn_registers_interrupted(wait->here, &registers);
	sn_sample_walk(key, modules, &registers, stack.low, stack.high, true);
	key->vary = 2;
}

static void add(struct waits *waits, struct sn_sample_key *key, const char *waits_for,
		const void *object, int64_t ns, int64_t weight)
{
	const int64_t values[SN_SAMPLE_VALUES] = {
		[COUNT] = weight, [WAITED] = weight == SCALE ? ns : ns * weight / SCALE};

	key->waits_for = waits_for;
	key->object = object;
	sn_samples_add(&waits->profile.samples, key, values);
}

/* Adds a wait to the table. modules has a table of rules that only the caller uses, or none. */
static void take(struct waits *waits, const struct sn_off_cpu *wait, struct sn_modules *modules)
{
	const int64_t end = atomic_load(&waits->end);
	const int64_t now = wait->now < end ? wait->now : end;
	const int64_t start = atomic_load(&waits->start);
	const int64_t left = wait->left > start ? wait->left : start;
	/* A time before wait->left belongs to an earlier wait. Then the task was parked during all
	 * of this one. */
	const int64_t ready = wait->ready >= left && wait->ready < now          ? wait->ready
			      : wait->ready >= wait->left && wait->ready < left ? left
										: now;
	const struct sn_task *task = wait->task;
	struct sn_sample_key key;
	int64_t weight;

	if (now <= left)
		return;
	weight = weight_of(waits, wait, now - left);
	if (weight == 0)
		return;
	memset(&key, 0, offsetof(struct sn_sample_key, pcs));
	sn_sample_task(&key, task);
	walk(&key, modules, wait);
	if (ready > left)
		add(waits, &key, atomic_load_explicit(&task->waits_for, memory_order_relaxed),
		    atomic_load_explicit(&task->waits_in, memory_order_relaxed), ready - left,
		    weight);
	if (now > ready)
		add(waits, &key, "a processor", NULL, now - ready, weight);
}

static void note(const struct sn_off_cpu *wait)
{
	struct waits *waits = atomic_load(&active);
	struct sn_modules *modules = &waits->profile.modules;

	/* If another run has begun since, it may have more processors. */
	if (wait->processor < waits->processors)
		modules = &waits->caches[wait->processor].modules;
	take(waits, wait, modules);
}

/* ---- all tasks ---- */

static void each_owned(void (*fn)(struct waits *waits, struct sn_task *task), struct waits *waits)
{
	struct sn_block_slab *slab = NULL;

	while ((slab = sn_block_slab_next(slab)) != NULL) {
		uint64_t owned = sn_scan_hold_slab(slab, SN_BLOCK_SLAB_ALL);

		for (uint64_t left = owned; left; left &= left - 1) {
			struct sn_task *task = sn_block_slab_at(slab, __builtin_ctzll(left));

			fn(waits, task);
			sn_scan_release(task);
		}
	}
}

static void adopt(struct waits *waits, struct sn_task *task)
{
	sn_off_cpu_adopt(task, atomic_load(&waits->start));
}

static void finish(struct waits *waits, struct sn_task *task)
{
	struct sn_off_cpu wait;

	if (!sn_off_cpu_take(task, &wait))
		return;
	wait.now = atomic_load(&waits->end);
	take(waits, &wait, &waits->caches[waits->processors].modules);
}

/* Visits all tasks, if a runtime runs. The caller is hidden, as in sn_dump(). */
static void visit_all(void (*fn)(struct waits *waits, struct sn_task *task), struct waits *waits)
{
	if (sn_foreign_enter() < 0)
		return;
	each_owned(fn, waits);
	sn_foreign_leave();
}

/* ---- the beginning and the end ---- */

static struct waits *make(int64_t period_ns)
{
	const uint32_t processors = (uint32_t)sn_runtime.capacity;
	const size_t size = sizeof(struct waits) + (processors + 1) * sizeof(struct cache);
	struct waits *waits = (struct waits *)sn_profile_begin(size);

	if (!waits)
		return NULL;
	waits->size = size;
	waits->processors = processors;
	waits->period_ns = period_ns;
	atomic_store(&waits->start, INT64_MAX);
	atomic_store(&waits->end, INT64_MAX);
	for (uint32_t i = 0; i <= processors; i++) {
		waits->caches[i].modules = waits->profile.modules;
		waits->caches[i].modules.rules = waits->caches[i].rules;
	}
	return waits;
}

static int start(int64_t period_ns)
{
	struct waits *waits;

	if (!sn_record_ring(0))
		return -ENODATA;
	waits = make(period_ns);
	if (!waits)
		return -ENOMEM;
	atomic_store(&active, waits);
	sn_off_cpu_begin(note);
	/* From now on every wait is noted. */
	atomic_store(&waits->start, sn_ticks_now());
	visit_all(adopt, waits);
	atomic_store(&made, waits);
	return 0;
}

int sn_waits_profile_start(int64_t period_ns)
{
	const bool task = sn_self() != NULL;
	struct sn_private_lease *lease;
	int err;

	if (period_ns < 0 || period_ns > INT64_C(3600000000000))
		return -EINVAL;
	if (atomic_exchange(&under_way, true))
		return -EBUSY;
	by_task = task;
	/* Keeps the runtime alive while its rings and processors are read. */
	err = sn_foreign_enter();
	if (err == 0) {
		lease = sn_scan_hide();
		err = start(period_ns ? period_ns : DEFAULT_PERIOD_NS);
		sn_scan_unhide(lease);
		sn_foreign_leave();
	}
	if (err < 0)
		atomic_store(&under_way, false);
	return err;
}

static int stop(struct waits *waits, int fd)
{
	struct sn_pprof_attr attr = {
		.types = types, .count = 2, .main = WAITED, .period_type = types[WAITED]};
	int err = 0;

	atomic_store(&waits->end, sn_ticks_now());
	sn_off_cpu_stop();
	if (fd >= 0)
		visit_all(finish, waits);
	sn_off_cpu_end();
	atomic_store(&active, NULL);
	attr.period = waits->period_ns;
	attr.duration_ns = atomic_load(&waits->end) - atomic_load(&waits->start);
	if (fd >= 0)
		err = sn_profile_write(&waits->profile, fd, &attr, SCALE, NULL);
	sn_profile_end(&waits->profile, waits->size);
	atomic_store(&under_way, false);
	return err;
}

int sn_waits_profile_stop(int fd)
{
	struct sn_private_lease *lease = sn_scan_hide();
	struct waits *waits = atomic_exchange(&made, NULL);
	/* In a child of fork() there is none any more. */
	int err = waits ? stop(waits, fd) : -ESRCH;

	sn_scan_unhide(lease);
	return err;
}

int sn_profile_waits(int fd, int64_t duration_ns, int64_t period_ns)
{
	int err = sn_profile_check(duration_ns), interrupted;

	if (err == 0)
		err = sn_waits_profile_start(period_ns);
	if (err < 0)
		return err;
	interrupted = sn_profile_sleep(duration_ns);
	err = sn_waits_profile_stop(interrupted < 0 ? -1 : fd);
	return interrupted < 0 ? interrupted : err;
}

void sn_waits_profile_end(void)
{
	if (atomic_load(&made) && by_task)
		sn_waits_profile_stop(-1);
}

void sn_waits_profile_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	atomic_store(&made, NULL);
	atomic_store(&active, NULL);
	atomic_store(&under_way, false);
}
