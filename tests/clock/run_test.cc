// SPDX-License-Identifier: MIT
//
// Deadlines are times of the monotonic clock, which another time namespace would change while
// timers rely on it. The kernel lets only a process with a single thread enter one, so this does
// not happen inside sn_run().

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "support/runtime.h"

extern "C" {
#include <sennit/run.h>
}

#ifndef CLONE_NEWTIME
#	define CLONE_NEWTIME 0x80
#endif

namespace
{

int enter(void *)
{
	int space = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	int error = setns(space, CLONE_NEWTIME) ? errno : 0;

	close(space);
	return error;
}

TEST(TimeNamespace, CannotBeEnteredWhileTasksRun)
{
	// So far this affects only future children.
	if (unshare(CLONE_NEWTIME))
		GTEST_SKIP() << "time namespaces cannot be made here";
	setenv("SENNIT_PROCS", "1", 1);
	EXPECT_EQ(sn_run(enter, nullptr), EUSERS);
}

} // namespace
