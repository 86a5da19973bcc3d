/* SPDX-License-Identifier: MIT */
/*
 * Starting the runtime, and its statistics.
 *
 * Environment, read by each sn_run():
 *   SENNIT_PROCS        number of processors, 1 to 1024; default: the CPUs in the affinity mask,
 *                       further limited by the quota of the control group where there is one
 *   SENNIT_MAX_THREADS  most OS threads that run tasks; default 10,000, at least 2. At the limit
 *                       work waits for a thread; the runtime's statistics count that, and one line
 *                       on stderr reports it
 *   SENNIT_IDLE_MS      when more threads than processors are idle, those that have been for this
 *                       long end; default 2,000
 *   SENNIT_LEASES       0: never take a processor from a thread that blocks; for comparisons
 *   SENNIT_HOOKS_STAY   ms for which a task that has parked in a hooked call waits for its thread
 *                       when that is stuck (docs/hooks.md); 0: it continues on any; default 1,000
 *   SENNIT_MEMBARRIER   0: use fences, as on kernels without membarrier; for tests
 *   SENNIT_STACK_SIZE   stack size of tasks that ask for none, instead of that of sn_run_attr: in
 *                       bytes, or as in 256K or 1M; from 16K to 1G, to 64M on 32-bit machines. The
 *                       first task's stack is at least that large
 *   SENNIT_STACK_GUARD  mprotect: guard stacks as on kernels without MADV_GUARD_INSTALL; for tests
 *   SENNIT_SCAN_SIGNAL  the signal by which tasks in foreign code are scanned (scan.h): a number;
 *                       0: none; default: SIGURG's
 *   SENNIT_FAULT_REPORTS  0: report no SIGSEGV, SIGBUS and SIGABRT in a task (debug.h) except stack
 *                       overflows
 *   SENNIT_DEADLOCK     0: do not end the process when nothing can wake any task (debug.h)
 *   SENNIT_DUMP_SIGNAL  the signal that makes the process print what every task does (sn_dump() in
 *                       debug.h): a number, but not that of SIGILL, SIGTRAP, SIGFPE, SIGSEGV or
 *                       SIGBUS; 0: none; default: SIGQUIT's
 *   SENNIT_DUMP_TASKS   how many of the tasks that do the same are listed one by one; default 20
 *   SENNIT_STALL_MS     a task that keeps its processor for longer than this is reported on stderr
 *                       with a backtrace, for which its thread gets the signal SENNIT_STALL_SIGNAL
 *                       (a number; default: SIGURG's); 0, the default: no reports
 *   SENNIT_LATE_MS      when a task has waited for a processor for longer than this, and up to
 *                       20 ms more, a trace is written to SENNIT_TRACE_FILE; 0, the default: never
 *   SENNIT_TRIM_MS      when a task has been parked for this long, the unused part of its stack
 *                       goes back to the kernel; default 5,000, 0: never
 *   SENNIT_RECORD       bytes of each processor's ring of records for traces (trace.h), as in 256K
 *                       or 1M; from 4K to 64M, to 1M on 32-bit machines; default 256K, and 64K
 *                       there; 0: nothing is recorded
 *   SENNIT_TRACE_FILE   where a trace is written (trace.h) when SENNIT_DUMP_SIGNAL comes, and when
 *                       a task has kept its processor for SENNIT_STALL_MS, or waited for one for
 *                       SENNIT_LATE_MS; %p: the process's id
 *   SENNIT_PROFILE      cpu:FILE or waits:FILE: a profile of the whole run (profile.h); %p: the
 *                       process's id
 *   SENNIT_WAIT_STATS   1: print the histograms of waits (wait_stats.h) to stderr when sn_run() is
 *                       about to return, and with each dump that SIGQUIT asks for
 *   SENNIT_WAIT_SPIN    1: threads of the runtime that wait for others spin until they have what
 *                       they want, instead of yielding and sleeping; for comparisons
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_RUN_H
#define SENNIT_RUN_H

#include <sennit/base.h>

SN_BEGIN

/* The function of a task. Its return value is what sn_join() reports. */
typedef int sn_fn(void *arg);

/*
 * Starts the runtime, runs fn(arg) as its first task on a thread of the runtime, and returns fn's
 * value once fn has returned.
 *
 * Tasks that are alive at that moment are abandoned where they are, as goroutines are when main
 * returns: they never run again and their stacks are freed, so a program that needs them joins
 * them. A task that is executing code outside sennit at that moment is stopped at its next sennit
 * call. sn_run() waits a second for that, then leaves the task's thread behind, with the memory
 * that it may touch. sn_run() may be called again.
 *
 * The threads that run tasks have the signal mask, the name and the timer slack of the calling
 * thread.
 *
 * fork() in a task, or in any thread, copies the calling thread only. The child has no runtime:
 * calls that may park return -ENOTSUP, sn_go() returns -ESRCH, and connections can only be closed.
 * The child should call exec, _exit() or a new sn_run(). In that run too the parent's connections
 * can only be closed; reading, shutdown and the like return -EBADF, and an abort is a close without
 * a reset, because the parent still has the connection. Signals that the parent's tasks caught
 * have in the child the effect that they had before. When the task's function returns in the child,
 * the process exits with its value. Handlers of pthread_atfork() that were registered before the
 * first sn_run() are called while the runtime's locks are held, and must not call sennit.
 *
 * Errors: -EALREADY when a runtime is already running in this process (also when called from a
 * task); -EINVAL without fn, or for an environment variable out of range, after a line on stderr
 * that names it; -ENOMEM, -EMFILE, -ENFILE or -EAGAIN when stacks, descriptors or threads cannot be
 * obtained. fn's own values are returned unchanged, so a program whose fn returns negative values
 * cannot distinguish them from these. Not from a task. Blocks the calling thread until done.
 */
SN_API int sn_run(sn_fn *fn, void *arg);

/*
 * How a run should differ from the default: SN_RUN_ATTR_INIT(). What is not given is zero, which is
 * the default. Sizes are rounded up to those that the runtime has, and are at most 1 GiB, 64 MiB on
 * 32-bit machines.
 */
struct sn_run_attr {
	/* Set by SN_RUN_ATTR_INIT(). */
	size_t size SN_SIZE_OF(struct sn_run_attr);
	/* Usable bytes of the stack of each task that asks for no size of its own, whichever call
	 * starts it; SENNIT_STACK_SIZE overrides it. Default 128 KiB, 64 KiB on 32-bit machines. */
	size_t stack_size;

	/* The same for the first task. Default 8 MiB, 1 MiB on 32-bit machines, or stack_size when
	 * that is larger. */
	size_t first_stack_size;
};

/* struct sn_run_attr with its size, and the fields that are given, as .name = value. */
#define SN_RUN_ATTR_INIT(...) SN_SIZED_INIT(struct sn_run_attr, __VA_ARGS__)

/*
 * As sn_run(), with attributes (NULL: the defaults). Also -EINVAL for a size above the limit, after
 * a line on stderr.
 */
SN_API int sn_run_with_attr(sn_fn *fn, void *arg, const struct sn_run_attr *attr);

/* Counters since the start of the running (or, afterwards, of the last) runtime. */
struct sn_run_stats {
	/* Set by SN_RUN_STATS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_run_stats);
	uint64_t tasks_spawned;     /* ever */
	uint64_t tasks_alive;       /* that have not ended */
	uint64_t switches;          /* context switches */
	uint64_t steals;            /* successful steals of half a queue */
	uint64_t polls;             /* epoll_wait calls */
	uint64_t threads;           /* OS threads that run tasks, now */
	uint64_t threads_blocking;  /* of those, within a blocking bracket now */
	uint64_t revocations;       /* processors taken from threads that blocked or hogged them */
	uint64_t thread_limit_hits; /* times that a thread was wanted and could not be started */
	uint64_t processors;        /* in use now */
	uint64_t stacks_mapped;     /* stacks in use or cached */
	uint64_t
		stacks_trimmed; /* times that a parked task's stack gave back what it did not use */
	uint64_t accept_pauses; /* times that accepting paused for lack of descriptors or memory */
};

/* struct sn_run_stats with its size, and the fields that are given, as .name = value. */
#define SN_RUN_STATS_INIT(...) SN_SIZED_INIT(struct sn_run_stats, __VA_ARGS__)

/*
 * Fills *stats. Counters are read without stopping anything, so they are not all from the same
 * instant. Any thread. Returns 0; -ENODEV when no runtime has run yet; -EINVAL for NULL.
 */
SN_API int sn_run_stats(struct sn_run_stats *stats);

/* Not for programs: the number of the run that the calling task belongs to; on other threads, of
 * the run that is in progress and has not begun to end, 0 if there is none, or SN_PRIVATE_FORKED in
 * a child of fork() that has begun no run. Any thread. */
SN_API uint32_t sn_private_run(void);
#define SN_PRIVATE_FORKED UINT32_MAX

SN_END

#endif
