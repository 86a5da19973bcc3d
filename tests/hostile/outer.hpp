// SPDX-License-Identifier: MIT
//
// The parent of the process under test. It does what only another process can do: stops and continues it,
// attaches gdb, sends signals. It reads the other's stderr, where dumps go, and keeps the end of it. When
// that process fails, crashes, or its watchdog stands still, it tells everything that can be had, and ends it.
#ifndef SENNIT_TESTS_HOSTILE_OUTER_HPP
#define SENNIT_TESTS_HOSTILE_OUTER_HPP

#include <string>

#include <sys/types.h>

namespace hostile
{

/*
 * Forks. In the child returns 0, stderr being a pipe to the parent. In the parent serves the child until it
 * has ended, and returns the exit status of the program: 0, or 1 after telling what was wrong.
 * gdb: may be attached.
 */
int outer_fork(bool *is_child);

// By the child's driver: asks the parent for something ("stop MS", "gdb", "signal NUMBER"), and waits until
// it is done. False when it could not be.
bool outer_ask(const std::string &what);

// Where gdb is, or "".
std::string find_gdb();

} // namespace hostile

#endif
