/* SPDX-License-Identifier: MIT */
/*
 * A context: the saved state to which a thread can switch. Every task has one. Every thread has
 * one, too, for the scheduler's loop, which runs on the thread's own stack.
 *
 * The fields are written by the thread that switches away from the context, before the context is
 * published as runnable, and read by the thread that switches to it; the queue in between orders
 * the two.
 */
#ifndef SENNIT_STACK_CONTEXT_H
#define SENNIT_STACK_CONTEXT_H

#include <stddef.h>

#include "arch/compiler.h"

/*
 * The Itanium C++ ABI's per-thread exception state (__cxa_eh_globals). The ARM EHABI adds the
 * exceptions whose cleanups are running, because a destructor may park. This does not test
 * __ARM_EABI_UNWINDER__, as libstdc++ does, because that macro comes from <unwind.h>: the structure
 * would have different sizes in different files.
 */
struct sn_cxx_globals {
	void *caught_exceptions;
	unsigned int uncaught_exceptions;
#if defined(__ARM_EABI__) && !defined(__USING_SJLJ_EXCEPTIONS__)
	void *propagating_exceptions;
#endif
};

struct sn_context {
	void *sp;
	struct sn_cxx_globals cxx;
	/* For the tools: the bounds of the stack, ASan's fake stack, TSan's fiber. */
#if SN_ASAN || SN_TSAN || SN_VALGRIND
	void *stack_low;
	size_t stack_size;
#endif
#if SN_ASAN
	void *fake_stack;
#endif
#if SN_TSAN
	void *fiber;
#endif
};

#endif
