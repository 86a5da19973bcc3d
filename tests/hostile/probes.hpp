// SPDX-License-Identifier: MIT
//
// What the watchdog measures in every phase: sleeps, deadlines, yields; and what plain threads ask
// of the runtime: they write to a socket that a task reads, send into a channel, spawn a task, send
// a signal.
#ifndef SENNIT_TESTS_HOSTILE_PROBES_HPP
#define SENNIT_TESTS_HOSTILE_PROBES_HPP

#include "hostile/loads.hpp"

namespace hostile
{

// Starts the plain thread. Once, before the runtime.
void probes_start();

// A plain thread is about to send SIGUSR1 to the process. False if the last one has not been
// received yet, or if no task waits now.
bool probes_expect_signal();

// Makes a task of the probes call fn, once. False if no phase runs. Call it from a plain thread.
bool probes_ask(void (*fn)());

} // namespace hostile

#endif
