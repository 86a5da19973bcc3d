/* SPDX-License-Identifier: MIT */
/*
 * Tasks: spawning, yielding, sleeping, joining.
 *
 * A task is a function that runs on a stack of its own and is switched in user space. Tasks are
 * cheap: an idle one occupies one page of memory, so a million fit. Code in a task is plain
 * blocking code; it gives up its processor in the sennit calls marked "may park". errno and C++
 * exception state belong to the task. Other thread-locals belong to the thread, which may change
 * across a call that may park.
 *
 * Stacks have a fixed size. When a task overflows its stack, the guard below it ends the program
 * with a report. But a function whose frame is larger than the guard (64 KiB, 16 KiB on 32-bit
 * machines) can jump over it and silently write into another task's stack, unless it is compiled
 * with -fstack-clash-protection. `pkg-config --cflags sennit` and the CMake targets have that flag;
 * docs/stacks.md says more.
 *
 * A task must not end its thread (pthread_exit()): that aborts the process, see debug.h.
 *
 * Compilers assume that the address of a thread-local is constant within a function. Therefore read
 * thread-locals afresh, through a function that is not inlined. errno is read afresh in all code
 * that includes a header of sennit (errno.h). To use such a value after a call that may park, save
 * it in a variable first.
 *
 * Threads outside the runtime: sn_go(), sn_spawn(), sn_detach(), and the queries; the others return
 * -ENOTSUP. Signal handlers: sn_self(), sn_task_id() and sn_task_name().
 */
#ifndef SENNIT_TASK_H
#define SENNIT_TASK_H

#include <sennit/base.h>
#include <sennit/run.h>

SN_BEGIN

/* A task: what sn_self() returns, and the handle for joining it. */
typedef struct sn_task sn_task;

/* How a task should differ from the default: SN_TASK_ATTR_INIT(.name = "session"). What is not
 * given is zero, which is the default. */
struct sn_task_attr {
	/* Set by SN_TASK_ATTR_INIT(). */
	size_t size SN_SIZE_OF(struct sn_task_attr);
	const char *name;  /* copied, cut to SN_TASK_NAME_MAX; default: none, shown as "task" */
	size_t stack_size; /* usable bytes, rounded up to what the runtime has; at most 1 GiB, 64
			      MiB on 32-bit machines. Default: sn_run_attr.stack_size or
			      SENNIT_STACK_SIZE (run.h), else 128 KiB, 64 KiB on 32-bit machines */
	uint32_t flags;    /* 0, or flags of unstable.h and foreign.h */

	/*
	 * Not 0: the argument is an object of this many bytes, at most SN_TASK_ARG_MAX, which the
	 * task takes with it, aligned to 64. The bytes are copied from arg, and fn gets the address
	 * of the copy, valid until it returns. So arg may be a local variable of the caller, and
	 * nothing has to be allocated.
	 */
	size_t arg_size;

	/*
	 * Copies the argument, instead of memcpy(). Called by the spawning call, unless that fails;
	 * must not call the library.
	 */
	void (*arg_move)(void *to, void *from);
};

/* struct sn_task_attr with its size, and the fields that are given, as .name = value. */
#define SN_TASK_ATTR_INIT(...) SN_SIZED_INIT(struct sn_task_attr, __VA_ARGS__)

/*
 * The largest arg_size: a quarter of a page, so that an idle task still occupies one. An argument
 * of more than 64 bytes lies on the task's stack, which the task otherwise gets only when it runs
 * for the first time.
 */
#define SN_TASK_ARG_MAX 1024

/* The longest task name, without the terminating zero. */
#define SN_TASK_NAME_MAX 31

/*
 * Starts fn(arg) as a new, detached task with default attributes; it becomes runnable immediately
 * and runs when a processor takes it. Any thread while the runtime runs; does not park.
 * Returns 0; -EINVAL without fn; -ENOMEM when there is no memory, no address space for its stack,
 * or no room for a guard page under vm.max_map_count; -ESRCH when no runtime runs.
 *
 * In a 64-bit process whose kernel has MADV_GUARD_INSTALL (Linux 6.13) a task gets its stack, up to
 * 512 KiB, when it first runs. If there is none then, it waits until another task has ended, and
 * spawning more tasks fails with -ENOMEM.
 */
SN_API int sn_go(sn_fn *fn, void *arg);

/*
 * As sn_go(), with attributes (NULL: the defaults) and, where task is not NULL, a handle in *task.
 * The owner of a handle must pass it to sn_join() or sn_detach() once. Without a handle the task is
 * detached. More errors: -EINVAL for a stack or an argument size above its limit, an unknown flag,
 * or a NULL argument with a size. *task is written only on success.
 */
SN_API SN_CHECK_RESULT int sn_spawn(sn_task **task, sn_fn *fn, void *arg,
				    const struct sn_task_attr *attr);

/*
 * Waits until the task has ended, stores its return value in *result (unless NULL) and releases the
 * handle. May park. Whatever the task borrows must stay until a join has succeeded: in a scope
 * (scope.h) a join also fails, with the reason, when the scope is cancelled before the task has
 * ended. Returns 0; -EDEADLK when a task joins itself; -EBUSY when another task is joining it
 * already; -ESRCH when the handle is stale: the task was joined, or has ended detached; -EINVAL for
 * NULL, or when the task was detached and has not ended; -ENOTSUP outside a task. The handle stays
 * valid on error, except for -ESRCH. Handles end with their run.
 *
 * A stale handle reaches no other task until four million tasks have used the same place in memory
 * (63 in a 32-bit process). That is meant for finding mistakes, not for keeping handles.
 */
SN_API int sn_join(sn_task *task, int *result);

/*
 * As sn_join(), but no longer than until the deadline: then -ETIMEDOUT, and the handle stays valid.
 * A task that has ended is joined even past the deadline. Also -ECANCELED, or another reason, when
 * the calling task's scope is cancelled (scope.h). May park.
 */
SN_API SN_CHECK_RESULT int sn_join_until(sn_task *task, int *result, int64_t deadline);

/*
 * Releases the handle without waiting; the task frees itself when it ends. Any thread; does not
 * park. Returns 0, also for NULL; -EBUSY when a task is joining it; -EINVAL when it was detached
 * already; -ESRCH when the handle is stale, or no runtime runs.
 */
SN_API int sn_detach(sn_task *task);

/*
 * Lets other runnable tasks run first. Returns immediately when there are none. May park (in the
 * sense that it may change threads). Returns 0, or -ENOTSUP outside a task.
 */
SN_API int sn_yield(void);

/*
 * Sleeps for at least ns nanoseconds; zero or less is sn_yield(). May park. Returns 0; the reason
 * when the calling task's scope is cancelled (scope.h); -ENOMEM, after a millisecond at most, so
 * that a loop that only sleeps does not spin; -ENOTSUP outside a task.
 */
SN_API int sn_sleep(int64_t ns);

/* Sleeps until sn_now() has reached the deadline; as sn_sleep() otherwise. May park. */
SN_API int sn_sleep_until(int64_t deadline);

/* The calling task, or NULL outside a task. It equals the handle that the spawning call returned,
 * but only the owner of that handle may join. Any thread. */
SN_API sn_task *sn_self(void);

/* The task's number, unique in the process, from 1 upwards; 0 for NULL and for a stale handle. Any
 * thread. */
SN_API uint64_t sn_task_id(const sn_task *task);

/* The task's name; "task" when it has none, "" for NULL and for a stale handle. Valid while the
 * task lives. Any thread. */
SN_API const char *sn_task_name(const sn_task *task);

/*
 * Names the calling task, cut to SN_TASK_NAME_MAX bytes. Returns 0, or -ENOTSUP outside a task.
 * Does not park.
 */
SN_API int sn_task_set_name(const char *name);

SN_END

#endif
