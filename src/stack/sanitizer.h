/* SPDX-License-Identifier: MIT */
/*
 * Announces stacks and switches to ASan, TSan and valgrind. Empty in other builds.
 *
 * valgrind takes a jump of the stack pointer for a call or a return, unless it leads into another
 * stack that valgrind knows; that it takes for a switch. So it is notified of stacks rather than
 * switches, and about memory that nothing may touch: the guards, and the stacks that no task has.
 *
 * sanitizer.c is compiled without TSan's instrumentation, because TSan keeps a shadow call stack
 * for each fiber, and a function that switches must not push on one and pop from another.
 */
#ifndef SENNIT_STACK_SANITIZER_H
#define SENNIT_STACK_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "stack/context.h"

#if SN_ASAN || SN_TSAN || SN_VALGRIND
/* A task's stack is about to be used; it is given back. */
void sn_sanitizer_create(struct sn_context *context, const char *name);
void sn_sanitizer_destroy(struct sn_context *context);
/* Stacks are about to be unmapped. Frames of tasks that never returned have left poison, which ASan
 * would find in whatever is mapped there next. */
void sn_sanitizer_unmap(void *memory, size_t size);
/* The thread's own context adopts the stack and the fiber that it runs on. */
void sn_sanitizer_adopt(struct sn_context *context);
/* sn_arch_switch(), announced before and after; exiting: from is never resumed. */
void sn_sanitizer_switch(struct sn_context *from, struct sn_context *to, bool exiting);
/* The first call on a new stack. */
void sn_sanitizer_entered(struct sn_context *context);
#endif
#if SN_VALGRIND
/*
 * A slab of n slots has been mapped; it is about to be unmapped. A slot is a guard and then, up to
 * the slot's end, a stack. ids has room for n numbers, and is the same array at the end. Nothing
 * may touch the slab until a stack is given to a task.
 */
void sn_sanitizer_slab_begins(char *base, size_t guard, size_t slot, int n, unsigned *ids);
void sn_sanitizer_slab_ends(int n, const unsigned *ids);
#endif
#if !SN_ASAN && !SN_TSAN && !SN_VALGRIND
static inline void sn_sanitizer_destroy(struct sn_context *context)
{
	(void)context;
}
static inline void sn_sanitizer_unmap(void *memory, size_t size)
{
	(void)memory, (void)size;
}
static inline void sn_sanitizer_adopt(struct sn_context *context)
{
	(void)context;
}
static inline void sn_sanitizer_entered(struct sn_context *context)
{
	(void)context;
}
#endif

#endif
