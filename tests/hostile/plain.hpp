// SPDX-License-Identifier: MIT
//
// The delays of plain threads at the same moment: threads that sleep, wait in epoll, wait to be
// woken, and compute for a while, without a runtime between them and the system. Also for how long
// the system kept runnable threads of this process from running: because they were stopped or
// traced, or because there were too few CPUs.
#ifndef SENNIT_TESTS_HOSTILE_PLAIN_HPP
#define SENNIT_TESTS_HOSTILE_PLAIN_HPP

#include <cstdint>

namespace hostile
{

// Starts the threads. Called once, before the runtime begins.
void plain_start();

// For how long any thread of the process waited for a CPU, or in an uninterruptible sleep in the
// kernel, since the last call. At most `span`, which is the time since then. Only the watchdog
// calls it.
int64_t plain_kept_by_system(int64_t span);

// The worst delay of the plain threads since the last call, including those that are late at this
// moment. Only the watchdog calls it.
int64_t plain_worst_since();

} // namespace hostile

#endif
