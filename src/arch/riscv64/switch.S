/* SPDX-License-Identifier: MIT */
/*
 * The context switch of riscv64 (the psABI's LP64D, or LP64 without floating-point registers).
 *
 * The saved frame, from the saved stack pointer upwards:
 *	  0  frm (the rounding mode), only with floating-point registers; a padding word without
 *	  8  fs0 to fs11, only with floating-point registers
 *	104  s11 to s1                                                            (8 without them)
 *	192  s0, ra: a frame record, from which frame pointers of a parked context can be followed
 *
 * Both stacks have the same layout at the moment when sp changes from one to the other, so the CFI
 * holds at every instruction, for the stack that sp is on.
 *
 * The rounding mode belongs to the context, as a thread's belongs to the thread. Writing it may
 * drain the pipeline, and it is nearly always the same, so it is written only when it differs. The
 * accrued exceptions (fflags) are status, not control, and stay the thread's. The ABI preserves
 * neither vector registers nor their modes over a call. gp is the program's, tp is the thread's:
 * both stay.
 *
 * The switch ends in ret, not in another jump. Nearly all switches come from one call site, so the
 * return-stack prediction made for the task that called is right for the task that continues, and
 * stays balanced.
 *
 * This file has no marks for landing pads or shadow stacks (Zicfilp, Zicfiss), so the linker leaves
 * both off in a program that has it.
 */
#if defined(__riscv_float_abi_double)
#	define FRAME	208
#	define S(n)	(192 - 8 * (n))
#	define F(n)	(8 + 8 * (n))
#else
#	define FRAME	112
#	define S(n)	(96 - 8 * (n))
#endif

	.macro save register, at
	sd	\register, \at(sp)
	.cfi_rel_offset \register, \at
	.endm

	.macro save_fp register, at
	fsd	\register, \at(sp)
	.cfi_rel_offset \register, \at
	.endm

	.text
	.globl	sn_arch_switch
	.hidden	sn_arch_switch
	.type	sn_arch_switch, @function
	.p2align 5
sn_arch_switch:
	.cfi_startproc
	addi	sp, sp, -FRAME
	.cfi_adjust_cfa_offset FRAME
	save	ra, FRAME - 8
	save	s0, S(0)
	save	s1, S(1)
	save	s2, S(2)
	save	s3, S(3)
	save	s4, S(4)
	save	s5, S(5)
	save	s6, S(6)
	save	s7, S(7)
	save	s8, S(8)
	save	s9, S(9)
	save	s10, S(10)
	save	s11, S(11)
#if defined(__riscv_float_abi_double)
	save_fp	fs0, F(0)
	save_fp	fs1, F(1)
	save_fp	fs2, F(2)
	save_fp	fs3, F(3)
	save_fp	fs4, F(4)
	save_fp	fs5, F(5)
	save_fp	fs6, F(6)
	save_fp	fs7, F(7)
	save_fp	fs8, F(8)
	save_fp	fs9, F(9)
	save_fp	fs10, F(10)
	save_fp	fs11, F(11)
	frrm	t0
	sd	t0, 0(sp)
#endif

	sd	sp, 0(a0)
	mv	sp, a1

#if defined(__riscv_float_abi_double)
	ld	t1, 0(sp)
	bne	t0, t1, 2f
1:	fld	fs0, F(0)(sp)
	fld	fs1, F(1)(sp)
	fld	fs2, F(2)(sp)
	fld	fs3, F(3)(sp)
	fld	fs4, F(4)(sp)
	fld	fs5, F(5)(sp)
	fld	fs6, F(6)(sp)
	fld	fs7, F(7)(sp)
	fld	fs8, F(8)(sp)
	fld	fs9, F(9)(sp)
	fld	fs10, F(10)(sp)
	fld	fs11, F(11)(sp)
#endif
	ld	ra, FRAME - 8(sp)
	ld	s0, S(0)(sp)
	ld	s1, S(1)(sp)
	ld	s2, S(2)(sp)
	ld	s3, S(3)(sp)
	ld	s4, S(4)(sp)
	ld	s5, S(5)(sp)
	ld	s6, S(6)(sp)
	ld	s7, S(7)(sp)
	ld	s8, S(8)(sp)
	ld	s9, S(9)(sp)
	ld	s10, S(10)(sp)
	ld	s11, S(11)(sp)
	/* Up to here both the values in the frame and the loaded ones are right. */
	.cfi_remember_state
	addi	sp, sp, FRAME
	.cfi_adjust_cfa_offset -FRAME
	.irp	register, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
	.cfi_restore \register
	.endr
#if defined(__riscv_float_abi_double)
	.irp	register, fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11
	.cfi_restore \register
	.endr
#endif
	ret

	.cfi_restore_state
#if defined(__riscv_float_abi_double)
2:	fsrm	t1
	j	1b
#endif
	.cfi_endproc
	.size	sn_arch_switch, . - sn_arch_switch

/* A new task's first return address. ra is undefined here, so that every unwinder stops. */
	.globl	sn_arch_task_start
	.hidden	sn_arch_task_start
	.type	sn_arch_task_start, @function
	.p2align 4
	.option push
	.option norvc	/* instructions of four bytes, as machine.h expects */
sn_arch_task_start:
	.cfi_startproc
	.cfi_undefined ra
	nop	/* begins after this: unwinders look up the return address minus one */
	mv	a0, s2
	jalr	s1
	unimp
	.cfi_endproc
	.size	sn_arch_task_start, . - sn_arch_task_start
	.option pop

	.section .note.GNU-stack,"",@progbits
