/* SPDX-License-Identifier: MIT */
/*
 * The Boehm collector (bdwgc) in programs whose code runs in tasks.
 *
 * In a library of its own, libsennit-gc (pkg-config sennit-gc; sennit::gc in CMake), beside
 * libsennit and libgc 8.2 or newer. Once sn_gc_init() has been called, tasks may use GC_MALLOC()
 * and the rest of <gc.h> as threads may. The collector finds and keeps what is referred to from
 *   - the stacks and registers of all tasks: parked, runnable, running on any thread, or in foreign
 *     code;
 *   - the arguments of tasks that have not run yet;
 *   - values in channels' buffers, and those of scopes (sn_scope_set_value());
 *   - closures, results and elements that sennit.hpp keeps on the heap;
 *   - what the collector knows by itself: static data, its own heap, and those threads of the
 *     program that are registered with it, as in any program.
 * It does not search other memory from malloc(), as always with this collector, nor stacks that a
 * library in a task makes for itself.
 *
 * Restrictions (more in docs/gc.md):
 *   - libgc clears 2,048 words below the stack pointer in some of its allocations, and the signals
 *     by which it stops threads put their frames on the same stack. A task that allocates therefore
 *     needs a stack of 64 KiB (32 KiB on 32-bit machines); the default is twice that.
 *   - It stops threads by signals (SIGPWR and SIGXCPU). Their handlers have SA_RESTART, but some
 *     system calls in user code (poll(), nanosleep(), those with a timeout) return EINTR all the
 *     same.
 *   - Within GC_do_blocking() and GC_call_with_alloc_lock(), in finalizers, and in other callbacks
 *     of libgc, call nothing that may park.
 *   - It does not work in incremental mode.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_GC_H
#define SENNIT_GC_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Initialises libgc, if that has not been done, and connects it with the runtime, permanently. Call
 * it in main() before the first sn_run(). Further calls do nothing. Returns 0; -EBUSY while a
 * runtime runs; -EPERM when libgc is not initialised yet and this is not the program's first thread
 * (libgc would mistake the calling thread's stack for the first thread's); -ENOTSUP when it is in
 * incremental mode; -EEXIST when another collector is connected (collector.h).
 */
SN_API int sn_gc_init(void);

/* The length of sn_gc_stats.pauses. */
#define SN_GC_PAUSES 24

/* The collector's work since sn_gc_init(). */
struct sn_gc_stats {
	/* Set by SN_GC_STATS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_gc_stats);
	uint64_t stops;       /* times that all threads were stopped, about once a collection */
	uint64_t stop_ns;     /* how long they were stopped, in total */
	uint64_t max_stop_ns; /* the longest stop */
	/* pauses[i]: how many stops were shorter than 2^i us, but not shorter than half of that;
	 * the last also counts all longer ones. */
	uint64_t pauses[SN_GC_PAUSES];

	/* Of the last stop: */
	uint64_t threads;    /* of the runtime */
	uint64_t tasks;      /* that had not ended */
	uint64_t root_bytes; /* searched in tasks' arguments and stacks, not counting stacks on
				which a thread was stopped */
};

/* struct sn_gc_stats with its size, and the fields that are given, as .name = value. */
#define SN_GC_STATS_INIT(...) SN_SIZED_INIT(struct sn_gc_stats, __VA_ARGS__)

/* Any thread; does not park. Returns 0; -EINVAL for NULL; -ENODEV before sn_gc_init(). */
SN_API int sn_gc_stats(struct sn_gc_stats *stats);

SN_END

#endif
