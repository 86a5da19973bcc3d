// SPDX-License-Identifier: MIT
//
// The parent of the process under test. It does what only another process can do: it stops and
// continues the child, attaches gdb, and sends signals. It reads the child's stderr, where dumps
// go, and keeps the end of it. If the child fails or crashes, or its watchdog hangs, the parent
// reports everything that it can find out, and ends the child.
#ifndef SENNIT_TESTS_HOSTILE_OUTER_HPP
#define SENNIT_TESTS_HOSTILE_OUTER_HPP

#include <string>

#include <sys/types.h>

namespace hostile
{

/*
 * Forks. Returns 0 in the child, whose stderr is a pipe to the parent. In the parent, serves the
 * child until it has ended, and returns the exit status for the program: 0, or 1 after reporting
 * what was wrong.
 */
int outer_fork(bool *is_child);

// Called by the child's driver: asks the parent for something ("stop MS", "gdb", "signal NUMBER"),
// and waits until it is done. Returns false if it could not be done.
bool outer_ask(const std::string &what);

// The path of gdb, or "" if there is none.
std::string find_gdb();

} // namespace hostile

#endif
