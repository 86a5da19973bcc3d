/* SPDX-License-Identifier: MIT */
/*
 * The registers of a context that does not run: one that was switched away from, or one that a
 * signal interrupted. They are numbered as in the architecture's DWARF ABI, as call-frame
 * information needs. In a context that was switched away from, the registers that a function may
 * change without saving them are 0. The portable switch leaves all registers on the stack: of its
 * contexts only the program counter and the stack pointer are known, at a place in the switch from
 * which call-frame information leads to the others.
 */
#ifndef SENNIT_ARCH_REGISTERS_H
#define SENNIT_ARCH_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "arch/arch.h"

#if defined(__x86_64__)
enum { SN_REGISTERS = 17, SN_REGISTER_FP = 6, SN_REGISTER_SP = 7, SN_REGISTER_PC = 16 };
/* Leaf functions keep locals below the stack pointer. */
#	define SN_RED_ZONE 128
#elif defined(__i386__)
enum { SN_REGISTERS = 9, SN_REGISTER_SP = 4, SN_REGISTER_FP = 5, SN_REGISTER_PC = 8 };
#	define SN_RED_ZONE 0
#elif defined(__aarch64__)
enum { SN_REGISTERS = 33, SN_REGISTER_FP = 29, SN_REGISTER_SP = 31, SN_REGISTER_PC = 32 };
#	define SN_RED_ZONE 0
#elif defined(__arm__)
enum { SN_REGISTERS = 16, SN_REGISTER_FP = 11, SN_REGISTER_SP = 13, SN_REGISTER_PC = 15 };
#	define SN_RED_ZONE 0
#elif defined(__riscv)
/* The program counter has no number in the ABI; 32 is that of a floating-point register which no
 * function saves. */
enum { SN_REGISTERS = 33, SN_REGISTER_SP = 2, SN_REGISTER_FP = 8, SN_REGISTER_PC = 32 };
#	define SN_RED_ZONE 0
#elif defined(__s390x__)
/* The return address is in register 14; the program counter itself has no number. */
enum { SN_REGISTERS = 33, SN_REGISTER_FP = 11, SN_REGISTER_SP = 15, SN_REGISTER_PC = 32 };
#elif defined(__powerpc64__)
/* The return address is in the link register, 65, and it alone has it while a function begins. The
 * program counter is 67, as in the vDSO's frames of signals. */
enum { SN_REGISTERS = 68, SN_REGISTER_SP = 1, SN_REGISTER_FP = 31, SN_REGISTER_PC = 67 };
#elif defined(__loongarch_lp64)
enum { SN_REGISTERS = 33, SN_REGISTER_SP = 3, SN_REGISTER_FP = 22, SN_REGISTER_PC = 32 };
#else
/* Nothing is known but the three that the portable switch notes. */
enum { SN_REGISTERS = 3, SN_REGISTER_SP = 0, SN_REGISTER_FP = 1, SN_REGISTER_PC = 2 };
#endif
#if SENNIT_PORTABLE_SWITCH
/* The frame of the switch, and what functions of any ABI keep below the stack pointer. */
#	undef SN_RED_ZONE
#	define SN_RED_ZONE 1024
#endif

struct sn_registers {
	uintptr_t at[SN_REGISTERS];
};

/* The caller's registers, from the frame that sn_arch_switch() has left at the saved stack
 * pointer. */
static inline void sn_registers_saved(const void *saved, struct sn_registers *r)
{
	const uintptr_t *sp = (const uintptr_t *)saved;

	memset(r, 0, sizeof *r);
#if SENNIT_PORTABLE_SWITCH
	r->at[SN_REGISTER_PC] = ((const struct sn_arch_saved *)saved)->pc;
	r->at[SN_REGISTER_SP] = ((const struct sn_arch_saved *)saved)->sp;
	r->at[SN_REGISTER_FP] = ((const struct sn_arch_saved *)saved)->fp;
	(void)sp;
#elif defined(__x86_64__)
	for (int i = 0; i < 4; i++)
		r->at[15 - i] = sp[1 + i]; /* r15 to r12 */
	r->at[3] = sp[5];
	r->at[6] = sp[6];
	r->at[16] = sp[7];
	r->at[7] = (uintptr_t)(sp + 8);
#elif defined(__i386__)
	r->at[7] = sp[2];
	r->at[6] = sp[3];
	r->at[3] = sp[4];
	r->at[5] = sp[5];
	r->at[8] = sp[6];
	r->at[4] = (uintptr_t)(sp + 7);
#elif defined(__aarch64__)
	register uintptr_t lr __asm__("x30") = sp[1];

	/* Strips the signature, if there is one: a hint, so a no-op where signing is unknown. */
	__asm__("hint #7" : "+r"(lr));
	for (int i = 0; i < 10; i++)
		r->at[19 + i] = sp[2 + i];
	r->at[29] = sp[0];
	r->at[30] = r->at[32] = lr;
	r->at[31] = (uintptr_t)(sp + 22);
#elif defined(__arm__)
#	if __ARM_FP
	sp += 16;
#	endif
	for (int i = 0; i < 8; i++)
		r->at[4 + i] = sp[1 + i];
	r->at[14] = r->at[15] = sp[9];
	r->at[13] = (uintptr_t)(sp + 10);
#elif defined(__riscv)
#	if defined(__riscv_float_abi_double)
	sp += 12;
#	endif
	for (int i = 2; i < 12; i++)
		r->at[16 + i] = sp[12 - i]; /* s2 to s11 */
	r->at[9] = sp[11];
	r->at[8] = sp[12];
	r->at[1] = r->at[32] = sp[13];
	r->at[2] = (uintptr_t)(sp + 14);
#endif
}

static inline void sn_registers_interrupted(const ucontext_t *context, struct sn_registers *r)
{
#if defined(__x86_64__)
	static const uint8_t from[SN_REGISTERS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

	for (int i = 0; i < SN_REGISTERS; i++)
		r->at[i] = (uintptr_t)context->uc_mcontext.gregs[from[i]];
#elif defined(__i386__)
	static const uint8_t from[SN_REGISTERS] = {REG_EAX, REG_ECX, REG_EDX, REG_EBX, REG_ESP,
						   REG_EBP, REG_ESI, REG_EDI, REG_EIP};

	for (int i = 0; i < SN_REGISTERS; i++)
		r->at[i] = (uintptr_t)context->uc_mcontext.gregs[from[i]];
#elif defined(__aarch64__)
	for (int i = 0; i < 31; i++)
		r->at[i] = (uintptr_t)context->uc_mcontext.regs[i];
	r->at[31] = (uintptr_t)context->uc_mcontext.sp;
	r->at[32] = (uintptr_t)context->uc_mcontext.pc;
#elif defined(__arm__)
	/* arm_r0 to arm_pc are contiguous. */
	memcpy(r->at, &context->uc_mcontext.arm_r0, sizeof r->at);
#elif defined(__riscv)
	/* Where x0 would be, which is always 0, the kernel puts the program counter. */
	for (int i = 1; i < 32; i++)
		r->at[i] = (uintptr_t)context->uc_mcontext.__gregs[i];
	r->at[0] = 0;
	r->at[32] = (uintptr_t)context->uc_mcontext.__gregs[0];
#else
	memset(r, 0, sizeof *r);
#	if defined(__s390x__)
	for (int i = 0; i < 16; i++)
		r->at[i] = context->uc_mcontext.gregs[i];
	r->at[32] = context->uc_mcontext.psw.addr;
#	elif defined(__powerpc64__)
	for (int i = 0; i < 32; i++)
		r->at[i] = context->uc_mcontext.gp_regs[i];
	r->at[65] = context->uc_mcontext.gp_regs[36]; /* link */
	r->at[67] = context->uc_mcontext.gp_regs[32]; /* nip */
#	elif defined(__loongarch_lp64)
	for (int i = 0; i < 32; i++)
		r->at[i] = context->uc_mcontext.__gregs[i];
	r->at[32] = context->uc_mcontext.__pc;
#	else
	/* The registers are in the context. It lies on the interrupted stack, or on an alternate
	 * one, which is no task's. */
	r->at[SN_REGISTER_SP] = (uintptr_t)context;
#	endif
#endif
}

/*
 * Puts the registers at this place of the calling function into a context, as a signal here would.
 * What a function may change without saving it is left out. Returns false if that failed.
 */
#if SENNIT_HAS_GETCONTEXT
/* A macro, because GCC inlines no function that calls getcontext(). */
#	define sn_registers_here(context) \
		(getcontext(context) == 0 && sn_registers_complete(context))
/* glibc's getcontext() stores no program counter on s390x. It is where getcontext() returns to. */
static inline bool sn_registers_complete(ucontext_t *context)
{
#	if defined(__s390x__)
	context->uc_mcontext.psw.addr = context->uc_mcontext.gregs[14];
#	endif
	(void)context;
	return true;
}
#else
#	define sn_registers_here(context) sn_registers_read(context)
#	if defined(__x86_64__)
/* Inline, so that the stack pointer and the program counter are the caller's. */
static inline __attribute__((always_inline)) bool sn_registers_read(ucontext_t *context)
{
	memset(context, 0, sizeof *context);
	__asm__ volatile("leaq (%%rip), %%rax\n\t"
			 "movq %%rax, %c[rip](%[to])\n\t"
			 "movq %%rsp, %c[rsp](%[to])\n\t"
			 "movq %%rbp, %c[rbp](%[to])\n\t"
			 "movq %%rbx, %c[rbx](%[to])\n\t"
			 "movq %%r12, %c[r12](%[to])\n\t"
			 "movq %%r13, %c[r13](%[to])\n\t"
			 "movq %%r14, %c[r14](%[to])\n\t"
			 "movq %%r15, %c[r15](%[to])"
			 :
			 : [to] "r"(context->uc_mcontext.gregs), [rip] "i"(8 * REG_RIP),
			   [rsp] "i"(8 * REG_RSP), [rbp] "i"(8 * REG_RBP), [rbx] "i"(8 * REG_RBX),
			   [r12] "i"(8 * REG_R12), [r13] "i"(8 * REG_R13), [r14] "i"(8 * REG_R14),
			   [r15] "i"(8 * REG_R15)
			 : "rax", "memory");
	return true;
}
#	endif
#endif

#endif
