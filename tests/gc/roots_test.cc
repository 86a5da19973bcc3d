// SPDX-License-Identifier: MIT
// Labels: machine
//
// Objects to which tasks refer survive collections, wherever the reference is; objects without
// references do not. If any part of the bridge is left out, an object is lost that is still
// referred to.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/scan.h>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include "gc/heap.h"
#include "support/sized.h"

namespace
{

using namespace test;

// How many tasks hold a list: some thousands, because the collector's own table of roots is
// bounded.
const int many = scaled(4000);

// The tasks wait here while they hold their lists.
class Gate
{
public:
	void wait() { EXPECT_EQ(0, sn_semaphore_acquire(&semaphore_)); }
	void open(int n) { EXPECT_EQ(0, sn_semaphore_release(&semaphore_, n)); }

private:
	sn_semaphore semaphore_ = {};
};

// No task refers to the lists any more, so most of them must be collected. A conservative collector
// may keep some.
void expect_reclaimed(Lists &lists)
{
	collect();
	EXPECT_GE(lists.ended() * 10, lists.made() * 9);
}

struct Found {
	uint32_t lost = 0; // while tasks held them
};

// Each of n tasks holds a list by hold_one(list, wait, i) until the gate opens.
template <class Holder>
Found held_by_tasks(int n, Holder hold_one, const sn_task_attr *attr = nullptr)
{
	Lists lists((uint32_t)n);
	Gate gate;
	std::atomic<int> holding{0}, broken{0};
	std::vector<Task> tasks;
	Found found;

	for (int i = 0; i < n; i++)
		tasks.emplace_back(
			[&, i] {
				Hidden list = hold_one(
					lists.make(),
					[&] {
						holding++;
						gate.wait();
					},
					i);
				if (!lists.whole(list))
					broken++;
			},
			attr);
	EXPECT_TRUE(eventually([&] { return holding == n; }));
	collect();
	// Collects from a task, too, which may be on another thread.
	Task([] { collect(); }).join();
	found.lost = lists.ended();
	gate.open(n);
	join_all(tasks);
	if (!found.lost) {
		EXPECT_EQ(0, broken);
		expect_reclaimed(lists);
	}
	return found;
}

// A function, so that the frame is the task's own.
template <class F>
[[gnu::noinline]] Hidden hold_on_stack(Hidden list, F wait)
{
	void *volatile plain = reinterpret_cast<void *>(~list);

	wait();
	return hide(plain);
}

// The statistics in a program that was compiled with an older header.
struct OldStats {
	size_t size;
	uint64_t stops;
	uint64_t stop_ns;
};

TEST(GcRoots, Init)
{
	connect();
	EXPECT_EQ(0, sn_gc_init());
	EXPECT_EQ(-EINVAL, sn_gc_stats(nullptr));
	run([] {
		struct sn_gc_stats before, after;

		EXPECT_EQ(0, sn_gc_init());
		ASSERT_EQ(0, sn_gc_stats(&before));
		collect();
		ASSERT_EQ(0, sn_gc_stats(&after));
		EXPECT_GT(after.stops, before.stops);
		EXPECT_GE(after.tasks, 1u);
		EXPECT_GE(after.threads, 1u);
		uint64_t counted = 0;
		for (uint64_t n : after.pauses)
			counted += n;
		EXPECT_EQ(after.stops, counted);
		expect_gives<struct sn_gc_stats, OldStats>(
			[](struct sn_gc_stats *each) { return sn_gc_stats(each); },
			[](const OldStats &stats) {
				EXPECT_LE(1u, stats.stops);
				EXPECT_LE(stats.stops, stats.stop_ns);
			});
	});
}

TEST(GcRoots, GarbageIsReclaimed)
{
	connect();
	// Otherwise the first allocations would cause a collection every 64 KiB.
	ASSERT_TRUE(GC_expand_hp(4 << 20));
	run([] {
		std::vector<Task> tasks;

		for (int i = 0; i < scaled(200); i++)
			tasks.emplace_back([] {
				for (int n = 0; n < 1000; n++) {
					auto *node = static_cast<Node *>(GC_MALLOC(1024));
					node->check = 1;
					if (n % 100 == 0)
						sn_yield();
				}
			});
		join_all(tasks);
	});
	// 200 MB are allocated each time.
	EXPECT_LT(GC_get_heap_size(), size_t{64} << 20);
}

TEST(GcRoots, StacksOfParkedTasks)
{
	connect();
	auto test = [] {
		return held_by_tasks(many, [](Hidden list, auto wait, int) {
			return hold_on_stack(list, wait);
		});
	};
	run([&] { EXPECT_EQ(0u, test().lost); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_STACKS);
		EXPECT_GT(test().lost, 0u);
	});
}

TEST(GcRoots, RegistersOfParkedTasks)
{
	connect();
	auto test = [] {
		return held_by_tasks(many,
				     [](Hidden list, auto wait, int) { return hold(list, wait); });
	};
	run([&] { EXPECT_EQ(0u, test().lost); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_STACKS);
		EXPECT_GT(test().lost, 0u);
	});
}

// Tasks in user code, each on a thread of its own.
TEST(GcRoots, RunningTasks)
{
	connect();
	auto test = [](auto hold_one) {
		constexpr int n = 3;
		Lists lists(n);
		std::atomic<int> holding{0}, broken{0};
		std::atomic<bool> go{false};
		std::vector<Task> tasks;

		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				Hidden list = hold_one(lists.make(), [&] {
					holding++;
					while (!go)
						;
				});
				if (!lists.whole(list))
					broken++;
			});
		EXPECT_TRUE(eventually([&] { return holding == n; }));
		collect();
		uint32_t lost = lists.ended();
		go = true;
		join_all(tasks);
		EXPECT_EQ(lost ? 1 : 0, broken > 0);
		return lost;
	};
	auto in_register = [](Hidden list, auto wait) { return hold(list, wait); };
	auto on_stack = [](Hidden list, auto wait) { return hold_on_stack(list, wait); };

	run({1, 2, 4}, [&] {
		EXPECT_EQ(0u, test(in_register));
		EXPECT_EQ(0u, test(on_stack));
	});
	run(4, [&] {
		Blind blind(SN_GC_BLIND_RUNNING);
		EXPECT_GT(test(on_stack), 0u);
	});
}

// Tasks wait for it in a system call, until open() writes to the pipe.
class Pipe
{
public:
	Pipe() { EXPECT_EQ(0, pipe(fds_)); }
	~Pipe()
	{
		close(fds_[0]);
		close(fds_[1]);
	}
	Pipe(const Pipe &) = delete;
	Pipe &operator=(const Pipe &) = delete;

	void wait() const
	{
		char byte;

		// The call is not interrupted, because of SA_RESTART.
		EXPECT_EQ(1, read(fds_[0], &byte, 1));
	}
	void open(int n) const
	{
		for (int i = 0; i < n; i++)
			EXPECT_EQ(1, write(fds_[1], "", 1));
	}

private:
	int fds_[2];
};

// Tasks in a system call, in a bracket or without one. All except a few have lost their processor.
TEST(GcRoots, BlockingTasks)
{
	connect();
	auto test = [](auto block) {
		constexpr int n = 40;
		Lists lists(n);
		Pipe gate;
		std::atomic<int> holding{0}, broken{0};
		std::vector<Task> tasks;
		const uint64_t revoked = stats().revocations;

		for (int i = 0; i < n; i++)
			tasks.emplace_back([&, i] {
				auto wait = [&] {
					block([&] {
						holding++;
						gate.wait();
					});
				};
				Hidden list = i % 2 ? hold(lists.make(), wait)
						    : hold_on_stack(lists.make(), wait);
				if (!lists.whole(list))
					broken++;
			});
		EXPECT_TRUE(eventually(
			[&] { return holding == n && stats().revocations >= revoked + n - 4; }));
		collect();
		uint32_t lost = lists.ended();
		gate.open(n);
		join_all(tasks);
		EXPECT_EQ(lost ? 1 : 0, broken > 0);
		return lost;
	};
	auto bracketed = [](auto wait) {
		sn_enter_blocking();
		wait();
		sn_exit_blocking();
	};
	auto unaware = [](auto wait) { wait(); };
	// The task also announces the wait to the collector, which then sends no signal.
	auto announced = [](auto wait) {
		sn_enter_blocking();
		GC_do_blocking(
			[](void *arg) -> void * {
				(*static_cast<decltype(wait) *>(arg))();
				return nullptr;
			},
			&wait);
		sn_exit_blocking();
	};

	run([&] {
		EXPECT_EQ(0u, test(bracketed));
		EXPECT_EQ(0u, test(unaware));
		EXPECT_EQ(0u, test(announced));
	});
	run(2, [&] {
		Blind blind(SN_GC_BLIND_RUNNING);
		EXPECT_GT(test(bracketed), 0u);
	});
}

// A task that computes is scanned in a signal handler, on its thread's alternate stack. The
// collector stops the thread there.
TEST(GcRoots, ThreadOnItsSignalStack)
{
	connect();
	run(4, [] {
		Lists lists(2);
		std::atomic<bool> computes{false}, go{false};
		std::atomic<int> broken{0};
		struct Scan {
			std::atomic<bool> in_handler{false}, go{false}, elsewhere{false};
		} scan;
		Task computing([&] {
			auto compute = [&] {
				computes = true;
				while (!go)
					;
			};
			auto both = [&] { hold(lists.make(), compute); };
			Hidden list = hold_on_stack(lists.make(), both);
			if (!lists.whole(list))
				broken++;
		});
		EXPECT_TRUE(eventually([&] { return computes.load(); }));
		Task scanning([&] {
			EXPECT_EQ(0, sn_task_scan(
					     computing.get(),
					     [](const struct sn_scan *shown, void *arg) {
						     auto *at = static_cast<Scan *>(arg);
						     const char here = 0;

						     at->elsewhere = &here < shown->stack_low ||
								     &here >= shown->stack_high;
						     at->in_handler = true;
						     while (!at->go)
							     ;
					     },
					     &scan));
		});
		EXPECT_TRUE(eventually([&] { return scan.in_handler.load(); }));
		EXPECT_TRUE(scan.elsewhere);
		collect();
		EXPECT_EQ(0u, lists.ended());
		scan.go = true;
		scanning.join();
		go = true;
		computing.join();
		EXPECT_EQ(0, broken);
	});
}

struct Argument {
	void *plain;
	Lists *lists;
	Gate *gate;
	std::atomic<int> *broken;
};
struct LargeArgument : Argument {
	char filler[SN_TASK_ARG_MAX - sizeof(Argument)];
};

// The arguments of tasks, most of which have not run yet.
TEST(GcRoots, Arguments)
{
	connect();
	auto test = [](size_t size) {
		Lists lists((uint32_t)many);
		Gate gate;
		std::atomic<int> broken{0};
		std::vector<sn_task *> tasks((size_t)many);
		sn_task_attr attr = {};

		attr.arg_size = size;
		for (auto &task : tasks) {
			LargeArgument argument;

			argument.plain = reinterpret_cast<void *>(~lists.make());
			argument.lists = &lists;
			argument.gate = &gate;
			argument.broken = &broken;
			EXPECT_EQ(0, sn_spawn(
					     &task,
					     [](void *arg) {
						     auto *mine = static_cast<Argument *>(arg);

						     // The argument stays the only reference.
						     mine->gate->wait();
						     if (!mine->lists->whole(
								 static_cast<Node *>(mine->plain)))
							     (*mine->broken)++;
						     return 0;
					     },
					     &argument, &attr));
			argument.plain = nullptr;
			__asm__ volatile("" : : "r"(&argument) : "memory");
		}
		collect();
		uint32_t lost = lists.ended();
		gate.open(many);
		for (auto *task : tasks)
			EXPECT_EQ(0, sn_join(task, nullptr));
		EXPECT_EQ(lost ? 1 : 0, broken > 0);
		if (!lost)
			expect_reclaimed(lists);
		return lost;
	};

	run({1, 2, 4}, [&] {
		EXPECT_EQ(0u, test(sizeof(Argument)));
		EXPECT_EQ(0u, test(sizeof(LargeArgument)));
	});
	run(1, [&] {
		{
			Blind blind(SN_GC_BLIND_ARGUMENTS);
			EXPECT_GT(test(sizeof(Argument)), 0u);
		}
		Blind blind(SN_GC_BLIND_STACKS);
		EXPECT_GT(test(sizeof(LargeArgument)), 0u);
	});
}

// An argument that is itself the reference.
TEST(GcRoots, PlainArguments)
{
	connect();
	static Lists *lists;
	static Gate *gate;
	static std::atomic<int> broken;

	run({1, 2, 4}, [&] {
		Lists own_lists((uint32_t)many);
		Gate own_gate;
		std::vector<sn_task *> tasks((size_t)many);

		lists = &own_lists;
		gate = &own_gate;
		broken = 0;
		for (auto &task : tasks)
			EXPECT_EQ(0, sn_spawn(
					     &task,
					     [](void *arg) {
						     gate->wait();
						     if (!lists->whole(static_cast<Node *>(arg)))
							     broken++;
						     return 0;
					     },
					     reinterpret_cast<void *>(~lists->make()), nullptr));
		collect();
		EXPECT_EQ(0u, lists->ended());
		gate->open(many);
		for (auto *task : tasks)
			EXPECT_EQ(0, sn_join(task, nullptr));
		EXPECT_EQ(0, broken);
		expect_reclaimed(*lists);
	});
}

TEST(GcRoots, ChannelsScopesAndTasks)
{
	connect();
	auto test = [] {
		constexpr int keys = 50;
		static char key[keys];
		static sn_local local[keys];
		Lists lists((uint32_t)many + 2 * keys);
		sn_chan *chan;
		sn_scope *scope;

		EXPECT_EQ(0, sn_chan_new(&chan, sizeof(void *), many));
		for (int i = 0; i < many; i++) {
			void *volatile plain = reinterpret_cast<void *>(~lists.make());

			EXPECT_EQ(0, sn_chan_send(chan, const_cast<void **>(&plain)));
			plain = nullptr;
		}
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		for (char &one : key)
			EXPECT_EQ(0, sn_scope_set_value(scope, &one,
							reinterpret_cast<void *>(~lists.make())));
		for (sn_local &one : local)
			EXPECT_EQ(0, sn_local_set(&one, reinterpret_cast<void *>(~lists.make())));
		collect();
		uint32_t lost = lists.ended();
		if (!lost) {
			for (int i = 0; i < many; i++) {
				void *plain;

				EXPECT_EQ(0, sn_chan_recv(chan, &plain));
				EXPECT_TRUE(lists.whole(static_cast<Node *>(plain)));
			}
			for (char &one : key)
				EXPECT_TRUE(lists.whole(static_cast<Node *>(sn_scope_value(&one))));
			for (sn_local &one : local)
				EXPECT_TRUE(lists.whole(static_cast<Node *>(sn_local_get(&one))));
		}
		for (sn_local &one : local)
			EXPECT_EQ(0, sn_local_set(&one, nullptr));
		EXPECT_EQ(0, sn_scope_close(scope));
		sn_chan_unref(chan);
		if (!lost)
			expect_reclaimed(lists);
		return lost;
	};

	run([&] { EXPECT_EQ(0u, test()); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_VALUES);
		EXPECT_GT(test(), 0u);
	});
}

// Elements that parked tasks have received, before they run again. They were copied to the tasks'
// stacks.
TEST(GcRoots, ElementsInTransit)
{
	connect();
	run([] {
		Lists lists((uint32_t)many);
		sn_chan *chan;
		std::vector<Task> tasks;
		std::atomic<int> broken{0}, waiting{0};

		EXPECT_EQ(0, sn_chan_new(&chan, sizeof(void *), 0));
		for (int i = 0; i < many; i++)
			tasks.emplace_back([&] {
				void *plain = nullptr;

				waiting++;
				if (sn_chan_recv(chan, &plain) < 0 ||
				    !lists.whole(static_cast<Node *>(plain)))
					broken++;
			});
		EXPECT_TRUE(eventually([&] { return waiting == many; }));
		for (int i = 0; i < many; i++) {
			void *volatile plain = reinterpret_cast<void *>(~lists.make());

			EXPECT_EQ(0, sn_chan_send(chan, const_cast<void **>(&plain)));
			plain = nullptr;
			if (i % (many / 8) == many / 8 - 1)
				collect();
		}
		join_all(tasks);
		sn_chan_unref(chan);
		EXPECT_EQ(0, broken);
	});
}

// Objects that sennit.hpp puts on the heap.
TEST(GcRoots, ClosuresAndBoxes)
{
	connect();
	struct Awkward { // not moved in place
		explicit Awkward(Hidden list) : plain(reinterpret_cast<Node *>(~list)) {}
		Awkward(Awkward &&other) noexcept(false)
		    : plain(std::exchange(other.plain, nullptr))
		{
		}
		Node *plain;
	};
	auto test = [] {
		constexpr int n = 300;
		Lists lists(3 * n);
		Gate gate;
		std::atomic<int> broken{0}, waiting{0};
		std::vector<sn::task<void>> tasks;
		sn::channel<Awkward> chan(n);

		for (int i = 0; i < n; i++) {
			Awkward plain(lists.make()), other(lists.make());
			std::array<char, 2000> large{};
			auto wait = [&] {
				waiting++;
				gate.wait();
			};
			tasks.push_back(sn::spawn([&, wait, plain = std::move(plain)]() mutable {
				wait();
				if (!lists.whole(plain.plain))
					broken++;
			}));
			sn::go([&, wait, large, plain = std::move(other)]() mutable {
				wait();
				if (large[5] || !lists.whole(plain.plain))
					broken++;
				waiting--;
			});
			EXPECT_TRUE(chan.send(Awkward(lists.make())).has_value());
		}
		EXPECT_TRUE(eventually([&] { return waiting == 2 * n; }));
		collect();
		uint32_t lost = lists.ended();
		gate.open(2 * n);
		join_all(tasks);
		EXPECT_TRUE(eventually([&] { return waiting == n; }));
		for (int i = 0; i < n; i++)
			if (!lists.whole(chan.recv()->plain))
				broken++;
		EXPECT_EQ(lost ? 1 : 0, broken > 0);
		return lost;
	};

	run([&] { EXPECT_EQ(0u, test()); });
	run(2, [&] {
		Blind blind(SN_GC_BLIND_VALUES);
		EXPECT_GT(test(), 0u);
	});
}

// The closures of alarms. The alarms themselves are where the collector does not search.
TEST(GcRoots, ClosuresOfAlarms)
{
	connect();
	run(2, [] {
		constexpr int n = 300;
		Lists lists(n);
		std::atomic<int> broken{0}, rung{0};
		std::vector<std::unique_ptr<sn::alarm>> alarms;

		for (int i = 0; i < n; i++) {
			std::array<char, 100> large{};
			alarms.push_back(std::make_unique<sn::alarm>(
				[&, large, plain = reinterpret_cast<Node *>(~lists.make())] {
					if (large[5] || !lists.whole(plain))
						broken++;
					rung++;
				}));
		}
		collect();
		EXPECT_EQ(0u, lists.ended());
		for (auto &alarm : alarms)
			alarm->set_after(std::chrono::seconds(0));
		EXPECT_TRUE(eventually([&] { return rung == n; }));
		EXPECT_EQ(0, broken);
	});
}

// A task that does not return in time continues after sn_run() has returned, and keeps what it
// holds.
TEST(GcRoots, Orphans)
{
	connect();
	static Lists *lists;
	static std::atomic<bool> go, done;
	static std::atomic<int> broken, running;
	Lists own_lists(4);

	lists = &own_lists;
	go = done = false;
	broken = running = 0;
	run(2, [] {
		struct Own {
			void *plain;
		} own = {reinterpret_cast<void *>(~lists->make())};
		sn_task_attr attr = {};

		attr.arg_size = sizeof own;
		EXPECT_EQ(0, sn_spawn(
				     nullptr,
				     [](void *arg) {
					     auto wait = [] {
						     running++;
						     sn_enter_blocking();
						     while (!go)
							     usleep(1000);
					     };
					     Hidden list = hold(lists->make(), wait);
					     if (!lists->whole(list) ||
						 !lists->whole(static_cast<Node *>(
							 static_cast<Own *>(arg)->plain)))
						     broken++;
					     done = true;
					     sn_exit_blocking(); // never returns
					     return 0;
				     },
				     &own, &attr));
		own.plain = nullptr;
		__asm__ volatile("" : : "r"(&own) : "memory");
		EXPECT_TRUE(eventually([] { return running == 1; }));
	});
	for (int i = 0; i < 2; i++) {
		collect();
		EXPECT_EQ(0u, lists->ended());
		// The task continues in another run, too.
		run(2, [] {
			collect();
			EXPECT_EQ(0u, lists->ended());
		});
	}
	go = true;
	EXPECT_TRUE(eventually_in_thread([] { return done.load(); }));
	EXPECT_EQ(0, broken);
}

// A thread that neither libgc nor the runtime knows makes channels, whose memory comes from libgc.
TEST(GcRoots, UnknownThread)
{
	connect();
	run(2, [] {
		pthread_t thread;

		EXPECT_EQ(0, pthread_create(
				     &thread, nullptr,
				     [](void *) -> void * {
					     for (int i = 0; i < 1000; i++) {
						     sn_chan *chan;

						     EXPECT_EQ(0, sn_chan_new(&chan, 64, 100));
						     sn_chan_unref(chan);
					     }
					     return nullptr;
				     },
				     nullptr));
		for (int i = 0; i < 100; i++)
			GC_gcollect();
		EXPECT_EQ(0, sn_blocking(
				     [](void *arg) {
					     return pthread_join(*static_cast<pthread_t *>(arg),
								 nullptr);
				     },
				     &thread));
	});
}

// The child has one thread, which runs on a task's stack.
TEST(GcRoots, ChildOfFork)
{
	connect();
	run(2, [] {
		Lists lists(100);
		Task other([&] { hold_on_stack(lists.make(), [] { sn_sleep(100 * ms); }); });

		hold_on_stack(lists.make(), [&] {
			Hidden mine = lists.make();

			hold(mine, [&] {
				pid_t child = fork();

				ASSERT_GE(child, 0);
				if (child == 0) {
					collect();
					// The other task never runs again, but the collector may
					// still see it.
					CHILD_CHECK(lists.ended() <= 1);
					CHILD_CHECK(lists.whole(mine));
					_exit(0);
				}
				int status = -1;
				EXPECT_EQ(child, waitpid(child, &status, 0));
				EXPECT_EQ(0, status);
			});
		});
		other.join();
	});
}

} // namespace
