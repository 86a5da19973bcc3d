/* SPDX-License-Identifier: MIT */
/*
 * Adopted threads: tasks that a program takes for threads of its own.
 *
 * Contract. pthread_create() of a program under sennit-run starts a task, and gives the program the
 * address of the task's struct sn_adopted as the pthread_t. All of them are in one reserved range
 * of addresses, so that sn_adopted_of() distinguishes them from the C library's threads. A
 * structure is used again when its two owners have left it: the task, which leaves when it ends,
 * and the program, which leaves by joining or detaching.
 *
 * Writers. Any thread writes `owners` and `joins`, by the functions below, and `name`, where the
 * program has to avoid races, as with threads. The creator writes `start` to `stack_size`, before
 * the task runs. The task writes `result` before it releases `ended`; only the task writes the
 * rest.
 *
 * Files: table.c has the structures, world.c the runtime, threads.c what creates and joins, exit.c
 * pthread_exit(), keys.c the values of pthread_setspecific(), attributes.c names, signals and
 * scheduling, apart.c what changes a thread's identity, cond.c condition variables, sem.c
 * semaphores, waiters.h the lists that cond.c and sem.c have, marks.c what the C library notes in
 * its objects, time64.c the siblings with 64-bit times of what waits until a time, c11.c the
 * functions of <threads.h>, forks.c what happens at fork(), start.c the beginning of the program,
 * settings.c the settings that the runtime finds.
 *
 * Rejected: running main() as a task. main() stays on the process's first thread, where signals
 * reach it and end its calls, its stack grows, and no task shares its thread-locals. It is a task
 * only if SENNIT_RUN contains the word `main`, for tests of the hooks (start.c).
 */
#ifndef SENNIT_RUN_LIBRARY_ADOPTED_H
#define SENNIT_RUN_LIBRARY_ADOPTED_H

#include <limits.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

#include <sennit/blocking.h>
#include <sennit/foreign.h>
#include <sennit/sennit.h>

#include "real.h"

/* How many there can be: 262,144; 16,384 on 32-bit machines, which have address space for fewer
 * stacks. */
#define SN_ADOPTED_MOST (1 << (sizeof(void *) == 8 ? 18 : 14))

/* The values of as many keys are in the structure, as in the C library; others in blocks. */
#define SN_ADOPTED_KEYS 32
#define SN_ADOPTED_NAME 16

/* A value of a key, valid if the key has had this generation since the value was set. */
struct sn_adopted_value {
	uintptr_t generation;
	void *value;
};

enum sn_adopted_joins { SN_ADOPTED_JOINABLE, SN_ADOPTED_JOINING, SN_ADOPTED_DETACHED };

struct sn_adopted {
	_Atomic int owners; /* how many have not left; 0: free */
	_Atomic int joins;  /* enum sn_adopted_joins */
	sn_semaphore ended; /* a permit for the joiner, once the task has ended */
	struct sn_adopted *next_free;

	void *(*start)(void *arg);
	int (*start_c11)(void *arg); /* instead of start, for thrd_create() */
	void *arg, *result;
	size_t stack_size;
	char name[SN_ADOPTED_NAME];

	/* apart.c: */
	bool has_identity; /* the thread's file system identity is not `uid` and `gid` */
	bool has_view;     /* of the system, of its own */
	uid_t uid;
	gid_t gid;

	uintptr_t stack_top;
	jmp_buf *end;                    /* where pthread_exit() goes at last */
	__pthread_unwind_buf_t *cleanup; /* the innermost pthread_cleanup_push() */
	struct _Unwind_Exception exception;
	struct sn_adopted_value values[SN_ADOPTED_KEYS];
	struct sn_adopted_value *blocks[PTHREAD_KEYS_MAX / SN_ADOPTED_KEYS];
};

/* ---- table.c ---- */

/* The calling task; NULL on threads that are not adopted, in the runtime, in a child of fork(). */
struct sn_adopted *sn_adopted_self(void);

/* Makes the structure that of the calling task. NULL: of none. */
void sn_adopted_set_self(struct sn_adopted *self);

/* The adopted thread of that handle; NULL if it is one of the C library's. */
struct sn_adopted *sn_adopted_of(pthread_t thread);

/* A structure with both owners, and otherwise zeros; NULL when there are too many. */
struct sn_adopted *sn_adopted_take(void);
void sn_adopted_leave(struct sn_adopted *thread);

/* The task that the calling thread was in the parent, in a child of fork(); otherwise NULL. */
struct sn_adopted *sn_adopted_was(void);

/* In a child that the runtime does not know of: keeps what sn_adopted_was() returns, before the
 * thread is made no task. Only reads the table. */
void sn_adopted_keep_self(void);

/* Around fork(): no other thread has the table's lock. The child's table is empty except for the
 * task that forked, or was NULL. */
void sn_adopted_before_fork(void);
void sn_adopted_after_fork(void);
void sn_adopted_in_child(struct sn_adopted *forking);

/* ---- world.c ---- */

/* How many threads of the program became tasks, how many of those have not ended, how many threads
 * could not become tasks, and how often tasks have parked in the calls of this library. */
struct sn_run_counts {
	_Atomic uint64_t adopted, alive, real, parked;
};
extern struct sn_run_counts sn_run_counts;

/* Whether a thread that the caller creates becomes a task. Starts the runtime if it does. */
bool sn_world_adopts(void);

/* sn_spawn() of a task with hooks. Returns 0 or a negative errno value. */
int sn_world_spawn(sn_fn *fn, struct sn_adopted *thread);

/* Marks the calling thread as the program's own: the threads that it creates become tasks. */
void sn_world_is_ours(void);

/* Whether the calling thread runs code of the runtime or of this library that may hold a lock for
 * which fork() waits, so that the caller is a signal handler. It does so in tasks that are in the
 * runtime, on the runtime's threads outside tasks, where it makes a scan or serves one
 * (sn_task_scan()), in other threads' calls that sn_private_is_runtime() knows, and between the
 * calls below.
 *
 * Not covered: what finds the modules for a profile or a trace, whose lock is held across
 * fork(). */
bool sn_world_is_inside(void);

/*
 * Bracket such code. They nest. A task must not park in between.
 *
 * Not covered: a handler that runs with the first signal mask (SA_NODEFER), interrupts the first of
 * them before the task counts as one with a lock, and parks. The task may continue on another
 * thread then, and the count be another task's, which passes calls through until it ends, or
 * counts as one without a lock that it has.
 */
void sn_world_enter(void);
void sn_world_leave(void);

/* The same with one of this library's locks that fork() takes. */
void sn_world_lock(pthread_mutex_t *mutex);
void sn_world_unlock(pthread_mutex_t *mutex);

/* sn_semaphore_release() of one permit; sn_semaphore_acquire() until the deadline, or -1: not at
 * all. From tasks, and from other threads, which are inside until it returns. */
void sn_world_release(sn_semaphore *semaphore);
int sn_world_acquire(sn_semaphore *semaphore, int64_t deadline);

/* Runs main() as a task of a runtime on this thread; does not return unless that fails. */
int sn_world_run_main(sn_fn *fn, void *arg);

/* From now on main()'s thread creates threads, not tasks. */
void sn_world_main_ends(void);

/* Ends the runtime. All tasks have ended, or are about to. */
void sn_world_stop(void);

void sn_world_before_fork(void);
void sn_world_after_fork(bool child);

/* ---- threads.c ---- */

/* The code of every adopted thread; arg is its struct sn_adopted. */
int sn_adopted_run(void *arg);

/* pthread_join() that waits until the deadline, or -1: not at all. Returns an error number. */
int sn_adopted_join(struct sn_adopted *thread, int64_t deadline);

/* The deadline of a time of that clock. Returns false if the time or the clock is invalid. */
bool sn_run_deadline(clockid_t clock, const struct timespec *until, int64_t *deadline);

/* pthread_create() that knows the caller is adopted. Returns an error number. */
int sn_adopted_create(pthread_t *handle, const pthread_attr_t *attr, void *(*start)(void *arg),
		      int (*start_c11)(void *arg), void *arg);

/* ---- apart.c ---- */

/* Whether the calling task has an identity or a view of the system that its threads inherit. */
bool sn_adopted_is_apart(void);

/* ---- exit.c ---- */

/* Count the adopted threads that have not ended. A thread calls the second one when it does nothing
 * more for others. */
void sn_run_thread_begins(void);
void sn_run_thread_ends(void);

/* Ends the process with status 0 when all adopted threads have ended. Called by main() if it is a
 * task, and in a child of fork() by a thread that was one. */
_Noreturn void sn_run_exit_last(void);

void sn_run_exit_in_child(void);

/* ---- keys.c ---- */

/* Calls the destructors of the calling task's values. */
void sn_adopted_destroy_values(struct sn_adopted *thread);

/* Gives the calling thread, in a child of fork(), the values that the task had in the parent. */
void sn_adopted_keep_values(const struct sn_adopted *thread);

/* Gives the task main() the values of the calling thread. */
void sn_adopted_take_values(struct sn_adopted *thread);

/* ---- cond.c, sem.c ---- */

/* Make the lists of waiters empty. */
void sn_cond_in_child(void);
void sn_sem_forget(void);

/* The child has no thread that hands on permits, even if it has no waiters either. */
void sn_sem_in_child(void);

/* Finds the C library's marks, before the program has tasks. */
void sn_cond_begin(void);

/* Starts the thread that hands on permits, on a thread that no task has used, before the program
 * has tasks. */
void sn_sem_begin(void);

/* Ends it. */
void sn_sem_end(void);

/* Waits for its end, after sn_sem_end(): the last thread of a process runs the handlers of exit(),
 * and this one has a small stack, and all signals blocked. */
void sn_sem_join(void);

/* ---- forks.c ---- */

/* Registers the handlers of fork(), unless that was done. */
void sn_run_watch_forks(void);

/* A runtime has begun in this process, which may be a child of _Fork(): its tasks are this
 * process's. */
void sn_run_world_begins(void);

/* Whether this is the process that the handlers know, or in which the runtime has begun: not in a
 * child of a bare system call, of vfork() or of _Fork(), where a task is still taken for one, nor
 * of a signal handler that has interrupted the runtime. Costs a system call. */
bool sn_run_own_process(void);

/* Whether it is a child of such a signal handler. */
bool sn_run_is_bare(void);

/* ---- start.c ---- */

/* Says on stderr which of the program's libraries have thread-locals. */
void sn_run_report_locals(void);

/* The options in SENNIT_RUN. */
struct sn_run_options {
	size_t stack_size; /* of threads that ask for none; 0: the C library's default */
	int processors;    /* 0: what the runtime finds */
	bool launched;     /* by sennit-run */
	bool main, quiet, stats;
};
extern struct sn_run_options sn_run_options;

/* ---- settings.c ---- */

/* Makes the settings for the runtimes of this process and of its children. Before main() begins. */
void sn_run_make_settings(void);

#endif
