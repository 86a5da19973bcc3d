// SPDX-License-Identifier: MIT
//
// What a child of fork() does: closes what it has inherited, opens files of its own, and runs the
// runtime again, with tasks, timers, connections, a deadlock and signals. Then its files must still
// be open.
#ifndef SENNIT_TESTS_HOSTILE_FORKED_HPP
#define SENNIT_TESTS_HOSTILE_FORKED_HPP

#include <string>

namespace hostile
{

constexpr int forked_well = 42;

// Never returns: exits with forked_well, or with the number of the step that failed. SIGALRM ends
// it after forked_seconds. One child at a time.
[[noreturn]] void forked_main();
constexpr unsigned forked_seconds = 40;

// The meaning of a status from waitpid(), with the step that failed or was under way.
std::string forked_status(int status);

} // namespace hostile

#endif
