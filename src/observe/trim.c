/* SPDX-License-Identifier: MIT */
#include "observe/trim.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/registers.h"
#include "base/environment.h"
#include "observe/scan_own.h"
#include "sched/control_block.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/task.h"

/* How long a step may take. It delays the monitor, which should look at blocking threads every 20
 * us. */
#define STEP_NS 100000
#define REST_NS (100 * STEP_NS)

/*
 * A task that has been parked for this long waits for something slow, such as a person, or a peer
 * that keeps its connection open. Touching the released pages again then costs it only some
 * microseconds.
 */
#define TRIM_MS 5000

static int64_t trim_ms; /* 0 if stacks are never trimmed */
static size_t page;
static _Atomic uint64_t count;

/* The pass: the slab it has reached (NULL before the first), when it began, and when it last
 * worked. */
static bool under_way;
static struct sn_block_slab *at;
static int64_t began, worked;
/* The pass has found a task that is parked, but not for long enough, or that had another owner. */
static bool again;
/* Whether the last whole pass found no such task, and the sum of the ticks when it began. */
static bool settled;
static uint32_t ticks;

int sn_trim_init(void)
{
	trim_ms = sn_environment_number("SENNIT_TRIM_MS", 0, 86400000, TRIM_MS);
	if (trim_ms < 0)
		return -EINVAL;
	page = sn_page_size();
	atomic_store(&count, 0);
	under_way = settled = false;
	at = NULL; /* the slabs of the last run are gone */
	began = worked = 0;
	return 0;
}

uint64_t sn_trim_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}

/* A number that differs from its earlier value if any task has run since. */
static uint32_t all_ticks(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < sn_runtime.capacity; i++)
		sum += atomic_load_explicit(&sn_runtime.processors[i].tick, memory_order_relaxed);
	return sum;
}

/* The time from the beginning of one pass to the beginning of the next. */
static int64_t interval(void)
{
	int64_t ns = trim_ms * 1000000;

	return ns > REST_NS ? ns : REST_NS;
}

static uint32_t parked_since(struct sn_task *task)
{
	return atomic_load_explicit(&task->word.since, memory_order_relaxed);
}

/* The tasks of the slab that are to be trimmed, a bit for each. A hint, because they may be woken
 * at any moment. */
static uint64_t candidates(struct sn_block_slab *slab, uint32_t now_ms)
{
	uint64_t found = 0;

	for (uint64_t left = SN_BLOCK_SLAB_ALL; left; left &= left - 1) {
		int number = __builtin_ctzll(left);
		struct sn_task *task = sn_block_slab_at(slab, number);
		uint32_t since;

		/* A parked task without a stack has not begun. */
		if (sn_status_get(&task->word) != SN_TASK_PARKED || !sn_task_stack(task).low)
			continue;
		since = parked_since(task);
		if (since == task->trimmed)
			continue;
		/* The difference is signed, because the clock wraps, and because a processor may
		 * have set it to a later time than the monitor's now. */
		if ((int32_t)(now_ms - since) >= trim_ms)
			found |= (uint64_t)1 << number;
		else
			again = true;
	}
	return found;
}

static bool is_wanted(struct sn_task *task)
{
	return atomic_load_explicit(&task->word.scan, memory_order_relaxed) & SN_SCAN_WANTED;
}

/* The caller owns the stack. */
static void trim(struct sn_task *task)
{
	char *low = task->stack.low;
	uintptr_t end = ((uintptr_t)task->context.sp - SN_RED_ZONE) & ~(uintptr_t)(page - 1);

	/* Since candidates() looked, another task may have come into the block, which may have no
	 * stack. */
	if (sn_status_get(&task->word) != SN_TASK_PARKED || !low)
		return;
	SN_RACE_WINDOW();
	/* This fails if memory is locked, and then a later attempt would fail, too. */
	if (end > (uintptr_t)low)
		madvise(low, end - (uintptr_t)low, MADV_DONTNEED);
	task->trimmed = parked_since(task);
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

static void trim_slab(struct sn_block_slab *slab, uint32_t now_ms)
{
	uint64_t wanted = candidates(slab, now_ms), left;

	if (!wanted)
		return;
	left = sn_scan_hold_slab(slab, wanted);
	if (left != wanted)
		again = true;
	while (left) {
		int number = __builtin_ctzll(left);

		for (uint64_t rest = left; rest; rest &= rest - 1) {
			int other = __builtin_ctzll(rest);
			struct sn_task *task = sn_block_slab_at(slab, other);

			if (is_wanted(task)) {
				left &= ~((uint64_t)1 << other);
				sn_scan_release(task);
			}
		}
		if (!(left & (uint64_t)1 << number))
			continue;
		trim(sn_block_slab_at(slab, number));
		left &= ~((uint64_t)1 << number);
		sn_scan_release(sn_block_slab_at(slab, number));
	}
}

/* Begins a pass. Returns false if it is not time for one. */
static bool begin_pass(int64_t now)
{
	uint32_t present = all_ticks();

	if (now - began < interval() || (settled && present == ticks))
		return false;
	under_way = true;
	began = now;
	ticks = present;
	at = NULL;
	again = false;
	return true;
}

void sn_trim_step(int64_t now, bool idle)
{
	uint32_t now_ms = (uint32_t)(now / 1000000);

	(void)idle;
	if (trim_ms == 0 || (!under_way && !begin_pass(now)) || now - worked < REST_NS)
		return;
	do {
		at = sn_block_slab_next(at);
		if (!at) {
			under_way = false;
			settled = !again;
			break;
		}
		trim_slab(at, now_ms);
		worked = sn_now();
	} while (worked - now < STEP_NS);
}

int64_t sn_trim_due(int64_t now)
{
	if (trim_ms == 0)
		return 0;
	if (under_way)
		return now;
	return settled && all_ticks() == ticks ? 0 : began + interval();
}
