/* SPDX-License-Identifier: MIT */
/*
 * What a garbage collector needs of the runtime: it is told of the runtime's threads, finds what
 * tasks refer to, and lends the memory in which the runtime keeps values of the program's.
 *
 * For those who connect a collector; programs that want Boehm's have gc.h, which is made of this.
 *
 * Threads outside the runtime: all calls. Signal handlers: sn_collector_stopping(), sn_collector_roots() and sn_collector_thread_stack().
 */
#ifndef SENNIT_COLLECTOR_H
#define SENNIT_COLLECTOR_H

#include <sennit/base.h>

SN_BEGIN

/* What connects a collector. */
struct sn_collector {
	/*
	 * On a thread that runs tasks, before its first. thread is its name for
	 * sn_collector_thread_stack(). Also on the thread that calls sn_run(), with thread NULL: it
	 * runs no task, but makes and frees what the others refer to, so whoever stops all threads
	 * has to stop it too. NULL: is not called. Either call may wait for locks and for a
	 * collection; it must not call what needs a task.
	 */
	void (*thread_begins)(void *thread);
	void (*thread_ends)(void *thread); /* after its last task, likewise */

	/*
	 * Memory that the collector searches for references, and that stays until it is freed: for
	 * channels with their buffers, for values of scopes (scope.h), and for what sennit.hpp puts
	 * on the heap. align is a power of two. Any thread, with or without a task; NULL: there is
	 * none. Without it, and free: from aligned_alloc().
	 */
	void *(*alloc)(size_t align, size_t size);
	/* Ends it; also what came from aligned_alloc() before the collector was installed. */
	void (*free)(void *memory);
};

/*
 * From now on, for good. The structure stays the caller's and must stay as it is. Returns 0; -EBUSY
 * while a runtime runs; -EEXIST when there is another collector; -EINVAL for NULL, or one of the
 * two memory functions without the other. Any thread, before sn_run().
 */
SN_API int sn_collector_install(const struct sn_collector *collector);

/*
 * Those threads are about to stand still (1), or go on (0). In between the runtime takes no processor
 * from a thread that does not come back: another would have to stand still as well, and there would
 * be more of them. Any thread, in pairs; does not park, takes no lock.
 */
SN_API void sn_collector_stopping(int stopping);

/* What one task refers to. */
struct sn_task_roots {
	const void *own_low;     /* between these two, apart from its stack, */
	const void *own_high;    /* is what it was given as its argument */
	const void *stack_low;   /* the lowest usable byte of its stack; NULL: it has none */
	const void *stack_high;  /* and the end */
	const void *stack_saved; /* its stack pointer when it last left a thread; NULL: never */
	/* 1: a thread has it, has just left it or is about to switch to it. If the stack pointer of
	 * a thread lies on the stack then that one counts, otherwise stack_saved. */
	int on_thread;
};

/* Is called for a task. roots is valid until it returns; it must not call the library. */
typedef void sn_task_roots_visitor(const struct sn_task_roots *roots, void *arg);

/*
 * Calls fn for every task that has not ended, also for those that are being spawned. Every thread
 * for which thread_begins was called must stand still, save the calling one. Takes no lock,
 * allocates nothing, and may be called on any thread, wherever it was stopped; without a
 * runtime it shows only tasks that one has left behind (sn_run()).
 */
SN_API void sn_collector_roots(sn_task_roots_visitor *fn, void *arg);

/*
 * The stack of a task on which a thread, which was named in thread_begins and stands still, has its
 * stack pointer; sp NULL: that of the task which it runs. Returns 1 with the stack's bounds, or 0:
 * it is none of the runtime's, such as the thread's own. Where it may be called is as above.
 */
SN_API int sn_collector_thread_stack(const void *thread, const void *sp, const void **low,
				     const void **high);

/*
 * Memory for values, from the collector's alloc or else aligned_alloc(), and its end. For
 * sennit.hpp. Any thread; does not park. NULL: there is none.
 */
SN_API void *sn_collector_alloc(size_t align, size_t size);
SN_API void sn_collector_free(void *memory);

SN_END

#endif
