// SPDX-License-Identifier: MIT
//
// What the watchdog measures in every phase: sleeps, deadlines and yields; and requests of plain
// threads to the runtime: they write to a socket that a task reads, send into a channel, spawn a
// task, and send a signal.
#ifndef SENNIT_TESTS_HOSTILE_PROBES_HPP
#define SENNIT_TESTS_HOSTILE_PROBES_HPP

#include "hostile/loads.hpp"

namespace hostile
{

// Starts the plain thread. Called once, before the runtime begins.
void probes_start();

// Called when a plain thread is about to send SIGUSR1 to the process. Returns false if the last one
// has not been received yet, or if no task waits now.
bool probes_expect_signal();

// Makes a task of the probes call fn, once. Returns false if no phase is running. Only plain
// threads may call it.
bool probes_ask(void (*fn)());

} // namespace hostile

#endif
