// SPDX-License-Identifier: MIT
// Labels: long checked
//
// The end of a run does not wait for anything that the program may do for long: callbacks, writes
// to a pipe that nobody reads, destructors of thread-locals. The threads that are left behind
// continue where they can, and learn that their run has ended. A case that fails hangs.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <sennit/debug.h>
#include <sennit/profile.h>
#include <sennit/scan.h>

#include "support/runtime.h"

namespace
{

// A pipe whose other end the test keeps.
class Pipe
{
public:
	Pipe() { EXPECT_EQ(0, pipe2(ends_, O_CLOEXEC)); }
	~Pipe()
	{
		close(ends_[0]);
		close(ends_[1]);
	}
	Pipe(const Pipe &) = delete;
	Pipe &operator=(const Pipe &) = delete;

	int read_end() const { return ends_[0]; }
	int write_end() const { return ends_[1]; }

	void fill()
	{
		std::string page(4096, 'x');

		fcntl(ends_[1], F_SETFL, O_NONBLOCK);
		while (write(ends_[1], page.data(), page.size()) > 0)
			filled_ += page.size();
		fcntl(ends_[1], F_SETFL, 0);
	}
	// Takes out what fill() has put in, and at least one byte more; returns what others have
	// written.
	std::string take()
	{
		std::string all(filled_ + 65536, '\0');
		size_t size = 0;

		while (size <= filled_) {
			ssize_t n = read(ends_[0], all.data() + size, all.size() - size);
			if (n <= 0)
				break;
			size += size_t(n);
		}
		all.resize(size);
		return all.substr(std::min(filled_, size));
	}

private:
	int ends_[2];
	size_t filled_ = 0;
};

// ---- visitors of sn_tasks_each() ----

// Makes calls until the run is over; the last of them does not return.
int walk_for_ever(sn_task_visitor *visitor, sn_chan *chan)
{
	for (;;)
		sn_tasks_each(visitor, chan);
}

TEST(EndOfARun, IsNotHeldUpByVisitorsThatCallSennit)
{
	for (int i = 0; i < test::scaled(50); i++)
		test::run({1, 2}, [] {
			static std::atomic<int> visits;
			sn_chan *chan = nullptr;

			visits = 0;
			ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 1));
			for (int walker = 0; walker < 2; walker++) {
				ASSERT_EQ(
					0,
					sn_go(
						[](void *arg) {
							return walk_for_ever(
								[](const sn_task_info *, void *to) {
									auto *c = static_cast<
										sn_chan *>(to);
									int item = 0;

									visits++;
									(void)!sn_chan_try_send(
										c, &item);
									(void)!sn_chan_try_recv(
										c, &item);
									return 0;
								},
								static_cast<sn_chan *>(arg));
						},
						chan));
			}
			EXPECT_TRUE(test::eventually([] { return visits > 4; }));
		});
}

TASK_TEST(EndOfARun, IsNotHeldUpByVisitorsThatPark, 1, 2)
{
	static std::atomic<int> visits;

	visits = 0;
	ASSERT_EQ(0, sn_go(
			     [](void *) {
				     return walk_for_ever(
					     [](const sn_task_info *, void *) {
						     visits++;
						     return sn_sleep(test::ms);
					     },
					     nullptr);
			     },
			     nullptr));
	EXPECT_TRUE(test::eventually([] { return visits > 1; }));
}

struct Visit {
	Pipe pipe;
	std::atomic<bool> in{false}, out{false};
	int result = 1;

	// Blocks until the pipe is written to.
	static int block(const sn_task_info *, void *arg)
	{
		auto *visit = static_cast<Visit *>(arg);
		char byte;

		visit->in = true;
		return read(visit->pipe.read_end(), &byte, 1) == 1 ? 0 : -EIO;
	}
	void run()
	{
		result = sn_tasks_each(block, this);
		out = true;
	}
	void end()
	{
		EXPECT_EQ(1, write(pipe.write_end(), "x", 1));
		EXPECT_TRUE(test::eventually_in_thread([&] { return out.load(); }));
	}
};

TEST(EndOfARun, LeavesAThreadBehindThatBlocksInAVisitor)
{
	Visit visit;
	std::thread thread;

	test::run(2, [&] {
		thread = std::thread([&] { visit.run(); });
		EXPECT_TRUE(test::eventually([&] { return visit.in.load(); }));
	});
	EXPECT_FALSE(visit.out);
	visit.end();
	thread.join();
	EXPECT_EQ(-ESRCH, visit.result);
	test::run([] { test::Task([] {}).join(); });
}

// The visitor returns while another run is in progress, which it must not affect.
TEST(EndOfARun, ALateVisitorDoesNotDisturbTheNext)
{
	Visit late;
	std::thread thread;

	test::run(2, [&] {
		thread = std::thread([&] { late.run(); });
		EXPECT_TRUE(test::eventually([&] { return late.in.load(); }));
	});
	test::run(2, [&] {
		Visit mine;
		std::thread another([&] { mine.run(); });

		EXPECT_TRUE(test::eventually([&] { return mine.in.load(); }));
		late.end();
		EXPECT_EQ(-ESRCH, late.result);
		// Reads one byte for each task that it visits.
		while (!mine.out) {
			EXPECT_EQ(1, write(mine.pipe.write_end(), "x", 1));
			sn_sleep(test::ms);
		}
		another.join();
		EXPECT_EQ(0, mine.result);
	});
	thread.join();
}

TEST(EndOfARun, LeavesATaskBehindThatBlocksInAVisitor)
{
	static Visit visit;

	test::run(2, [&] {
		ASSERT_EQ(0, sn_go(
				     [](void *) {
					     visit.run();
					     return 0;
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([&] { return visit.in.load(); }));
	});
	EXPECT_FALSE(visit.out);
	// The walk continues; each of its steps reads a byte.
	while (!visit.out) {
		EXPECT_EQ(1, write(visit.pipe.write_end(), "x", 1));
		usleep(1000);
	}
}

// ---- callbacks of sn_task_scan() ----

struct BlockedScan {
	Pipe pipe;
	std::atomic<bool> in{false}, out{false};
	int result = 1;
	sn_task *parked = nullptr;

	static void block(const struct sn_scan *, void *arg)
	{
		auto *self = static_cast<BlockedScan *>(arg);
		char byte;

		self->in = true;
		EXPECT_EQ(1, read(self->pipe.read_end(), &byte, 1));
	}
	void run()
	{
		result = sn_task_scan(parked, block, this);
		out = true;
	}
	// Called in a run: starts a task that waits forever.
	void park()
	{
		ASSERT_EQ(0, sn_spawn(
				     &parked, [](void *) { return sn_sleep(INT64_MAX); }, nullptr,
				     nullptr));
		EXPECT_TRUE(
			test::eventually([&] { return sn_tasks_each(is_parked, parked) == 1; }));
	}
	static int is_parked(const struct sn_task_info *info, void *task)
	{
		return info->task == task && info->state == SN_STATE_PARKED;
	}
	void end()
	{
		EXPECT_FALSE(out);
		EXPECT_EQ(1, write(pipe.write_end(), "x", 1));
		EXPECT_TRUE(test::eventually_in_thread([&] { return out.load(); }));
	}
};

TEST(EndOfARun, LeavesAThreadBehindThatBlocksInAScan)
{
	BlockedScan scan;
	std::thread thread;

	test::run(2, [&] {
		scan.park();
		thread = std::thread([&] { scan.run(); });
		EXPECT_TRUE(test::eventually([&] { return scan.in.load(); }));
	});
	scan.end();
	thread.join();
	EXPECT_EQ(-ESRCH, scan.result);
	test::run([] { test::Task([] {}).join(); });
}

TEST(EndOfARun, LeavesATaskBehindThatBlocksInAScan)
{
	static BlockedScan scan;

	test::run(2, [] {
		scan.park();
		ASSERT_EQ(0, sn_go(
				     [](void *) {
					     scan.run();
					     return 0;
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([] { return scan.in.load(); }));
	});
	scan.end();
	EXPECT_EQ(-ESRCH, scan.result);
	test::run([] { test::Task([] {}).join(); });
}

// ---- writes ----

struct Dump {
	Pipe pipe;
	std::atomic<bool> begun{false}, out{false};
	int result = 1;
	int (*call)(int fd);

	explicit Dump(int (*which)(int fd)) : call(which) { pipe.fill(); }
	void run()
	{
		begun = true;
		result = call(pipe.write_end());
		out = true;
	}
	// Returns false if the run had ended before the call, which then has to be repeated.
	bool end()
	{
		if (out && result == -ESRCH)
			return false;
		// The call has blocked, and the run has not waited for it.
		EXPECT_FALSE(out);
		EXPECT_FALSE(pipe.take().empty());
		EXPECT_TRUE(test::eventually_in_thread([&] { return out.load(); }));
		EXPECT_EQ(0, result);
		return true;
	}
};

// Makes the call in a thread or in a task, and ends the run when the call is likely to have
// blocked.
template <class Begin>
void is_left_behind(Begin begin)
{
	for (auto call : {sn_dump, sn_profile_tasks}) {
		bool done = false;

		for (int i = 0; i < 10 && !done; i++) {
			Dump dump(call);
			std::thread thread;

			test::run(2, [&] {
				begin(dump, thread);
				EXPECT_TRUE(test::eventually([&] { return dump.begun.load(); }));
				sn_sleep(50 * test::ms);
			});
			done = dump.end();
			if (thread.joinable())
				thread.join();
		}
		EXPECT_TRUE(done);
	}
}

TEST(EndOfARun, LeavesAThreadBehindWhoseDumpNobodyReads)
{
	is_left_behind(
		[](Dump &dump, std::thread &thread) { thread = std::thread([&] { dump.run(); }); });
}

TEST(EndOfARun, LeavesATaskBehindWhoseDumpNobodyReads)
{
	is_left_behind([](Dump &dump, std::thread &) {
		ASSERT_EQ(0, sn_go(
				     [](void *arg) {
					     static_cast<Dump *>(arg)->run();
					     return 0;
				     },
				     &dump));
	});
}

// ---- destructors ----

std::atomic<int> in_destructor{0}, destroyed{0};
std::atomic<bool> may_end{false};

void destroy_for_long(void *)
{
	in_destructor++;
	while (!may_end)
		usleep(1000);
	destroyed++;
}

pthread_key_t lasting_key()
{
	static const pthread_key_t key = [] {
		pthread_key_t made;

		EXPECT_EQ(0, pthread_key_create(&made, destroy_for_long));
		return made;
	}();
	return key;
}

// Leaves threads behind that have nothing to do, some of which end after a while.
void use_many_threads(int n)
{
	std::vector<test::Task> tasks;

	for (int i = 0; i < n; i++)
		tasks.emplace_back([] {
			EXPECT_EQ(0, pthread_setspecific(lasting_key(), &may_end));
			usleep(100000);
		});
	test::join_all(tasks);
}

// The monitor joins such threads. If it waited for the destructor, it would not revoke any
// processor.
TEST(Destructors, OfAThreadThatEndsHoldUpNobody)
{
	may_end = false;
	in_destructor = 0;
	test::run(1, [] {
		std::atomic<int> beats{0};
		std::atomic<bool> over{false};

		use_many_threads(12);
		EXPECT_TRUE(test::eventually([] { return in_destructor > 0; }));
		test::Task heart([&] {
			while (!over && sn_sleep(test::ms) == 0)
				beats++;
		});
		// The task computes until the heart has beaten. That takes a revocation, because
		// the task does not yield.
		for (int round = 0; round < 3; round++) {
			test::Task([&] {
				for (const int before = beats; beats < before + 3;)
					continue;
			}).join();
		}
		over = true;
		heart.join();
		may_end = true;
	});
}

TEST(Destructors, DoNotHoldUpTheEnd)
{
	may_end = false;
	in_destructor = destroyed = 0;
	test::run(2, [] { use_many_threads(4); });
	EXPECT_GT(in_destructor, 0);
	EXPECT_EQ(0, destroyed);
	may_end = true;
	EXPECT_TRUE(test::eventually_in_thread([] { return destroyed == in_destructor; }));
}

} // namespace
