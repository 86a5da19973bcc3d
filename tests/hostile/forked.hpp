// SPDX-License-Identifier: MIT
//
// The program of a child of fork(): it closes the descriptors that it has inherited, opens files of
// its own, and runs the runtime again, with tasks, timers, connections, a deadlock and signals.
// After that its files must still be open.
#ifndef SENNIT_TESTS_HOSTILE_FORKED_HPP
#define SENNIT_TESTS_HOSTILE_FORKED_HPP

#include <string>

namespace hostile
{

constexpr int forked_well = 42;

// Never returns: exits with forked_well, or with the number of the step that failed. SIGALRM ends
// the child after forked_seconds. Only one child may exist at a time.
[[noreturn]] void forked_main();
constexpr unsigned forked_seconds = 40;

// Explains a status from waitpid(), with the step that failed or was in progress.
std::string forked_status(int status);

} // namespace hostile

#endif
