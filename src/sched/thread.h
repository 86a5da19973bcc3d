/* SPDX-License-Identifier: MIT */
/*
 * A thread of the runtime, and the pair of inline functions that every public call begins and ends
 * with.
 *
 * A thread owns its processor outright while it executes runtime code and holds it on a lease while
 * it executes user code. sn_runtime_enter() and sn_runtime_leave() mark the border: a plain store,
 * a compiler barrier and a plain load on the way in, a store-release on the way out. Whoever takes
 * the processor away moves the lease off SN_LEASE_HELD; the thread sees that at its next entry.
 * Today only the end of the runtime does so (run.c), and waits for the threads to notice, so that
 * the missing store-load barrier does no harm.
 *
 * Who may write what:
 *   inside        the thread itself
 *   lease         the thread itself, or whoever revokes
 *   processor     the thread itself; while it waits in its parker, whoever hands it a processor
 *   spinning      as processor
 *   prev, commit  the thread itself, around a switch
 *   next_idle     under the runtime's lock
 */
#ifndef SENNIT_SCHED_THREAD_H
#define SENNIT_SCHED_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "sched/context.h"
#include "wait/futex.h"

struct sn_processor;
struct sn_task;
struct sn_thread;

enum sn_lease {
	SN_LEASE_HELD = 0,
	SN_LEASE_REVOKED = 1,
};

/*
 * Runs right after a task has been switched away from, when its context is saved: from then on
 * other threads may resume it. True: it stays parked. False: it is made runnable again.
 */
typedef bool sn_commit(struct sn_thread *self, struct sn_task *task, void *arg);

struct sn_thread {
	_Atomic uint32_t inside;
	_Atomic uint32_t lease;
	struct sn_task *task; /* what it runs; NULL in the scheduler's own loop */
	struct sn_processor *processor;
	bool spinning; /* counted in the runtime's spinning */

	struct sn_task *prev; /* the task just switched away from, for after_switch() */
	sn_commit *commit;
	void *commit_arg;

	/* Addresses of this thread's own errno and C++ exception state (NULL without a C++
	 * runtime). */
	int *errno_location;
	struct sn_cxx_globals *cxx;

	struct sn_context idle; /* the scheduler's loop on the thread's own stack */
	struct sn_parker parker;
	struct sn_thread *next_idle;
	struct sn_thread *next_all; /* never changes once published, until the runtime's end */
	uint32_t random;
	bool joinable; /* there is a thread to join: it is not sn_run()'s caller, and it did start
			*/
	pthread_t pthread; /* of a joinable thread: written by its creator */
	void *signal_stack;
	struct {
		void *sp;
		int flags;
		size_t size;
	} former_signal_stack;
};

/*
 * The calling thread's block, NULL on threads that the runtime does not know. A task that parks may
 * go on on another thread, and compilers cache the addresses of thread-locals across calls, so this
 * is the only way to reach it: the assembly is volatile, and clobbers memory, so that it cannot
 * move over a call.
 */
extern __thread struct sn_thread *sn_thread_current __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__) && !SN_TSAN
static inline struct sn_thread *sn_thread_self(void)
{
	struct sn_thread *self;

	__asm__ volatile("movq sn_thread_current@gottpoff(%%rip), %0\n\t"
			 "movq %%fs:(%0), %0"
			 : "=r"(self)
			 :
			 : "memory");
	return self;
}
#elif defined(__aarch64__) && !SN_TSAN
static inline struct sn_thread *sn_thread_self(void)
{
	struct sn_thread *self;
	uintptr_t offset;

	/* Initial-exec as the ABI spells it; linkers turn it into local-exec in programs. */
	__asm__ volatile("adrp %1, :gottprel:sn_thread_current\n\t"
			 "mrs %0, tpidr_el0\n\t"
			 "ldr %1, [%1, #:gottprel_lo12:sn_thread_current]\n\t"
			 "ldr %0, [%0, %1]"
			 : "=&r"(self), "=&r"(offset)
			 :
			 : "memory");
	return self;
}
#else
struct sn_thread *sn_thread_self(void);
#endif

/* The slow half of sn_runtime_enter(): the lease is gone. Does not return when the runtime ends. */
void sn_lease_lost(struct sn_thread *self);

/*
 * Begins a public call. NULL when the caller is not a task; then nothing is entered. The lease is
 * read after inside is set in program order; the processor may reorder the two, which is whoever
 * revokes' problem.
 */
static inline struct sn_thread *sn_runtime_enter(void)
{
	struct sn_thread *self = sn_thread_self();

	if (sn_unlikely(!self || !self->task))
		return NULL;
	SN_ASSERT(atomic_load_explicit(&self->inside, memory_order_relaxed) == 0);
	atomic_store_explicit(&self->inside, 1, memory_order_relaxed);
	sn_compiler_barrier();
	if (sn_unlikely(atomic_load_explicit(&self->lease, memory_order_relaxed) != SN_LEASE_HELD))
		sn_lease_lost(self);
	return self;
}

/* Ends a public call, on whatever thread the task is by now. */
static inline void sn_runtime_leave(void)
{
	struct sn_thread *self = sn_thread_self();

	SN_ASSERT(atomic_load_explicit(&self->inside, memory_order_relaxed) == 1);
	atomic_store_explicit(&self->inside, 0, memory_order_release);
}

/* Gives the calling thread a block of its own, or takes it away again. thread.c. */
void sn_thread_attach(struct sn_thread *self);
void sn_thread_detach(struct sn_thread *self);

#endif
