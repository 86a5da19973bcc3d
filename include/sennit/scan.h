/* SPDX-License-Identifier: MIT */
/*
 * Looking at tasks from outside: all that there are, and the stack of one.
 *
 * This is what task dumps and garbage collectors are made of. None of it stops the world: tasks go
 * on while others are looked at, and the one that is looked at only waits if its turn comes meanwhile
 * (its processor runs others then).
 *
 * Threads outside the runtime: all calls. Signal handlers: sn_tasks_each().
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
	sn_task *task;            /* for comparing, and for sn_task_scan() by who knows it alive */
	uint64_t id;              /* sn_task_id() */
	enum sn_task_state state; /* where it stands */
	int64_t state_ns;         /* how long it has been in that state, to some 10 ms */
	const char *waits_for;    /* the kind of what a parked task waits in, NULL: not known */
	const void *waits_in;     /* the object, such as a channel's address, NULL: none */
	const void *spawned_at; /* the address in the code that spawned it returns to; NULL: main */
	uint64_t spawned_by;    /* the id of the task that did; 0: a thread of the program's own */
	const void *own_low;    /* what it was given as its argument lies between */
	const void *own_high;   /* these two, or on its stack */
	const void *stack_low; /* the lowest usable byte of its stack; NULL: none yet, or no more */
	const void *stack_high;  /* the end of it, past everything that belongs to the task, */
	const void *stack_saved; /* and its stack pointer when it last was parked */
	char name[SN_TASK_NAME_MAX + 1]; /* "": it has none */
};

/* Return value other than 0: that was enough. */
typedef int sn_task_visitor(const struct sn_task_info *info, void *arg);

/*
 * Calls fn for every task, and returns the last value that fn returned, 0 if there was no task; or
 * -ESRCH when no runtime runs, -EINVAL without fn. A task that is spawned or ends meanwhile is seen
 * or not; what is seen belongs together. info is valid until fn returns; the task may be gone by then.
 *
 * Takes no lock and allocates nothing, so that a signal handler may call it, or a collector that
 * has stopped every thread. In that case what every task refers to (state other than
 * SN_STATE_ENDED) lies, at any moment, between own_low and own_high, and between stack_saved, or the
 * stack pointer of a thread that stands on the stack, and stack_high. A task that has not run yet has
 * no stack: there all three are NULL. Any thread; does not park.
 */
SN_API int sn_tasks_each(sn_task_visitor *fn, void *arg);

/*
 * What sn_task_scan() shows of a task: where on its stack everything lies that it may refer to, and its
 * registers. Valid until the callback returns; meanwhile the task does not run.
 */
struct sn_scan {
	sn_task *task;          /* the one that stands still */
	const void *own_low;    /* its argument lies between */
	const void *own_high;   /* these two, or on its stack */
	const void *stack_low;  /* the lowest byte in use, NULL: it has not run yet, */
	const void *stack_high; /* and the end of the stack */
	const uintptr_t
		*registers;      /* by their numbers in the architecture's DWARF ABI; those that */
	unsigned register_count; /* a parked task does not need any more are 0 */
	unsigned interrupted;    /* 1: in user code, by a signal: all registers count */
};

/*
 * A callback. It may run on another thread than the caller's, in a signal handler even, with the task
 * standing still: so it should be quick, and call only what is async-signal-safe. sennit calls in it
 * behave as on a thread of the program's own that must not wait: those that would wait fail with
 * -EDEADLK, or -EPERM where only a task may call them.
 */
typedef void sn_task_scan_fn(const struct sn_scan *scan, void *arg);

/*
 * Calls fn once with the stack of another task, and returns when fn has.
 *
 * A parked or runnable task is kept from running meanwhile: whoever wants to run it leaves that to this
 * call, and goes on. For one that a thread runs, the call waits until the task itself calls fn, at its
 * next sennit call, or its thread does so in the handler of a signal, which it gets when it is in
 * user code for long. A task that waits lets others run, as sn_yield() does, and so may come back on
 * another thread, unless it is pinned or in a bracket. Whoever else waits spins, yields and then
 * sleeps; a processor can be taken away meanwhile.
 *
 * That signal's number is SENNIT_SCAN_SIGNAL's in the environment, by default SIGURG's; 0: none is
 * sent. Its handler is installed when first needed, passes on what was not for it to the one before,
 * and has SA_RESTART; as after any handler, some system calls (poll(), nanosleep(), those with a
 * timeout) return EINTR all the same.
 *
 * The caller knows the task alive, by its handle or otherwise. Any thread; a task may park.
 * Returns 0; -ESRCH when the task has ended, or no runtime runs any more; -EDEADLK when it is the
 * calling task, or in a callback; -EBUSY when another scan of that task is under way, or is waited for;
 * -EINVAL without task or fn; -ENOSYS when a filter of system calls has come to refuse both membarrier()
 * and sched_setaffinity(). A handle whose task was freed is told by -ESRCH.
 */
SN_API int sn_task_scan(sn_task *task, sn_task_scan_fn *fn, void *arg);

/*
 * The same without waiting: when the task is on a thread, that thread calls fn at the next occasion,
 * perhaps before this call returns. If the task ends before that, fn is called with NULL; if
 * the runtime ends, not at all. Errors as above.
 */
SN_API int sn_task_scan_async(sn_task *task, sn_task_scan_fn *fn, void *arg);

SN_END

#endif
