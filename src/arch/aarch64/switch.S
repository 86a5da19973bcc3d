/* SPDX-License-Identifier: MIT */
/*
 * The context switch of aarch64 (AAPCS64).
 *
 * The saved frame, from the saved stack pointer upwards:
 *	  0  x29, x30: a frame record, from which frame pointers of a parked context can be followed
 *	 16  x19 to x28
 *	 96  d8 to d15: the ABI keeps the low halves of v8 to v15
 *	160  fpcr, padding
 *
 * Both stacks have the same layout at the moment when sp changes from one to the other, so the CFI
 * holds at every instruction, for the stack that sp is on.
 *
 * FPCR is callee-saved by the ABI. Writing FPCR may drain the pipeline, and it is nearly always the
 * same, so it is written only when it differs. FPSR is status, not control, and stays the thread's.
 * x18 belongs to the platform, and Linux does not use it. SME's ZA is not preserved: code that has
 * it enabled must save it before it parks, as before any function that the ABI calls private-ZA.
 *
 * The switch ends in ret, not in br. Nearly all switches come from one call site, so the
 * return-stack prediction made for the task that called is right for the task that continues, and
 * stays balanced.
 *
 * Branch protection. The function begins with a landing pad; sn_arch_task_start is reached only by
 * ret, which needs none. Where the library is compiled to sign return addresses, this file signs
 * them, too, and machine.h signs the first one. All of these are hints: nops for processors and
 * assemblers that do not know them. Keys belong to the process, so what one thread signs another
 * can check.
 */
#if defined(__ARM_FEATURE_PAC_DEFAULT) && (__ARM_FEATURE_PAC_DEFAULT & 1)
#	define SIGN	hint	#25	/* paciasp, a landing pad too */
#	define CHECK	hint	#29	/* autiasp */
#	define PAC_PROPERTY 2
#elif defined(__ARM_FEATURE_PAC_DEFAULT)
#	define SIGN	hint	#27	/* pacibsp */
#	define CHECK	hint	#31	/* autibsp */
#	define PAC_PROPERTY 2
#else
#	define PAC_PROPERTY 0
#endif

	.text
	.globl	sn_arch_switch
	.hidden	sn_arch_switch
	.type	sn_arch_switch, %function
	.p2align 5
sn_arch_switch:
	.cfi_startproc
#ifdef SIGN
#	if !(__ARM_FEATURE_PAC_DEFAULT & 1)
	.cfi_b_key_frame
#	endif
	SIGN
	.cfi_negate_ra_state
#else
	hint	#34			/* bti c */
#endif
	stp	x29, x30, [sp, #-176]!
	.cfi_adjust_cfa_offset 176
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x19, x20, [sp, #16]
	.cfi_rel_offset x19, 16
	.cfi_rel_offset x20, 24
	stp	x21, x22, [sp, #32]
	.cfi_rel_offset x21, 32
	.cfi_rel_offset x22, 40
	stp	x23, x24, [sp, #48]
	.cfi_rel_offset x23, 48
	.cfi_rel_offset x24, 56
	stp	x25, x26, [sp, #64]
	.cfi_rel_offset x25, 64
	.cfi_rel_offset x26, 72
	stp	x27, x28, [sp, #80]
	.cfi_rel_offset x27, 80
	.cfi_rel_offset x28, 88
	stp	d8, d9, [sp, #96]
	.cfi_rel_offset d8, 96
	.cfi_rel_offset d9, 104
	stp	d10, d11, [sp, #112]
	.cfi_rel_offset d10, 112
	.cfi_rel_offset d11, 120
	stp	d12, d13, [sp, #128]
	.cfi_rel_offset d12, 128
	.cfi_rel_offset d13, 136
	stp	d14, d15, [sp, #144]
	.cfi_rel_offset d14, 144
	.cfi_rel_offset d15, 152
	mrs	x9, fpcr
	str	x9, [sp, #160]

	mov	x10, sp
	str	x10, [x0]
	mov	sp, x1

	ldr	x10, [sp, #160]
	cmp	x9, x10
	b.ne	2f
1:	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	/* Up to here both the values in the frame and the loaded ones are right. */
	.cfi_remember_state
	ldp	x29, x30, [sp], #176
	.cfi_adjust_cfa_offset -176
	.cfi_restore x29
	.cfi_restore x30
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore d8
	.cfi_restore d9
	.cfi_restore d10
	.cfi_restore d11
	.cfi_restore d12
	.cfi_restore d13
	.cfi_restore d14
	.cfi_restore d15
#ifdef CHECK
	CHECK
	.cfi_negate_ra_state
#endif
	ret

	.cfi_restore_state
2:	msr	fpcr, x10
	b	1b
	.cfi_endproc
	.size	sn_arch_switch, . - sn_arch_switch

/* A new task's first return address. x30 is undefined here, so that every unwinder stops. */
	.globl	sn_arch_task_start
	.hidden	sn_arch_task_start
	.type	sn_arch_task_start, %function
	.p2align 4
sn_arch_task_start:
	.cfi_startproc
	.cfi_undefined x30
	nop	/* begins after this: unwinders look up the return address minus one */
	mov	x0, x20
	blr	x19
	udf	#0
	.cfi_endproc
	.size	sn_arch_task_start, . - sn_arch_task_start

	.section .note.GNU-stack,"",%progbits

/* Tells the linker that all this code may run with branch target identification enforced. */
	.section .note.gnu.property,"a",%note
	.p2align 3
	.word	4, 16, 5		/* sizes of name and description, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.word	0xc0000000, 4		/* GNU_PROPERTY_AARCH64_FEATURE_1_AND, its size */
	.word	1 | PAC_PROPERTY, 0	/* BTI, PAC; padding */
