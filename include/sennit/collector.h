/* SPDX-License-Identifier: MIT */
/*
 * What a garbage collector needs from the runtime: it learns of the runtime's threads, finds what
 * tasks refer to, and supplies the memory in which the runtime keeps the program's values.
 *
 * For authors of collector bindings; programs that want Boehm's collector use gc.h, which is built
 * on this.
 *
 * Threads outside the runtime: all calls. Signal handlers: sn_collector_stopping(),
 * sn_collector_roots() and sn_collector_thread_stack().
 */
#ifndef SENNIT_COLLECTOR_H
#define SENNIT_COLLECTOR_H

#include <sennit/base.h>

SN_BEGIN

/* The functions of a collector. */
struct sn_collector {
	/* Set by SN_COLLECTOR_INIT(). */
	size_t size SN_SIZE_OF(struct sn_collector);

	/*
	 * Called on each thread that runs tasks, before its first one. `thread` stands for it in
	 * calls of sn_collector_thread_stack(). Also called on the thread that calls sn_run(), with
	 * thread NULL: it runs no task, but allocates and frees what the others refer to, so a
	 * collector that stops all threads has to stop it too. Either function may be NULL, for no
	 * call. Both may wait for locks and for a collection; they must not call anything that
	 * needs a task.
	 */
	void (*thread_begins)(void *thread);
	void (*thread_ends)(void *thread); /* called on the same threads after their last task */

	/*
	 * Memory that the collector searches for references, and that stays until it is freed: for
	 * channels with their buffers, for values of scopes (scope.h) and of tasks (local.h), and
	 * for what sennit.hpp puts on the heap. align is a power of two. Any thread, with or
	 * without a task; NULL: out of memory. Without alloc and free the memory comes from
	 * aligned_alloc().
	 */
	void *(*alloc)(size_t align, size_t size);
	/* Frees memory of alloc, and what aligned_alloc() supplied before the collector was
	 * installed. */
	void (*free)(void *memory);

	/*
	 * Calls fn(arg), in which the calling thread takes no signals for an unknown time, because
	 * it loads a program (process.h). The collector must not wait for the thread then, but must
	 * stop it in the return from this call. What the thread refers to is on its stack from this
	 * call up. NULL: fn is called as it is.
	 */
	void (*call_without_signals)(void (*fn)(void *arg), void *arg);
};

/* struct sn_collector with its size, and the functions that are given, as .name = value. */
#define SN_COLLECTOR_INIT(...) SN_SIZED_INIT(struct sn_collector, __VA_ARGS__)

/*
 * Installs a collector, permanently. The structure stays the caller's and must not change. Returns
 * 0, also for the structure that is installed; -EBUSY while a runtime runs; -EEXIST when there is
 * another collector; -EINVAL for NULL, for one of the two memory functions without the other, or
 * for a size that was not set; -E2BIG for functions that this version does not know. Any thread,
 * before sn_run().
 */
SN_API int sn_collector_install(const struct sn_collector *collector);

/*
 * Announces that the collector is about to stop the runtime's threads (1), or to let them continue
 * (0). In between the runtime takes no processor from a thread that stays outside the runtime,
 * because the thread that got the processor would have to be stopped as well, and so the number of
 * threads would grow. Any thread, in pairs; does not park, takes no lock.
 */
SN_API void sn_collector_stopping(int stopping);

/* What one task refers to. */
struct sn_task_roots {
	const void *own_low;     /* its argument lies on its stack, or between this address */
	const void *own_high;    /* and this one */
	const void *stack_low;   /* the lowest usable byte of its stack; NULL: it has none */
	const void *stack_high;  /* the end of its stack */
	const void *stack_saved; /* its stack pointer when it last left a thread; NULL: never */
	/* 1: a thread runs it, has just left it or is about to switch to it. If a thread's stack
	 * pointer lies on the stack, use that one instead of stack_saved. */
	int on_thread;
};

/* Called for a task. roots is valid until it returns; it must not call the library. */
typedef void sn_task_roots_visitor(const struct sn_task_roots *roots, void *arg);

/*
 * Calls fn for every task that has not ended, including those that are being spawned. Every thread
 * for which thread_begins was called must be stopped, except the calling one. Takes no lock,
 * allocates nothing, and may be called on any thread, wherever that was interrupted. Without a
 * runtime it shows only the tasks that an earlier one has left behind (sn_run()).
 */
SN_API void sn_collector_roots(sn_task_roots_visitor *fn, void *arg);

/*
 * Finds the bounds of the task stack on which sp, the stack pointer of a stopped thread, lies.
 * `thread` is what thread_begins was called with. With sp NULL, finds the stack of the task that
 * the thread runs. Returns 1, or 0 when that is not a stack of the runtime's, but the thread's own,
 * for example. May be called where sn_collector_roots() may.
 */
SN_API int sn_collector_thread_stack(const void *thread, const void *sp, const void **low,
				     const void **high);

/*
 * Allocate memory for values from the collector's alloc, or from aligned_alloc() without a
 * collector, and free it. For sennit.hpp. Any thread; do not park. sn_collector_alloc() returns
 * NULL when there is no memory.
 */
SN_API SN_CHECK_RESULT void *sn_collector_alloc(size_t align, size_t size);
SN_API void sn_collector_free(void *memory);

SN_END

#endif
