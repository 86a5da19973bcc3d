/* SPDX-License-Identifier: MIT */
#include "handover/early_signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <sys/types.h>
#include <unistd.h>

namespace relay
{
namespace
{

constexpr int noted_ones[] = {SIGHUP, SIGUSR1, SIGUSR2};

/* A handler may use only atomics without locks. */
static_assert(std::atomic<bool>::is_always_lock_free);
constinit std::atomic<bool> has_come[std::size(noted_ones)];
constinit std::atomic<bool> is_sent[std::size(noted_ones)];
constinit std::atomic<bool> are_caught{false};
static_assert(std::atomic<pid_t>::is_always_lock_free);
constinit std::atomic<pid_t> heir{0}; /* the process that gets SIGHUP; 0: none */

struct sigaction former_actions[std::size(noted_ones)];

/* Once is enough: a handler that is late has the signal from before the one that is sent. And when
 * the runtime has ended, this handler is there again, which would otherwise send without end. */
void send_again(std::size_t i)
{
	if (!is_sent[i].exchange(true))
		kill(getpid(), noted_ones[i]);
}

/* May run in one thread while another is in send_early_signals_again(). Each stores first and then
 * looks at what the other stores, so one of them sends the signal. */
void note(int signum)
{
	const int before = errno;
	const pid_t to = heir;
	for (std::size_t i = 0; i < std::size(noted_ones); i++) {
		if (noted_ones[i] != signum)
			continue;
		if (to > 0 && signum == SIGHUP) {
			kill(to, signum);
			continue;
		}
		has_come[i] = true;
		if (are_caught)
			send_again(i);
	}
	errno = before;
}

struct sigaction noting() noexcept
{
	struct sigaction action = {};
	action.sa_handler = note;
	action.sa_flags = SA_RESTART;
	return action;
}

} // namespace

void note_early_signals() noexcept
{
	const struct sigaction action = noting();
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		sigaction(noted_ones[i], &action, &former_actions[i]);
}

void forget_early_signals() noexcept
{
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		sigaction(noted_ones[i], &former_actions[i], nullptr);
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		if (has_come[i])
			kill(getpid(), noted_ones[i]);
}

void send_early_signals_again() noexcept
{
	are_caught = true;
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		if (has_come[i])
			send_again(i);
}

void pass_reloads_on(pid_t to) noexcept
{
	heir = to;
	const struct sigaction action = noting();
	sigaction(SIGHUP, &action, nullptr);
}

} // namespace relay
