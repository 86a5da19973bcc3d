// SPDX-License-Identifier: MIT
//
// What plain threads get at the same moment: threads that sleep, wait in epoll, wait to be woken,
// and compute for a while, with no runtime between them and the system. And how long the system
// kept runnable threads of this process from running: stopped, traced, or on too few CPUs.
#ifndef SENNIT_TESTS_HOSTILE_PLAIN_HPP
#define SENNIT_TESTS_HOSTILE_PLAIN_HPP

#include <cstdint>

namespace hostile
{

// Starts the threads. Once, before the runtime.
void plain_start();

// How long any thread of the process waited for a CPU, or in an uninterruptible sleep in the
// kernel, since the last call; at most `span`, which is the time since then. Only the watchdog
// calls it.
int64_t plain_kept_by_system(int64_t span);

// The worst delay of the plain threads since the last call, including those that are late at this
// moment. Only the watchdog calls it.
int64_t plain_worst_since();

} // namespace hostile

#endif
