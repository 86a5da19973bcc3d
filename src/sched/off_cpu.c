/* SPDX-License-Identifier: MIT */
#include "sched/off_cpu.h"

#include <stdatomic.h>
#include <time.h>

#include <sennit/clock.h>

#include "arch/registers.h"
#include "sched/processor.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/task.h"
#include "sched/thread.h"

/* How often sn_off_cpu_end() looks whether the last call has returned; calls take microseconds. */
#define LOOK_NS 100000

static sn_off_cpu_fn *_Atomic function;
static _Atomic uint32_t calls; /* how many threads are about to call the function, or in it */

void sn_off_cpu_begin(sn_off_cpu_fn *fn)
{
	atomic_store(&function, fn);
	sn_record_exactly(true);
}

void sn_off_cpu_stop(void)
{
	sn_record_exactly(false);
}

void sn_off_cpu_end(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	atomic_store(&function, NULL);
	/* All of these accesses are sequentially consistent: a caller that counts itself after this
	 * thread has read 0 finds no function. */
	while (atomic_load(&calls) > 0)
		nanosleep(&look, NULL);
}

void sn_off_cpu_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	/* The threads that were in the function do not exist in the child. */
	sn_record_exactly(false);
	atomic_store(&function, NULL);
	atomic_store(&calls, 0);
}

bool sn_off_cpu_is_on(void)
{
	return atomic_load_explicit(&sn_record_ms_mask, memory_order_relaxed) != 0;
}

/* ---- what is noted in the task ---- */

static void begin(struct sn_task *task, int64_t left)
{
	atomic_store_explicit(&task->left_at, left, memory_order_relaxed);
	atomic_fetch_or(&task->word.scan, SN_SCAN_TIMED);
}

void sn_off_cpu_left(struct sn_task *task, int64_t now)
{
	begin(task, now);
}

void sn_off_cpu_ready(struct sn_task *task, int64_t now)
{
	atomic_store_explicit(&task->ready_at, now, memory_order_relaxed);
}

void sn_off_cpu_adopt(struct sn_task *task, int64_t now)
{
	if (atomic_load(&task->word.scan) & SN_SCAN_TIMED)
		return;
	/* A runnable task has no other writer of ready_at while it is owned. That of a parked task
	 * is left alone, because its waker may be about to write it. */
	if (sn_status_get(&task->word) == SN_TASK_RUNNABLE)
		atomic_store_explicit(&task->ready_at, now, memory_order_relaxed);
	begin(task, now);
}

bool sn_off_cpu_take(struct sn_task *task, struct sn_off_cpu *wait)
{
	if (!(atomic_fetch_and(&task->word.scan, ~(uint32_t)SN_SCAN_TIMED) & SN_SCAN_TIMED))
		return false;
	*wait = (struct sn_off_cpu){
		.task = task,
		.left = atomic_load_explicit(&task->left_at, memory_order_relaxed),
		.ready = atomic_load_explicit(&task->ready_at, memory_order_relaxed)};
	return true;
}

/* ---- reports ---- */

static void report(struct sn_off_cpu *wait)
{
	struct sn_thread *self = sn_thread_self();
	sn_off_cpu_fn *fn;

	atomic_fetch_add(&calls, 1);
	fn = atomic_load(&function);
	if (fn) {
		wait->now = sn_ticks_now();
		wait->processor = self->processor->id;
		fn(wait);
	}
	atomic_fetch_sub(&calls, 1);
}

sn_noinline void sn_off_cpu_runs(struct sn_task *task)
{
	struct sn_off_cpu wait;

	if (sn_off_cpu_take(task, &wait))
		report(&wait);
}

sn_noinline void sn_off_cpu_regained(struct sn_task *task, int64_t since)
{
	ucontext_t context;
	struct sn_off_cpu wait = {.task = task, .left = since, .ready = since, .here = &context};

	if (since && sn_registers_here(&context))
		report(&wait);
}
