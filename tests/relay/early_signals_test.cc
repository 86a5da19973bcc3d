/* SPDX-License-Identifier: MIT */
/*
 * Signals that come before they are caught. Each case is in a child, because it changes what its
 * process does with signals.
 */
#include "handover/early_signals.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

volatile std::sig_atomic_t caught = 0;

/* Installs a handler, as the runtime does, and returns the previous one. */
struct sigaction catch_it(int signum)
{
	struct sigaction action = {};
	struct sigaction former = {};
	action.sa_handler = [](int /*unused*/) { caught = caught + 1; };
	sigaction(signum, &action, &former);
	return former;
}

void in_a_child(void (*test)())
{
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		test();
		_exit(testing::Test::HasFailure() ? 1 : 0);
	}
	int status = -1;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST(EarlySignals, AreSentAgain)
{
	in_a_child([] {
		relay::note_early_signals();
		raise(SIGUSR1);
		raise(SIGUSR1);
		catch_it(SIGUSR1);
		catch_it(SIGHUP);
		EXPECT_EQ(caught, 0);
		relay::send_early_signals_again();
		EXPECT_EQ(caught, 1);
	});
}

/* The signal has come before, and its handler is late. */
TEST(EarlySignals, OneOfALateHandlerIsSentAgain)
{
	in_a_child([] {
		relay::note_early_signals();
		const auto late = catch_it(SIGHUP);
		relay::send_early_signals_again();
		EXPECT_EQ(caught, 0);
		late.sa_handler(SIGHUP);
		EXPECT_EQ(caught, 1);
	});
}

/* When the runtime has ended, the signals have no effect. */
TEST(EarlySignals, AreNotSentForever)
{
	in_a_child([] {
		relay::note_early_signals();
		relay::send_early_signals_again();
		alarm(60);
		raise(SIGUSR2);
		raise(SIGUSR2);
	});
}

/* Each goes there once, whether the runtime's handler has been replaced already or not. */
TEST(EarlySignals, ReloadsGoToTheProcessThatTookOver)
{
	in_a_child([] {
		catch_it(SIGHUP); /* for the child */
		sigset_t reload;
		sigset_t before;
		sigemptyset(&reload);
		sigaddset(&reload, SIGHUP);
		sigprocmask(SIG_BLOCK, &reload, &before);
		const pid_t parent = getpid();
		const pid_t child = fork();
		if (child == 0) {
			alarm(60);
			for (int i = 0; i < 2; i++) {
				int signum = 0;
				sigwait(&reload, &signum);
				kill(parent, SIGUSR2);
			}
			_exit(sigpending(&before) == 0 && !sigismember(&before, SIGHUP) ? 0 : 1);
		}
		sigset_t answer;
		sigemptyset(&answer);
		sigaddset(&answer, SIGUSR2);
		sigprocmask(SIG_BLOCK, &answer, nullptr);
		sigprocmask(SIG_UNBLOCK, &reload, nullptr);
		relay::note_early_signals();
		const auto former = catch_it(SIGHUP);
		relay::send_early_signals_again();
		relay::pass_reloads_on(child);
		for (int i = 0; i < 2; i++) {
			raise(SIGHUP);
			int signum = 0;
			sigwait(&answer, &signum);
			sigaction(SIGHUP, &former, nullptr); /* the end of the runtime */
		}
		EXPECT_EQ(caught, 0);
		int status = -1;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	});
}

TEST(EarlySignals, HaveTheirFormerEffectInAProcessThatDoesNotServe)
{
	in_a_child([] {
		catch_it(SIGHUP);
		std::signal(SIGUSR1, SIG_IGN);
		relay::note_early_signals();
		raise(SIGHUP);
		raise(SIGUSR1);
		EXPECT_EQ(caught, 0);
		relay::forget_early_signals();
		EXPECT_EQ(caught, 1);
		raise(SIGHUP);
		EXPECT_EQ(caught, 2);
	});
}

} // namespace
