/* SPDX-License-Identifier: MIT */
#include "stack/sanitizer.h"

#if SN_ASAN || SN_TSAN || SN_VALGRIND

#	include "arch/arch.h"

#	if SN_ASAN
#		include <sanitizer/asan_interface.h>
#		include <sanitizer/common_interface_defs.h>
#	endif
#	if SN_TSAN
#		include <sanitizer/tsan_interface.h>
#	endif
#	if SN_VALGRIND
#		include <valgrind/memcheck.h>
#	endif

void sn_sanitizer_create(struct sn_context *context, const char *name)
{
#	if SN_ASAN
	/* Frames of an earlier task on this stack may have left poison, if they never returned. */
	__asan_unpoison_memory_region(context->stack_low, context->stack_size);
	context->fake_stack = NULL;
#	endif
#	if SN_TSAN
	context->fiber = __tsan_create_fiber(0);
	if (name)
		__tsan_set_fiber_name(context->fiber, name);
#	endif
#	if SN_VALGRIND
	VALGRIND_MAKE_MEM_UNDEFINED(context->stack_low, context->stack_size);
#	endif
	(void)context, (void)name;
}

void sn_sanitizer_unmap(void *memory, size_t size)
{
#	if SN_ASAN
	__asan_unpoison_memory_region(memory, size);
#	endif
	(void)memory, (void)size;
}

void sn_sanitizer_destroy(struct sn_context *context)
{
#	if SN_TSAN
	__tsan_destroy_fiber(context->fiber);
#	endif
#	if SN_VALGRIND
	/* valgrind then reports any use of a local variable of a task that has ended. */
	VALGRIND_MAKE_MEM_NOACCESS(context->stack_low, context->stack_size);
#	endif
	(void)context;
}

void sn_sanitizer_adopt(struct sn_context *context)
{
#	if SN_TSAN
	context->fiber = __tsan_get_current_fiber();
#	endif
	(void)context; /* ASan learns the bounds of the thread's stack at the first switch */
}

void sn_sanitizer_switch(struct sn_context *from, struct sn_context *to, bool exiting)
{
#	if SN_ASAN
	__sanitizer_start_switch_fiber(exiting ? NULL : &from->fake_stack, to->stack_low,
				       to->stack_size);
#	endif
#	if SN_TSAN
	/*
	 * With synchronisation (flags 0): what one thread does before a switch happens before what
	 * it does after it, as in the machine. Two threads get no order from this.
	 */
	__tsan_switch_to_fiber(to->fiber, 0);
#	endif
	sn_arch_switch(&from->sp, to->sp);
	sn_sanitizer_entered(from);
	(void)exiting;
}

void sn_sanitizer_entered(struct sn_context *context)
{
#	if SN_ASAN
	__sanitizer_finish_switch_fiber(context->fake_stack, NULL, NULL);
#	endif
	(void)context;
}

#	if SN_VALGRIND
void sn_sanitizer_slab_begins(char *base, size_t guard, size_t slot, int n, unsigned *ids)
{
	VALGRIND_MAKE_MEM_NOACCESS(base, slot * (size_t)n);
	for (int i = 0; i < n; i++, base += slot)
		ids[i] = VALGRIND_STACK_REGISTER(base + guard, base + slot - 1);
}

void sn_sanitizer_slab_ends(int n, const unsigned *ids)
{
	for (int i = 0; i < n; i++)
		VALGRIND_STACK_DEREGISTER(ids[i]);
}
#	endif

#else
/* ISO C wants a declaration in every file. */
extern int sn_sanitizer_none;
#endif
