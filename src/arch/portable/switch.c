/* SPDX-License-Identifier: MIT */
/*
 * The context switch for architectures that have none of their own: any 64-bit Linux with a C
 * library that has makecontext(). It makes no system call, except two for each task that begins.
 * docs/design/switch.md has its cost beside that of assembly.
 *
 * A context is left by _setjmp() and entered by _longjmp(), neither of which touches the signal
 * mask. C calls a jump into another stack undefined; the C libraries of Linux save and load
 * registers, which is all that is needed. A context begins by makecontext() and setcontext(), which
 * know how a first frame looks. The context that begins is described only at that moment, on the
 * thread on which it begins. It therefore gets that thread's signal mask, and its description needs
 * no room on its stack.
 *
 * __builtin_unwind_init() makes the compiler save all callee-saved registers on the stack that is
 * left, above `here`. A garbage collector finds them there; in a jmp_buf the C library may keep
 * some of them encrypted. The call-frame information of the switch says where they are, so it is
 * enough for backtraces to know a place in the switch and its stack pointer.
 *
 * Memory. The stack pointer that is saved is the address of `here`. A little of the frame of the
 * switch lies below it, for which SN_RED_ZONE has room.
 *
 * Restrictions, which docs/design/switch.md repeats for users:
 *   - The thread sanitizer and the address sanitizer intercept longjmp(), and expect it to stay on
 *     its stack. The build refuses them together with this switch.
 *   - glibc's longjmp() runs cleanup handlers of its own functions that it takes for frames that
 *     the jump leaves. A callback of the C library (fopencookie()) must not park.
 *   - _FORTIFY_SOURCE would replace _longjmp() by a function that aborts if the stack pointer
 *     moves down, so this file switches it off.
 *
 * Rejected:
 *   - swapcontext(): a system call in each switch, for the signal mask. It costs more than all the
 *     rest, and a task would carry a mask from one thread to another.
 *   - getcontext() when a task is spawned: the task would begin with the signal mask of the thread
 *     that spawned it, and each stack would hold a description of some 1 KiB.
 *   - __builtin_setjmp() and __builtin_longjmp(): Clang has them for few architectures only,
 *     and GCC gets them wrong where a frame pointer is missing on some.
 *   - Keeping a jmp_buf at the base of each stack, so that later tasks on it need no system call:
 *     the stack is the program's in between, and nothing could tell a buffer that was overwritten
 *     from a whole one.
 *   - A thread for each task, with a baton: it works anywhere, but is no task.
 */
#undef _FORTIFY_SOURCE

#include <fenv.h>
#include <setjmp.h>
#include <stdbool.h>
#include <ucontext.h>

#include "arch/arch.h"

#define BEGIN_BYTES 1024 /* of stack, of which makecontext() uses the upper end */

/* Written by the thread that leaves the context, or prepares it. */
struct saved {
	struct sn_arch_saved place; /* first: arch/registers.h reads it */
	bool begun;
	int rounding;
	jmp_buf state; /* once it has begun */
	void (*entry)(void *);
	void *arg;
};

/* The context that begins. It is set immediately before the jump, on the same thread. */
static __thread struct saved *beginning;

/*
 * Declares the return address of the first frame undefined, so that every unwinder stops, and names
 * the place, which is where a context that has not begun seems to be. On other architectures
 * unwinders find the C library's frame before, and whatever that says.
 */
#if defined(__x86_64__)
#	define UNDEFINED ".cfi_undefined rip"
#elif defined(__s390x__)
#	define UNDEFINED ".cfi_undefined r14"
#elif defined(__powerpc64__)
#	define UNDEFINED ".cfi_undefined lr"
#elif defined(__riscv) || defined(__loongarch__)
#	define UNDEFINED ".cfi_undefined 1"
#else
#	define UNDEFINED ""
#endif
#define LAST_FRAME()                                           \
	__asm__ volatile(UNDEFINED "\n\t"                      \
				   ".hidden sn_arch_first\n\t" \
				   ".globl sn_arch_first\n"    \
				   "sn_arch_first:")
extern sn_hidden const char sn_arch_first[];

static void set_rounding(int mode)
{
	if (sn_unlikely(fegetround() != mode))
		fesetround(mode);
}

uint64_t sn_arch_modes(void)
{
	return (uint64_t)fegetround();
}

void *sn_arch_prepare(void *top, void (*entry)(void *), void *arg, uint64_t modes)
{
	struct saved *first = (struct saved *)(((uintptr_t)top - sizeof(*first)) & ~(uintptr_t)63);

	/* One byte further, because unwinders look up a return address minus one. */
	first->place =
		(struct sn_arch_saved){.pc = (uintptr_t)sn_arch_first + 1, .sp = (uintptr_t)first};
	first->begun = false;
	first->rounding = (int)modes;
	first->entry = entry;
	first->arg = arg;
	return first;
}

void sn_arch_task_start(void)
{
	struct saved *first = beginning;

	LAST_FRAME();
	set_rounding(first->rounding);
	first->entry(first->arg);
	__builtin_trap();
}

static sn_noinline _Noreturn void begin(struct saved *first)
{
	ucontext_t context; /* on the stack that is left; nothing needs it after the jump */

	getcontext(&context);
	context.uc_link = NULL;
	context.uc_stack.ss_sp = (char *)first - BEGIN_BYTES;
	context.uc_stack.ss_size = BEGIN_BYTES;
	makecontext(&context, sn_arch_task_start, 0);
	beginning = first;
	setcontext(&context);
	__builtin_trap();
}

/* Describes its caller. */
static sn_noinline void note_place(struct sn_arch_saved *place)
{
	place->pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
	place->sp = (uintptr_t)__builtin_dwarf_cfa();
#if defined(__s390x__)
	place->sp -= 160; /* there the frame's address is that far above the stack pointer */
#endif
}

void sn_arch_switch(void **save, void *target)
{
	struct saved here, *mine = &here, *there = target;

	__builtin_unwind_init();
	__asm__("" : "+r"(mine)); /* its address outlives this call, but not this frame */
	here.begun = true;
	here.rounding = fegetround();
	mine->place.fp = 0;
#if defined(__x86_64__)
	/* GCC gives functions with the above a frame pointer there, and nowhere else. */
	mine->place.fp = (uintptr_t)__builtin_frame_address(0);
#endif
	note_place(&mine->place);
	*save = mine;
	if (_setjmp(here.state) == 0) {
		if (sn_likely(there->begun))
			_longjmp(there->state, 1);
		begin(there);
	}
	set_rounding(here.rounding);
}
