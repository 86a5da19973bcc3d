// SPDX-License-Identifier: MIT
//
// cpu.max: of a cgroup made for this run, where that can be had. Where not, but mounts of one's own can, a
// file stands in for it at the place where the runtime looks: it follows that, though nothing is throttled.
#ifndef SENNIT_TESTS_HOSTILE_QUOTA_HPP
#define SENNIT_TESTS_HOSTILE_QUOTA_HPP

#include <string>

namespace hostile
{

// Before the process has threads or children. Returns what is to be said of it, "" for a true cgroup.
std::string quota_prepare(bool *usable);
// In the process under test: it moves in. Before it has threads.
void quota_enter();
// So many microseconds of a period of 100,000, of one CPU's; 0: no limit. False when it cannot be written.
bool quota_set(long microseconds);
// Removes what was made, when the process under test has ended.
void quota_remove();

} // namespace hostile

#endif
