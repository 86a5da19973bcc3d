/* SPDX-License-Identifier: MIT */
/*
 * The context switch of 32-bit ARM (AAPCS; with VFP registers, hard-float or softfp, or without).
 *
 * The saved frame, from the saved stack pointer upwards:
 *	 0  d8 to d15, where there is VFP
 *	64  fpscr, or padding
 *	68  r4 to r11, lr
 *
 * Both stacks have the same layout at the moment when sp changes from one to the other, so the CFI
 * holds at every instruction, for the stack that sp is on. The CFI is for debuggers. Exceptions and
 * backtraces use the tables of the ARM EHABI, which describe a function as a whole: they hold from
 * the end of the prologue to the pop.
 *
 * The ABI makes FPSCR's control bits callee-saved: rounding, flush to zero, default NaN, half
 * precision, traps. Writing FPSCR may drain the pipeline, and these bits are nearly always the
 * same, so it is written only when they differ. Its other bits are flags and sticky exceptions,
 * which are not control, and vector length and stride, which must be zero at calls.
 *
 * The switch ends in a pop into pc, which processors treat as a return, not in a jump. Nearly all
 * switches come from one call site, so the return-stack prediction made for the task that called is
 * right for the task that continues, and stays balanced.
 *
 * Assembled as Thumb-2 or as ARM, like the library. Thumb-1 lacks the instructions, and calls ARM.
 */
#define FPSCR_CONTROL 0x07c89f00

	.syntax	unified
	.cfi_sections .debug_frame
	.text
#if defined(__thumb2__)
	.thumb
#else
	.arm
#endif
	.globl	sn_arch_switch
	.hidden	sn_arch_switch
	.type	sn_arch_switch, %function
	.p2align 5
sn_arch_switch:
	.fnstart
	.cfi_startproc
#if __ARM_FP
	vmrs	r3, fpscr
#endif
	push	{r3-r11, lr}
	.save	{r4-r11, lr}
	.pad	#4
	.cfi_adjust_cfa_offset 40
	.cfi_rel_offset r4, 4
	.cfi_rel_offset r5, 8
	.cfi_rel_offset r6, 12
	.cfi_rel_offset r7, 16
	.cfi_rel_offset r8, 20
	.cfi_rel_offset r9, 24
	.cfi_rel_offset r10, 28
	.cfi_rel_offset r11, 32
	.cfi_rel_offset lr, 36
#if __ARM_FP
	vpush	{d8-d15}
	.vsave	{d8-d15}
	.cfi_adjust_cfa_offset 64
	.cfi_rel_offset d8, 0
	.cfi_rel_offset d9, 8
	.cfi_rel_offset d10, 16
	.cfi_rel_offset d11, 24
	.cfi_rel_offset d12, 32
	.cfi_rel_offset d13, 40
	.cfi_rel_offset d14, 48
	.cfi_rel_offset d15, 56
#endif

	mov	r12, sp
	str	r12, [r0]
	mov	sp, r1

#if __ARM_FP
	ldr	r12, [sp, #64]
	ldr	r2, =FPSCR_CONTROL
	eor	r3, r3, r12
	tst	r3, r2
	bne	2f
1:	.cfi_remember_state
	vpop	{d8-d15}
	.cfi_adjust_cfa_offset -64
	.cfi_restore d8
	.cfi_restore d9
	.cfi_restore d10
	.cfi_restore d11
	.cfi_restore d12
	.cfi_restore d13
	.cfi_restore d14
	.cfi_restore d15
#endif
	pop	{r3-r11, pc}

#if __ARM_FP
	.cfi_restore_state
2:	vmsr	fpscr, r12
	b	1b
#endif
	.cfi_endproc
	.fnend
	.ltorg
	.size	sn_arch_switch, . - sn_arch_switch

/* A new task's first return address: every unwinder stops here. */
	.globl	sn_arch_task_start
	.hidden	sn_arch_task_start
	.type	sn_arch_task_start, %function
	.p2align 4
sn_arch_task_start:
	.fnstart
	.cantunwind
	.cfi_startproc
	.cfi_undefined lr
	nop	/* begins after this: unwinders look up the return address minus one, or two */
	mov	r0, r5
	blx	r4
	udf	#0
	.cfi_endproc
	.fnend
	.size	sn_arch_task_start, . - sn_arch_task_start

	.section .note.GNU-stack,"",%progbits
