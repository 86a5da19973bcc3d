/* SPDX-License-Identifier: MIT */
/*
 * A task's status word: what state the task is in, since when, and which party may change it.
 *
 * The table in status.c has every change, and the party that makes it; debug builds check each
 * change against the table. At any moment only one thread has the right to change a task's status:
 * the thread that has created the task, that runs it, that has just switched away from it, or that
 * has won the right to wake it, or the monitor while the lease protocol keeps the task's thread
 * outside. That right is passed on through queues, commits and leases, which order it. A change
 * therefore is a plain store: it needs no locked instruction, and never waits.
 *
 * What the status promises to others:
 *   RUNNABLE, PARKED   the task's registers are saved (context.sp). The status is stored after the
 *                      switch away from it, with release, so a thread that reads it with acquire
 *                      sees them. It may change to RUNNING at any time, unless the reader has the
 *                      scan bit (scan.h).
 *   RUNNING, BLOCKING, RETURNING   the task's registers are in its thread, not saved
 *   FREE, NEW, ENDED   there is no task in the stack, or it will never run again
 *
 * The scan bit has a word of its own beside the status, in the same cache line. In one word with
 * the status, each change of the status would have to be a locked instruction: some 6 ns in a
 * switch of 12.
 *
 * Reading a real clock takes longer than a switch, so since comes from a clock in memory. The
 * monitor maintains it, as do processors that read a real clock anyway. It is late by at most one
 * period of the monitor's looks, which is 10 ms, or a millisecond while tasks are queued.
 */
#ifndef SENNIT_SCHED_STATUS_H
#define SENNIT_SCHED_STATUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"

enum sn_task_status {
	SN_TASK_FREE = 0, /* the stack is in a cache, or was never used: there is no task */
	SN_TASK_NEW,      /* being made */
	SN_TASK_RUNNABLE, /* in a queue, or on its way into one */
	SN_TASK_RUNNING,  /* a thread with a processor has it */
	SN_TASK_PARKED,
	SN_TASK_BLOCKING,  /* in foreign code, and its thread has lost its processor */
	SN_TASK_RETURNING, /* back from foreign code; its thread waits for a processor */
	SN_TASK_ENDED,     /* waits to be joined, or is about to be freed */
	SN_TASK_STATUSES,
};

/* The party that makes a change. */
enum sn_status_actor {
	SN_BY_CREATOR = 1,  /* the thread that makes the task, until it is in a queue */
	SN_BY_WAKER = 2,    /* the party with the right to make a parked task runnable */
	SN_BY_RUNNER = 4,   /* the thread that has taken it out of a queue, or runs it */
	SN_BY_LEAVER = 8,   /* the thread that has just switched away from it, before the commit */
	SN_BY_MONITOR = 16, /* while the lease's word is REVOKING and the thread outside */
	SN_BY_FREER = 32,   /* the party with the claim to free it (task/join.h) */
	SN_BY_SCANNER = 64, /* the scanner to which a runner left the task (scan.h) */
};

struct sn_task_status_word {
	_Atomic uint32_t status;
	_Atomic uint32_t scan;  /* enum sn_scan_bits, see scan.h */
	_Atomic uint32_t since; /* sn_status_clock when status was stored */
};

/*
 * Milliseconds of sn_now(), cut to 32 bits. Written by the monitor, by a thread that wakes the
 * monitor, and by processors at their fair ticks (find_work.c). While every processor is idle it
 * stands still. It is on a cache line of its own, which is read at every switch.
 */
extern struct sn_status_clock {
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t ms;
	char rest[SN_CACHE_LINE - sizeof(uint32_t)];
} sn_status_clock;
void sn_status_clock_set(int64_t now);
/* The same for a thread that may have been preempted since it read the time: sets the clock only
 * forward. */
void sn_status_clock_advance(int64_t now);

/* Ends the program if the change is not in the table. */
void sn_status_check(struct sn_task_status_word *word, enum sn_task_status to,
		     enum sn_status_actor by);

/* Whether the change is in the table. */
bool sn_status_allowed(enum sn_task_status from, enum sn_task_status to, enum sn_status_actor by);

/* For reports: "parked". */
const char *sn_status_name(enum sn_task_status status);

static inline void sn_status_set(struct sn_task_status_word *word, enum sn_task_status to,
				 enum sn_status_actor by)
{
	if (SENNIT_DEBUG)
		sn_status_check(word, to, by);
	/* Relaxed: there is one writer at a time, and readers accept a time that belongs to another
	 * status. */
	atomic_store_explicit(&word->since,
			      atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed),
			      memory_order_relaxed);
	/* Release: a thread that sees RUNNABLE or PARKED sees the saved registers, or all of a new
	 * task. */
	atomic_store_explicit(&word->status, to, memory_order_release);
}

static inline enum sn_task_status sn_status_get(struct sn_task_status_word *word)
{
	return (enum sn_task_status)atomic_load_explicit(&word->status, memory_order_acquire);
}

#endif
