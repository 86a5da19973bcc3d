// SPDX-License-Identifier: MIT
// Labels: machine
//
// What belongs to a task rather than to the thread that happens to run it: errno, the state of C++
// exceptions, the floating-point modes, and a stack that is aligned and as deep as promised.
#include <atomic>
#include <cfenv>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include "support/runtime.h"

namespace
{

using test::Task;

/*
 * Compilers may keep the address of errno, or of any thread-local variable, in a register across a
 * call that changes threads. So each access is in a function of its own, as task.h asks for.
 */
__attribute__((noinline)) void set_errno(int value)
{
	errno = value;
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) int get_errno()
{
	__asm__ volatile("" ::: "memory");
	return errno;
}

__attribute__((noinline)) long thread_id()
{
	return syscall(SYS_gettid);
}

void park_somehow(test::Random &random)
{
	switch (random.below(3)) {
	case 0:
		EXPECT_EQ(0, sn_yield());
		break;
	case 1:
		EXPECT_EQ(0, sn_sleep(int64_t(random.below(50)) * test::us));
		break;
	default:
		Task child([] { set_errno(99); });
		set_errno(0); // spawning may change it
		child.join();
	}
}

TEST(Errno, BelongsToTheTask)
{
	test::Random seeds;

	test::run([&] {
		const int rounds = test::scaled(300);
		std::atomic<long> moves{0};
		std::vector<Task> tasks;

		for (int t = 0; t < 100; t++)
			tasks.emplace_back([&, t, seed = seeds.next()] {
				test::Random random(seed);
				long thread = thread_id();

				EXPECT_EQ(0, get_errno()) << "a new task begins with 0";
				for (int i = 0; i < rounds; i++) {
					const int mine = 1000 + t * 1000 + i;

					if (random.below(2)) {
						set_errno(mine);
						EXPECT_EQ(0, sn_yield());
					} else {
						set_errno(mine);
						EXPECT_EQ(0, sn_sleep(int64_t(random.below(30)) *
								      test::us));
					}
					ASSERT_EQ(mine, get_errno()) << "seed " << seeds.seed();
					moves += thread_id() != thread;
					thread = thread_id();
				}
			});
		test::join_all(tasks);
		// With one processor no task moves. With several, the test shows something only if
		// tasks do move. That depends on the machine, so the number is printed.
		printf("%d processors: %ld changes of thread\n", int(test::stats().processors),
		       moves.load());
	});
}

struct Tagged : std::runtime_error {
	explicit Tagged(int n) : std::runtime_error("tagged"), tag(n) {}
	int tag;
};

// A task cannot park between throw and catch, except in destructors that run during unwinding.
struct ParksWhenUnwound {
	explicit ParksWhenUnwound(test::Random &r) : random(r) {}
	~ParksWhenUnwound()
	{
		EXPECT_EQ(expected, std::uncaught_exceptions());
		park_somehow(random);
		EXPECT_EQ(expected, std::uncaught_exceptions());
	}
	ParksWhenUnwound(const ParksWhenUnwound &) = delete;
	ParksWhenUnwound &operator=(const ParksWhenUnwound &) = delete;
	test::Random &random;
	int expected = 1;
};

__attribute__((noinline)) int current_tag()
{
	std::exception_ptr current = std::current_exception();

	if (!current)
		return -1;
	try {
		std::rethrow_exception(current);
	} catch (const Tagged &e) {
		return e.tag;
	} catch (...) {
		return -2;
	}
}

// Throws, catches, parks within the handler, throws and catches again within it, and rethrows. At
// each step the task must see its own exception and no other task's.
void throw_and_park(int tag, test::Random &random)
{
	try {
		try {
			ParksWhenUnwound unwound(random);

			throw Tagged(tag);
		} catch (const Tagged &e) {
			ASSERT_EQ(tag, e.tag);
			ASSERT_EQ(0, std::uncaught_exceptions());
			park_somehow(random);
			ASSERT_EQ(tag, e.tag);
			ASSERT_EQ(tag, current_tag());
			try {
				throw Tagged(tag + 1);
			} catch (const Tagged &inner) {
				park_somehow(random);
				ASSERT_EQ(tag + 1, inner.tag);
				ASSERT_EQ(tag + 1, current_tag());
			}
			park_somehow(random);
			ASSERT_EQ(tag, current_tag());
			throw;
		}
	} catch (const std::exception &e) {
		park_somehow(random);
		const Tagged *tagged = dynamic_cast<const Tagged *>(&e);

		ASSERT_NE(nullptr, tagged);
		ASSERT_EQ(tag, tagged->tag);
	}
	ASSERT_EQ(-1, current_tag());
	ASSERT_EQ(0, std::uncaught_exceptions());
}

TEST(Exceptions, BelongToTheTask)
{
	test::Random seeds;

	test::run([&] {
		const int rounds = test::scaled(100);
		std::vector<Task> tasks;

		for (int t = 0; t < 40; t++)
			tasks.emplace_back([&, t, seed = seeds.next()] {
				test::Random random(seed);

				for (int i = 0; i < rounds && !testing::Test::HasFailure(); i++)
					throw_and_park(t * 10000 + 2 * i, random);
			});
		test::join_all(tasks);
		if (testing::Test::HasFailure())
			printf("seed %llu\n", (unsigned long long)seeds.seed());
	});
}

// One task stores an exception, and another rethrows it.
TASK_TEST(Exceptions, CanBeHandedOver)
{
	std::exception_ptr handed;
	Task thrower([&] {
		try {
			throw Tagged(77);
		} catch (...) {
			handed = std::current_exception();
		}
	});

	thrower.join();
	try {
		std::rethrow_exception(handed);
	} catch (const Tagged &e) {
		sn_yield();
		EXPECT_EQ(77, e.tag);
	}
}

// The thread that called sn_run() has its own exception state again afterwards.
TEST(Exceptions, OfTheCallerOfRunAreKept)
{
	try {
		throw Tagged(1);
	} catch (const Tagged &) {
		test::run([] {
			EXPECT_EQ(-1, current_tag()) << "a task begins without one";
			test::Random random(1);

			throw_and_park(5, random);
		});
		EXPECT_EQ(1, current_tag());
	}
	EXPECT_EQ(0, std::uncaught_exceptions());
}

// Volatile, so that the division happens at run time, in the current mode.
__attribute__((noinline)) double third_sse()
{
	volatile double one = 1, three = 3;
	// Stored as a double, because on i386 the quotient may be in a wider register.
	volatile double third = one / three;

	return third;
}

__attribute__((noinline)) long double third_x87()
{
	volatile long double one = 1, three = 3;

	return one / three;
}

TEST(FloatingPoint, ModesBelongToTheTask)
{
	test::Random seeds;

	test::run([&] {
		const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
		std::vector<Task> tasks;

		for (int t = 0; t < 32; t++)
			tasks.emplace_back([&, t, seed = seeds.next()] {
				test::Random random(seed);

				ASSERT_EQ(0, fesetround(modes[t % 4]));
				const double sse = third_sse();
				const long double x87 = third_x87();

				for (int i = 0; i < test::scaled(200); i++) {
					park_somehow(random);
					ASSERT_EQ(modes[t % 4], fegetround());
					ASSERT_EQ(sse, third_sse());
					ASSERT_EQ(x87, third_x87());
				}
			});
		test::join_all(tasks);
		EXPECT_EQ(FE_TONEAREST, fegetround()) << "the first task's own";
	});
	EXPECT_EQ(FE_TONEAREST, fegetround());
}

TASK_TEST(FloatingPoint, ANewTaskInheritsItsSpawnersModes)
{
	fesetround(FE_DOWNWARD);
	Task child([] { return fegetround(); });
	fesetround(FE_TONEAREST);
	EXPECT_EQ(FE_DOWNWARD, child.join());
}

// SSE's aligned moves fault on a stack that is not aligned to 16 bytes at every call, even in the
// first function of a task.
__attribute__((noinline)) bool stack_is_aligned()
{
	alignas(16) volatile char block[64];

	block[0] = 1;
#if defined(__x86_64__) || defined(__SSE__)
	__asm__ volatile(
		"movaps %%xmm0, %0"
		: "=m"(*const_cast<char(*)[16]>(reinterpret_cast<volatile char(*)[16]>(block))));
#endif
	return reinterpret_cast<uintptr_t>(block) % 16 == 0;
}

// The address of the frame itself, as the calling convention leaves it. Nothing realigns this
// frame.
int entry_alignment(void *)
{
	return int(reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()) % 16);
}

TASK_TEST(Stack, IsAlignedAtEntry)
{
	for (int i = 0; i < 20; i++) {
		sn_task *task;
		int result = -1;

		ASSERT_EQ(0, sn_spawn(&task, entry_alignment, nullptr, nullptr));
		ASSERT_EQ(0, sn_join(task, &result));
		EXPECT_EQ(0, result);
	}
	EXPECT_TRUE(stack_is_aligned());
	Task task([] { return stack_is_aligned(); });
	EXPECT_EQ(1, task.join());
}

__attribute__((noinline)) int sink(int depth)
{
	volatile char frame[512];

	frame[0] = char(depth);
	if (depth % 64 == 0)
		sn_yield();
	return depth == 0 ? frame[0] : sink(depth - 1) + (frame[0] == char(depth));
}

TASK_TEST(Stack, AllowsDeepRecursion)
{
	std::vector<Task> tasks;
	struct sn_task_attr attr = {};

	// Frames are larger under the sanitizers: at most 4 KiB, of which 8 MiB hold 2000.
	attr.stack_size = 8 << 20;
	for (int t = 0; t < 8; t++)
		tasks.emplace_back([] { return sink(1500); }, &attr);
	for (Task &task : tasks)
		EXPECT_EQ(1500, task.join());
}

} // namespace
