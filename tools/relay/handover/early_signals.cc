/* SPDX-License-Identifier: MIT */
#include "handover/early_signals.hpp"

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

volatile std::sig_atomic_t has_come[std::size(noted_ones)];

void note(int signum)
{
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		if (noted_ones[i] == signum)
			has_come[i] = 1;
}

} // namespace

void note_early_signals() noexcept
{
	struct sigaction action = {};
	action.sa_handler = note;
	action.sa_flags = SA_RESTART;
	for (const int each : noted_ones)
		sigaction(each, &action, nullptr);
}

void send_early_signals_again() noexcept
{
	for (std::size_t i = 0; i < std::size(noted_ones); i++)
		if (has_come[i])
			kill(getpid(), noted_ones[i]);
}

} // namespace relay
