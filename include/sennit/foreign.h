/* SPDX-License-Identifier: MIT */
/*
 * For libraries that replace functions of other libraries, such as libsennit-hooks, which makes the
 * C library's blocking calls park (hooks.h): is the caller a task, and may the call park?
 *
 * Such a function is called from everywhere: from tasks, from threads without a task, from the
 * runtime itself, and from signal handlers. Only in the first case may it park, and only if the
 * task holds nothing that belongs to its thread.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_FOREIGN_H
#define SENNIT_FOREIGN_H

#include <sennit/base.h>

SN_BEGIN

/*
 * What the replacing functions note about a task. Only the task itself reads and writes it. In a
 * new task all fields are zero, except hooks.
 */
struct sn_foreign {
	uint16_t locks; /* how many locks the task holds that belong to threads */
	uint8_t hooks;  /* what the task has asked for: an enum sn_hooks_mode */
};

/* Whether a task's blocking calls are hooked. */
enum sn_hooks_mode {
	SN_HOOKS_DEFAULT = 0, /* as for the whole process */
	SN_HOOKS_ON = 1,
	SN_HOOKS_OFF = 2,
};

/* In flags of struct sn_task_attr: the task begins with SN_HOOKS_ON, or with SN_HOOKS_OFF. Both
 * together give -EINVAL. */
#define SN_TASK_HOOKED 2u
#define SN_TASK_UNHOOKED 4u

/* In flags of struct sn_task_attr: the task blocks its thread for long, or often. Tasks that are
 * tied to the same thread (below) would have to wait for it, so it runs on a thread to which no
 * task is tied. A task that has already made tied tasks wait is treated in the same way. */
#define SN_TASK_BLOCKS 8u

/*
 * The calling task's notes; NULL when the caller is not a task's own code: on a thread without a
 * task, in a child of fork(), in handlers of pthread_atfork() that run while the runtime holds its
 * locks (run.h), and in the runtime itself, also where it is working for a task. Valid until the
 * task parks or ends. Any thread; does not park. Costs some loads.
 */
SN_API struct sn_foreign *sn_foreign_self(void);

/*
 * Asks whether the calling code may make a call that parks, which costs a system call. Any thread;
 * does not park. Preserves errno. Returns 0; -ENOTSUP where sn_foreign_self() is NULL; -EBUSY when
 * the task is pinned, so that parking gains nothing, or is within a blocking bracket (blocking.h);
 * -EINTR in what may be a signal handler: the stack is not the task's, the thread's signal mask is
 * not the one with which the runtime's threads begin, or the task is tied (below), so that the
 * handler has interrupted a call that parks. With SA_NODEFER and an empty mask it is not noticed.
 */
SN_API int sn_foreign_may_park(void);

/*
 * Ties the calling task to its thread: until it unties itself, it continues there whenever it has
 * parked. This is for a function that parks in place of one that blocks, because its callers may
 * keep what belongs to the thread, such as the address of errno, over the call. While the task is
 * parked, the thread runs other tasks, in contrast to sn_pin(). Use it only around calls of sennit
 * that park: a task that is tied must not run code of its own for long, nor pin itself, nor end.
 *
 * If the thread is blocked, computes without a pause, or is pinned, and takes none of its tied
 * tasks for SENNIT_HOOKS_STAY milliseconds (1,000; docs/hooks.md), those that wait continue on
 * another thread.
 *
 * Do not park. Return -ENOTSUP where sn_foreign_self() is NULL. sn_foreign_tie() returns 1, or 0
 * when the task is tied or pinned already, or with SENNIT_HOOKS_STAY=0. sn_foreign_untie() returns
 * 0, or 1 when the task has been moved to another thread. Any thread.
 */
SN_API int sn_foreign_tie(void);
SN_API int sn_foreign_untie(void);

/*
 * Not for programs: settings that a library makes for the runtime, which it takes before those of
 * the environment; numbers and sizes only. They are in an array that ends with a name of NULL, and
 * that stays; NULL: none. For sennit-run, whose settings the program and its children must not find
 * in the environment. Any thread, while there is no runtime.
 */
struct sn_private_setting {
	const char *name, *value;
};
SN_API void sn_private_settings(const struct sn_private_setting *settings);

/* Not for programs: whether the calling thread is one of the runtime's that has begun and not
 * ended, in a task or not, also where sn_private_self() is NULL because it makes a scan
 * (sn_task_scan()), serves one or is in sn_run_stats(); or another thread, in sn_run_stats(), in a
 * call of a lock, a channel or the like, also while it waits, or in a call for which the end of a
 * run waits, such as sn_spawn(), sn_task_scan() and sn_dump(), though not in a callback of such a
 * call. Any thread; signal handlers. */
SN_API int sn_private_is_runtime(void);

SN_END

#endif
