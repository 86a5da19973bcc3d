/* SPDX-License-Identifier: MIT */
/*
 * The bridge between libgc and the runtime.
 *
 * Contract. When libgc marks, the bridge has shown it every word by which a task may refer to an
 * object. The bridge makes libgc read no memory that is not mapped, and between the stop of the
 * threads and their restart it takes no lock and allocates nothing.
 *
 * What libgc does by itself. It stops the registered threads by a signal, whose handler runs on the
 * present stack (no SA_ONSTACK), stores its stack pointer, and waits. Then, for each thread, libgc
 * pushes everything from that stack pointer to the thread's *bottom*. The registers lie in the
 * signal's frame, between the two. For the collecting thread, libgc pushes from the present stack
 * pointer, after it has saved the registers above that. All this is also right for a thread of the
 * runtime, provided that the bottom is the end of the stack on which the thread was stopped, not of
 * the one with which it was registered.
 *
 * What is added:
 *   1. A handler that runs before libgc's own notes the thread's stack pointer (on_stop()).
 *   2. When all threads are stopped, and before libgc pushes anything, libgc calls push_roots(),
 *      its hook for further roots. This looks up the stack around each noted stack pointer and
 *      makes its end the thread's bottom (GC_set_stackbottom(), which requires the allocation lock,
 *      which libgc holds then). For the collecting thread it uses the address of its own frame.
 *   3. Then libgc pushes its threads, and after that the bridge pushes the tasks: for each task the
 *      part of its block that has its argument and, if no thread is on its stack, everything on the
 *      stack from the saved stack pointer up.
 *   4. For each thread that is on a task's stack, the bridge also pushes the thread's own stack
 *      from where it began. The thread's thread-locals lie there, which libgc sees only together
 *      with that stack.
 *
 * Why that is sound, at whichever instruction a thread was stopped. The bridge does not rely on
 * what the runtime believes to be running: the bottom follows the stack pointer, which is on some
 * stack at every moment. In the switch from a task A to a task B (sn_arch_switch()) both are
 * RUNNING, from before the switch until after it. If the thread is stopped before the stack pointer
 * changes, it is on A's stack, with all registers in the signal's frame there, and B is pushed from
 * its saved stack pointer. If it is stopped after that, A is pushed from its saved stack pointer:
 * its registers were saved before. In general, a task that is on a thread is pushed from its saved
 * stack pointer if no thread is on its stack; a task that is on no thread always is (PARKED and
 * RUNNABLE guarantee that the registers are saved). The same covers the switch to and from the
 * scheduler's loop, which is on the thread's own stack.
 *   - A task whose stack is just being bound has an argument, or is on the stack already.
 *   - A task that has ended refers to nothing, though a thread may still be on its stack.
 *   - A lease that was revoked changes nothing: the task stays on its thread, which is stopped
 *     there.
 *   - Trimming gives back what lies below a saved stack pointer; guards lie below the lowest byte.
 *   - Only sn_run()'s caller unmaps stacks and blocks, and it is registered and stopped.
 *   - Orphans are threads like others; the runtime finds their stacks among those of earlier runs.
 *
 * The fields that on_stop() stores are plain. The collecting thread waits for a semaphore that
 * libgc's handler posts, after on_stop(), and reads the fields only when each thread has posted it.
 * A thread that has not posted is in GC_do_blocking(), and has cleared "stopped", in the last step
 * of its handler, before it got there.
 *
 * Some threads get no signal: those in GC_do_blocking(), whose stack pointer libgc has noted when
 * they entered it. They must not park, so their bottom is the end of the stack of their task, or of
 * their own stack.
 *
 * A thread may be stopped in a signal handler on an alternate stack (the runtime's own, when it
 * serves a scan; or the program's). Then the bottom is the end of that stack, below which lie the
 * frame of the first signal and all registers; but the interrupted stack pointer is not known. The
 * bridge therefore pushes the whole stack of each task that is on a thread, but on whose stack no
 * thread is known to be. The same happens when a thread is on an unknown stack, such as one of a
 * library's own coroutines. In that case the bottom is the interrupted stack pointer, so that libgc
 * sees the registers, and does not read memory that may not be mapped.
 *
 * A second signal may come late, after the thread has been restarted, because libgc repeats
 * signals. The fields that on_stop() then stores are never read: they count only while "stopped" is
 * 1, which ends when libgc's handler returns.
 *
 * The bridge uses GC_push_all_eager(). GC_push_all() is for a bounded number of roots: it takes
 * space on the mark stack, and its only reaction to an overflow is abort(). Eager marking puts only
 * objects on the mark stack, whose overflow libgc handles.
 *
 * Who may write what:
 *   threads, and a struct's fields except those below  with libgc's allocation lock
 *   sp, alternate_*, stopped   the thread's own signal handler
 *   low, high, place, ahead, stats    the collecting thread, with the lock
 *
 * Rejected:
 *   - Setting the bottom at each switch: before or after the switch, it would be wrong for some
 *     instructions, and it takes a lock of libgc.
 *   - Keeping handlers off tasks' stacks by SA_ONSTACK: that would apply to all threads of the
 *     program, also to those whose alternate stack libgc does not know.
 *   - A bottom below everything, and pushing all stacks here: libgc decides by the sum of the
 *     stacks' sizes when to collect, and with a negative sum it would collect never, or always.
 *   - Looking up the stacks in the handlers, on all threads at the same time: sn_run()'s caller may
 *     not have been stopped yet, and might unmap them.
 */
#include <sennit/gc.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define GC_THREADS 1
#define GC_NO_THREAD_REDIRECTS 1
#include <gc/gc.h>
#include <gc/gc_mark.h>

#include <sennit/clock.h>
#include <sennit/collector.h>

#include "arch/compiler.h"
#include "arch/sized.h"
#include "gc/blind.h"

/* The stack on which a stopped thread is. */
enum place {
	ON_OWN,
	ON_TASK,
	ON_ALTERNATE,
	ON_UNKNOWN,
};

struct thread {
	struct thread *next, *prev;
	void *runtime;   /* the runtime's handle of the thread; NULL: it runs no tasks */
	void *handle;    /* libgc's handle */
	bool registered; /* by the bridge, not by the program */
	char *own_low, *own_high;
	char *own_from; /* its stack pointer on its own stack when it began */

	volatile sig_atomic_t stopped;
	char *sp;                             /* when stopped */
	char *alternate_low, *alternate_high; /* NULL: it was not on an alternate stack */

	enum place place;
	char *low, *high; /* of the stack that it is on */
};

int sn_gc_blind;

static bool initialised;
static struct thread *threads;
static GC_push_other_roots_proc push_former_roots;
static GC_on_collection_event_proc former_event;
static struct sigaction former_stop;
static struct sn_gc_stats stats;
static int64_t stopped_at;

static __thread struct thread self;
static __thread bool known; /* self is in the list */

/* ---- the threads' stacks ---- */

static char *sp_of(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (char *)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__i386__)
	return (char *)context->uc_mcontext.gregs[REG_ESP];
#elif defined(__aarch64__)
	return (char *)(uintptr_t)context->uc_mcontext.sp;
#elif defined(__arm__)
	return (char *)context->uc_mcontext.arm_sp;
#elif defined(__riscv)
	return (char *)(uintptr_t)context->uc_mcontext.__gregs[REG_SP];
#else
	struct sn_registers registers;

	sn_registers_interrupted(context, &registers);
	return (char *)registers.at[SN_REGISTER_SP];
#endif
}

static bool sp_is_on(const stack_t *stack, const char *sp)
{
	const char *low = stack->ss_sp;

	return !(stack->ss_flags & SS_DISABLE) && sp > low && sp <= low + stack->ss_size;
}

/* The handler of libgc's signal. libgc's own handler, which it calls, returns when the threads are
 * restarted. */
static void on_stop(int signum, siginfo_t *info, void *context)
{
	const ucontext_t *at = context;

	if (known) {
		self.sp = sp_of(at);
		self.alternate_low = self.alternate_high = NULL;
		/* The flags of uc_stack do not say whether the alternate stack is in use: they are
		 * those with which it was set up. */
		if (sp_is_on(&at->uc_stack, self.sp)) {
			self.alternate_low = at->uc_stack.ss_sp;
			self.alternate_high = self.alternate_low + at->uc_stack.ss_size;
		}
		self.stopped = 1;
	}
	former_stop.sa_sigaction(signum, info, context);
	if (known)
		self.stopped = 0;
}

static void locate(struct thread *thread)
{
	const void *low, *high;

	if (thread->alternate_low) {
		thread->place = ON_ALTERNATE;
		thread->low = thread->alternate_low;
		thread->high = thread->alternate_high;
	} else if (thread->sp >= thread->own_low && thread->sp < thread->own_high) {
		thread->place = ON_OWN;
		thread->low = thread->own_low;
		thread->high = thread->own_high;
	} else if (thread->runtime &&
		   sn_collector_thread_stack(thread->runtime, thread->sp, &low, &high)) {
		thread->place = ON_TASK;
		thread->low = (char *)low;
		thread->high = (char *)high;
	} else {
		thread->place = ON_UNKNOWN;
		thread->low = thread->high = thread->sp;
	}
}

/* The thread is in GC_do_blocking(). */
static void locate_blocked(struct thread *thread)
{
	const void *low, *high;

	thread->place = ON_OWN;
	thread->low = thread->own_low;
	thread->high = thread->own_high;
	if (thread->runtime && sn_collector_thread_stack(thread->runtime, NULL, &low, &high)) {
		thread->place = ON_TASK;
		thread->low = (char *)low;
		thread->high = (char *)high;
	}
}

static void set_bottom(struct thread *thread)
{
	struct GC_stack_base base = {.mem_base = thread->high};

	/* Shows libgc an empty range. */
	if ((sn_gc_blind & SN_GC_BLIND_RUNNING) && thread->place == ON_TASK)
		base.mem_base = thread->low;
	GC_set_stackbottom(thread->handle, &base);
}

/* ---- pushing ---- */

static void push(const void *low, const void *high)
{
	if (low >= high)
		return;
	stats.root_bytes += (uint64_t)((const char *)high - (const char *)low);
	GC_push_all_eager((void *)low, (void *)high);
}

/*
 * Parked tasks' stacks are hardly ever in a cache, and the ten lines or so that a task uses lie on
 * a page of their own. They are prefetched some tasks ahead, which shortens the shortest pause from
 * 10 to 7 ms with 10,000 tasks, and from 32 to 21 with 30,000 (make bench-gc).
 */
#define AHEAD 16
#define LINE 64
#define MOST_LINES 16

static struct {
	const void *low, *high;
} ahead[AHEAD];
static unsigned ahead_next;

static void push_soon(const void *low, const void *high)
{
	unsigned at = ahead_next++ % AHEAD;

	push(ahead[at].low, ahead[at].high);
	ahead[at].low = low;
	ahead[at].high = high;
	for (unsigned i = 0; i < MOST_LINES; i++, low = (const char *)low + LINE)
		if (low < high)
			__builtin_prefetch(low);
}

/* Called once for each task that is on a thread, so about as often as there are threads. */
static bool anybody_stands_on(const void *low)
{
	for (const struct thread *thread = threads; thread; thread = thread->next)
		if (thread->place == ON_TASK && thread->low == low)
			return true;
	return false;
}

static void push_task(const struct sn_task_roots *roots, void *arg)
{
	const bool *lost = arg;
	const void *from = roots->stack_saved;

	stats.tasks++;
	if (!(sn_gc_blind & SN_GC_BLIND_ARGUMENTS))
		push(roots->own_low, roots->own_high);
	if (!roots->stack_low || (sn_gc_blind & SN_GC_BLIND_STACKS))
		return;
	if (roots->on_thread) {
		if (anybody_stands_on(roots->stack_low))
			return; /* libgc has pushed it */
		if (sn_gc_blind & SN_GC_BLIND_SWITCHES)
			return;
		if (*lost)
			from = roots->stack_low;
	}
	if (from)
		push_soon(from, roots->stack_high);
}

/*
 * libgc's hook for further roots, whose previous function also pushes the stacks of threads. Called
 * on the collecting thread, with the allocation lock, when all other threads are stopped.
 */
static void GC_CALLBACK push_roots(void)
{
	bool lost = false;

	stats.threads = stats.tasks = stats.root_bytes = 0;
	for (struct thread *thread = threads; thread; thread = thread->next) {
		if (thread == &self) {
			thread->sp = __builtin_frame_address(0);
			thread->alternate_low = NULL;
			locate(thread);
		} else if (thread->stopped) {
			locate(thread);
		} else {
			locate_blocked(thread);
		}
		set_bottom(thread);
		lost = lost || thread->place >= ON_ALTERNATE;
		stats.threads += thread->runtime != NULL;
	}
	if (push_former_roots)
		push_former_roots();
	for (const struct thread *thread = threads; thread; thread = thread->next)
		if (thread->place != ON_OWN)
			push(thread->own_from, thread->own_high);
	sn_collector_roots(push_task, &lost);
	for (int i = 0; i < AHEAD; i++)
		push_soon(NULL, NULL);
}

/* ---- statistics ---- */

static void GC_CALLBACK on_event(GC_EventType event)
{
	if (event == GC_EVENT_PRE_STOP_WORLD) {
		stopped_at = sn_now();
		sn_collector_stopping(1);
	} else if (event == GC_EVENT_POST_START_WORLD) {
		uint64_t ns = (uint64_t)(sn_now() - stopped_at), us = ns / 1000;
		unsigned slot = us ? 64 - (unsigned)__builtin_clzll(us) : 0;

		sn_collector_stopping(0);
		stats.stops++;
		stats.stop_ns += ns;
		if (ns > stats.max_stop_ns)
			stats.max_stop_ns = ns;
		stats.pauses[slot < SN_GC_PAUSES ? slot : SN_GC_PAUSES - 1]++;
	}
	if (former_event)
		former_event(event);
}

static void *GC_CALLBACK copy_stats(void *to)
{
	memcpy(to, &stats, sizeof stats);
	return NULL;
}

int sn_gc_stats(struct sn_gc_stats *to)
{
	struct sn_gc_stats current;

	if (!to)
		return -EINVAL;
	if (!initialised)
		return -ENODEV;
	GC_call_with_alloc_lock(copy_stats, &current);
	return SN_SIZED_GIVE(to, &current);
}

/* ---- threads ---- */

static void *GC_CALLBACK list_insert(void *arg)
{
	struct thread *thread = arg;

	thread->prev = NULL;
	thread->next = threads;
	if (threads)
		threads->prev = thread;
	threads = thread;
	known = true;
	return NULL;
}

static void *GC_CALLBACK list_remove(void *arg)
{
	struct thread *thread = arg;
	struct GC_stack_base own = {.mem_base = thread->own_high};

	known = false;
	GC_set_stackbottom(thread->handle, &own);
	if (thread->prev)
		thread->prev->next = thread->next;
	else
		threads = thread->next;
	if (thread->next)
		thread->next->prev = thread->prev;
	return NULL;
}

/* A thread that blocks these signals cannot be stopped, and libgc would wait for it forever. */
static void unblock_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, GC_get_suspend_signal());
	sigaddset(&signals, GC_get_thr_restart_signal());
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void thread_begins(void *runtime)
{
	struct GC_stack_base base;
	pthread_attr_t attr;
	void *low = NULL;
	size_t size = 0;

	unblock_signals();
	if (GC_get_stack_base(&base) != GC_SUCCESS || pthread_getattr_np(pthread_self(), &attr))
		abort(); /* never seen: out of memory for a CPU mask */
	pthread_attr_getstack(&attr, &low, &size);
	pthread_attr_destroy(&attr);
	memset(&self, 0, sizeof self);
	/* The program may have registered the caller of sn_run() already. */
	self.registered = GC_register_my_thread(&base) == GC_SUCCESS;
	self.handle = GC_get_my_stackbottom(&base);
	self.runtime = runtime;
	self.own_low = low;
	self.own_high = base.mem_base;
	self.own_from = __builtin_frame_address(0);
	/* A thread that runs no tasks never leaves its own stack. */
	if (runtime)
		GC_call_with_alloc_lock(list_insert, &self);
}

static void thread_ends(void *runtime)
{
	if (runtime)
		GC_call_with_alloc_lock(list_remove, &self);
	if (self.registered)
		GC_unregister_my_thread();
}

/* A child of fork() has one thread; libgc forgets the others as well. */
static void in_child(void)
{
	threads = known ? &self : NULL;
	self.next = self.prev = NULL;
}

/* ---- memory for values ---- */

/* The alignment of libgc's objects. */
#define GRANULE (2 * sizeof(void *))

static void *value_alloc(size_t align, size_t size)
{
	struct GC_stack_base base;
	bool unknown = !GC_thread_is_registered();
	char *memory;

	if (align > GRANULE && __builtin_add_overflow(size, align - GRANULE, &size))
		return NULL;
	/* The allocation may begin a collection, which only a thread that libgc knows may do. */
	if (unknown &&
	    (GC_get_stack_base(&base) != GC_SUCCESS || GC_register_my_thread(&base) != GC_SUCCESS))
		return NULL;
	if (sn_gc_blind & SN_GC_BLIND_VALUES)
		memory = malloc(size);
	else
		memory = GC_MALLOC_UNCOLLECTABLE(size);
	if (unknown)
		GC_unregister_my_thread();
	return memory ? memory + (-(uintptr_t)memory & (align - 1)) : NULL;
}

static void value_free(void *memory)
{
	void *base = GC_base(memory);

	if (base)
		GC_FREE(base);
	else if (!sn_gc_blind)
		free(memory);
}

/* ---- */

/*
 * The checked build turns the system calls of a thread that must not wait into SIGSYS, also those
 * of libgc's handlers that interrupt it (wait/system_call.c). With SIGSYS blocked they would end
 * the process.
 */
static int admit_sigsys(int signum)
{
	struct sigaction action;

	if (sigaction(signum, NULL, &action) < 0)
		return -errno;
	sigdelset(&action.sa_mask, SIGSYS);
	return sigaction(signum, &action, NULL) < 0 ? -errno : 0;
}

struct call {
	void (*fn)(void *arg);
	void *arg;
};

static void *make_call(void *arg)
{
	const struct call *call = arg;

	call->fn(call->arg);
	return NULL;
}

/* The thread's end of a collection is the return from GC_do_blocking(). */
static void call_without_signals(void (*fn)(void *arg), void *arg)
{
	struct call call = {fn, arg};

	GC_do_blocking(make_call, &call);
}

static const struct sn_collector collector =
	SN_COLLECTOR_INIT(.thread_begins = thread_begins, .thread_ends = thread_ends,
			  .alloc = value_alloc, .free = value_free,
			  .call_without_signals = call_without_signals);

int sn_gc_init(void)
{
	struct sigaction action;
	int err;

	if (initialised)
		return 0;
	if (!GC_is_init_called() && getpid() != (pid_t)syscall(SYS_gettid))
		return -EPERM;
	if (GC_is_init_called() && GC_is_incremental_mode())
		return -ENOTSUP;
	/* This also finds out whether a runtime runs. */
	err = sn_collector_install(&collector);
	if (err < 0)
		return err;
	GC_INIT();
	GC_allow_register_threads();

	if (sigaction(GC_get_suspend_signal(), NULL, &former_stop) < 0)
		return -errno;
	action = former_stop;
	action.sa_sigaction = on_stop;
	action.sa_flags |= SA_SIGINFO;
	if (sigaction(GC_get_suspend_signal(), &action, NULL) < 0)
		return -errno;
	if (SENNIT_CHECKED) {
		err = admit_sigsys(GC_get_suspend_signal());
		if (err == 0)
			err = admit_sigsys(GC_get_thr_restart_signal());
		if (err < 0)
			return err;
	}
	push_former_roots = GC_get_push_other_roots();
	GC_set_push_other_roots(push_roots);
	former_event = GC_get_on_collection_event();
	GC_set_on_collection_event(on_event);
	pthread_atfork(NULL, NULL, in_child);
	initialised = true;
	return 0;
}
