// SPDX-License-Identifier: MIT
//
// Around a call that raises SIGPIPE, in processes with one thread: the call's signal never reaches
// the program, and a signal from another sender always does, once. net/sigpipe tests the same in
// tasks.
#include <cerrno>
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "base/sigpipe.h"
}
#include "support/child.h"

namespace
{

volatile sig_atomic_t delivered;

void count_signals()
{
	CHILD_CHECK(signal(SIGPIPE, [](int) { delivered = delivered + 1; }) != SIG_ERR);
}

// A pipe without a reader: a write raises the signal.
int broken_pipe()
{
	int ends[2];

	CHILD_CHECK(pipe(ends) == 0);
	close(ends[0]);
	return ends[1];
}

// A process of its own sends the signal to this one.
void another_process_sends_it()
{
	const pid_t self = getpid(), sender = fork();

	if (sender == 0)
		_exit(kill(self, SIGPIPE));
	CHILD_CHECK(test::status_of(sender) == 0);
}

void let_it_come()
{
	usleep(1); // TSan delivers signals only in calls of the C library
}

TEST(BaseSigpipe, OfTheCallIsTaken)
{
	EXPECT_EQ(0, test::in_child([] {
			  const int fd = broken_pipe();

			  count_signals();
			  const enum sn_sigpipe former = sn_sigpipe_hold();
			  CHILD_CHECK(former == SN_SIGPIPE_FREE);
			  const ssize_t n = write(fd, "x", 1);
			  CHILD_CHECK(n < 0 && errno == EPIPE);
			  sn_sigpipe_release(former, n, 1);
			  let_it_come();
			  CHILD_CHECK(delivered == 0);
			  // It is no longer blocked.
			  CHILD_CHECK(raise(SIGPIPE) == 0);
			  let_it_come();
			  CHILD_CHECK(delivered == 1);
		  }));
}

// It comes during the call, which fails without raising one.
TEST(BaseSigpipe, OfAnotherProcessIsDelivered)
{
	EXPECT_EQ(0, test::in_child([] {
			  count_signals();
			  const enum sn_sigpipe former = sn_sigpipe_hold();
			  another_process_sends_it();
			  CHILD_CHECK(delivered == 0);
			  sn_sigpipe_release(former, -1, 1);
			  let_it_come();
			  CHILD_CHECK(delivered == 1);
		  }));
}

// As the thread's own signal, which is found first.
TEST(BaseSigpipe, OfAnotherProcessIsDeliveredAlsoIfTheCallRaisesOne)
{
	EXPECT_EQ(0, test::in_child([] {
			  const int fd = broken_pipe();

			  count_signals();
			  const enum sn_sigpipe former = sn_sigpipe_hold();
			  another_process_sends_it();
			  const ssize_t n = write(fd, "x", 1);
			  CHILD_CHECK(n < 0 && errno == EPIPE);
			  sn_sigpipe_release(former, n, 1);
			  let_it_come();
			  CHILD_CHECK(delivered == 1);
		  }));
}

// The program has it blocked, and one is pending: it stays.
TEST(BaseSigpipe, ThatIsPendingStays)
{
	EXPECT_EQ(0, test::in_child([] {
			  sigset_t set;

			  count_signals();
			  sigemptyset(&set);
			  sigaddset(&set, SIGPIPE);
			  CHILD_CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
			  CHILD_CHECK(sn_sigpipe_hold() == SN_SIGPIPE_BLOCKED);
			  CHILD_CHECK(kill(getpid(), SIGPIPE) == 0);
			  const enum sn_sigpipe former = sn_sigpipe_hold();
			  CHILD_CHECK(former == SN_SIGPIPE_PENDING);
			  sn_sigpipe_release(former, -1, 1);
			  CHILD_CHECK(delivered == 0);
			  CHILD_CHECK(sigprocmask(SIG_UNBLOCK, &set, nullptr) == 0);
			  let_it_come();
			  CHILD_CHECK(delivered == 1);
		  }));
}

} // namespace
