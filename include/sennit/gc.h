/* SPDX-License-Identifier: MIT */
/*
 * The Boehm collector (bdwgc) in programs whose code runs in tasks.
 *
 * Of a library of its own, libsennit-gc (pkg-config sennit-gc; sennit::gc in CMake), beside
 * libsennit and libgc 8.2 or newer. Once sn_gc_init() has been called, tasks may use GC_MALLOC()
 * and all the rest of <gc.h> as threads may. Found by the collector, and kept, is what is referred
 * to from
 *   - the stacks and registers of all tasks: parked, runnable, running on any thread, or in foreign
 *     code;
 *   - the arguments of tasks that have not run yet;
 *   - values in channels' buffers, and those of scopes (sn_scope_set_value());
 *   - closures, results and elements that sennit.hpp has on the heap;
 *   - what the collector knows by itself: static data, its own heap, and the threads of the
 *     program's that are registered with it, which has to be done as in any program.
 * Not from other memory of malloc(), as always with this collector, nor from stacks that a library
 * in a task makes for itself.
 *
 * What to know (more in docs/gc.md):
 *   - libgc clears 2,048 words below the stack pointer in some of its allocations, and stops threads
 *     with a signal's frame on the same stack. So a task that allocates needs a stack of 64 KiB
 *     (of 32 on 32-bit machines); the default is twice that.
 *   - It stops threads by signals (SIGPWR and SIGXCPU). They have SA_RESTART, but some system calls
 *     in user code (poll(), nanosleep(), those with a timeout) return EINTR all the same.
 *   - Within GC_do_blocking() and GC_call_with_alloc_lock(), in finalizers, and in other callbacks
 *     of libgc, nothing that may park.
 *   - Not together with the incremental mode.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_GC_H
#define SENNIT_GC_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Initialises libgc, if that has not been done, and connects it with the runtime, for good. In
 * main() before the first sn_run(). May be called again, and then does nothing. Returns 0; -EBUSY
 * while a runtime runs; -EPERM when libgc is not initialised yet and this is not the program's
 * first thread, for whose stack libgc would take the calling one's; -ENOTSUP when it is in
 * incremental mode; -EEXIST when another collector is connected (collector.h).
 */
SN_API int sn_gc_init(void);

/* The length of sn_gc_stats.pauses. */
#define SN_GC_PAUSES 24

/* What has been done since sn_gc_init(). */
struct sn_gc_stats {
	uint64_t stops;       /* times that all threads were stopped, about once a collection */
	uint64_t stop_ns;     /* how long they stood still, in total */
	uint64_t max_stop_ns; /* and at most */
	/* How many were shorter than 2^i us, and not than half of that; the last: all longer. */
	uint64_t pauses[SN_GC_PAUSES];

	/* Of the last one: */
	uint64_t threads;    /* of the runtime */
	uint64_t tasks;      /* that had not ended */
	uint64_t root_bytes; /* searched of tasks' arguments and stacks; those on which a thread
				was stopped are not counted */
};

/* Any thread; does not park. Returns 0; -EINVAL for NULL; -ENODEV before sn_gc_init(). */
SN_API int sn_gc_stats(struct sn_gc_stats *stats);

SN_END

#endif
