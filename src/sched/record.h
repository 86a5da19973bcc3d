/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: what the scheduler did last, in a ring for each processor.
 *
 * Contract. A record is two words. Whoever has a processor writes into its ring; threads without
 * one, and the monitor, write into one more ring, the last, under a lock. A ring never stops and
 * never waits: the newest record takes the place of the oldest. Any thread may copy a ring at any
 * time (sn_record_copy()). Tasks are named by their ids, so what is recorded of a task stays true
 * when its block is another's. The rings of a run can be read until the next run begins.
 *
 * Time. Reading a clock takes as long as half a switch, so most records have no time of their own.
 * They happened between the TIME records, or others with a time, before and after them in the ring.
 * How many of them share one TIME depends on how long turns take (due): where turns take more than
 * a microsecond, all but the first few have an exact end. The first record after the monitor's
 * clock (status.h), which every switch reads, has moved gets a TIME as well: so a turn of more than
 * a few milliseconds has an exact end, whatever came before it. The records of the slow paths, on
 * which a clock is read anyway or costs nothing in comparison, carry the time. Within a ring time
 * never goes back.
 *
 * Torn records. The writer stores a record's two words and then the head, each with release. The
 * reader loads the head, then the records before it with acquire, then the head again. A load that
 * returns a word of the record that has overwritten the one at i, which is at i + size,
 * synchronizes with that store, and therefore sees the heads before it: the second load of the head
 * returns at least i + size. So whatever is less than size before the second head is whole. These
 * are plain stores on x86. With relaxed stores and one release fence for each record, ARM would
 * need a barrier that waits for all earlier stores.
 *
 * Exact times. While waits are measured (off_cpu.h), sn_record_ms_mask makes every record look
 * late: each gets a TIME, and the slow path notes the time in the task as well.
 *
 * Who may write what:
 *   a processor's ring   the thread that has the processor; the monitor, while it has revoked it.
 *                        What passes the processor on orders their writes (lease.h).
 *   the last ring        any thread, under the lock in record.c
 *   p->record            run/run.c, before the first thread of a run starts; NULL: nothing is
 *                        recorded, which costs a load and a branch
 *
 * Rejected: a record when a task begins its turn, beside the one when it leaves: where the next
 * task is at hand the one is the other. The time in each record: it costs a quarter of a switch.
 * Writing the format of the trace at once: 100 ns and more an event.
 */
#ifndef SENNIT_SCHED_RECORD_H
#define SENNIT_SCHED_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "base/fork.h"
#include "sched/processor.h"
#include "sched/task.h"
#include "sched/thread.h"

/* The first word has the kind, a detail of it (how), and a number of 48 bits, which is a task's id
 * if not stated. Those marked ns have the time in the second word. */
enum sn_record_kind {
	SN_RECORD_NONE,
	SN_RECORD_TIME,   /* ns; belongs to the record that follows; how: 1: after a long turn */
	SN_RECORD_LEAVE,  /* a task's turn ends (enum sn_leave_how); what it waits for, a string */
	SN_RECORD_RUN,    /* a turn begins that does not begin where another ends; ns */
	SN_RECORD_SPAWN,  /* where in the program; how: 1: it is parked from the beginning */
	SN_RECORD_WAKE,   /* a parked task is made runnable; by which task, 0: by none */
	SN_RECORD_STAY,   /* a task that was left is runnable at once: its wait was over already */
	SN_RECORD_REVOKE, /* the task's thread loses its processor; how: 1: it lends it; ns */
	SN_RECORD_RETURN, /* and wants one again; ns */
	SN_RECORD_REGAIN, /* and has got one, this; ns */
	SN_RECORD_STEAL,  /* number: of the other processor; ns */
	SN_RECORD_IDLE,   /* the processor's thread has nothing to do; ns */
	SN_RECORD_POLL,   /* number: of tasks that the network has woken; ns */
	SN_RECORD_TIMERS, /* number: of timers that were due; ns */
	SN_RECORD_NAME,   /* how: which eight bytes of the task's name; the bytes */
	SN_RECORD_USER,   /* number: the address of a name; the program's value */
	SN_RECORD_KINDS,
};

/* With the kind, so that the switch need not put them together. */
enum sn_leave_how {
	SN_LEAVE_PARK = SN_RECORD_LEAVE,
	SN_LEAVE_YIELD = 1 << 8 | SN_RECORD_LEAVE,
	SN_LEAVE_END = 2 << 8 | SN_RECORD_LEAVE,
};

struct sn_record {
	_Atomic uint64_t what, detail;
};

/* Counts the records of a ring, in bytes, which saves the switch a shift. It wraps on 32-bit
 * machines; a reader then finds the ring shorter than it is. */
typedef uintptr_t sn_record_position;

struct sn_record_ring {
	_Alignas(SN_CACHE_LINE) _Atomic sn_record_position head; /* where the next one comes */
	sn_record_position mask;
	char *slots;
	sn_record_position due;   /* a turn that ends here or later gets a TIME */
	sn_record_position timed; /* after the last record with a time */
	int64_t time;             /* and that time */
	uint32_t spacing;         /* from there to due */
	uint32_t ms;              /* sn_status_clock then, changed by the mask below */
};

/* 0, or while every record is to have its time, a bit that the clock does not get. */
extern _Atomic uint32_t sn_record_ms_mask sn_hidden;

static inline uint64_t sn_record_what(enum sn_record_kind kind, unsigned how, uint64_t number)
{
	return number << 16 | (uint64_t)how << 8 | kind;
}

/* The caller may write into the ring. */
static inline void sn_record_put(struct sn_record_ring *ring, uint64_t what, uint64_t detail)
{
	sn_record_position head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	struct sn_record *slot = (struct sn_record *)(ring->slots + (head & ring->mask));

	/* Release: see above. */
	atomic_store_explicit(&slot->what, what, memory_order_release);
	atomic_store_explicit(&slot->detail, detail, memory_order_release);
	atomic_store_explicit(&ring->head, head + sizeof *slot, memory_order_release);
}

static inline uint64_t sn_record_id(const struct sn_task *task)
{
	return atomic_load_explicit(&task->id, memory_order_relaxed);
}

/* A TIME now; a record that has the time. ring: NULL where nothing is recorded. */
void sn_record_time(struct sn_record_ring *ring);
void sn_record_time_at(struct sn_record_ring *ring, int64_t now);
void sn_record_timed(struct sn_record_ring *ring, uint64_t what);

/* Whether the monitor's clock has moved since the last record with a time. */
static inline bool sn_record_is_late(const struct sn_record_ring *ring)
{
	return atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed) != ring->ms;
}

/* Whether there are so many records since that a turn that ends now gets a TIME. */
static inline bool sn_record_is_due(const struct sn_record_ring *ring)
{
	return (intptr_t)(atomic_load_explicit(&ring->head, memory_order_relaxed) - ring->due) >= 0;
}

/* The slow path of the following. */
void sn_record_leave_time(struct sn_record_ring *ring, struct sn_task *task, enum sn_leave_how how);

/* The task is about to be left, by the thread that has the processor. */
static inline void sn_record_leave(struct sn_processor *p, struct sn_task *task,
				   enum sn_leave_how how)
{
	struct sn_record_ring *ring = p->record;
	const char *reason = NULL;

	if (sn_unlikely(!ring))
		return;
	if (sn_unlikely(sn_record_is_due(ring) || sn_record_is_late(ring)))
		sn_record_leave_time(ring, task, how);
	if (how == SN_LEAVE_PARK)
		reason = atomic_load_explicit(&task->waits_for, memory_order_relaxed);
	sn_record_put(ring, sn_record_id(task) << 16 | how, (uintptr_t)reason);
}

/* What happens within a turn. */
static inline void sn_record_soon(struct sn_record_ring *ring, uint64_t what, uint64_t detail)
{
	if (sn_unlikely(sn_record_is_late(ring)))
		sn_record_time(ring);
	sn_record_put(ring, what, detail);
}

/* Of a thread without a processor, which may have no block either. Any thread of the runtime, or
 * between sn_foreign_enter() and sn_foreign_leave(). */
void sn_record_outside(uint64_t what, uint64_t detail);

/* self: NULL on a thread without a block. */
static inline void sn_record_by(struct sn_thread *self, uint64_t what, uint64_t detail)
{
	if (sn_unlikely(!self || !self->processor))
		sn_record_outside(what, detail);
	else if (sn_likely(self->processor->record))
		sn_record_soon(self->processor->record, what, detail);
}

/* The slow paths of the following: the time, of a task that becomes runnable; and without a
 * processor. */
void sn_record_ready_time(struct sn_record_ring *ring, struct sn_task *task, uint64_t what);
void sn_record_ready_outside(struct sn_task *task, uint64_t what, uint64_t detail);

/* As sn_record_by(), of a task that is about to become runnable, or was made. */
static inline void sn_record_ready(struct sn_thread *self, struct sn_task *task, uint64_t what,
				   uint64_t detail)
{
	struct sn_record_ring *ring;

	if (sn_unlikely(!self || !self->processor)) {
		sn_record_ready_outside(task, what, detail);
	} else if (sn_likely((ring = self->processor->record) != NULL)) {
		if (sn_unlikely(sn_record_is_late(ring)))
			sn_record_ready_time(ring, task, what);
		sn_record_put(ring, what, detail);
	}
}

/* waits: it is not runnable yet, but parked. */
static inline void sn_record_spawn(struct sn_thread *self, struct sn_task *task, bool waits)
{
	sn_record_ready(self, task, sn_record_what(SN_RECORD_SPAWN, waits, sn_record_id(task)),
			(uintptr_t)atomic_load_explicit(&task->spawned_at, memory_order_relaxed));
}

/* The task was parked, and is runnable; by: the task that has woken it, or NULL. */
static inline void sn_record_wake(struct sn_thread *self, struct sn_task *task,
				  const struct sn_task *by)
{
	sn_record_ready(self, task, sn_record_what(SN_RECORD_WAKE, 0, sn_record_id(task)),
			by ? sn_record_id(by) : 0);
}

/* The name of a task that ends, if it has one. */
void sn_record_name(struct sn_processor *p, const struct sn_task *task);

/* ---- for run/run.c ---- */

/*
 * A run begins, with so many processors at most. 0, or -EINVAL for an invalid SENNIT_RECORD, after
 * a line on stderr. Without memory nothing is recorded, after such a line.
 */
int sn_record_begin(int processors);
struct sn_record_ring *sn_record_ring(int processor);
/* Any thread: whether every record is to have its time. Takes a millisecond to begin. */
void sn_record_exactly(bool on);
void sn_record_fork(enum sn_fork_phase phase);

/* ---- for readers ---- */

/* The same as a record, as it was. */
struct sn_record_copy {
	uint64_t what, detail;
};

/*
 * Keeps the rings from being replaced by those of another run, until sn_record_release(). Returns
 * how many there are, the last that of threads without a processor; 0: none, and nothing is to be
 * released. size: of each, in records.
 */
int sn_record_hold(size_t *size);
void sn_record_release(void);

/* Copies what a ring has, the oldest record first, to `to`, which has room for size records, and
 * returns how many there are. */
size_t sn_record_copy(int ring, struct sn_record_copy *to);

/* Whether newer records have taken the place of older ones in it, so that these are not known. */
bool sn_record_has_lost(int ring);

#endif
