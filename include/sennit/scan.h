/* SPDX-License-Identifier: MIT */
/*
 * Looking at tasks from outside: all that there are, and the stack of one.
 *
 * This is what task dumps and garbage collectors are made of. None of it stops the world: tasks go
 * on while others are looked at, and the one that is looked at only waits if its turn comes meanwhile
 * (its processor runs others then).
 */
#ifndef SENNIT_SCAN_H
#define SENNIT_SCAN_H

#include <sennit/base.h>
#include <sennit/task.h>

SN_BEGIN

/* Where a task stands. */
enum sn_task_state {
	SN_STATE_RUNNABLE = 2,  /* waits for a processor */
	SN_STATE_RUNNING = 3,   /* has one, or is about to get or to leave it */
	SN_STATE_PARKED = 4,    /* waits in a sennit call */
	SN_STATE_BLOCKING = 5,  /* in foreign code, its processor was given to others */
	SN_STATE_RETURNING = 6, /* back from foreign code, its thread waits for a processor */
	SN_STATE_ENDED = 7,     /* waits to be joined */
};

/* What can be told of a task without touching its stack. */
struct sn_task_info {
	sn_task *task; /* for comparing, and for sn_task_scan() by who knows it alive */
	uint64_t id;
	enum sn_task_state state;
	int64_t state_ns;        /* how long it has been in that state, to some 10 ms */
	const char *waits_for;   /* the kind of what a parked task waits in, NULL: not known */
	const void *waits_in;    /* the object, such as a channel's address, NULL: none */
	const void *spawned_at;  /* the address in the code that spawned it returns to; NULL: main */
	uint64_t spawned_by;     /* the id of the task that did; 0: a thread of the program's own */
	const void *stack_low;   /* the lowest usable byte of its stack, */
	const void *stack_high;  /* the end of it, past everything that belongs to the task, */
	const void *stack_saved; /* and its stack pointer when it last was parked */
	char name[SN_TASK_NAME_MAX + 1];
};

/* Return value other than 0: that was enough. */
typedef int sn_task_visitor(const struct sn_task_info *info, void *arg);

/*
 * Calls fn for every task, and returns the last value that fn returned, 0 if there was no task; or
 * -ESRCH when no runtime runs, -EINVAL without fn. A task that is spawned or ends meanwhile is seen
 * or not; what is seen belongs together. info is valid until fn returns; the task may be gone by then.
 *
 * Takes no lock and allocates nothing, so that a signal handler may call it, or a collector that
 * has stopped every thread. In that case what every task refers to lies, at any moment, between
 * stack_saved and stack_high (state other than SN_STATE_ENDED), or between the stack pointer of a
 * thread that stands on the stack and stack_high. Any thread; does not park.
 */
SN_API int sn_tasks_each(sn_task_visitor *fn, void *arg);

SN_END

#endif
