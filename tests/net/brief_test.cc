// SPDX-License-Identifier: MIT
/*
 * Tasks that promise to be brief (SN_TASK_BRIEF): the thread that makes such a task runnable may
 * keep it for itself, and then wakes no other thread. This must not strand the task, or any other
 * task for which a thread should have been woken. A stranded task no longer answers, and the test
 * never ends.
 */
#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/unstable.h>

#include "support/net.h"

using namespace std::chrono_literals;

namespace
{

// Serves the connection in a task of its own, which is brief or not, and waits for that task.
void answer(sn::tcp &peer, bool is_brief)
{
	auto helper = sn::spawn(
		[&peer] {
			std::uint64_t number = 0;

			while (peer.read(&number, sizeof number).value_or(0) == sizeof number)
				if (!peer.write_all(&number, sizeof number))
					break;
		},
		{.flags = is_brief ? SN_TASK_BRIEF : 0});
	helper.join();
}

TASK_TEST(Brief, NoTaskIsStranded, 1, 2, 4)
{
	const int clients = 8, connections = test::scaled(120);
	auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
	const auto address = listener.address().value();
	std::atomic<int> answered{0};
	auto server = sn::spawn(
		[&] {
			for (int i = 0; i < clients * connections; i++)
				sn::go([peer = listener.accept().value(),
					i]() mutable { answer(peer, i % 3 != 0); },
				       {.flags = i % 4 != 0 ? SN_TASK_BRIEF : 0});
		},
		{.flags = SN_TASK_BRIEF});
	std::vector<sn::task<void>> all;

	for (int c = 0; c < clients; c++)
		all.push_back(sn::spawn(
			[&, c] {
				for (int i = 0; i < connections; i++) {
					auto peer = sn::tcp::connect(address).value();
					std::uint64_t number = std::uint64_t(i) + 1, got = 0;

					// Timers are served at the same time, too.
					if (i % 16 == c)
						sn::sleep(1ms);
					peer.write_all(&number, sizeof number).value();
					peer.read(&got, sizeof got).value();
					answered += got == number;
				}
			},
			{.flags = c % 2 == 0 ? SN_TASK_BRIEF : 0}));
	test::join_all(all);
	server.join();
	EXPECT_EQ(clients * connections, answered.load());
	EXPECT_TRUE(test::all_ended());
}

// Each task starts the next one and ends. A few of them are not brief.
TASK_TEST(Brief, ChainsGoOn, 1, 2, 4)
{
	const int links = test::scaled(4000);
	sn::semaphore over;

	struct chain {
		static void go(sn::semaphore &over, int left)
		{
			if (left == 0)
				return over.release();
			sn::go(
				[&over, left] {
					if (left % 64 == 0)
						sn::sleep(10us);
					go(over, left - 1);
				},
				{.flags = left % 10 != 0 ? SN_TASK_BRIEF : 0});
		}
	};
	for (int i = 0; i < 3; i++)
		chain::go(over, links);
	for (int i = 0; i < 3; i++)
		over.acquire();
	EXPECT_TRUE(test::all_ended());
}

} // namespace
