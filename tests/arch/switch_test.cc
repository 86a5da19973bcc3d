// SPDX-License-Identifier: MIT
//
// The context switch of this architecture alone: two contexts of one thread, without a scheduler.
#include <algorithm>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <unwind.h>
#include <vector>

#define _Noreturn [[noreturn]] // the header is C
extern "C" {
#include "arch/arch.h"
}

/*
 * fill_switch(save, target, in, out): loads every callee-saved register from in, switches, and
 * stores what is in them afterwards to out.
 */
extern "C" void fill_switch(void **save, void *target, const uint64_t *in, uint64_t *out);

#if defined(__x86_64__)
constexpr size_t kWords = 6;
constexpr uint64_t kWordMask = UINT64_MAX;
asm(R"(
	.pushsection .text
	.type fill_switch, @function
	.globl fill_switch
fill_switch:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushq	%rcx
	movq	(%rdx), %rbp
	movq	8(%rdx), %rbx
	movq	16(%rdx), %r12
	movq	24(%rdx), %r13
	movq	32(%rdx), %r14
	movq	40(%rdx), %r15
	call	sn_arch_switch
	popq	%rcx
	movq	%rbp, (%rcx)
	movq	%rbx, 8(%rcx)
	movq	%r12, 16(%rcx)
	movq	%r13, 24(%rcx)
	movq	%r14, 32(%rcx)
	movq	%r15, 40(%rcx)
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size fill_switch, . - fill_switch
	.popsection
)");
#elif defined(__i386__)
constexpr size_t kWords = 4;
constexpr uint64_t kWordMask = UINT32_MAX; // the upper halves are not tested
asm(R"(
	.pushsection .text
	.type fill_switch, @function
	.globl fill_switch
fill_switch:
	pushl	%ebp
	pushl	%ebx
	pushl	%esi
	pushl	%edi
	subl	$4, %esp
	movl	32(%esp), %edx
	pushl	28(%esp)
	pushl	28(%esp)
	movl	(%edx), %ebp
	movl	8(%edx), %ebx
	movl	16(%edx), %esi
	movl	24(%edx), %edi
	call	sn_arch_switch
	movl	44(%esp), %edx
	movl	%ebp, (%edx)
	movl	%ebx, 8(%edx)
	movl	%esi, 16(%edx)
	movl	%edi, 24(%edx)
	addl	$12, %esp
	popl	%edi
	popl	%esi
	popl	%ebx
	popl	%ebp
	ret
	.size fill_switch, . - fill_switch
	.popsection
)");
#elif defined(__aarch64__)
constexpr size_t kWords = 19; // x19 to x29, d8 to d15
constexpr uint64_t kWordMask = UINT64_MAX;
asm(R"(
	.pushsection .text
	.type fill_switch, %function
	.globl fill_switch
fill_switch:
	hint	#34
	stp	x29, x30, [sp, #-176]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	str	x3, [sp, #160]
	ldp	x19, x20, [x2]
	ldp	x21, x22, [x2, #16]
	ldp	x23, x24, [x2, #32]
	ldp	x25, x26, [x2, #48]
	ldp	x27, x28, [x2, #64]
	ldr	x29, [x2, #80]
	ldp	d8, d9, [x2, #88]
	ldp	d10, d11, [x2, #104]
	ldp	d12, d13, [x2, #120]
	ldp	d14, d15, [x2, #136]
	bl	sn_arch_switch
	ldr	x3, [sp, #160]
	stp	x19, x20, [x3]
	stp	x21, x22, [x3, #16]
	stp	x23, x24, [x3, #32]
	stp	x25, x26, [x3, #48]
	stp	x27, x28, [x3, #64]
	str	x29, [x3, #80]
	stp	d8, d9, [x3, #88]
	stp	d10, d11, [x3, #104]
	stp	d12, d13, [x3, #120]
	stp	d14, d15, [x3, #136]
	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	ldp	x29, x30, [sp], #176
	ret
	.size fill_switch, . - fill_switch
	.popsection
)");
#elif defined(__arm__)
constexpr uint64_t kWordMask = UINT64_MAX;
#	if __ARM_FP
constexpr size_t kWords = 12; // r4 to r11 in pairs, d8 to d15
#	else
constexpr size_t kWords = 4;
#	endif
asm(R"(
	.pushsection .text
	.syntax	unified
)"
#	ifdef __thumb2__
    "	.thumb\n"
#	else
    "	.arm\n"
#	endif
    R"(
	.type fill_switch, %function
	.globl fill_switch
	.p2align 2
fill_switch:
	push	{r3-r11, lr}
	ldmia	r2!, {r4-r11}
)"
#	if __ARM_FP
    R"(
	vpush	{d8-d15}
	vldmia	r2!, {d8-d15}
	bl	sn_arch_switch
	ldr	r3, [sp, #64]
	stmia	r3!, {r4-r11}
	vstmia	r3!, {d8-d15}
	vpop	{d8-d15}
)"
#	else
    R"(
	bl	sn_arch_switch
	ldr	r3, [sp]
	stmia	r3!, {r4-r11}
)"
#	endif
    R"(
	pop	{r3-r11, pc}
	.size fill_switch, . - fill_switch
	.popsection
)");
#elif defined(__riscv)
constexpr uint64_t kWordMask = UINT64_MAX;
#	if defined(__riscv_float_abi_double)
constexpr size_t kWords = 24; // s0 to s11, fs0 to fs11
#	else
constexpr size_t kWords = 12;
#	endif
asm(R"(
	.pushsection .text
	.type fill_switch, @function
	.globl fill_switch
fill_switch:
	addi	sp, sp, -208
	sd	ra, 200(sp)
	sd	a3, 0(sp)
	sd	s0, 8(sp)
	ld	s0, 0(a2)
	sd	s1, 16(sp)
	ld	s1, 8(a2)
	sd	s2, 24(sp)
	ld	s2, 16(a2)
	sd	s3, 32(sp)
	ld	s3, 24(a2)
	sd	s4, 40(sp)
	ld	s4, 32(a2)
	sd	s5, 48(sp)
	ld	s5, 40(a2)
	sd	s6, 56(sp)
	ld	s6, 48(a2)
	sd	s7, 64(sp)
	ld	s7, 56(a2)
	sd	s8, 72(sp)
	ld	s8, 64(a2)
	sd	s9, 80(sp)
	ld	s9, 72(a2)
	sd	s10, 88(sp)
	ld	s10, 80(a2)
	sd	s11, 96(sp)
	ld	s11, 88(a2)
)"
#	if defined(__riscv_float_abi_double)
    R"(
	fsd	fs0, 104(sp)
	fld	fs0, 96(a2)
	fsd	fs1, 112(sp)
	fld	fs1, 104(a2)
	fsd	fs2, 120(sp)
	fld	fs2, 112(a2)
	fsd	fs3, 128(sp)
	fld	fs3, 120(a2)
	fsd	fs4, 136(sp)
	fld	fs4, 128(a2)
	fsd	fs5, 144(sp)
	fld	fs5, 136(a2)
	fsd	fs6, 152(sp)
	fld	fs6, 144(a2)
	fsd	fs7, 160(sp)
	fld	fs7, 152(a2)
	fsd	fs8, 168(sp)
	fld	fs8, 160(a2)
	fsd	fs9, 176(sp)
	fld	fs9, 168(a2)
	fsd	fs10, 184(sp)
	fld	fs10, 176(a2)
	fsd	fs11, 192(sp)
	fld	fs11, 184(a2)
)"
#	endif
    R"(
	call	sn_arch_switch
	ld	a3, 0(sp)
	sd	s0, 0(a3)
	ld	s0, 8(sp)
	sd	s1, 8(a3)
	ld	s1, 16(sp)
	sd	s2, 16(a3)
	ld	s2, 24(sp)
	sd	s3, 24(a3)
	ld	s3, 32(sp)
	sd	s4, 32(a3)
	ld	s4, 40(sp)
	sd	s5, 40(a3)
	ld	s5, 48(sp)
	sd	s6, 48(a3)
	ld	s6, 56(sp)
	sd	s7, 56(a3)
	ld	s7, 64(sp)
	sd	s8, 64(a3)
	ld	s8, 72(sp)
	sd	s9, 72(a3)
	ld	s9, 80(sp)
	sd	s10, 80(a3)
	ld	s10, 88(sp)
	sd	s11, 88(a3)
	ld	s11, 96(sp)
)"
#	if defined(__riscv_float_abi_double)
    R"(
	fsd	fs0, 96(a3)
	fld	fs0, 104(sp)
	fsd	fs1, 104(a3)
	fld	fs1, 112(sp)
	fsd	fs2, 112(a3)
	fld	fs2, 120(sp)
	fsd	fs3, 120(a3)
	fld	fs3, 128(sp)
	fsd	fs4, 128(a3)
	fld	fs4, 136(sp)
	fsd	fs5, 136(a3)
	fld	fs5, 144(sp)
	fsd	fs6, 144(a3)
	fld	fs6, 152(sp)
	fsd	fs7, 152(a3)
	fld	fs7, 160(sp)
	fsd	fs8, 160(a3)
	fld	fs8, 168(sp)
	fsd	fs9, 168(a3)
	fld	fs9, 176(sp)
	fsd	fs10, 176(a3)
	fld	fs10, 184(sp)
	fsd	fs11, 184(a3)
	fld	fs11, 192(sp)
)"
#	endif
    R"(
	ld	ra, 200(sp)
	addi	sp, sp, 208
	ret
	.size fill_switch, . - fill_switch
	.popsection
)");
#else
// The portable switch.
#	define NO_FILL_SWITCH 1
#endif

namespace
{

#if defined(__arm__)
constexpr size_t kStackAlignment = 8;
#else
constexpr size_t kStackAlignment = 16;
#endif

/* The test's own context and a second one. body runs on the second, and ends by switching back. */
class Switch : public testing::Test
{
public:
	void *mine = nullptr, *other = nullptr;

protected:
	void start(void (*body)(void *))
	{
		uintptr_t top = (reinterpret_cast<uintptr_t>(stack.get()) + kSize) &
				~static_cast<uintptr_t>(63);

		other = sn_arch_prepare(reinterpret_cast<void *>(top), body, this, sn_arch_modes());
	}

private:
	static constexpr size_t kSize = 256 << 10;
	std::unique_ptr<char[]> stack{new char[kSize]};
};

#ifndef NO_FILL_SWITCH
struct Registers {
	uint64_t words[kWords] = {};

	/* Numbers that all differ, and differ between seeds. */
	static Registers pattern(uint64_t seed)
	{
		Registers r;

		for (uint64_t &word : r.words) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			word = (seed ^ seed >> 29) & kWordMask;
		}
		return r;
	}
};

void expect_equal(const Registers &want, const Registers &got)
{
	for (size_t i = 0; i < kWords; i++)
		EXPECT_EQ(want.words[i], got.words[i])
			<< "callee-saved word " << i << " of " << kWords;
}

struct RegistersTest : Switch {
	static constexpr int kRounds = 16;

	static void body(void *arg)
	{
		auto *test = static_cast<RegistersTest *>(arg);

		for (int i = 0;; i++) {
			Registers in = Registers::pattern(1000 + static_cast<uint64_t>(i)), out;

			fill_switch(&test->other, test->mine, in.words, out.words);
			expect_equal(in, out);
		}
	}
};

TEST_F(RegistersTest, CalleeSavedRegistersSurviveOnBothSides)
{
	start(body);
	for (int i = 0; i < kRounds; i++) {
		Registers in = Registers::pattern(static_cast<uint64_t>(i)), out;

		fill_switch(&mine, other, in.words, out.words);
		expect_equal(in, out);
	}
}

#endif

struct RoundingTest : Switch {
	int at_start = -1, after = -1;

	static void body(void *arg)
	{
		auto *test = static_cast<RoundingTest *>(arg);

		test->at_start = std::fegetround();
		std::fesetround(FE_DOWNWARD);
		sn_arch_switch(&test->other, test->mine);
		test->after = std::fegetround();
		sn_arch_switch(&test->other, test->mine);
	}
};

TEST_F(RoundingTest, BelongsToTheContextAndIsInherited)
{
	int before = std::fegetround();
	int mine_after[3];

	ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
	start(body);
	sn_arch_switch(&mine, other);
	mine_after[0] = std::fegetround();
	std::fesetround(FE_TOWARDZERO);
	sn_arch_switch(&mine, other);
	mine_after[1] = std::fegetround();
	volatile double one = 1, three = 3;
	double rounded_down = one / three;
	std::fesetround(before);
	mine_after[2] = std::fegetround();

	EXPECT_EQ(at_start, FE_UPWARD);
	EXPECT_EQ(after, FE_DOWNWARD);
	EXPECT_EQ(mine_after[0], FE_UPWARD);
	EXPECT_EQ(mine_after[1], FE_TOWARDZERO);
	EXPECT_EQ(mine_after[2], before);
	EXPECT_LE(rounded_down * 3, 1.0);
}

struct AlignmentTest : Switch {
	uintptr_t address = 1;
	char text[64] = "";

	static void body(void *arg)
	{
		auto *test = static_cast<AlignmentTest *>(arg);
		alignas(kStackAlignment) volatile char here[kStackAlignment] = {};

		test->address = reinterpret_cast<uintptr_t>(&here[0]);
		/* Arguments that are themselves aligned on the stack, and vector registers in the C
		 * library, reveal a misaligned stack. */
		std::snprintf(test->text, sizeof test->text, "%d %.3f %lld %.1f", 1, 2.5, 3LL, 4.5);
		sn_arch_switch(&test->other, test->mine);
	}
};

TEST_F(AlignmentTest, HoldsAtEntry)
{
	start(body);
	sn_arch_switch(&mine, other);
	EXPECT_EQ(address % kStackAlignment, 0u);
	EXPECT_STREQ(text, "1 2.500 3 4.5");
}

/* ---- unwinding ---- */

// The bit of a code address that means Thumb; on other machines functions may begin at odd
// addresses.
#ifdef __arm__
constexpr uintptr_t kThumbBit = 1;
#else
constexpr uintptr_t kThumbBit = 0;
#endif

struct Trace {
	std::vector<uintptr_t> functions; // where the function of each frame begins

	static _Unwind_Reason_Code frame(_Unwind_Context *context, void *arg)
	{
		auto *trace = static_cast<Trace *>(arg);

		if (_Unwind_GetIP(context) == 0) // DWARF's unwinder calls once more after the end
			return _URC_END_OF_STACK;
		trace->functions.push_back(static_cast<uintptr_t>(_Unwind_GetRegionStart(context)) &
					   ~kThumbBit);
		return trace->functions.size() < 200 ? _URC_NO_REASON : _URC_END_OF_STACK;
	}
};

struct UnwindTest : Switch {
	Trace trace;
	int depth = 0;

	[[gnu::noinline]] static int descend(UnwindTest *test, int levels)
	{
		if (levels == 0)
			_Unwind_Backtrace(Trace::frame, &test->trace);
		else
			descend(test, levels - 1);
		asm volatile(""); // prevents a tail call
		return levels;
	}

	[[gnu::noinline]] static void body(void *arg)
	{
		auto *test = static_cast<UnwindTest *>(arg);

		for (;;) {
			test->trace.functions.clear();
			descend(test, test->depth);
			sn_arch_switch(&test->other, test->mine);
		}
	}
};

uintptr_t code_address(void (*function)(void *))
{
	return reinterpret_cast<uintptr_t>(function) & ~kThumbBit;
}

TEST_F(UnwindTest, EndsWhereTheContextBegan)
{
	const auto first = reinterpret_cast<uintptr_t>(&sn_arch_task_start) & ~kThumbBit;
	size_t counted[2];

	start(body);
	for (int round = 0; round < 2; round++) {
		depth = 10 * round;
		sn_arch_switch(&mine, other);
		auto &functions = trace.functions;

		counted[round] = functions.size();
		ASSERT_GE(functions.size(), 2u);
		/* The EHABI's unwinder stops before a frame that cannot be unwound, DWARF's after.
		 * The nop before sn_arch_task_start may count as its beginning.
		 * The portable switch has the C library's first frame before it. */
		auto start = std::find_if(functions.begin(), functions.end(), [&](uintptr_t at) {
			return at <= first && at + 4 >= first;
		});
		EXPECT_LE(functions.end() - start, SENNIT_PORTABLE_SWITCH ? 2 : 1);
		functions.erase(start, functions.end());
		EXPECT_EQ(functions.back(), code_address(body));
	}
	EXPECT_EQ(counted[1], counted[0] + 10);
}

struct ExceptionTest : Switch {
	std::string caught;

	[[gnu::noinline]] static void fail(int levels)
	{
		if (levels == 0)
			throw std::string("thrown");
		fail(levels - 1);
		asm volatile("");
	}

	static void body(void *arg)
	{
		auto *test = static_cast<ExceptionTest *>(arg);

		for (;;) {
			try {
				fail(5);
			} catch (const std::string &what) {
				test->caught = what;
			}
			sn_arch_switch(&test->other, test->mine);
		}
	}
};

TEST_F(ExceptionTest, IsCaughtInTheContextThatThrew)
{
	start(body);
	for (int i = 0; i < 3; i++) {
		caught.clear();
		sn_arch_switch(&mine, other);
		EXPECT_EQ(caught, "thrown");
	}
}

} // namespace
