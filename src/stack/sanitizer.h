/* SPDX-License-Identifier: MIT */
/*
 * Announces stacks and switches to ASan, TSan and valgrind. Empty in other builds.
 *
 * valgrind takes a jump of the stack pointer for a call or a return, unless the jump leads into
 * another stack that valgrind knows; then it assumes a switch. It is therefore notified of stacks
 * rather than of switches. It is also notified of memory that nothing may touch: the guards, and
 * the stacks that no task has.
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
/* A task is about to use its stack; it gives the stack back. */
void sn_sanitizer_create(struct sn_context *context, const char *name);
void sn_sanitizer_destroy(struct sn_context *context);
/* Stacks are about to be unmapped. Frames of tasks that never returned have left poison there,
 * which ASan would report in the next mapping at these addresses. */
void sn_sanitizer_unmap(void *memory, size_t size);
/* Makes the stack and the fiber on which the calling thread runs those of its own context. */
void sn_sanitizer_adopt(struct sn_context *context);
/* Calls sn_arch_switch(), and announces the switch before and after it. If exiting, `from` is never
 * resumed. */
void sn_sanitizer_switch(struct sn_context *from, struct sn_context *to, bool exiting);
/* Must be called first on a new stack. */
void sn_sanitizer_entered(struct sn_context *context);
#endif
#if SN_VALGRIND
/*
 * A slab of n slots has been mapped, or is about to be unmapped. A slot is a guard and then, up to
 * the slot's end, a stack. The first call stores n numbers in ids, which the second one needs. In
 * between valgrind reports every access to a stack that no task has.
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
