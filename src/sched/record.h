/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: what the scheduler did last, in a ring for each processor.
 *
 * Contract. A record is two words. The thread that has a processor writes into its ring; threads
 * without one, and the monitor, write into one more ring, the last, under a lock. A ring never
 * stops and never waits: the newest record takes the place of the oldest. Any thread may copy a
 * ring at any time (sn_record_copy()). Tasks are named by their ids, so a record stays true when
 * the task's block is reused. The rings of a run can be read until the next run begins.
 *
 * Time. Reading a clock takes as long as half a switch, so most records have no time of their own.
 * They happened between the TIME records, or others with a time, before and after them in the ring.
 * How many records share one TIME depends on how long turns take (due): if turns take more than a
 * microsecond, all but the first few have an exact end. Every switch reads the monitor's clock
 * (status.h), and the first record after that has moved gets a TIME as well. A turn of more than a
 * few milliseconds thus has an exact end, whatever came before it. The records of the slow paths,
 * on which a clock is read anyway or costs little in comparison, carry the time. Within a ring time
 * never goes back.
 *
 * Torn records. The writer stores a record's two words and then the head, each with release. The
 * reader loads the head, then the records before it with acquire, then the head again. Suppose that
 * the record at i was overwritten by the one at i + size. A load that returns a word of the new
 * record synchronizes with that store, and therefore sees the heads before it: the second load of
 * the head returns at least i + size. Every record that is less than size before the second head is
 * therefore whole. These are plain stores on x86. With relaxed stores and one release fence for
 * each record, ARM would need a barrier that waits for all earlier stores.
 *
 * Exact times. While waits are measured (off_cpu.h), sn_record_ms_mask makes every record look
 * late: each gets a TIME, and the slow path notes the time in the task as well.
 *
 * Who may write what:
 *   a processor's ring   the thread that has the processor; the monitor, while it revokes it. Their
 *                        writes are ordered by the protocol that passes the processor on (lease.h)
 *   the last ring        any thread, under the lock in record.c
 *   p->record            run/run.c, before the first thread of a run starts. NULL means that
 *                        nothing is recorded, which costs a load and a branch
 *   sn_record_ms_mask    sn_record_exactly(); in a child of fork(), the only thread
 *
 * Rejected: a record when a task begins its turn, beside the one when it leaves, because where the
 * next task is at hand both say the same; the time in each record, which costs a quarter of a
 * switch; writing the format of the trace directly, which takes 100 ns and more an event.
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

/* The first word of a record has the kind, a detail (how), and a number of 48 bits, which is a
 * task's id unless stated otherwise. The second word is described here; ns means the time. */
enum sn_record_kind {
	SN_RECORD_NONE,
	SN_RECORD_TIME,   /* ns of the record that follows; how is 1 after a long turn */
	SN_RECORD_LEAVE,  /* a task's turn ends (how: enum sn_leave_how); what it waits for */
	SN_RECORD_RUN,    /* a turn begins that does not begin where another ends; ns */
	SN_RECORD_SPAWN,  /* the place in the program; how is 1 if the task is parked at first */
	SN_RECORD_WAKE,   /* a parked task is made runnable; the id of its waker, or 0 */
	SN_RECORD_STAY,   /* a task that was left is runnable again: its wait was over already */
	SN_RECORD_REVOKE, /* the task's thread loses its processor; how is 1 if it lends it; ns */
	SN_RECORD_RETURN, /* that thread wants a processor again; ns */
	SN_RECORD_REGAIN, /* that thread has got this processor; ns */
	SN_RECORD_STEAL,  /* the number is the other processor's; ns */
	SN_RECORD_IDLE,   /* the processor's thread has nothing to do; ns */
	SN_RECORD_POLL,   /* the number of tasks that the network has woken; ns */
	SN_RECORD_TIMERS, /* the number of timers that were due; ns */
	SN_RECORD_NAME,   /* eight bytes of the task's name; how says which ones */
	SN_RECORD_USER,   /* the number is the address of a name; the program's value */
	SN_RECORD_KINDS,
};

/* How a task leaves, together with the kind, so that the switch need not combine them. */
enum sn_leave_how {
	SN_LEAVE_PARK = SN_RECORD_LEAVE,
	SN_LEAVE_YIELD = 1 << 8 | SN_RECORD_LEAVE,
	SN_LEAVE_END = 2 << 8 | SN_RECORD_LEAVE,
};

struct sn_record {
	_Atomic uint64_t what, detail;
};

/* A position among all records of a ring, in bytes, which saves the switch a shift. It wraps on
 * 32-bit machines; a reader then finds the ring shorter than it is. */
typedef uintptr_t sn_record_position;

struct sn_record_ring {
	_Alignas(SN_CACHE_LINE) _Atomic sn_record_position head; /* of the next record */
	sn_record_position mask;
	char *slots;
	sn_record_position due;   /* a turn that ends here or later gets a TIME */
	sn_record_position timed; /* just after the last record with a time */
	int64_t time;             /* the time in that record */
	uint32_t spacing;         /* from timed to due */
	uint32_t ms;              /* sn_status_clock at that time, XORed with the mask below */
};

/* 0, or a bit while every record is to have its time: the ms of a ring then never equals the
 * clock. */
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

	/* Release: see "Torn records" above. */
	atomic_store_explicit(&slot->what, what, memory_order_release);
	atomic_store_explicit(&slot->detail, detail, memory_order_release);
	atomic_store_explicit(&ring->head, head + sizeof *slot, memory_order_release);
}

static inline uint64_t sn_record_id(const struct sn_task *task)
{
	return atomic_load_explicit(&task->id, memory_order_relaxed);
}

/* The first two write a TIME with the present time, or with `now`. The third writes a record that
 * carries the time. If ring is NULL, they record nothing. */
void sn_record_time(struct sn_record_ring *ring);
void sn_record_time_at(struct sn_record_ring *ring, int64_t now);
void sn_record_timed(struct sn_record_ring *ring, uint64_t what);

/* Whether the monitor's clock has moved since the last record with a time. */
static inline bool sn_record_is_late(const struct sn_record_ring *ring)
{
	return atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed) != ring->ms;
}

/* Whether there have been so many records since then that a turn that ends now gets a TIME. */
static inline bool sn_record_is_due(const struct sn_record_ring *ring)
{
	return (intptr_t)(atomic_load_explicit(&ring->head, memory_order_relaxed) - ring->due) >= 0;
}

/* The slow path of sn_record_leave(). */
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

/* Records something that happens within a turn. */
static inline void sn_record_soon(struct sn_record_ring *ring, uint64_t what, uint64_t detail)
{
	if (sn_unlikely(sn_record_is_late(ring)))
		sn_record_time(ring);
	sn_record_put(ring, what, detail);
}

/* Records something that a thread without a processor does; the thread may have no block, either.
 * Called on any thread of the runtime, or between sn_foreign_enter() and sn_foreign_leave(). */
void sn_record_outside(uint64_t what, uint64_t detail);

/* Chooses the ring by the calling thread; self is NULL on a thread without a block. */
static inline void sn_record_by(struct sn_thread *self, uint64_t what, uint64_t detail)
{
	if (sn_unlikely(!self || !self->processor))
		sn_record_outside(what, detail);
	else if (sn_likely(self->processor->record))
		sn_record_soon(self->processor->record, what, detail);
}

/* The slow paths of sn_record_ready(): the first writes a TIME, the second is for threads without a
 * processor. */
void sn_record_ready_time(struct sn_record_ring *ring, struct sn_task *task, uint64_t what);
void sn_record_ready_outside(struct sn_task *task, uint64_t what, uint64_t detail);

/* As sn_record_by(), for a task that is about to become runnable, or was just made. */
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

/* If waits, the task is not runnable yet, but parked. */
static inline void sn_record_spawn(struct sn_thread *self, struct sn_task *task, bool waits)
{
	sn_record_ready(self, task, sn_record_what(SN_RECORD_SPAWN, waits, sn_record_id(task)),
			(uintptr_t)atomic_load_explicit(&task->spawned_at, memory_order_relaxed));
}

/* A parked task is made runnable by the task `by`, or by none if that is NULL. */
static inline void sn_record_wake(struct sn_thread *self, struct sn_task *task,
				  const struct sn_task *by)
{
	sn_record_ready(self, task, sn_record_what(SN_RECORD_WAKE, 0, sn_record_id(task)),
			by ? sn_record_id(by) : 0);
}

/* Records the name of a task that ends, if it has one. */
void sn_record_name(struct sn_processor *p, const struct sn_task *task);

/* ---- for run/run.c ---- */

/*
 * Called when a run begins that has at most `processors` processors. Returns 0. Returns -EINVAL,
 * after a line on stderr, if SENNIT_RECORD is invalid. If there is no memory, a line on stderr says
 * so, and nothing is recorded.
 */
int sn_record_begin(int processors);
struct sn_record_ring *sn_record_ring(int processor);
/* Says whether every record is to have its time. Turning that on takes a millisecond. Any thread
 * may call this. */
void sn_record_exactly(bool on);
void sn_record_fork(enum sn_fork_phase phase);

/* ---- for readers ---- */

/* A copy of a record. */
struct sn_record_copy {
	uint64_t what, detail;
};

/*
 * Keeps the rings from being replaced by those of another run, until sn_record_release(). Returns
 * their number; the last belongs to threads without a processor. Stores the size of each, in
 * records, in *size. Returns 0 if there are none, and then nothing is to be released.
 */
int sn_record_hold(size_t *size);
void sn_record_release(void);

/* Copies a ring's records, the oldest first, to `to`, which must have room for a whole ring.
 * Returns how many records it has copied. */
size_t sn_record_copy(int ring, struct sn_record_copy *to);

/* Whether newer records have taken the place of older ones in the ring. */
bool sn_record_has_lost(int ring);

#endif
