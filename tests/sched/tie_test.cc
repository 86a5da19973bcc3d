// SPDX-License-Identifier: MIT
// Labels: machine checked
//
// Tied tasks: a task continues on the thread on which it has parked, which runs other tasks while
// it waits. It moves to another thread only if its own is stuck.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/foreign.h>
#include <sennit/scan.h>

#include "support/runtime.h"

namespace
{

// How long tied tasks wait for a thread that is stuck: longer than any test.
#define NEVER_MOVES "1000000000"

long thread_id()
{
	return syscall(SYS_gettid);
}

// Makes a call that parks. Returns whether the task has continued on its thread, and expects that
// sn_foreign_untie() reports a move.
template <class F>
bool stays_over(F call)
{
	const long before = thread_id();
	bool stayed;

	EXPECT_EQ(1, sn_foreign_tie());
	call();
	const int moved = sn_foreign_untie();
	stayed = thread_id() == before;
	if (moved == 0) {
		EXPECT_TRUE(stayed);
	}
	EXPECT_GE(moved, 0);
	return stayed;
}

struct Channel {
	Channel() { EXPECT_EQ(0, sn_chan_new(&chan, 1, 1)); }
	~Channel() { sn_chan_unref(chan); }
	void send() { EXPECT_EQ(0, sn_chan_send(chan, "x")); }
	void receive()
	{
		char byte;

		EXPECT_EQ(0, sn_chan_recv(chan, &byte));
	}
	sn_chan *chan;
};

struct Pipe {
	Pipe() { EXPECT_EQ(0, pipe(fd)); }
	~Pipe()
	{
		close(fd[0]);
		close(fd[1]);
	}
	void write_byte() const { EXPECT_EQ(1, write(fd[1], "x", 1)); }
	// Blocks the thread.
	void read_byte() const
	{
		char byte;

		EXPECT_EQ(1, read(fd[0], &byte, 1));
	}
	int fd[2];
};

// Tasks that compute for a moment and park, until the object ends. They give threads more work than
// they can do, so that threads steal.
class Noise
{
public:
	explicit Noise(int n)
	{
		for (int i = 0; i < n; i++)
			tasks_.emplace_back([this] {
				while (!over_) {
					for (int j = 0; j < 5000; j++)
						__asm__ volatile("");
					sn_sleep(20 * test::us);
				}
			});
	}
	~Noise()
	{
		over_ = true;
		test::join_all(tasks_);
	}
	Noise(const Noise &) = delete;
	Noise &operator=(const Noise &) = delete;

private:
	std::atomic<bool> over_{false};
	std::vector<test::Task> tasks_;
};

TEST(Tie, ATaskGoesOnWithItsThread)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2, 4}, [] {
		const Noise noise(4);
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0};

		for (int i = 0; i < 100; i++)
			tasks.emplace_back([&, i] {
				for (int j = 0; j < test::scaled(50); j++) {
					moved += !stays_over(
						[&] { sn_sleep((i % 7) * 50 * test::us); });
					moved += !stays_over([&] { sn_yield(); });
					// So that the next round may begin on any thread.
					sn_sleep(test::us);
				}
			});
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
	});
}

// Tried again, because the processor is lent to another thread if the kernel does not let this one
// run for long enough.
TASK_TEST(Tie, ItsThreadRunsOthersMeanwhile, 1)
{
	bool was_here = false;

	for (int i = 0; i < 20 && !was_here; i++) {
		Channel channel;
		const long here = thread_id();

		test::Task other([&] {
			was_here = here == thread_id();
			channel.send();
		});
		EXPECT_TRUE(stays_over([&] { channel.receive(); }));
		other.join();
	}
	EXPECT_TRUE(was_here);
}

// Woken by tasks, by timers, and by foreign threads, on each other's threads.
TEST(Tie, WakeUpsFromEverywhereReachTheThread)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2, 4}, [] {
		const int pairs = 20, rounds = test::scaled(500);
		std::vector<Channel> to(pairs), back(pairs);
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0};

		for (int i = 0; i < pairs; i++) {
			tasks.emplace_back([&, i] {
				for (int j = 0; j < rounds; j++) {
					to[i].send();
					moved += !stays_over([&] { back[i].receive(); });
				}
			});
			tasks.emplace_back([&, i] {
				for (int j = 0; j < rounds; j++) {
					moved += !stays_over([&] { to[i].receive(); });
					back[i].send();
				}
			});
		}
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
	});
}

// There are more threads with tied tasks than processors, because each thread was blocked once.
TEST(Tie, ManyThreadsTakeTurnsOnFewProcessors)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		const int n = 16;
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0}, in{0};
		Pipe pipe;
		std::set<long> threads;
		// a std::mutex, because a task that waits for sennit's may continue on another
		// thread
		std::mutex lock;

		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				in++;
				pipe.read_byte();
				lock.lock();
				threads.insert(thread_id());
				lock.unlock();
				for (int j = 0; j < test::scaled(200); j++)
					moved += !stays_over([&] { sn_sleep(100 * test::us); });
			});
		EXPECT_TRUE(test::eventually([&] { return in == n; }));
		for (int i = 0; i < n; i++)
			pipe.write_byte();
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
		EXPECT_GT(threads.size(), 2U);
	});
}

TEST(Tie, ATaskWaitsWhileItsThreadIsBlockedForAMoment)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		Pipe pipe;
		Channel channel;
		std::atomic<bool> blocks{false}, back{false};
		const long here = thread_id();

		// On the same thread, because it is the next task that this thread runs.
		test::Task blocker([&] {
			blocks = thread_id() == here;
			channel.send();
			pipe.read_byte();
			back = true;
		});
		test::Task helper([&] {
			sn_sleep(50 * test::ms);
			pipe.write_byte();
		});
		EXPECT_TRUE(stays_over([&] { channel.receive(); }));
		if (blocks) {
			EXPECT_TRUE(back);
		}
		blocker.join();
		helper.join();
	});
}

// Each type occupies the tied task's thread with something that only the tied task can end.
template <class F>
void expect_moved(F stick)
{
	test::Environment soon("SENNIT_HOOKS_STAY", "20");

	test::run(1, [&] {
		Channel channel;
		int stayed = -1;

		// With one processor there is one thread until something blocks.
		test::Task tied([&] {
			EXPECT_EQ(1, sn_foreign_tie());
			channel.receive();
			stayed = sn_foreign_untie() == 0;
			stick.release();
		});
		test::Task sticks([&] {
			channel.send();
			stick.hold();
		});
		tied.join();
		sticks.join();
		EXPECT_EQ(0, stayed);
	});
}

TEST(Tie, ATaskMovesIfItsThreadStaysBlocked)
{
	struct Blocks {
		void hold() const { pipe.read_byte(); }
		void release() const { pipe.write_byte(); }
		Pipe pipe;
	};

	const Blocks blocks;

	expect_moved<const Blocks &>(blocks);
}

TEST(Tie, ATaskMovesIfItsThreadComputes)
{
	struct Computes {
		void hold()
		{
			while (!over.load(std::memory_order_relaxed))
				;
		}
		void release() { over = true; }
		std::atomic<bool> over{false};
	} computes;

	expect_moved<Computes &>(computes);
}

// A task that holds its thread.
struct Pins {
	void hold()
	{
		EXPECT_EQ(0, sn_pin());
		channel.receive();
		EXPECT_EQ(0, sn_unpin());
	}
	void release() { channel.send(); }
	Channel channel;
};

TEST(Tie, ATaskMovesIfItsThreadIsPinned)
{
	Pins pins;

	expect_moved<Pins &>(pins);
}

// The time within which a tied task moves: the patience and a fifth (docs/guarantees.md). Tools
// that slow the monitor down get more.
constexpr int64_t most(int64_t patience)
{
	return TEST_TSAN || TEST_ASAN || TEST_EMULATED ? 10 * patience : patience * 6 / 5;
}

// How long a tied task waits for its thread, which hold() keeps, before it continues elsewhere.
template <class F>
int64_t time_to_move(F &stick)
{
	Channel channel;
	std::atomic<int64_t> sent{0};
	int64_t moved_at = 0;
	bool moved = false;

	test::Task tied([&] {
		EXPECT_EQ(1, sn_foreign_tie());
		channel.receive();
		moved_at = sn_now();
		moved = sn_foreign_untie() == 1;
		stick.release();
	});
	test::Task sticks([&] {
		sent = sn_now();
		channel.send();
		stick.hold();
	});
	tied.join();
	sticks.join();
	EXPECT_TRUE(moved);
	return moved_at - sent;
}

// Never earlier than after the patience, and not later than most() says. The machine may delay
// that, so one attempt of several has to be that early.
template <class F>
void expect_patience(F make)
{
	constexpr int64_t patience = 300 * test::ms;
	test::Environment of("SENNIT_HOOKS_STAY", "300");
	int64_t shortest = INT64_MAX;

	test::run(1, [&] {
		for (int i = 0; i < 10 && shortest > most(patience); i++) {
			auto stick = make();
			const int64_t time = time_to_move(*stick);

			EXPECT_GE(time, patience);
			shortest = std::min(shortest, time);
		}
	});
	EXPECT_LE(shortest, most(patience));
}

TEST(Tie, ATaskWaitsForABlockedThreadForThePatience)
{
	struct Blocks {
		void hold() const { pipe.read_byte(); }
		void release() const { pipe.write_byte(); }
		Pipe pipe;
	};

	expect_patience([] { return std::make_unique<Blocks>(); });
}

TEST(Tie, ATaskWaitsForAPinnedThreadForThePatience)
{
	expect_patience([] { return std::make_unique<Pins>(); });
}

// More than the monitor serves at a look. All tied tasks are woken together, while their threads
// are blocked. Returns how long the last of those that have moved has waited.
int64_t time_to_move_many()
{
	const int n = test::scaled(300);
	std::vector<Channel> channels(n);
	std::vector<Pipe> pipes(n);
	std::vector<test::Task> tasks;
	std::atomic<int> parked{0}, moved{0};
	std::atomic<int64_t> last{0};

	for (int i = 0; i < n; i++) {
		tasks.emplace_back([&, i] {
			EXPECT_EQ(1, sn_foreign_tie());
			parked++;
			channels[i].receive();
			const int64_t now = sn_now();
			if (sn_foreign_untie() == 1) {
				moved++;
				last = std::max<int64_t>(last, now);
			}
			pipes[i].write_byte();
		});
		while (parked <= i)
			sn_yield();
		tasks.emplace_back([&, i] { pipes[i].read_byte(); });
		sn_yield();
	}
	const int64_t woken = sn_now();
	for (Channel &each : channels)
		each.send();
	test::join_all(tasks);
	EXPECT_GE(moved, n / 2);
	return last - woken;
}

TEST(Tie, TasksOfManyBlockedThreadsWaitNoLonger)
{
	test::Environment patience("SENNIT_HOOKS_STAY", "1000");
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < 5 && shortest > most(1000 * test::ms); i++)
		test::run(1, [&] { shortest = std::min(shortest, time_to_move_many()); });
	EXPECT_LE(shortest, most(1000 * test::ms));
}

// A task that blocks its thread does not share one with tied tasks: either it was spawned with
// SN_TASK_BLOCKS, or it has made tied tasks wait before. Each time that it blocks, only a tied task
// can release it, so if it were on their thread, it would block forever.
void expect_apart(uint32_t flags)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [&] {
		Pipe pipe;
		std::atomic<int> moved{0};
		std::atomic<bool> waits{false}, over{false};
		std::vector<test::Task> tasks;
		struct sn_task_attr attr = {};

		attr.flags = flags;
		for (int i = 0; i < 20; i++)
			tasks.emplace_back([&] {
				while (!over) {
					moved += !stays_over([&] { sn_sleep(test::ms); });
					if (waits.exchange(false))
						pipe.write_byte();
				}
			});
		test::Task blocker(
			[&] {
				// So that it makes the others wait at least once.
				for (int i = 0; flags == 0 && i < 50; i++) {
					usleep(5000);
					sn_sleep(test::ms);
				}
				for (int i = 0; i < 20; i++) {
					sn_sleep(test::ms);
					waits = true;
					pipe.read_byte();
				}
			},
			&attr);
		blocker.join();
		over = true;
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
	});
}

TEST(Tie, ATaskMovesIfItsThreadEndsWithAPinnedTask)
{
	const test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		int ended = 0;

		for (int i = 0; i < test::scaled(100); i++) {
			Channel channel;
			std::atomic<long> home{0}, gone{0};
			std::atomic<bool> stayed{true};
			test::Task waits([&] {
				home = thread_id();
				stayed = stays_over([&] { channel.receive(); });
			});
			sn_yield();
			test::Task ends([&] {
				gone = thread_id();
				EXPECT_EQ(0, sn_pin());
			});
			ends.join();
			channel.send();
			waits.join();
			if (home == gone) {
				ended++;
				EXPECT_FALSE(stayed);
			}
		}
		EXPECT_GT(ended, 0);
	});
}

TEST(Tie, ATaskThatSaysThatItBlocksMakesNoTaskWait)
{
	expect_apart(SN_TASK_BLOCKS);
}

TEST(Tie, ATaskThatHasMadeOthersWaitDoesSoOnce)
{
	expect_apart(0);
}

// The threads of such tasks are used again for the next ones.
TEST(Tie, TasksThatBlockShareFewThreads)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0};
		struct sn_task_attr attr = {};
		struct sn_run_stats stats;
		sn_waitgroup over = SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(&over, 1));
		attr.flags = SN_TASK_BLOCKS;
		for (int i = 0; i < 100; i++) {
			test::Task blocker([] { usleep(200); }, &attr);

			blocker.join();
			// Tied to the thread on which it happens to begin.
			tasks.emplace_back([&] {
				moved += !stays_over(
					[&] { EXPECT_EQ(0, sn_waitgroup_wait(&over)); });
			});
		}
		EXPECT_EQ(0, sn_run_stats(&stats));
		EXPECT_LE(stats.threads, 20U);
		sn_waitgroup_done(&over);
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
	});
}

// Idle threads end after two seconds, if there are more threads than processors.
TEST(Tie, AnIdleThreadStaysForItsTasks)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run(1, [] {
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0}, in{0};
		const int n = 4;
		Pipe pipe;

		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				in++;
				pipe.read_byte();
				moved += !stays_over([&] { sn_sleep(3 * test::second); });
			});
		EXPECT_TRUE(test::eventually([&] { return in == n; }));
		for (int i = 0; i < n; i++)
			pipe.write_byte();
		test::join_all(tasks);
		EXPECT_EQ(0, moved);
		EXPECT_TRUE(test::eventually([] {
			struct sn_run_stats stats;

			EXPECT_EQ(0, sn_run_stats(&stats));
			return stats.threads <= 2;
		})) << "the threads stay although nothing is tied to them";
	});
}

TASK_TEST(Tie, CancellationReachesATiedTask, 1, 2)
{
	Channel channel;
	sn_scope *scope;

	ASSERT_EQ(0, sn_scope_open(&scope, sn_now() + 10 * test::ms));
	EXPECT_TRUE(stays_over([&] {
		char byte;

		EXPECT_EQ(-ETIMEDOUT, sn_chan_recv(channel.chan, &byte));
	}));
	sn_scope_close(scope);
}

TASK_TEST(Tie, TheRunEndsWithTiedTasks, 1, 2)
{
	static sn_chan *chan;
	std::atomic<int> in{0};

	ASSERT_EQ(0, sn_chan_new(&chan, 1, 1));
	for (int i = 0; i < 50; i++)
		EXPECT_EQ(0, sn_go(
				     [](void *counter) {
					     char byte;

					     (*static_cast<std::atomic<int> *>(counter))++;
					     sn_foreign_tie();
					     const int err = sn_chan_recv(chan, &byte);
					     sn_foreign_untie();
					     return err;
				     },
				     &in));
	EXPECT_TRUE(test::eventually([&] { return in == 50; }));
	// Some of these are runnable when the run ends.
	for (int i = 0; i < 20; i++)
		(void)!sn_chan_try_send(chan, "x");
}

// The limit of threads is reached, each has tied tasks, and one of them is blocked.
TEST(Tie, WorksAtTheLimitOfThreads)
{
	test::Environment most("SENNIT_MAX_THREADS", "3"), never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0}, in{0};
		Pipe pipe;

		test::Task blocked([&] { pipe.read_byte(); });
		for (int i = 0; i < 20; i++)
			tasks.emplace_back([&] {
				usleep(1000);
				in++;
				for (int j = 0; j < test::scaled(100); j++)
					moved += !stays_over([&] { sn_sleep(100 * test::us); });
			});
		// The others may be tied to the thread that is blocked, so it is released before
		// the end.
		EXPECT_TRUE(test::eventually([&] { return in >= 10; }));
		pipe.write_byte();
		test::join_all(tasks);
		blocked.join();
		EXPECT_EQ(0, moved);
	});
}

// A scanner that has claimed a task's stack queues the task again when it is done.
TEST(Tie, AScannedTaskGoesOnWithItsThread)
{
	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	test::run({1, 2}, [] {
		std::vector<test::Task> tasks;
		std::atomic<int> moved{0};
		std::atomic<bool> over{false};

		for (int i = 0; i < 20; i++)
			tasks.emplace_back([&] {
				for (int j = 0; j < test::scaled(300); j++)
					moved += !stays_over([&] { sn_sleep(20 * test::us); });
			});
		// The handles: the tasks themselves may have ended.
		std::vector<sn_task *> scanned;
		for (test::Task &each : tasks)
			scanned.push_back(each.get());
		test::Task scanner([&] {
			while (!over) {
				for (sn_task *task : scanned)
					sn_task_scan(
						task,
						[](const struct sn_scan *, void *) {
							EXPECT_EQ(nullptr, sn_foreign_self());
							EXPECT_TRUE(sn_private_is_runtime());
						},
						nullptr);
				sn_sleep(test::us);
			}
		});
		test::join_all(tasks);
		over = true;
		scanner.join();
		EXPECT_EQ(0, moved);
	});
}

TEST(Tie, FewerProcessorsLoseNoTask)
{
	cpu_set_t all, one;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof all, &all));
	if (CPU_COUNT(&all) < 2)
		GTEST_SKIP() << "there is one CPU";
	CPU_ZERO(&one);
	for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);

	test::Environment never("SENNIT_HOOKS_STAY", NEVER_MOVES);

	unsetenv("SENNIT_PROCS");
	EXPECT_EQ(0,
		  sn_run(
			  [](void *mask) {
				  std::vector<test::Task> tasks;
				  std::atomic<int> moved{0};
				  std::atomic<bool> over{false};

				  for (int i = 0; i < 50; i++)
					  tasks.emplace_back([&] {
						  while (!over)
							  moved += !stays_over(
								  [] { sn_sleep(200 * test::us); });
					  });
				  // The monitor counts CPUs by the mask of the process's first
				  // thread.
				  EXPECT_EQ(0, sched_setaffinity(getpid(), sizeof(cpu_set_t),
								 static_cast<cpu_set_t *>(mask)));
				  EXPECT_TRUE(test::eventually([] {
					  struct sn_run_stats stats;

					  EXPECT_EQ(0, sn_run_stats(&stats));
					  return stats.processors == 1;
				  }));
				  over = true;
				  test::join_all(tasks);
				  EXPECT_EQ(0, moved);
				  return 0;
			  },
			  &one));
	EXPECT_EQ(0, sched_setaffinity(getpid(), sizeof all, &all));
}

TEST(Tie, IsNothingWhereItCannotBe)
{
	EXPECT_EQ(-ENOTSUP, sn_foreign_tie());
	EXPECT_EQ(-ENOTSUP, sn_foreign_untie());
	EXPECT_FALSE(sn_private_is_runtime());
	test::run(1, [] {
		EXPECT_TRUE(sn_private_is_runtime());
		EXPECT_EQ(0, sn_foreign_untie());
		EXPECT_EQ(0, sn_foreign_may_park());
		EXPECT_EQ(1, sn_foreign_tie());
		EXPECT_EQ(-EINTR, sn_foreign_may_park());
		EXPECT_EQ(0, sn_foreign_tie());
		EXPECT_EQ(0, sn_foreign_untie());
		EXPECT_EQ(0, sn_foreign_may_park());
		EXPECT_EQ(0, sn_pin());
		EXPECT_EQ(0, sn_foreign_tie());
		EXPECT_EQ(0, sn_foreign_untie());
		EXPECT_EQ(0, sn_unpin());

		const pid_t child = fork();

		if (child == 0)
			_exit(sn_foreign_tie() == -ENOTSUP ? 0 : 1);

		int status = 0;

		EXPECT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
	});
}

TEST(Tie, CanBeSwitchedOff)
{
	test::Environment off("SENNIT_HOOKS_STAY", "0");

	test::run(1, [] {
		EXPECT_EQ(0, sn_foreign_tie());
		EXPECT_EQ(0, sn_sleep(test::ms));
		EXPECT_EQ(0, sn_foreign_untie());
	});
}

TEST(Tie, APatienceThatIsNoneIsRefused)
{
	for (const char *wish : {"-1", "soon"}) {
		test::Environment stay("SENNIT_HOOKS_STAY", wish);

		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr));
	}
}

} // namespace
