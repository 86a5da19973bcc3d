// SPDX-License-Identifier: MIT
//
// A program with large thread-locals. The C library takes them from the stack of each thread. This
// includes those that the runtime starts for tasks, for the monitor, to look up names, and to write
// a dump.
#include <cstring>

#include <unistd.h>

#include "support/runtime.h"

namespace
{

constexpr size_t size = size_t(1) << 20;
thread_local char large[size];

TASK_TEST(StaticTls, OfAMegabyteLeavesRoomForTheRuntime, 1, 2)
{
	memset(large, 1, size);
	// Another thread, on which a signal handler has room, too.
	test::Task blocks([] {
		memset(large, 2, size);
		usleep(50000);
		EXPECT_EQ(2, large[size - 1]);
	});
	blocks.join();
}

TASK_TEST(StaticTls, LeavesRoomForLookups, 2)
{
	sn_tcp_listener *listener = nullptr;

	// The C library looks this name up, on a helper thread.
	ASSERT_EQ(0, sn_tcp_listen(&listener, "localhost:0"));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
}

} // namespace
