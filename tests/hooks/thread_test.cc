// SPDX-License-Identifier: MIT
//
// After each kind of wait a hooked task continues on its thread, even if others are woken for it at
// the same time. If it does not, this is counted.
#include <atomic>
#include <functional>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "hooks/hooks.h"

namespace
{

using test::hooks;
using test::SocketPair;

long thread_id()
{
	return syscall(SYS_gettid);
}

struct Wait {
	const char *name;
	bool for_byte; // the byte comes later
	std::function<void(int fd)> call;
};

const Wait waits[] = {
	{"recv", true,
	 [](int fd) {
		 char byte;

		 EXPECT_EQ(1, recv(fd, &byte, 1, 0));
	 }},
	{"read", true,
	 [](int fd) {
		 char byte;

		 EXPECT_EQ(1, read(fd, &byte, 1));
	 }},
	{"poll", true,
	 [](int fd) {
		 struct pollfd one = {fd, POLLIN, 0};

		 EXPECT_EQ(1, poll(&one, 1, -1));
	 }},
	{"select", true,
	 [](int fd) {
		 fd_set set;

		 FD_ZERO(&set);
		 FD_SET(fd, &set);
		 EXPECT_EQ(1, select(fd + 1, &set, nullptr, nullptr, nullptr));
	 }},
	{"poll with a time limit", false,
	 [](int fd) {
		 struct pollfd one = {fd, POLLIN, 0};

		 EXPECT_EQ(0, poll(&one, 1, 20));
	 }},
	{"usleep", false, [](int) { EXPECT_EQ(0, usleep(20000)); }},
	{"getaddrinfo", false,
	 [](int) {
		 struct addrinfo *found = nullptr;

		 if (getaddrinfo("localhost", nullptr, nullptr, &found) == 0)
			 freeaddrinfo(found);
	 }},
};

TEST(Thread, IsTheSameAfterEachWait)
{
	test::Environment never("SENNIT_HOOKS_STAY", "1000000000");

	for (const Wait &wait : waits)
		test::run(2, [&] {
			constexpr int n = 40;
			const uint64_t before = hooks().parked;
			std::vector<SocketPair> pairs(n);
			std::vector<test::Task> tasks;
			std::atomic<int> moved{0};
			std::atomic<bool> over{false};

			test::Task noise([&] {
				while (!over) {
					for (int i = 0; i < 5000; i++)
						__asm__ volatile("");
					sn_sleep(20 * test::us);
				}
			});
			for (int i = 0; i < n; i++)
				tasks.push_back(test::hooked([&, i] {
					const long here = thread_id();

					wait.call(pairs[i].fd[0]);
					moved += thread_id() != here;
				}));
			EXPECT_TRUE(test::eventually([&] { return hooks().parked >= before + n; }))
				<< wait.name;
			for (int i = 0; wait.for_byte && i < n; i++)
				EXPECT_EQ(1, write(pairs[i].fd[1], "x", 1));
			test::join_all(tasks);
			over = true;
			noise.join();
			EXPECT_EQ(0, moved) << wait.name;
		});
}

// Blocks the thread on which the other task waits, until that task continues.
void block_and_wait()
{
	const uint64_t parked = hooks().parked;
	SocketPair bytes, gate;

	test::Task waiter = test::hooked([&] {
		char byte;

		EXPECT_EQ(1, read(bytes.fd[0], &byte, 1));
		EXPECT_EQ(1, write(gate.fd[1], "x", 1));
	});
	EXPECT_TRUE(test::eventually([&] { return hooks().parked > parked; }));
	test::Task blocks([&] {
		char byte;

		EXPECT_EQ(1, write(bytes.fd[1], "x", 1));
		EXPECT_EQ(1, read(gate.fd[0], &byte, 1)); // without hooks
	});
	waiter.join();
	blocks.join();
}

TEST(Thread, ATaskThatLosesItIsCounted)
{
	test::Environment soon("SENNIT_HOOKS_STAY", "20");

	test::run(1, [] {
		const uint64_t before = hooks().moved;

		// There is one thread, unless the machine was slow.
		for (int i = 0; i < 20 && hooks().moved == before; i++)
			block_and_wait();
		EXPECT_GT(hooks().moved, before);
	});
}

} // namespace
