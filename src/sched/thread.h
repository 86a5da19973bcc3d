/* SPDX-License-Identifier: MIT */
/*
 * A thread of the runtime, and the pair of inline functions with which every public call begins and
 * ends. They are the border between user code, where the processor is held on a lease, and runtime
 * code, where it is owned. lease.h has the protocol.
 *
 * Who may write what:
 *   lease             see lease.h
 *   processor         the thread itself; while its lease is being revoked, the monitor
 *   home              the thread's creator, later the thread itself
 *   handed, spinning, apart
 *                     while the thread is in its parker, or on its way there: the thread that hands
 *                     it a processor; otherwise the thread itself
 *   prev, commit      the thread itself, around a switch
 *   picked            the thread itself, around a switch; the thread that hands it a processor for
 *                     one of its tied tasks
 *   pinned, pins, altered, ends, forks
 *                     the thread itself; pinned atomically, because the monitor reads it
 *   ties              see tie.h
 *   blocked           the monitor, while it revokes the lease; the thread when it is back. Plain,
 *                     because the monitor's decision, which the thread has to see first, orders
 *                     the two (lease.h). A wrong value would only move one of the monitor's looks
 *   lingers           the thread itself, before it is dismissed (thread_list.c)
 *   attached, *timer  see cpu_timer.h
 *   *_idle, *_all, leaves   any thread, under the runtime's lock
 */
#ifndef SENNIT_SCHED_THREAD_H
#define SENNIT_SCHED_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "arch/arch.h"
#include "base/fork.h"
#include "sched/lease.h"
#include "sched/tie.h"
#include "stack/context.h"
#include "wait/checked.h"
#include "wait/futex.h"

struct sn_processor;
struct sn_task;
struct sn_thread;

/*
 * Called right after a switch away from a task, when its context is saved. It makes the task known
 * to others, which may resume it from then on. Returns true if the task stays parked, false if it
 * is to be made runnable again.
 */
typedef bool sn_commit(struct sn_thread *self, struct sn_task *task, void *arg);

/*
 * The stack of the threads that the runtime starts. Only the scheduler's loop runs there, a few
 * hundred bytes deep. The rest is for signal handlers of the program, the C library's thread block
 * and static TLS.
 */
#define SN_THREAD_STACK_SIZE ((size_t)256 << 10)

struct sn_thread {
	/*
	 * First, so that the accessor in blocking.h serves both. On a cache line of its own from
	 * here on: a bracket is three stores to it, which would have to wait for another thread's
	 * data at the end of the line before, or of the pair of lines that is fetched together.
	 */
	_Alignas(SN_CACHE_LINE) struct sn_private_lease lease;
	struct sn_task
		*task; /* the running task, stored atomically; NULL in the scheduler's own loop */
	struct sn_processor *processor;
	/* The processor that another thread has handed over, read after the parker was released.
	 * Atomic, because the end of the runtime releases the parker without one. */
	struct sn_processor *_Atomic handed;
	bool spinning;    /* sn_runtime.spinning counts this thread */
	bool owes_poller; /* left the poller for a brief task, and woke no other thread: brief.c */
	bool blocked;     /* its lease was revoked because it blocked, and it is not back yet */
	bool apart;       /* it has its processor for a task that runs apart: tie.h */

	struct sn_ties ties; /* the tasks that are tied to this thread */

	struct sn_task *picked; /* the task that the loop runs next, or NULL */
	struct sn_task *prev;   /* the task just switched away from, for after_switch() */
	sn_commit *commit;
	void *commit_arg;

	/* The address of this thread's errno, and its C++ exception state (NULL without a C++
	 * runtime). */
	int *errno_location;
	struct sn_cxx_globals *cxx;

	struct sn_context idle; /* the scheduler's loop on the thread's own stack */
	struct sn_parker parker;
	struct sn_task *pinned; /* the only task that this thread may run */
	uint32_t pins;          /* the nesting depth of that pin */
	bool altered; /* a task was pinned to it, and may have changed its attributes: birth.h */
	bool leaves;  /* sn_threads.leaving counts it */
	bool ends;    /* its pinned task has ended: the thread runs no other task, and ends */
	bool forks;   /* it holds the runtime's locks around a fork() of its task (base/fork.h) */
	struct sn_thread *next_idle, *prev_idle;
	bool is_idle; /* in the list of idle threads */
	struct sn_thread *next_all, *prev_all;
	clockid_t cpu_clock; /* this thread's, for the monitor */
	pid_t tid;
	uint32_t random;
	uint32_t home; /* the id of the processor that it had last: free_store.h */
	/* How the thread's searches for work went; only it uses these: see find_work.c and
	 * idle.c. */
	int64_t poor_at;        /* when it stole a single task; 0 if it last stole more */
	int64_t nothing_at;     /* when it last found nothing */
	uint32_t fruitless;     /* looks in a row that found nothing soon after the one before */
	uint32_t polled;        /* its own polls among those in all processors' polled */
	int64_t asked_at;       /* when it last determined how often others poll */
	uint32_t others_polled; /* how often they had polled until then */
	bool others_poll;       /* whether they poll often */
	bool stole_next;        /* the task that it has found was a victim's next task */
	_Atomic int64_t stall_asked; /* the monitor wants a backtrace of a stall of so many ns */
	_Atomic uint32_t stall_stay; /* the stay outside in which the thread stalls */
	_Atomic uint32_t asked;      /* its task may have a request to serve: scan_serve.h */
	_Atomic uint32_t expired;    /* it must lend its processor: lease.h */
	_Atomic uint32_t reminded;   /* it was sent an unmarked signal: observe/scan_signal.h */
	_Atomic bool orphan;         /* its runtime has ended without it: see run/run.c */
	const char *call;            /* debug builds: the public call that it is in */
	pthread_t pthread;           /* written by its creator */
	const void *stack_high;      /* the frames of the loop are below this address */
	timer_t timer;               /* cpu_timer.h */
	bool attached, has_timer;
	bool lingers; /* it has ended with children, and must not be joined: linger.h */
	void *signal_stack;
	struct {
		void *sp;
		int flags;
		size_t size;
	} former_signal_stack;
};

/*
 * Debug builds: end the program, with the name of the call, when a task makes a call from within a
 * call, or parks within a blocking bracket.
 */
void sn_check_park(struct sn_thread *self);
void sn_check_entry(struct sn_thread *self, const char *call);

_Static_assert(offsetof(struct sn_thread, lease) == 0, "sn_thread_self() converts the address");

/* The calling thread's block, NULL on threads that the runtime does not know. See
 * sn_private_self(). */
static inline struct sn_thread *sn_thread_self(void)
{
	return (struct sn_thread *)sn_private_self();
}

/*
 * Begins a public call. Returns NULL, and enters nothing, when the caller is not a task. lease.h
 * argues why the plain store and load suffice.
 */
#define sn_runtime_enter() sn_runtime_enter_for(__func__)
static inline struct sn_thread *sn_runtime_enter_for(const char *call)
{
	struct sn_thread *self = sn_thread_self();

	(void)call;
	if (sn_unlikely(!self || !self->task))
		return NULL;
	if (SENNIT_DEBUG)
		sn_check_entry(self, call);
	__atomic_store_n(&self->lease.inside, 1, __ATOMIC_RELAXED);
	sn_compiler_barrier();
	if (sn_unlikely(__atomic_load_n(&self->lease.word, __ATOMIC_RELAXED) != SN_LEASE_HELD))
		sn_private_lease_lost(&self->lease);
	return self;
}

/* Ends a public call, on whichever thread the task is by now. */
static inline void sn_runtime_leave(void)
{
	struct sn_thread *self = sn_thread_self();

	SN_ASSERT(self->lease.inside);
	sn_checked_callback("code");
	__atomic_store_n(&self->lease.stays, self->lease.stays + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&self->lease.inside, 0, __ATOMIC_RELEASE);
}

/* Whether a task that is tied to the thread is runnable: a hint. */
static inline bool sn_ties_wait(struct sn_thread *self)
{
	return atomic_load_explicit(&self->ties.ready, memory_order_relaxed) > 0;
}

/* The same after sn_tie_rest(): exact, by the handshake of tie.h. */
static inline bool sn_ties_wait_after_all(struct sn_thread *self)
{
	return atomic_load(&self->ties.ready) > 0;
}

/* Around fork() the calling thread's task is not in its own code (sn_foreign_self()). The first of
 * all handlers: it is called before any lock is taken and after the last is released, because a
 * signal's handler may make hooked calls in between. */
void sn_thread_forks(enum sn_fork_phase phase);

/* In the child the only thread gives up its block. */
void sn_thread_fork(enum sn_fork_phase phase);

/* The first makes the block the calling thread's, the second undoes that. */
void sn_thread_attach(struct sn_thread *self);
void sn_thread_detach(struct sn_thread *self);

#endif
