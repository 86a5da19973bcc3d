// SPDX-License-Identifier: MIT
//
// Turns: a task whose operations on connections never wait yields to others after a number of
// operations. The tests count operations, not time. The monitor, which would end the turn of a task
// that keeps its processor for long, acts only after many more.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "support/net.h"

namespace
{

using namespace test;

// Returns after how many operations another runnable task runs. "most" means that it did not run
// before all of them were done.
int until_another_runs(int most, const std::function<void()> &operation)
{
	std::atomic<bool> runs{false};
	Task other([&] { runs = true; });
	int n = 0;

	while (n < most && !runs) {
		operation();
		n++;
	}
	other.join();
	return n;
}

constexpr int many = 1000, connections = 300;

TASK_TEST(FairStreams, ReadingLetsOthersRun, 1)
{
	Pair pair;
	const std::string bytes(many, 'x');

	ASSERT_EQ(many, sn_tcp_write(pair.client, bytes.data(), bytes.size()));
	ASSERT_TRUE(test::eventually([&] { return test::unread(pair.server) == many; }));
	EXPECT_GT(many, until_another_runs(many, [&] {
			  char byte;

			  EXPECT_EQ(1, sn_tcp_read(pair.server, &byte, 1));
		  }));
}

TASK_TEST(FairStreams, WritingLetsOthersRun, 1)
{
	Pair pair;

	EXPECT_GT(many, until_another_runs(
				many, [&] { EXPECT_EQ(1, sn_tcp_write(pair.client, "x", 1)); }));
}

TASK_TEST(FairStreams, AcceptingLetsOthersRun, 1)
{
	Listener listener;
	std::vector<sn_tcp *> conns;

	for (int i = 0; i < connections; i++)
		conns.push_back(test::connect(listener.address()));
	EXPECT_GT(connections,
		  until_another_runs(connections, [&] { conns.push_back(listener.accept()); }));
	for (sn_tcp *conn : conns)
		EXPECT_EQ(0, sn_tcp_close(conn));
}

} // namespace
