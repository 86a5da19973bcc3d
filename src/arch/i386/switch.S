/* SPDX-License-Identifier: MIT */
/*
 * The context switch of i386 (System V). See ../x86_64/switch.S for the reasons. The saved frame is
 *	 0  mxcsr, 4  x87 control word, 8  edi, esi, ebx, ebp, 24  return address
 * mxcsr is saved only where the library is built for SSE: elsewhere the register may not exist.
 */
	.text
	.globl	sn_arch_switch
	.hidden	sn_arch_switch
	.type	sn_arch_switch, @function
	.p2align 5
sn_arch_switch:
	.cfi_startproc
	movl	4(%esp), %eax		/* save */
	movl	8(%esp), %edx		/* target */
	pushl	%ebp
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset ebp, 0
	pushl	%ebx
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset ebx, 0
	pushl	%esi
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset esi, 0
	pushl	%edi
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset edi, 0
	subl	$8, %esp
	.cfi_adjust_cfa_offset 8
#ifdef __SSE__
	stmxcsr	(%esp)
	movl	(%esp), %ebx
#endif
	fnstcw	4(%esp)
	movzwl	4(%esp), %ecx

	movl	%esp, (%eax)
	movl	%edx, %esp

#ifdef __SSE__
	xorl	(%esp), %ebx
	testl	$0xffffffc0, %ebx
	je	1f
	ldmxcsr	(%esp)
1:
#endif
	xorw	4(%esp), %cx
	testw	%cx, %cx
	je	2f
	fldcw	4(%esp)
2:	addl	$8, %esp
	.cfi_adjust_cfa_offset -8
	popl	%edi
	.cfi_adjust_cfa_offset -4
	.cfi_restore edi
	popl	%esi
	.cfi_adjust_cfa_offset -4
	.cfi_restore esi
	popl	%ebx
	.cfi_adjust_cfa_offset -4
	.cfi_restore ebx
	popl	%ebp
	.cfi_adjust_cfa_offset -4
	.cfi_restore ebp
	ret
	.cfi_endproc
	.size	sn_arch_switch, . - sn_arch_switch

	.globl	sn_arch_task_start
	.hidden	sn_arch_task_start
	.type	sn_arch_task_start, @function
	.p2align 4
sn_arch_task_start:
	.cfi_startproc
	.cfi_undefined eip
	nop	/* begins after this: unwinders look up the return address minus one */
	subl	$12, %esp
	.cfi_adjust_cfa_offset 12
	pushl	%esi
	.cfi_adjust_cfa_offset 4
	calll	*%ebx
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
	.p2align 2
	.long	4, 12, 5		/* sizes of name and description, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.long	0xc0000002, 4, 1	/* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT */
	.p2align 2
