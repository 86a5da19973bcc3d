// SPDX-License-Identifier: MIT
//
// What a collector learns, tested with one that counts: threads that begin and end, where tasks
// hold references, and the memory that sennit borrows from it. Also what the runtime does not do
// while threads are stopped.
#include <atomic>
#include <cstring>
#include <ctime>
#include <vector>

#include <sennit/collector.h>

#include "support/child.h"
#include "support/sized.h"

namespace
{

using namespace test;

std::atomic<int> begun, ended, callers_begun, callers_ended, allocated, freed;
__thread void *this_thread;

void begins(void *thread)
{
	this_thread = thread;
	(thread ? begun : callers_begun)++;
}

void ends(void *thread)
{
	EXPECT_EQ(this_thread, thread);
	(thread ? ended : callers_ended)++;
}

void *allocate(size_t align, size_t size)
{
	allocated++;
	return aligned_alloc(align, size);
}

void release(void *memory)
{
	freed += memory != nullptr;
	free(memory);
}

void install()
{
	static struct sn_collector collector = {};

	collector.thread_begins = begins;
	collector.thread_ends = ends;
	collector.alloc = allocate;
	collector.free = release;
	ASSERT_EQ(0, sn_collector_install(&collector));
}

// The structure before its last function was added. A collector stays installed, so each call has
// a process of its own, and this test is the first.
struct older_collector {
	size_t size;
	void (*thread_begins)(void *thread);
	void (*thread_ends)(void *thread);
	void *(*alloc)(size_t align, size_t size);
	void (*free)(void *memory);
};

// Calls the last function of the structure, if there is one.
int start_true(void * /*arg*/)
{
	static const char *const argv[] = {"true", nullptr};
	sn_process *process;
	int err = sn_process_start(&process, argv, nullptr);

	if (err == 0)
		err = sn_process_wait(process, nullptr, soon());
	return err < 0 ? err : sn_process_close(process);
}

TEST(Collector, OfAnotherHeader)
{
	expect_takes<sn_collector>(
		older_collector{0, nullptr, nullptr, allocate, release},
		[](const sn_collector *collector) {
			const int status = in_child([&] {
				const int err = sn_collector_install(collector);

				if (err == 0 && !TEST_TSAN)
					CHILD_CHECK(sn_run(start_true, nullptr) == 0);
				_exit(-err);
			});

			return -status;
		});
}

TEST(Collector, Install)
{
	static struct sn_collector half = {}, other = {};

	half.alloc = allocate;
	EXPECT_EQ(-EINVAL, sn_collector_install(nullptr));
	EXPECT_EQ(-EINVAL, sn_collector_install(&half));
	install();
	install();
	EXPECT_EQ(-EEXIST, sn_collector_install(&other));
	run(1, [] { EXPECT_EQ(-EBUSY, sn_collector_install(&other)); });
}

TEST(Collector, Threads)
{
	install();
	for (int processors : {1, 2, 4}) {
		begun = ended = callers_begun = callers_ended = 0;
		run(processors, [] {
			std::vector<Task> tasks;

			EXPECT_EQ(1, callers_begun);
			EXPECT_EQ(0, callers_ended);
			EXPECT_NE(nullptr, this_thread);
			// Repeats until the monitor notices a blocking call in time and starts a
			// thread.
			EXPECT_TRUE(eventually([&] {
				for (int i = 0; i < 20; i++)
					tasks.emplace_back([] {
						sn_enter_blocking();
						usleep(1000);
						EXPECT_NE(nullptr, this_thread);
						sn_exit_blocking();
					});
				join_all(tasks);
				tasks.clear();
				return begun >= 1;
			}));
		});
		EXPECT_GE(begun, 1);
		EXPECT_EQ(begun, ended);
		EXPECT_EQ(1, callers_begun);
		EXPECT_EQ(1, callers_ended);
	}
}

TEST(Collector, Memory)
{
	// Debug builds keep a freed channel for a while, to report calls that still use it.
#if SENNIT_DEBUG
	static const int kept = 1;
#else
	static const int kept = 0;
#endif

	install();
	allocated = freed = 0;
	run(2, [] {
		sn_chan *chan;
		sn_scope *scope;
		static char key;

		ASSERT_EQ(0, sn_chan_new(&chan, 8, 10));
		EXPECT_EQ(1, allocated);
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_scope_set_value(scope, &key, &key));
		EXPECT_EQ(2, allocated);
		EXPECT_EQ(&key, sn_scope_value(&key));
		EXPECT_EQ(0, sn_scope_close(scope));
		EXPECT_EQ(1, freed);
		sn_chan_unref(chan);
		EXPECT_EQ(2 - kept, freed);

		void *memory = sn_collector_alloc(256, 1000);
		EXPECT_EQ(0u, (uintptr_t)memory % 256);
		sn_collector_free(memory);
		EXPECT_EQ(3 - kept, freed);
		EXPECT_EQ(nullptr, sn_collector_alloc(64, SIZE_MAX - 10));
	});
}

struct Search {
	uintptr_t wanted;
	int on_stack = 0, in_own = 0, tasks = 0, on_thread = 0;
};

// Stacks have redzones that AddressSanitizer would report, and belong to other tasks.
#if defined(__clang__)
[[clang::no_sanitize("address", "thread")]]
#else
[[gnu::no_sanitize_address]]
#endif
int count(const void *low, const void *high, uintptr_t wanted)
{
	int found = 0;

	for (auto *at = static_cast<const volatile uintptr_t *>(low);
	     at + 1 <= static_cast<const volatile uintptr_t *>(high); at++)
		found += *at == ~wanted;
	return found > 0;
}

void search_one(const struct sn_task_roots *roots, void *arg)
{
	auto *search = static_cast<Search *>(arg);

	search->tasks++;
	search->on_thread += roots->on_thread;
	search->in_own += count(roots->own_low, roots->own_high, search->wanted);
	if (roots->on_thread)
		return;
	EXPECT_EQ(roots->stack_low == nullptr, roots->stack_high == nullptr);
	if (roots->stack_saved) {
		EXPECT_GE(roots->stack_saved, roots->stack_low);
		EXPECT_LE(roots->stack_saved, roots->stack_high);
		search->on_stack += count(roots->stack_saved, roots->stack_high, search->wanted);
	}
}

Search search(uintptr_t wanted)
{
	Search result = {~wanted};

	sn_collector_roots(search_one, &result);
	return result;
}

struct Small {
	uintptr_t wanted;
	sn_semaphore *gate;
};
struct Large : Small {
	char filler[500];
};

int wait_with_argument(void *arg)
{
	return sn_semaphore_acquire(static_cast<Small *>(arg)->gate);
}

// There is one processor, which is never revoked, so that all other tasks stand still.
TEST(Collector, Roots)
{
	Environment leases("SENNIT_LEASES", "0");

	run(1, [] {
		const uintptr_t wanted = (uintptr_t)0x5eed1234;
		sn_semaphore gate = SN_SEMAPHORE_INIT(0);
		Small small = {wanted, &gate};
		Large large;
		sn_task_attr attr = {};

		memset(&large, 0, sizeof large);
		static_cast<Small &>(large) = small;
		sn_pin(); // no thread but this one runs tasks
		EXPECT_EQ(0, search(wanted).in_own);
		attr.arg_size = sizeof small;
		EXPECT_EQ(0, sn_spawn(nullptr, wait_with_argument, &small, &attr));
		attr.arg_size = sizeof large;
		EXPECT_EQ(0, sn_spawn(nullptr, wait_with_argument, &large, &attr));

		// Once before they have run, and once when they are parked.
		for (int i = 0; i < 2; i++) {
			Search found = search(wanted);

			EXPECT_EQ(3, found.tasks);
			EXPECT_EQ(1, found.on_thread);
			EXPECT_EQ(1, found.in_own);
			EXPECT_GE(found.on_stack, 1);
			sn_sleep(ms);
		}
		sn_unpin();
		EXPECT_EQ(0, sn_semaphore_release(&gate, 2));
		EXPECT_TRUE(all_ended());
		EXPECT_EQ(1, search(wanted).tasks);
	});
	// Without a runtime there are no tasks to search.
	EXPECT_EQ(0, search(1).tasks);
}

TEST(Collector, StackOfAThread)
{
	install();
	run(2, [] {
		const void *low = nullptr, *high = nullptr;
		const char here = 0, *at = static_cast<char *>(__builtin_frame_address(0));
		std::vector<char> heap(1);

		(void)here;
		sn_pin();
		EXPECT_EQ(1, sn_collector_thread_stack(this_thread, at, &low, &high));
		EXPECT_LT(low, static_cast<const void *>(at));
		EXPECT_GT(high, static_cast<const void *>(at));
		EXPECT_EQ(1, sn_collector_thread_stack(this_thread, nullptr, &low, &high));
		EXPECT_LT(low, static_cast<const void *>(at));
		EXPECT_EQ(0, sn_collector_thread_stack(this_thread, heap.data(), &low, &high));
		sn_unpin();
	});
}

// Blocks without a bracket, so only the monitor can find out.
void block(int64_t ns)
{
	struct timespec ts = {0, long(ns)};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

// There are more tasks than processors. Each blocks its thread again and again.
uint64_t revocations_of_blocking_tasks()
{
	const uint64_t before = stats().revocations;
	std::vector<Task> tasks;

	for (int i = 0; i < 8; i++)
		tasks.emplace_back([] {
			for (int round = 0; round < 10; round++) {
				block(2 * ms);
				sn_yield();
			}
		});
	join_all(tasks);
	return stats().revocations - before;
}

TASK_TEST(Collector, StoppedThreadsKeepTheirProcessors, 1, 2)
{
	sn_collector_stopping(1);
	EXPECT_EQ(0u, revocations_of_blocking_tasks());
	sn_collector_stopping(0);
	// Repeats, because on a busy machine the monitor may run too late.
	EXPECT_TRUE(eventually([] { return revocations_of_blocking_tasks() > 0; }));
}

} // namespace
