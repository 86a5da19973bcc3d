/* SPDX-License-Identifier: MIT */
/*
 * A context: what can be switched to. Every task has one, and so has every thread, for the
 * scheduler's own loop on the thread's own stack.
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
 * exceptions whose cleanups are running, because a destructor may park. libstdc++ decides by
 * __ARM_EABI_UNWINDER__, which is not predefined but comes from <unwind.h>: a test for it here
 * would give the structure different sizes in different files.
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
