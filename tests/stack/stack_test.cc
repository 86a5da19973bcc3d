// SPDX-License-Identifier: MIT
// Labels: machine
//
// Stacks: size classes, guards of both kinds that refuse access, finding the stack at an address,
// reuse, giving pages back, and running out of address space and of mappings for guards.
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/child.h"
#include "support/internals.h"
#include "support/runtime.h"

namespace
{

using test::Task;

const size_t page = size_t(sysconf(_SC_PAGESIZE));

TEST(StackClass, IsTheSmallestThatFits)
{
	EXPECT_EQ(0, probe_stack_class(1));
	for (int c = 0; probe_stack_class_size(c) <= probe_stack_max_size(); c++) {
		const size_t size = probe_stack_class_size(c);

		ASSERT_LT(c, PROBE_STACK_CLASSES);
		EXPECT_EQ(c, probe_stack_class(size));
		if (c > 0) {
			EXPECT_EQ(2 * probe_stack_class_size(c - 1), size);
			EXPECT_EQ(c, probe_stack_class(probe_stack_class_size(c - 1) + 1));
		}
	}
	EXPECT_GE(probe_stack_class(probe_stack_max_size()), 0);
	EXPECT_EQ(-1, probe_stack_class(probe_stack_max_size() + 1));
	EXPECT_EQ(-1, probe_stack_class(SIZE_MAX));
}

sigjmp_buf fault_jump;

// Whether an access by the program itself faults there.
bool faults(char *at, bool write)
{
	struct sigaction action = {}, former;
	volatile bool faulted = true;

	action.sa_handler = [](int) { siglongjmp(fault_jump, 1); };
	action.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &action, &former);
	if (sigsetjmp(fault_jump, 1) == 0) {
		if (write)
			*const_cast<volatile char *>(at) = 1;
		else
			(void)*const_cast<volatile char *>(at);
		faulted = false;
	}
	sigaction(SIGSEGV, &former, nullptr);
	return faulted;
}

// Whether the kernel refuses to read there.
bool kernel_refuses(const char *at)
{
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int pipe_fds[2];

	CHILD_CHECK(null >= 0 && pipe(pipe_fds) == 0);
	const bool refused = write(pipe_fds[1], at, 1) < 0 && errno == EFAULT;
	close(null);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return refused;
}

size_t resident_pages(const char *low, const char *high)
{
	std::vector<unsigned char> pages(size_t(high - low) / page);
	size_t n = 0;

	CHILD_CHECK(mincore(const_cast<char *>(low), size_t(high - low), pages.data()) == 0);
	for (unsigned char p : pages)
		n += p & 1;
	return n;
}

void check_guard(const probe_stack &stack)
{
	const size_t guard = probe_stack_guard_size();

	for (char *at : {stack.low - 1, stack.low - guard, stack.low - guard / 2}) {
		CHILD_CHECK(faults(at, false));
		CHILD_CHECK(faults(at, true));
		CHILD_CHECK(kernel_refuses(at));
	}
	for (char *at : {stack.low, stack.high - 1}) {
		CHILD_CHECK(!faults(at, true));
		CHILD_CHECK(!kernel_refuses(at));
	}
}

/* Runs in a child process, because a process decides once how it makes guards. */
void guards(const char *wish)
{
	setenv("SENNIT_STACK_GUARD", wish, 1);
	probe_stacks_init();
	if (strcmp(wish, "mprotect") == 0)
		CHILD_CHECK(!probe_stack_guard_is_madvise());
	fprintf(stderr, "guards by %s\n", probe_stack_guard_is_madvise() ? "madvise" : "mprotect");

	const char *why = nullptr;
	std::vector<probe_stack> stacks;
	probe_caches *caches = probe_caches_new();
	for (int c : {0, 1, 3, 6})
		for (int i = 0; i < 70; i++) { // more than a slab's slots
			probe_stack stack;

			CHILD_CHECK(probe_stack_alloc(&stack, c, i % 2 ? caches : nullptr, &why) ==
				    0);
			CHILD_CHECK(size_t(stack.high - stack.low) == probe_stack_class_size(c));
			CHILD_CHECK(uintptr_t(stack.low) % page == 0);
			if (i % 10 == 0)
				check_guard(stack);
			stacks.push_back(stack);
		}
	// No stack overlaps another one or its guard.
	std::sort(stacks.begin(), stacks.end(),
		  [](const probe_stack &a, const probe_stack &b) { return a.low < b.low; });
	for (size_t i = 1; i < stacks.size(); i++)
		CHILD_CHECK(stacks[i - 1].high + probe_stack_guard_size() <= stacks[i].low);
	// Stacks that were used to their ends, given back and used again still have their guards.
	for (int round = 0; round < 2; round++) {
		for (probe_stack &stack : stacks) {
			memset(stack.low, 0xaa, page);
			memset(stack.high - page, 0xaa, page);
			probe_stack_free(stack, nullptr);
		}
		// In the second round the stacks are cold.
		for (int64_t now = 1; round == 1 && probe_stacks_cool_due() != 0;
		     now += probe_stack_idle_ns())
			while (probe_stacks_cool(now))
				;
		for (probe_stack &stack : stacks) {
			const int c = probe_stack_class(size_t(stack.high - stack.low));

			CHILD_CHECK(probe_stack_alloc(&stack, c, nullptr, &why) == 0);
		}
		for (size_t i = 0; i < stacks.size(); i += 13)
			check_guard(stacks[i]);
	}
	for (probe_stack &stack : stacks)
		probe_stack_free(stack, nullptr);
	probe_stacks_destroy();
	_exit(0);
}

TEST(StackGuard, RefusesAccess)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(guards(""), testing::ExitedWithCode(0), "guards by");
}

TEST(StackGuard, RefusesAccessByMprotectToo)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(guards("mprotect"), testing::ExitedWithCode(0), "guards by mprotect");
}

class Stacks : public testing::Test
{
protected:
	Stacks() { probe_stacks_init(); }
	~Stacks() override
	{
		probe_stack_flush(caches);
		probe_caches_free(caches);
		probe_stacks_destroy();
	}
	probe_stack alloc(int number, probe_caches *from = nullptr)
	{
		probe_stack stack = {};
		const char *why = "";

		EXPECT_EQ(0, probe_stack_alloc(&stack, number, from, &why)) << why;
		return stack;
	}
	probe_caches *caches = probe_caches_new();
};

TEST_F(Stacks, AreFoundByAddress)
{
	probe_stack found;
	bool in_guard;
	int local = 0;

	EXPECT_FALSE(probe_stack_find(&local, &found, &in_guard));
	EXPECT_FALSE(probe_stack_find(nullptr, &found, &in_guard));
	std::vector<probe_stack> stacks;
	for (int c : {0, 2, 5, 8})
		for (int i = 0; i < 3; i++)
			stacks.push_back(alloc(c));
	for (const probe_stack &stack : stacks) {
		for (char *at : {stack.low, stack.high - 1, stack.low + page}) {
			ASSERT_TRUE(probe_stack_find(at, &found, &in_guard));
			EXPECT_FALSE(in_guard);
			EXPECT_EQ(stack.low, found.low);
			EXPECT_EQ(stack.high, found.high);
		}
		for (char *at : {stack.low - 1, stack.low - probe_stack_guard_size()}) {
			ASSERT_TRUE(probe_stack_find(at, &found, &in_guard));
			EXPECT_TRUE(in_guard);
			EXPECT_EQ(stack.low, found.low);
		}
	}
	EXPECT_FALSE(probe_stack_find(&local, &found, &in_guard));
	EXPECT_EQ(stacks.size(), probe_stacks_mapped());
	for (const probe_stack &stack : stacks)
		probe_stack_free(stack, nullptr);
}

TEST_F(Stacks, CachedStacksAreReusedWarmLastFirst)
{
	probe_stack a = alloc(1, caches), b = alloc(1, caches);

	memset(a.high - page, 0x11, page);
	memset(b.high - page, 0x22, page);
	probe_stack_free(a, caches);
	probe_stack_free(b, caches);
	EXPECT_EQ(2u, probe_caches_count(caches, 1));
	EXPECT_EQ(b.low, alloc(1, caches).low);
	EXPECT_EQ(0x22, b.high[-1]);
	EXPECT_EQ(a.low, alloc(1, caches).low);
	EXPECT_EQ(0x11, a.high[-1]);
	EXPECT_EQ(0u, probe_caches_count(caches, 1));
	probe_stack_free(a, caches);
	probe_stack_free(b, caches);
	EXPECT_EQ(2u, probe_stacks_mapped());
}

TEST_F(Stacks, TheCacheIsBounded)
{
	std::vector<probe_stack> stacks;
	std::set<char *> lows;

	for (int i = 0; i < 100; i++)
		stacks.push_back(alloc(1, caches));
	for (const probe_stack &stack : stacks) {
		EXPECT_TRUE(lows.insert(stack.low).second);
		probe_stack_free(stack, caches);
		EXPECT_LE(probe_caches_count(caches, 1), uint32_t(PROBE_STACK_CACHE_SIZE));
	}
	// All of them are used again before a new one is mapped.
	for (int i = 0; i < 100; i++) {
		stacks[size_t(i)] = alloc(1, caches);
		EXPECT_EQ(1u, lows.erase(stacks[size_t(i)].low));
	}
	EXPECT_EQ(100u, probe_stacks_mapped());
	for (const probe_stack &stack : stacks)
		probe_stack_free(stack, caches);
}

size_t address_space()
{
	std::ifstream file("/proc/self/statm");
	size_t pages = 0;

	file >> pages;
	return pages * page;
}

// A finder that is stopped for long may leave when the end of a run has given up waiting for it.
TEST(Finders, ThatLeaveAfterTheyWereGivenUpAreNotCounted)
{
	const uint32_t early = probe_stack_finder_enter();

	EXPECT_EQ(1u, probe_stack_finders_await(test::ms));
	EXPECT_EQ(0u, probe_stack_finders_await(test::patience));
	const uint32_t late = probe_stack_finder_enter();
	probe_stack_finder_leave(early);
	EXPECT_EQ(1u, probe_stack_finders_await(test::ms)) << "the other one is still inside";
	probe_stack_finder_leave(late);
	EXPECT_EQ(0u, probe_stack_finders_await(test::ms));
}

// A processor takes some of a slab's unused slots for itself. No other processor gets one of these,
// all used slots have a guard, and others can take the unused ones once the processor has given
// them back.
TEST_F(Stacks, UnusedSlotsBelongToOneProcessorUntilGivenBack)
{
	probe_caches *others = probe_caches_new();
	probe_caches *const from[] = {nullptr, caches, others};
	std::vector<probe_stack> stacks;
	std::set<char *> lows;

	// With caches that take slots, all 324 slots of six slabs are taken. Where stacks are
	// scarce, 300 slots of five slabs are.
	const int more = sizeof(void *) == 8 && probe_stack_guard_is_madvise() ? 80 : 20;
	for (int i = 0; i < 300; i++)
		stacks.push_back(alloc(1, from[i % 3]));
	EXPECT_EQ(300u, probe_stacks_mapped());
	probe_stack_flush(others);
	probe_stack_flush(caches);
	const size_t before = address_space();
	for (int i = 0; i < more; i++)
		stacks.push_back(alloc(1));
	EXPECT_LT(address_space(), before + (1 << 20)) << "there was no need for a new slab";
	EXPECT_GE(probe_stacks_mapped(), stacks.size());
	for (const probe_stack &stack : stacks) {
		EXPECT_TRUE(lows.insert(stack.low).second);
		EXPECT_TRUE(kernel_refuses(stack.low - 1));
		EXPECT_TRUE(kernel_refuses(stack.low - probe_stack_guard_size()));
		EXPECT_FALSE(kernel_refuses(stack.low));
		probe_stack_free(stack, nullptr);
	}
	probe_caches_free(others);
}

size_t resident(const std::vector<probe_stack> &stacks)
{
	size_t n = 0;

	for (const probe_stack &stack : stacks)
		n += resident_pages(stack.low, stack.high);
	return n;
}

class Cooling : public Stacks
{
protected:
	// Allocates n stacks and touches every page of them.
	std::vector<probe_stack> used(int number, int n)
	{
		std::vector<probe_stack> stacks;

		for (int i = 0; i < n; i++) {
			stacks.push_back(alloc(number));
			memset(stacks.back().low, 1,
			       size_t(stacks.back().high - stacks.back().low));
		}
		return stacks;
	}
	static void free_all(const std::vector<probe_stack> &stacks, probe_caches *to = nullptr)
	{
		for (const probe_stack &stack : stacks)
			probe_stack_free(stack, to);
	}
	// Does what the monitor does when a look is due.
	void look()
	{
		now += probe_stack_idle_ns();
		while (probe_stacks_cool(now))
			;
	}
	int64_t now = 1000;
	const int small = probe_stack_class(64 << 10);
	const size_t pages = probe_stack_class_size(small) / page;
};

TEST_F(Cooling, GivesBackWhatWasUnusedForAWhile)
{
	const std::vector<probe_stack> stacks = used(small, 100); // of more than one slab

	EXPECT_EQ(100 * pages, resident(stacks));
	EXPECT_EQ(0, probe_stacks_cool_due()) << "nothing is free";
	free_all(stacks);
	EXPECT_NE(0, probe_stacks_cool_due());
	look();
	EXPECT_EQ(100 * pages, resident(stacks)) << "just freed";
	EXPECT_GT(probe_stacks_cool_due(), now);
	EXPECT_FALSE(probe_stacks_cool(now + probe_stack_idle_ns() - 1)) << "too early";
	look();
	EXPECT_EQ(0u, resident(stacks));
	look();
	EXPECT_EQ(0, probe_stacks_cool_due()) << "there is nothing left to do";
	// The stacks can be used again.
	EXPECT_EQ(100u, probe_stacks_mapped());
	const std::vector<probe_stack> again = used(small, 100);
	EXPECT_EQ(100u, probe_stacks_mapped());
	free_all(again);
}

TEST_F(Cooling, KeepsWhatIsNeededNowAndThen)
{
	const std::vector<probe_stack> first = used(small, 70);

	free_all(first);
	look();
	for (int i = 0; i < 5; i++) {
		const std::vector<probe_stack> some = used(small, 50);

		free_all(some);
		look();
		EXPECT_EQ(50 * pages, resident(first))
			<< "20 stacks were not needed in round " << i;
	}
	look();
	EXPECT_EQ(0u, resident(first));
}

TEST_F(Cooling, IncludesWhatAFlushedCacheHeld)
{
	const std::vector<probe_stack> stacks = used(small, 20);

	free_all(stacks, caches);
	look();
	look();
	EXPECT_EQ(20 * pages, resident(stacks)) << "the processor keeps them";
	probe_stack_flush(caches);
	look();
	look();
	EXPECT_EQ(0u, resident(stacks));
}

TEST_F(Cooling, OfLargeStacksIsImmediate)
{
	const std::vector<probe_stack> stacks = used(probe_stack_class(1 << 20), 3);

	free_all(stacks, caches);
	EXPECT_EQ(0u, resident(stacks));
	EXPECT_EQ(0, probe_stacks_cool_due());
}

TEST_F(Cooling, WarmOnesComeFirst)
{
	const std::vector<probe_stack> cold = used(small, 30);

	free_all(cold);
	look();
	look();
	const std::vector<probe_stack> warm = used(small, 5);
	free_all(warm);
	const size_t before = resident(cold);
	const std::vector<probe_stack> again = used(small, 5);
	EXPECT_EQ(before, resident(cold));
	free_all(again);
}

TEST_F(Stacks, LightUseTouchesOnePage)
{
	probe_stack stack = alloc(probe_stack_class(probe_stack_default_size()));

	stack.high[-1] = 1;
	EXPECT_EQ(1u, resident_pages(stack.low, stack.high)) << "no huge pages";
	probe_stack_free(stack, nullptr);
}

// The fallback has a budget of mappings. When it is used up, allocations fail, because a stack
// without a guard is not an option.
void mprotect_budget()
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	long most = 65530;

	if (file) {
		CHILD_CHECK(fscanf(file, "%ld", &most) == 1);
		fclose(file);
	}
	setenv("SENNIT_STACK_GUARD", "mprotect", 1);
	probe_stacks_init();
	std::vector<probe_stack> stacks;
	const char *why = "";
	probe_stack stack;
	int err;

	while ((err = probe_stack_alloc(&stack, 0, nullptr, &why)) == 0)
		stacks.push_back(stack);
	CHILD_CHECK(err == -ENOMEM);
	fprintf(stderr, "%zu stacks, then out of %s\n", stacks.size(), why);
	if (strcmp(why, "address space") == 0) { // where max_map_count was raised a lot
		CHILD_CHECK(sizeof(void *) == 4 || most > 1000000);
	} else {
		CHILD_CHECK(strstr(why, "vm.max_map_count"));
		CHILD_CHECK(stacks.size() >= size_t(most) / 5 && stacks.size() <= size_t(most) / 2);
	}
	// The program can still use half of the mappings.
	void *other = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHILD_CHECK(other != MAP_FAILED || strcmp(why, "address space") == 0);
	// The last stack has its guard, and a stack that is given back can be allocated again.
	check_guard(stacks.back());
	probe_stack_free(stacks.front(), nullptr);
	CHILD_CHECK(probe_stack_alloc(&stack, 0, nullptr, &why) == 0);
	CHILD_CHECK(stack.low == stacks.front().low);
	CHILD_CHECK(probe_stack_alloc(&stack, 0, nullptr, &why) == -ENOMEM);
	_exit(0);
}

TEST(StackShortage, OfMappingsForGuards)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(mprotect_budget(), testing::ExitedWithCode(0), "then out of");
}

/*
 * In a child process: spawns tasks with large stacks under a limited address space until there are
 * no more stacks. Running tasks continue, and once they have ended there is room again.
 */
void spawn_without_address_space()
{
	setenv("SENNIT_PROCS", "2", 1);
	const int result = sn_run(
		[](void *) {
			const bool small = sizeof(void *) == 4;
			const size_t size = size_t(small ? 16 : 64) << 20;
			static std::atomic<bool> end;
			static std::atomic<int> yields;
			struct sn_task_attr attr = {};
			std::vector<sn_task *> tasks;
			sn_task *task = nullptr;
			int err = 0;
			auto body = [](void *) {
				while (!end.load()) {
					yields++;
					sn_sleep(100 * test::us);
				}
				return 5;
			};

			attr.stack_size = size;
			CHILD_CHECK(sn_spawn(&task, body, nullptr, &attr) == 0);
			tasks.push_back(task);
			test::limit_address_space(6 * size);
			sn_task *untouched = nullptr;
			while (tasks.size() < 20 &&
			       (err = sn_spawn(&untouched, body, nullptr, &attr)) == 0)
				tasks.push_back(std::exchange(untouched, nullptr));
			CHILD_CHECK(err == -ENOMEM);
			CHILD_CHECK(untouched == nullptr);
			CHILD_CHECK(tasks.size() > 1);
			CHILD_CHECK(sn_spawn(&untouched, body, nullptr, &attr) == -ENOMEM);
			struct sn_run_stats s;
			CHILD_CHECK(sn_run_stats(&s) == 0 && s.tasks_alive == tasks.size() + 1);
			// The running tasks are not affected.
			const int before = yields.load();
			CHILD_CHECK(test::eventually(
				[&] { return yields.load() > before + 10 * int(tasks.size()); }));
			end = true;
			for (sn_task *each : tasks) {
				int value = 0;

				CHILD_CHECK(sn_join(each, &value) == 0 && value == 5);
			}
			CHILD_CHECK(sn_spawn(&task, body, nullptr, &attr) == 0);
			CHILD_CHECK(sn_join(task, nullptr) == 0);
			return 23;
		},
		nullptr);
	CHILD_CHECK(result == 23);
	_exit(0);
}

TEST(StackShortage, OfAddressSpaceFailsTheSpawnOnly)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator enforces no limit on address space";
	// The stacks on which ASan finds uses after return take 11 MB each, and ASan ends the
	// process when it cannot map one.
	const char *options = getenv("ASAN_OPTIONS");
	test::Environment asan("ASAN_OPTIONS", std::string(options ? options : "") +
						       ":detect_stack_use_after_return=0");

	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(spawn_without_address_space(), testing::ExitedWithCode(0),
		    "^sennit: no stack for a new task: out of address space[^\n]*\n$")
		<< "one line, however often";
}

[[noreturn]] void run_without_stacks()
{
	const int result = sn_run(
		[](void *) {
			static std::atomic<int> ran, waits;
			static sn_chan *end; // closed when the tasks may end
			const int n = 3000;
			int refused = 0;
			struct rlimit former;

			CHILD_CHECK(sn_chan_new(&end, 0, 0) == 0);

			// Room for some hundred stacks of 192 KiB each, guards included. This is
			// less than the 64 MiB that malloc() reserves when another thread first
			// calls it, and which would leave no room for stacks.
			CHILD_CHECK(getrlimit(RLIMIT_AS, &former) == 0);
			test::limit_address_space(40 << 20);
			// All these tasks are alive until then, so no stack becomes free earlier.
			for (int i = 0; i < n; i++) {
				const auto body = [](void *) {
					waits++;
					(void)!sn_chan_recv(end, nullptr);
					ran++;
					return 0;
				};
				int err;

				while ((err = sn_go(body, nullptr)) != 0) {
					CHILD_CHECK(err == -ENOMEM);
					if (refused++ == 0) {
						// Tasks that have a stack continue, and the others
						// wait.
						CHILD_CHECK(waits.load() < n);
						sn_chan_close(end);
					}
					sn_sleep(test::ms);
				}
				sn_yield();
			}
			CHILD_CHECK(refused > 0);
			CHILD_CHECK(test::eventually([&] { return ran.load() == n; }));
			CHILD_CHECK(setrlimit(RLIMIT_AS, &former) == 0);
			return 23;
		},
		nullptr);
	CHILD_CHECK(result == 23);
	_exit(0);
}

// Tasks that were spawned before stacks ran out all run in the end.
TEST(StackShortage, LetsTasksWaitForAStack)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator enforces no limit on address space";
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "a sanitizer ends the process when it gets no address space";
	// Otherwise a task that the machine stalls for long would cause another thread to start,
	// which needs address space. An idle processor may still want one, and that is said, too.
	test::Environment leases("SENNIT_LEASES", "0");
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(run_without_stacks(), testing::ExitedWithCode(0),
		    "^(sennit: cannot start another thread[^\n]*\n)?"
		    "sennit: no stack for a new task: out of (address space|heap)[^\n]*\n"
		    "(sennit: cannot start another thread[^\n]*\n)?$")
		<< "one line of each, however often";
}

// The runtime reuses the stacks of tasks that have ended.
TASK_TEST(StackReuse, ByTasks)
{
	for (int i = 0; i < test::scaled(5000); i++) {
		Task task([] {});

		task.join();
	}
	EXPECT_LT(test::stats().stacks_mapped, 100u);
}

/* ---- locked memory ---- */

// Called in the first task, when the runtime's first stacks are already mapped.
int lock_memory(int which)
{
	return mlockall(which) < 0 ? errno : 0;
}

void check_own_guard()
{
	probe_stack stack;
	bool in_guard;

	CHILD_CHECK(probe_stack_find(__builtin_frame_address(0), &stack, &in_guard) && !in_guard);
	for (char *at : {stack.low - 1, stack.low - probe_stack_guard_size()})
		CHILD_CHECK(kernel_refuses(at));
}

// 200 tasks at the same time, with stacks of two sizes: more than a slab of each size holds.
void spawn_in_locked_memory(int which)
{
	test::run(2, [which] {
		std::atomic<int> ran{0};
		std::vector<Task> tasks;
		struct sn_task_attr attr = {};

		Task([] {}).join();
		if (const int err = lock_memory(which)) {
			fprintf(stderr, "memory cannot be locked here: %s\n", strerror(err));
			_exit(0);
		}
		attr.stack_size = 16 << 10;
		for (int i = 0; i < 200; i++) {
			Task task(
				[&] {
					check_own_guard();
					ran++;
					CHILD_CHECK(test::eventually([&] { return ran == 200; }));
				},
				i % 2 ? &attr : nullptr);
			CHILD_CHECK(task.error() == 0);
			tasks.push_back(std::move(task));
		}
		test::join_all(tasks);
		CHILD_CHECK(ran == 200);
		munlockall();
	});
	fprintf(stderr, "all ran\n");
	_exit(0);
}

TEST(StackLocked, TasksAreSpawnedAfterMemoryWasLocked)
{
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	const int on_fault = 4; // MCL_ONFAULT, which old headers do not define
	for (int how : {0, on_fault})
		for (int which : {MCL_CURRENT | MCL_FUTURE, int(MCL_CURRENT), int(MCL_FUTURE)})
			EXPECT_EXIT(spawn_in_locked_memory(which | how), testing::ExitedWithCode(0),
				    "^(memory cannot be locked here.*|all ran)\n$");
}

// Spawns until a spawn is refused, then unlocks memory so that spawning works again.
[[noreturn]] void spawn_with_too_little()
{
	const struct rlimit little = {64 << 10, 64 << 10};

	CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
	if (geteuid() == 0) // root, for whom there is no limit
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	test::run(1, [] {
		std::vector<sn_task *> tasks;
		sn_task *task;
		int err = 0;

		CHILD_CHECK(lock_memory(MCL_FUTURE) == 0);
		while (err == 0 && tasks.size() < 100) {
			err = sn_spawn(
				&task, [](void *) { return 1; }, nullptr, nullptr);
			if (err == 0)
				tasks.push_back(task);
			sn_yield();
		}
		CHILD_CHECK(err == -ENOMEM);
		CHILD_CHECK(munlockall() == 0);
		for (sn_task *accepted : tasks)
			CHILD_CHECK(sn_join(accepted, nullptr) == 0);
		Task([] {}).join();
	});
	_exit(0);
}

TEST(StackLocked, ALowLimitFailsTheSpawn)
{
	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "mlockall() has no effect here";
	testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE;
	EXPECT_EXIT(spawn_with_too_little(), testing::ExitedWithCode(0),
		    "sennit: .*RLIMIT_MEMLOCK");
}

} // namespace
