/* SPDX-License-Identifier: MIT */
/*
 * The context switch of x86_64 (System V).
 *
 * The saved frame, from the saved stack pointer upwards:
 *	 0  mxcsr (4 bytes), x87 control word (2 bytes), padding
 *	 8  r15, r14, r13, r12, rbx, rbp
 *	56  return address
 *
 * Both stacks have the same layout at the moment when rsp changes from one to the other, so the CFI
 * holds at every instruction, for the stack that rsp is on.
 *
 * The floating-point control words are callee-saved by the ABI. Loading them costs more than all
 * the rest together, and they are nearly always the same, so they are loaded only when they differ.
 * The sticky exception flags in the low six bits of mxcsr are not control bits, so they are not
 * compared.
 *
 * The switch ends in ret, not in a jump. Nearly all switches come from one call site, so the
 * return-stack prediction made for the task that called is right for the task that continues, and
 * stays balanced.
 */
	.text
	.globl	sn_arch_switch
	.hidden	sn_arch_switch
	.type	sn_arch_switch, @function
	.p2align 5
sn_arch_switch:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r15, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movl	(%rsp), %eax
	movzwl	4(%rsp), %ecx

	movq	%rsp, (%rdi)
	movq	%rsi, %rsp

	xorl	(%rsp), %eax
	xorw	4(%rsp), %cx
	testl	$0xffffffc0, %eax
	jne	2f
1:	testw	%cx, %cx
	jne	3f
4:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	ret

	.cfi_adjust_cfa_offset 56
	.cfi_rel_offset rbp, 48
	.cfi_rel_offset rbx, 40
	.cfi_rel_offset r12, 32
	.cfi_rel_offset r13, 24
	.cfi_rel_offset r14, 16
	.cfi_rel_offset r15, 8
2:	ldmxcsr	(%rsp)
	jmp	1b
3:	fldcw	4(%rsp)
	jmp	4b
	.cfi_endproc
	.size	sn_arch_switch, . - sn_arch_switch

/* A new task's first return address. rip is undefined here, so that every unwinder stops. */
	.globl	sn_arch_task_start
	.hidden	sn_arch_task_start
	.type	sn_arch_task_start, @function
	.p2align 4
sn_arch_task_start:
	.cfi_startproc
	.cfi_undefined rip
	nop	/* begins after this: unwinders look up the return address minus one */
	movq	%r12, %rdi
	callq	*%rbx
	ud2
	.cfi_endproc
	.size	sn_arch_task_start, . - sn_arch_task_start

	.section .note.GNU-stack,"",@progbits

/*
 * For a processor that checks where calls and jumps land (CET): no indirect call or jump leads
 * here, and ret is not checked, so this file has the mark of code that may run with the check
 * (IBT), which a program gets if all of its parts have it. This file has no mark for shadow stacks,
 * because a task's stack has no shadow stack, so the processor would refuse the ret of a switch.
 * The linker then leaves that mark out of the whole program.
 */
	.section .note.gnu.property,"a",@note
	.p2align 3
	.long	4, 16, 5		/* sizes of name and description, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.long	0xc0000002, 4, 1	/* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT */
	.p2align 3
