/* SPDX-License-Identifier: MIT */
/*
 * Looking at tasks from outside: listing all of them, and scanning the stack of one.
 *
 * Task dumps and garbage collectors are built on this. None of it stops the world: tasks continue
 * while others are examined. A task that is being examined waits only if its turn comes just then;
 * its processor then runs others.
 *
 * Threads outside the runtime: all calls. Signal handlers: sn_tasks_each().
 */
#ifndef SENNIT_SCAN_H
#define SENNIT_SCAN_H

#include <sennit/base.h>
#include <sennit/task.h>

SN_BEGIN

/* The state of a task. */
enum sn_task_state {
	SN_STATE_RUNNABLE = 2,  /* waits for a processor */
	SN_STATE_RUNNING = 3,   /* has one, or is about to get or to leave it */
	SN_STATE_PARKED = 4,    /* waits in a sennit call */
	SN_STATE_BLOCKING = 5,  /* in foreign code; its processor was given to others */
	SN_STATE_RETURNING = 6, /* back from foreign code; its thread waits for a processor */
	SN_STATE_ENDED = 7,     /* waits to be joined */
};

/* What can be found out about a task without touching its stack. */
struct sn_task_info {
	sn_task *task;            /* to compare, or to scan while it is known to be alive */
	uint64_t id;              /* sn_task_id() */
	enum sn_task_state state; /* its state */
	int64_t state_ns;         /* how long it has been in that state, to some 10 ms */
	const char *waits_for;  /* the kind of object that a parked task waits in; NULL: unknown */
	const void *waits_in;   /* the object, such as a channel's address, NULL: none */
	const void *spawned_at; /* the address in the code that spawned it returns to; NULL: main */
	uint64_t spawned_by;    /* the id of the task that spawned it; 0: a plain thread */
	const void *own_low;    /* its argument lies on its stack, or between this address */
	const void *own_high;   /* and this one */
	const void *stack_low;  /* lowest usable byte of its stack; NULL: none yet, or no longer */
	const void *stack_high; /* the end of its stack, past everything that belongs to it */
	const void *stack_saved;         /* its stack pointer when it was last parked */
	char name[SN_TASK_NAME_MAX + 1]; /* "": it has none */
};

/* Called for a task. A return value other than 0 ends the walk. */
typedef int sn_task_visitor(const struct sn_task_info *info, void *arg);

/*
 * Calls fn for every task, and returns the last value that fn returned, 0 if there was no task; or
 * -ESRCH when no runtime runs or the run ended during the walk, -EINVAL without fn. A task that is
 * spawned or ends during the walk may be missed; what is shown of a task is consistent. info is
 * valid until fn returns; the task may be gone before that.
 *
 * fn may make sennit calls. If the caller is a task, fn may also park; when the run ends in the
 * meantime, that task may not come back. The end of a run waits for fn for a second, as it does for
 * a task in foreign code. If fn takes longer, the stacks are kept.
 *
 * Takes no lock and allocates nothing, so that a signal handler may call it, or a collector that
 * has stopped every thread. In such a collector, at any moment, all that a task refers to (in
 * a state other than SN_STATE_ENDED) lies between own_low and own_high, or between stack_high and
 * stack_saved; if a thread's stack pointer lies on that stack, it replaces stack_saved. A
 * task that has not run yet has no stack: all three pointers of the stack are NULL. Any thread;
 * does not park.
 */
SN_API int sn_tasks_each(sn_task_visitor *fn, void *arg);

/*
 * What sn_task_scan() shows of a task: its registers, and the part of its stack that may hold its
 * references. Valid until the callback returns; until then the task does not run.
 */
struct sn_scan {
	sn_task *task;          /* the one that is scanned */
	const void *own_low;    /* its argument lies on its stack, or between this address */
	const void *own_high;   /* and this one */
	const void *stack_low;  /* the lowest byte of its stack in use; NULL: it has not run yet */
	const void *stack_high; /* the end of its stack */
	/* By their numbers in the architecture's DWARF ABI. Those that a parked task no longer
	 * needs are 0. */
	const uintptr_t *registers;
	unsigned register_count; /* how many registers there are */
	unsigned interrupted;    /* 1: a signal interrupted user code, so all registers count */
};

/*
 * The callback of a scan. It may run on a thread other than the caller's, even in a signal handler,
 * and the task does not run until it returns. It should therefore be quick, and call only what is
 * async-signal-safe. sennit calls inside it behave as on a thread of the program's own that must
 * not wait: those that would wait fail with -EDEADLK, or with -ENOTSUP where only a task may call
 * them.
 */
typedef void sn_task_scan_fn(const struct sn_scan *scan, void *arg);

/*
 * Calls fn once with the stack of another task, and returns when fn has.
 *
 * A parked or runnable task is kept from running until fn has returned: a thread that was about to
 * run it leaves that to this call, and runs other tasks. If a thread is running the task, the call
 * waits until the task itself calls fn, at its next sennit call. When the task stays in user code
 * for long, its thread gets a signal and calls fn in the handler. If the caller is a task, it lets
 * others run while it waits, as sn_yield() does, and so may continue on another thread, unless it
 * is pinned or in a bracket. Any other caller spins, yields and then sleeps; if it has a processor,
 * that can be taken away during this time.
 *
 * The signal's number is SENNIT_SCAN_SIGNAL's in the environment, by default SIGURG's; 0: none is
 * sent. Its handler is installed when first needed, passes signals that are not for it on to the
 * previous one, and has SA_RESTART. As after any handler, some system calls (poll(), nanosleep(),
 * those with a timeout) return EINTR all the same.
 *
 * The caller knows that the task is alive, by its handle or otherwise. Any thread; a task may park.
 * Returns 0; -ESRCH when the task has ended or was freed, or no runtime runs any more; -EDEADLK
 * when it is the calling task, or in a callback; -EBUSY when another scan of that task is under way
 * or pending; -EINVAL without task or fn; -ENOSYS when a filter of system calls that was installed
 * during the run refuses both membarrier() and sched_setaffinity().
 */
SN_API int sn_task_scan(sn_task *task, sn_task_scan_fn *fn, void *arg);

/*
 * As sn_task_scan(), but does not wait: when the task is on a thread, that thread calls fn at the
 * next opportunity, perhaps before this call returns. If the task ends before that, fn is called
 * with NULL; if the runtime ends, it is not called at all. Errors as above.
 */
SN_API int sn_task_scan_async(sn_task *task, sn_task_scan_fn *fn, void *arg);

SN_END

#endif
