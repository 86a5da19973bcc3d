// SPDX-License-Identifier: MIT
//
// Runs code in a child process, where CHILD_CHECK() says what does not hold.
#ifndef SENNIT_TESTS_SUPPORT_CHILD_H
#define SENNIT_TESTS_SUPPORT_CHILD_H

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/blocking.h>

#include "support/runtime.h"

namespace test
{

// Waits for the child: its exit status; 1000 and the status of waitpid() if a signal ended it.
inline int status_of(pid_t child)
{
	int status = -1;

	sn_enter_blocking();
	EXPECT_EQ(child, waitpid(child, &status, 0));
	sn_exit_blocking();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// Runs the body in a child. Returns the child's exit status. A child that hangs is a failure of its
// test, and must not use up the time of all tests.
template <class F>
int in_child(F body)
{
	const pid_t child = fork();

	if (child == 0) {
		alarm(120);
		body();
		_exit(0);
	}
	EXPECT_GT(child, 0);
	return status_of(child);
}

// Limits the address space to what the process has and so much more. Another thread may reserve an
// arena of malloc()'s, 64 MiB and more, between the look and the limit, and then nothing would be
// left. Under the limit it cannot.
inline void limit_address_space(size_t more)
{
	struct rlimit limit;
	rlim_t size;
	const auto present = [] { return rlim_t(process_status("VmSize")) << 10; };

	CHILD_CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	do {
		size = present();
		limit.rlim_cur = size + more;
		CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	} while (present() > size + more / 2);
}

} // namespace test

#endif
