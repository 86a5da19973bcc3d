// SPDX-License-Identifier: MIT
// Labels: machine
//
// Scanning a task's stack: in every state that a task can be in, from every thread that may ask,
// and with every misuse that scan.h describes. Also a stress test of all this at the same time.
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "support/internals.h"
#include "support/runtime.h"

#if defined(__clang__) || defined(__GNUC__)
#	define UNCHECKED __attribute__((no_sanitize("address", "thread"), noinline))
#endif

namespace
{

// A value that occurs nowhere else in memory.
constexpr uintptr_t marker(uintptr_t n)
{
	return (uintptr_t)0x5e6e17a5c0de0000u ^ n * 8;
}

// Whether the value is on the stack or in a register, which is how a collector would find it.
UNCHECKED bool between(const void *low, const void *high, uintptr_t value)
{
	if (!low)
		return false;
	auto *at = reinterpret_cast<const uintptr_t *>(
		(reinterpret_cast<uintptr_t>(low) + sizeof(uintptr_t) - 1) &
		~(sizeof(uintptr_t) - 1));

	for (; at + 1 <= high; at++)
		if (*at == value)
			return true;
	return false;
}

bool refers(const struct sn_scan *scan, uintptr_t value)
{
	for (unsigned i = 0; i < scan->register_count; i++)
		if (scan->registers[i] == value)
			return true;
	return between(scan->stack_low, scan->stack_high, value) ||
	       between(scan->own_low, scan->own_high, value);
}

struct Sight {
	uintptr_t wanted;
	std::atomic<int> calls{0};
	std::atomic<bool> found{false}, ended{false}, interrupted{false};
	sn_task *task = nullptr;

	explicit Sight(uintptr_t value) : wanted(~value) {}
	static void see(const struct sn_scan *scan, void *arg)
	{
		auto *sight = static_cast<Sight *>(arg);

		if (scan) {
			sight->found = refers(scan, ~sight->wanted);
			sight->interrupted = scan->interrupted;
			sight->task = scan->task;
		} else {
			sight->ended = true;
		}
		sight->calls++;
	}
};

int scan(const test::Task &task, Sight &sight)
{
	return sn_task_scan(task.get(), Sight::see, &sight);
}

enum sn_task_state state(const sn_task *task)
{
	struct Found {
		const sn_task *task;
		enum sn_task_state state;
	} found{task, SN_STATE_ENDED};

	sn_tasks_each(
		[](const struct sn_task_info *info, void *arg) {
			auto *f = static_cast<Found *>(arg);

			if (info->task == f->task)
				f->state = info->state;
			return 0;
		},
		&found);
	return found.state;
}

bool comes_to(const test::Task &task, enum sn_task_state wanted)
{
	return test::eventually([&] { return state(task.get()) == wanted; });
}

TASK_TEST(Scan, AParkedTasksStackIsSeen)
{
	test::Task task([] {
		volatile uintptr_t kept = marker(1);

		sn_sleep(INT64_MAX);
		return int(kept);
	});
	Sight sight(marker(1)), other(marker(2));

	ASSERT_TRUE(comes_to(task, SN_STATE_PARKED));
	EXPECT_EQ(0, scan(task, sight));
	EXPECT_EQ(1, sight.calls);
	EXPECT_TRUE(sight.found);
	EXPECT_EQ(task.get(), sight.task);
	EXPECT_FALSE(sight.interrupted);
	EXPECT_EQ(0, scan(task, other));
	EXPECT_FALSE(other.found);
	task.detach();
}

TEST(Scan, ATaskThatNeverRanShowsItsArgument)
{
	// If the machine stalled this thread for long, leases would let another thread run the
	// task.
	test::Environment leases("SENNIT_LEASES", "0");

	test::run(1, [] {
		uintptr_t value = marker(3);
		struct sn_task_attr attr = {};
		sn_task *task;
		Sight sight(value);

		attr.arg_size = sizeof value;
		ASSERT_EQ(0, sn_spawn(
				     &task,
				     [](void *arg) {
					     return int(*static_cast<uintptr_t *>(arg) == 0);
				     },
				     &value, &attr));
		value = 0;
		EXPECT_EQ(SN_STATE_RUNNABLE, state(task));
		EXPECT_EQ(0, sn_task_scan(task, Sight::see, &sight));
		EXPECT_TRUE(sight.found);
		EXPECT_EQ(0, sn_join(task, nullptr));
	});
}

// On two processors, the task runs and enters the runtime again and again without parking.
TEST(Scan, ARunningTaskServesAtItsNextEntry)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");

	test::run(2, [] {
		std::atomic<bool> stop{false};
		test::Task task([&] {
			volatile uintptr_t kept = marker(4);

			while (!stop) {
				sn_pin();
				sn_unpin();
			}
			return int(kept);
		});

		ASSERT_TRUE(comes_to(task, SN_STATE_RUNNING));
		for (int i = 0; i < 100; i++) {
			Sight sight(marker(4));

			ASSERT_EQ(0, scan(task, sight));
			ASSERT_EQ(1, sight.calls);
			ASSERT_TRUE(sight.found);
		}
		stop = true;
		task.join();
	});
}

// The task stays in its own code forever, so a signal interrupts it. TSan delivers that only in
// calls of the C library.
TASK_TEST(Scan, ATaskInALoopIsInterrupted, 2, 4)
{
	std::atomic<bool> stop{false}, keeps{false};
	test::Task task([&] {
		volatile uintptr_t kept = marker(5);

		keeps = true;
		while (!stop)
			if (TEST_TSAN)
				usleep(10);
		return int(kept);
	});

	ASSERT_TRUE(test::eventually([&] {
		const enum sn_task_state now = state(task.get());
		return keeps && (now == SN_STATE_RUNNING || now == SN_STATE_BLOCKING);
	}));
	for (int i = 0; i < 5; i++) {
		Sight sight(marker(5));

		ASSERT_EQ(0, scan(task, sight));
		EXPECT_EQ(1, sight.calls);
		EXPECT_TRUE(sight.found);
		EXPECT_TRUE(sight.interrupted);
	}
	stop = true;
	task.join();
}

// The runtime's signal interrupts its task in the function of a scan, where the runtime does not
// know the thread. That signal must not be passed to the program. The next one comes from the
// program, and must not be taken for the runtime's.
TEST(Scan, ASignalDuringAScansFunctionIsNobodyElses)
{
	static std::atomic<int> of_the_program;
	struct sigaction own = {}, former;

	of_the_program = 0;
	own.sa_handler = [](int) { of_the_program++; };
	ASSERT_EQ(0, sigaction(SIGURG, &own, &former));
	test::run({2, 4}, [] {
		static std::atomic<bool> inside, stop;
		std::atomic<bool> end{false}, served{false};
		test::Task parked([&] {
			while (!end)
				sn_sleep(test::ms);
			return 0;
		});

		of_the_program = 0;
		inside = stop = false;
		test::Task scanner([&] {
			const int err = sn_task_scan(
				parked.get(),
				[](const struct sn_scan *, void *) {
					inside = true;
					while (!stop)
						if (TEST_TSAN)
							usleep(10);
				},
				nullptr);

			EXPECT_EQ(0, err);
			while (!served)
				sn_sleep(test::ms);
			EXPECT_EQ(0, of_the_program) << "the runtime's signal was passed on";
			raise(SIGURG);
			EXPECT_EQ(1, of_the_program);
			return 0;
		});
		ASSERT_TRUE(test::eventually([] { return inside.load(); }));
		// Long enough for the scanner to repeat its request as a signal.
		std::thread releaser([] {
			for (int i = 0; i < 200 && of_the_program == 0; i++)
				usleep(1000);
			stop = true;
		});
		Sight sight(marker(7));
		EXPECT_EQ(0, scan(scanner, sight));
		served = true;
		scanner.join();
		end = true;
		parked.join();
		releaser.join();
	});
	EXPECT_EQ(0, sigaction(SIGURG, &former, nullptr));
}

// The task sleeps in a system call, which continues after the scan as if nothing had happened.
void scan_a_reader(bool bracket, bool alone)
{
	int ends[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	std::atomic<bool> keeps{false};
	test::Task task([&] {
		volatile uintptr_t kept = marker(6);
		char byte;

		keeps = true;
		if (bracket)
			sn_enter_blocking_as("read");
		// TSan delays a signal until a call that it knows to block; that call then returns
		// early.
		struct pollfd readable = {ends[0], POLLIN, 0};
		while (TEST_TSAN && poll(&readable, 1, -1) < 0 && errno == EINTR)
			;
		ssize_t n = read(ends[0], &byte, 1);
		if (bracket)
			sn_exit_blocking();
		return n == 1 && kept == marker(6) ? 5 : -errno;
	});
	ASSERT_TRUE(test::eventually([&] { return keeps.load(); }));
	if (!alone) {
		ASSERT_TRUE(comes_to(task, SN_STATE_BLOCKING));
	}
	for (int i = 0; i < 5; i++) {
		Sight sight(marker(6));

		ASSERT_EQ(0, scan(task, sight));
		EXPECT_EQ(1, sight.calls);
		EXPECT_TRUE(sight.found);
	}
	EXPECT_EQ(1, write(ends[1], "x", 1));
	EXPECT_EQ(5, task.join());
	close(ends[0]);
	close(ends[1]);
}

TEST(Scan, ATaskInASystemCallIsSeenAndNotDisturbed)
{
	for (bool bracket : {true, false}) {
		test::run(1, [bracket] { scan_a_reader(bracket, false); });
		test::run({2, 4}, [bracket] { scan_a_reader(bracket, true); });
	}
}

// The task has returned from a blocking call, and waits because no processor is free.
TEST(Scan, ATaskThatWaitsForAProcessorIsSeen)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");

	test::run(1, [] {
		std::atomic<bool> go{false}, back{false}, seen{false};
		test::Task task([&] {
			volatile uintptr_t kept = marker(7);

			sn_enter_blocking();
			while (!go)
				usleep(100);
			back = true;
			sn_exit_blocking();
			while (!seen)
				sn_sleep(100 * test::us);
			return int(kept != marker(7));
		});
		ASSERT_TRUE(comes_to(task, SN_STATE_BLOCKING));
		go = true;
		while (!back)
			;
		// This task has the only processor, until the monitor takes it away.
		Sight sight(marker(7));
		const int64_t end = sn_now() + test::patience;
		while (state(task.get()) == SN_STATE_BLOCKING && sn_now() < end)
			;
		EXPECT_EQ(0, scan(task, sight));
		EXPECT_EQ(1, sight.calls);
		EXPECT_TRUE(sight.found);
		seen = true;
		EXPECT_EQ(0, task.join());
	});
}

TASK_TEST(Scan, ARunningTaskServesAnAsynchronousScan, 2, 4)
{
	std::atomic<bool> begun{false}, stop{false}, park{false};
	test::Task task([&] {
		volatile uintptr_t kept = marker(8);

		begun = true; // it is running before it has the marker
		while (!stop) {
			if (park)
				sn_sleep(INT64_MAX);
			sn_pin();
			sn_unpin();
		}
		return int(kept);
	});
	ASSERT_TRUE(test::eventually([&] { return begun.load(); }));
	ASSERT_TRUE(comes_to(task, SN_STATE_RUNNING));
	Sight sight(marker(8)), second(marker(8));

	EXPECT_EQ(0, sn_task_scan_async(task.get(), Sight::see, &sight));
	EXPECT_TRUE(test::eventually([&] { return sight.calls == 1; }));
	EXPECT_TRUE(sight.found);
	park = true;
	ASSERT_TRUE(comes_to(task, SN_STATE_PARKED));
	EXPECT_EQ(0, sn_task_scan_async(task.get(), Sight::see, &second));
	EXPECT_EQ(1, second.calls); // the scanner called it
	EXPECT_TRUE(second.found);
	task.detach();
}

TEST(Scan, APendingRequestIsServedWhenTheTaskEnds)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");

	test::run(2, [] {
		std::atomic<bool> stop{false}, runs{false};
		test::Task task([&] {
			runs = true;
			while (!stop)
				usleep(100);
		});
		Sight sight(marker(9));

		ASSERT_TRUE(test::eventually([&] { return runs.load(); }));
		EXPECT_EQ(0, sn_task_scan_async(task.get(), Sight::see, &sight));
		EXPECT_EQ(-EBUSY, sn_task_scan_async(task.get(), Sight::see, &sight));
		EXPECT_EQ(-EBUSY, sn_task_scan(task.get(), Sight::see, &sight));
		EXPECT_EQ(0, sight.calls);
		stop = true;
		task.join();
		// the request was served when the task entered the runtime to end
		EXPECT_EQ(1, sight.calls);
		EXPECT_FALSE(sight.ended);
	});
}

// ---- misuse ----

TEST(Scan, MistakesAreErrors)
{
	Sight sight(0);

	test::run([&] {
		test::Task ended([] {});

		EXPECT_EQ(-EINVAL, sn_task_scan(nullptr, Sight::see, &sight));
		EXPECT_EQ(-EINVAL, sn_task_scan(ended.get(), nullptr, &sight));
		EXPECT_EQ(-EINVAL, sn_task_scan_async(nullptr, Sight::see, &sight));
		EXPECT_EQ(-EDEADLK, sn_task_scan(sn_self(), Sight::see, &sight));
		EXPECT_EQ(-EDEADLK, sn_task_scan_async(sn_self(), Sight::see, &sight));
		ASSERT_TRUE(comes_to(ended, SN_STATE_ENDED));
		EXPECT_EQ(-ESRCH, sn_task_scan(ended.get(), Sight::see, &sight));
		EXPECT_EQ(-ESRCH, sn_task_scan_async(ended.get(), Sight::see, &sight));
		EXPECT_EQ(0, sight.calls);
		ended.join();
	});
	EXPECT_EQ(-ESRCH, sn_task_scan(reinterpret_cast<sn_task *>(64), Sight::see, &sight));
}

struct Callbacks {
	sn_task *scanned, *other;
	sn_chan *full;
	sn_mutex *taken;
	std::atomic<int> calls{0};
};

// Tests what scan.h says about calls of sennit in a callback.
void call_back(const struct sn_scan *, void *arg)
{
	auto *c = static_cast<Callbacks *>(arg);
	int value = 1, unused = 0;

	EXPECT_EQ(-EDEADLK, sn_task_scan(c->other, call_back, arg));
	EXPECT_EQ(-EDEADLK, sn_task_scan(c->scanned, call_back, arg));
	EXPECT_EQ(-EDEADLK, sn_task_scan_async(c->other, call_back, arg));
	EXPECT_EQ(-ENOTSUP, sn_yield());
	EXPECT_EQ(-ENOTSUP, sn_sleep(1));
	EXPECT_EQ(-ENOTSUP, sn_join(c->other, &unused));
	EXPECT_EQ(-ENOTSUP, sn_pin());
	EXPECT_EQ(-EDEADLK, sn_chan_send(c->full, &value));
	EXPECT_EQ(-EDEADLK, sn_mutex_lock(c->taken));
	EXPECT_EQ(nullptr, sn_self());
	EXPECT_EQ(0, sn_go([](void *) { return 0; }, nullptr));
	EXPECT_EQ(-EALREADY, sn_run([](void *) { return 0; }, nullptr));
	EXPECT_EQ(7, sn_blocking([](void *) { return 7; }, nullptr));
	sn_enter_blocking();
	sn_exit_blocking();
	c->calls++;
}

TEST(Scan, ACallbackMayCallButNotWait)
{
	// No signals: a task whose thread the machine delays would otherwise be scanned in a signal
	// handler, where spawning is not safe, because it may allocate.
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");

	test::run({2, 4}, [] {
		Callbacks c{};
		sn_mutex mutex = SN_MUTEX_INIT;
		std::atomic<bool> stop{false};
		int value = 0;

		ASSERT_EQ(0, sn_chan_new(&c.full, sizeof value, 1));
		ASSERT_EQ(0, sn_chan_send(c.full, &value));
		ASSERT_EQ(0, sn_mutex_lock(&mutex));
		c.taken = &mutex;
		test::Task other([] { sn_sleep(INT64_MAX); });
		test::Task parked([] { sn_sleep(INT64_MAX); });
		test::Task entering([&] {
			while (!stop) {
				sn_pin();
				sn_unpin();
			}
		});
		c.other = other.get();
		c.scanned = parked.get();
		ASSERT_TRUE(comes_to(parked, SN_STATE_PARKED));
		ASSERT_TRUE(comes_to(entering, SN_STATE_RUNNING));
		EXPECT_EQ(0, sn_task_scan(parked.get(), call_back, &c));
		EXPECT_EQ(0, sn_task_scan(entering.get(), call_back, &c));
		std::thread([&] {
			EXPECT_EQ(0, sn_task_scan(parked.get(), call_back, &c));
		}).join();
		EXPECT_EQ(3, c.calls);
		EXPECT_EQ(0, sn_yield()); // everything works as before the scan
		stop = true;
		entering.join();
		other.detach();
		parked.detach();
		EXPECT_EQ(0, sn_mutex_unlock(&mutex));
		ASSERT_TRUE(test::eventually([] { return test::stats().tasks_alive <= 3; }));
		sn_chan_unref(c.full);
	});
}

struct Hold {
	std::atomic<bool> held{false}, let_go{false};

	static void hold(const struct sn_scan *, void *arg)
	{
		auto *h = static_cast<Hold *>(arg);

		h->held = true;
		while (!h->let_go)
			usleep(100);
	}
};

TASK_TEST(Scan, AConcurrentScanIsBusy)
{
	test::Task task([] { sn_sleep(INT64_MAX); });
	Hold hold;
	Sight sight(0);

	ASSERT_TRUE(comes_to(task, SN_STATE_PARKED));
	std::thread holder([&] { EXPECT_EQ(0, sn_task_scan(task.get(), Hold::hold, &hold)); });
	ASSERT_TRUE(test::eventually([&] { return hold.held.load(); }));
	EXPECT_EQ(-EBUSY, scan(task, sight));
	// An asynchronous request waits for the owner instead of failing.
	EXPECT_EQ(0, sn_task_scan_async(task.get(), Sight::see, &sight));
	EXPECT_EQ(0, sight.calls);
	hold.let_go = true;
	holder.join();
	EXPECT_EQ(1, sight.calls);
	EXPECT_EQ(0, scan(task, sight));
	task.detach();
}

// While a scanner owns a task's stack, the task can be woken but does not run. No other task or
// thread waits for the scanner.
TASK_TEST(Scan, AWokenTaskRunsWhenItsStackIsGivenBack)
{
	sn_chan *chan;
	std::atomic<int> got{0};
	Hold hold;
	int value = 3;

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof value, 0));
	test::Task task([&] {
		int item = 0;

		EXPECT_EQ(0, sn_chan_recv(chan, &item));
		got = item;
	});
	ASSERT_TRUE(comes_to(task, SN_STATE_PARKED));
	std::thread holder([&] { EXPECT_EQ(0, sn_task_scan(task.get(), Hold::hold, &hold)); });
	ASSERT_TRUE(test::eventually([&] { return hold.held.load(); }));
	EXPECT_EQ(0, sn_chan_send(chan, &value));
	for (int i = 0; i < 20; i++) // all other tasks continue
		EXPECT_EQ(0, sn_sleep(test::ms));
	EXPECT_EQ(0, got);
	EXPECT_EQ(SN_STATE_RUNNABLE, state(task.get()));
	hold.let_go = true;
	holder.join();
	task.join();
	EXPECT_EQ(3, got);
	sn_chan_unref(chan);
}

TASK_TEST(Scan, APinnedTaskIsLeftToTheScannerToo)
{
	sn_chan *chan;
	Hold hold;
	int value = 3;
	std::atomic<int> got{0};

	ASSERT_EQ(0, sn_chan_new(&chan, sizeof value, 0));
	test::Task task([&] {
		int item = 0;

		EXPECT_EQ(0, sn_pin());
		EXPECT_EQ(0, sn_chan_recv(chan, &item));
		got = item;
	});
	ASSERT_TRUE(comes_to(task, SN_STATE_PARKED));
	std::thread holder([&] { EXPECT_EQ(0, sn_task_scan(task.get(), Hold::hold, &hold)); });
	ASSERT_TRUE(test::eventually([&] { return hold.held.load(); }));
	EXPECT_EQ(0, sn_chan_send(chan, &value));
	EXPECT_EQ(0, sn_sleep(20 * test::ms));
	EXPECT_EQ(0, got);
	hold.let_go = true;
	holder.join();
	task.join();
	EXPECT_EQ(3, got);
	sn_chan_unref(chan);
}

TASK_TEST(Scan, MutualScansDoNotHang, 2, 4)
{
	std::atomic<sn_task *> tasks[2] = {};
	std::atomic<int> done{0};
	std::vector<test::Task> both;

	for (int me = 0; me < 2; me++)
		both.emplace_back([&, me] {
			tasks[me] = sn_self();
			while (!tasks[1 - me])
				sn_yield();
			for (int i = 0; i < test::scaled(2000); i++) {
				Sight sight(0);
				int err = sn_task_scan(tasks[1 - me], Sight::see, &sight);

				EXPECT_TRUE(err == 0 || err == -EBUSY) << err;
			}
			done++;
			while (done < 2)
				sn_yield();
		});
	test::join_all(both);
}

// Without leases and signals, the waiting task's processor cannot be revoked, and the other is not
// interrupted. Only the waiting task itself can give its processor away.
TEST(Scan, AWaitingScannerLetsOthersRun)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0"), leases("SENNIT_LEASES", "0");

	test::run(2, [] {
		std::atomic<bool> runs{false}, other_ran{false};
		Sight sight(0);
		test::Task asked([&] {
			runs = true;
			while (!other_ran)
				; // does not call sennit, so it does not answer
			sn_yield();
		});
		int err;

		ASSERT_TRUE(test::eventually([&] { return runs.load(); }));
		test::Task other([&] { other_ran = true; }); // queued after this task
		err = scan(asked, sight);
		EXPECT_TRUE(err == 0 || err == -ESRCH) << err;
		asked.join();
		other.join();
	});
}

TEST(Scan, APinnedScannerWaitsOnItsThread)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");

	test::run(2, [] {
		std::atomic<bool> runs{false}, stop{false};
		std::atomic<uint64_t> turns{0};
		test::Task asked([&] {
			runs = true;
			while (!stop) {
				const int64_t until = sn_now() + 100 * test::us;

				while (sn_now() < until)
					;
				sn_yield();
			}
		});
		std::vector<test::Task> others;

		for (int i = 0; i < 4; i++)
			others.emplace_back([&] {
				while (!stop) {
					turns++;
					sn_yield();
				}
			});
		ASSERT_TRUE(test::eventually([&] { return runs.load(); }));
		EXPECT_EQ(0, sn_pin());
		const pid_t thread = gettid();
		for (int i = 0; i < 20; i++) {
			Sight sight(0);

			EXPECT_EQ(0, scan(asked, sight));
			EXPECT_EQ(thread, gettid());
		}
		EXPECT_EQ(0, sn_unpin());
		stop = true;
		asked.join();
		test::join_all(others);
	});
}

// There is no other scanner, so no call may find another scan in progress, not even the previous
// call's.
TEST(Scan, MayBeRepeatedAtOnce)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0"), race("SENNIT_RACE", "1");

	test::run(2, [] {
		std::atomic<bool> runs{false}, stop{false};
		const auto turn = [&] {
			while (!stop)
				sn_yield();
		};
		test::Task asked([&] {
			runs = true;
			turn();
		}),
			other(turn);

		ASSERT_TRUE(test::eventually([&] { return runs.load(); }));
		std::thread scanner([&] {
			for (int i = 0; i < test::scaled(5000); i++) {
				Sight sight(0);

				ASSERT_EQ(0, scan(asked, sight)) << "scan " << i;
			}
		});
		scanner.join();
		stop = true;
		asked.join();
		other.join();
	});
}

std::atomic<int> chained;

TEST(Scan, TheSignalsFormerHandlerIsKept)
{
	test::Environment number("SENNIT_SCAN_SIGNAL", std::to_string(SIGUSR2));
	struct sigaction mine = {}, now;

	mine.sa_handler = [](int) { chained++; };
	ASSERT_EQ(0, sigaction(SIGUSR2, &mine, nullptr));
	test::run({2}, [] {
		std::atomic<bool> stop{false};
		test::Task task([&] {
			while (!stop)
				usleep(10);
		});
		Sight sight(0);

		EXPECT_EQ(0, scan(task, sight));
		chained = 0;
		raise(SIGUSR2);
		EXPECT_TRUE(test::eventually([] { return chained == 1; }));
		stop = true;
		task.join();
	});
	ASSERT_EQ(0, sigaction(SIGUSR2, nullptr, &now));
	EXPECT_EQ(mine.sa_handler, now.sa_handler);
	signal(SIGUSR2, SIG_DFL);
}

TEST(Scan, AnImpossibleSignalIsRefused)
{
	test::Environment number("SENNIT_SCAN_SIGNAL", "1000");

	EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr));
}

// A caller that waits for a scan when the runtime ends gets an answer, and the runtime ends.
TEST(Scan, TheEndOfTheRuntimeEndsTheWait)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");
	static std::atomic<bool> stop;
	std::atomic<int> result{1};
	std::thread scanner;
	Sight sight(0);

	stop = false;
	test::run(2, [&] {
		struct sn_task_attr attr = {};
		sn_task *task;
		std::atomic<bool> begun{false};

		ASSERT_EQ(0, sn_spawn(
				     &task,
				     [](void *arg) {
					     *static_cast<std::atomic<bool> *>(arg) = true;
					     while (!stop)
						     usleep(100);
					     return 0;
				     },
				     &begun, &attr));
		ASSERT_TRUE(test::eventually([&] { return begun.load(); }));
		std::atomic<bool> asks{false};
		scanner = std::thread([&, task] {
			asks = true;
			result = sn_task_scan(task, Sight::see, &sight);
			stop = true;
		});
		EXPECT_TRUE(test::eventually([&] { return asks.load(); }));
		// usually the caller is asleep by now, but any moment will do
		sn_sleep(5 * test::ms);
		sn_detach(task);
	});
	scanner.join();
	EXPECT_TRUE(result == -ESRCH || result == 0) << result;
}

// The same for a task that scans. It is abandoned wherever it is, even while it lets others run.
TEST(Scan, TheEndOfTheRuntimeAbandonsATaskThatWaits)
{
	test::Environment signal("SENNIT_SCAN_SIGNAL", "0");
	static std::atomic<bool> stop, runs, asks;
	static sn_task *task;
	std::thread later;

	stop = runs = asks = false;
	test::run(3, [&] {
		ASSERT_EQ(0, sn_spawn(
				     &task,
				     [](void *) {
					     runs = true;
					     while (!stop)
						     usleep(100);
					     return 0;
				     },
				     nullptr, nullptr));
		ASSERT_TRUE(test::eventually([] { return runs.load(); }));
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(0, sn_go(
					     [](void *) {
						     for (;;)
							     sn_yield();
						     return 0;
					     },
					     nullptr));
		EXPECT_EQ(0, sn_go(
				     [](void *) {
					     Sight sight(0);

					     asks = true;
					     return sn_task_scan(task, Sight::see, &sight);
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([] { return asks.load(); }));
		// usually the task lets others run by now, but any moment will do
		sn_sleep(2 * test::ms);
		sn_detach(task);
		later = std::thread([] {
			usleep(20000);
			stop = true; // usually after the end of the run has begun
		});
	});
	later.join();
}

// ---- stress ----

struct Stress {
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> transitions{0}, scans{0}, served{0}, ended{0}, wrong{0}, busy{0};
	uint64_t target = 0;
	std::vector<std::atomic<sn_task *>> targets;
	sn_chan *chan = nullptr;

	explicit Stress(size_t n) : targets(n) {}
};

struct Target {
	Stress *stress;
	size_t index;
	uint64_t seed;
	uintptr_t mark = marker(0x77); // the task keeps this on its stack for all its life
};

void look(const struct sn_scan *scan, void *arg)
{
	auto *stress = static_cast<Stress *>(arg);

	if (!scan) {
		stress->ended++;
		return;
	}
	if (!refers(scan, marker(0x77)))
		stress->wrong++;
	stress->served++;
}

// Does everything that a task can do. When it ends, its parent starts another task.
int live(void *arg)
{
	auto *target = static_cast<Target *>(arg);
	Stress *stress = target->stress;
	test::Random random(target->seed);
	int item = 0;

	for (uint64_t n = 50 + random.below(200); n > 0 && !stress->stop; n--) {
		uint64_t what = random.below(100);

		if (what < 50)
			sn_yield();
		else if (what < 65)
			sn_sleep(int64_t(random.below(20000)));
		else if (what < 75)
			(void)!sn_chan_try_send(stress->chan, &item);
		else if (what < 85)
			(void)!sn_chan_try_recv(stress->chan, &item);
		else if (what < 90)
			sn_go([](void *) { return sn_yield(); }, nullptr);
		else if (what < 98)
			for (int i = 0; i < 20; i++)
				sn_yield();
		else if (what < 99)
			// revoked if a task waits for the processor
			usleep(useconds_t(random.below(100)));
		else
			sn_blocking([](void *) { return usleep(30); }, nullptr);
	}
	return 0;
}

// Scanners take a target out of its slot during the scan, so that it is not joined before the end
// of the scan.
void scan_at_random(Stress *stress, uint64_t seed)
{
	test::Random random(seed);

	while (!stress->stop) {
		size_t index = random.below(stress->targets.size());
		sn_task *task = stress->targets[index].exchange(nullptr);
		int err;

		if (!task) {
			usleep(20);
			continue;
		}
		err = random.below(2) ? sn_task_scan(task, look, stress)
				      : sn_task_scan_async(task, look, stress);
		EXPECT_TRUE(err == 0 || err == -EBUSY || err == -ESRCH) << err;
		stress->busy += err == -EBUSY;
		stress->scans++;
		stress->targets[index] = task;
		if (random.below(4) == 0)
			usleep(useconds_t(random.below(50)));
	}
}

// Keeps a slot filled with a living task until the stress test ends.
void keep_filled(Stress *stress, size_t index, uint64_t seed)
{
	Target target{stress, index, seed};
	struct sn_task_attr attr = {};
	sn_task *task = nullptr, *mine;

	attr.arg_size = sizeof target;

	while (!stress->stop) {
		EXPECT_EQ(0, sn_spawn(&task, live, &target, &attr));
		target.seed++;
		stress->targets[index] = task;
		// Waits until the task has ended. A scan's -ESRCH, or its absence from the list,
		// would show that, too.
		while (!stress->stop && state(task) != SN_STATE_ENDED)
			sn_sleep(200000);
		while (!(mine = stress->targets[index].exchange(nullptr)))
			sn_yield();
		EXPECT_EQ(task, mine);
		EXPECT_EQ(0, sn_join(task, nullptr));
	}
}

TEST(Scan, AtRandomWhileTasksLive)
{
	// A switch is a few changes of status, so the usual form has about 10^5 switches, the long
	// one, of the nightly, 10^7, and the short one half of the usual form's.
	const char *wish = getenv("SENNIT_TEST_TRANSITIONS");
	const uint64_t wanted = wish               ? strtoull(wish, nullptr, 10)
				: test::is_short() ? 100000
						   : 200000;
	const uint64_t limit = (wish ? 900 : 20) * test::second;
	test::Random random;
	uint64_t done = 0;

	for (int processors : {1, 2, 4}) {
		Stress stress(32);
		const uint64_t seed = random.next();

		test::run(processors, [&] {
			const int64_t end = sn_now() + int64_t(limit / 3);
			std::vector<test::Task> tasks;
			std::vector<std::thread> threads;
			uint64_t switches = 0;

			ASSERT_EQ(0, sn_chan_new(&stress.chan, sizeof(int), 4));
			for (size_t i = 0; i < stress.targets.size(); i++)
				tasks.emplace_back(
					[&, i] { keep_filled(&stress, i, seed + 1000 * i); });
			for (int i = 0; i < 2; i++)
				threads.emplace_back(
					[&, i] { scan_at_random(&stress, seed + 7 + i); });
			tasks.emplace_back([&] { scan_at_random(&stress, seed + 99); });
			while (sn_now() < end) {
				sn_sleep(5 * test::ms);
				switches = test::stats().switches;
				if (switches * 3 >= wanted / 3 && stress.served > 0)
					break;
			}
			done += switches * 3;
			stress.stop = true;
			test::join_all(threads);
			test::join_all(tasks);
			ASSERT_TRUE(test::all_ended());
			sn_chan_unref(stress.chan);
		});
		printf("%d processors: %llu scans, %llu served, %llu of ended tasks, %llu busy\n",
		       processors, (unsigned long long)stress.scans.load(),
		       (unsigned long long)stress.served.load(),
		       (unsigned long long)stress.ended.load(),
		       (unsigned long long)stress.busy.load());
		EXPECT_EQ(0u, stress.wrong);
		EXPECT_GT(stress.served, 0u);
	}
	printf("%llu changes of status\n", (unsigned long long)done);
}

// ---- callbacks that call sennit ----

// The task waits on the channel, and nothing else could end the wait, so it holds the channel's
// lock until it has left its stack. A request that comes just then is served afterwards. Otherwise
// the callback would wait for a lock that its own thread holds.
TEST(ScanCallback, MayUseTheChannelThatTheTaskWaitsOn)
{
	struct Shared {
		sn_chan *chan = nullptr;
		std::atomic<int> calls{0}, sent{0};
	};

	test::run([] {
		Shared shared;
		std::atomic<bool> stop{false};
		int received = 0;

		ASSERT_EQ(0, sn_chan_new(&shared.chan, sizeof(int), 0));
		test::Task receiver([&] {
			int got;

			while (sn_chan_recv(shared.chan, &got) == 0)
				received++;
		});
		// Makes the receiver alternate between waiting and running.
		test::Task sender([&] {
			for (int i = 0; !stop; i++)
				ASSERT_EQ(0, sn_chan_send(shared.chan, &i));
		});
		std::thread asker([&] {
			const int scans = test::scaled(20000);

			for (int i = 0; i < scans;) {
				int err = sn_task_scan_async(
					receiver.get(),
					[](const struct sn_scan *, void *arg) {
						auto *s = static_cast<Shared *>(arg);
						const int one = 1;

						s->calls++;
						s->sent += sn_chan_try_send(s->chan, &one) == 0;
					},
					&shared);

				ASSERT_TRUE(err == 0 || err == -EBUSY) << err;
				i += err == 0;
			}
		});
		asker.join();
		// The last scan may still be under way.
		EXPECT_TRUE(test::eventually([&] { return shared.calls == test::scaled(20000); }));
		stop = true;
		sender.join();
		EXPECT_EQ(0, sn_chan_close(shared.chan));
		receiver.join();
		EXPECT_GE(received, shared.sent);
		sn_chan_unref(shared.chan);
	});
}

} // namespace
