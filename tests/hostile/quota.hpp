// SPDX-License-Identifier: MIT
//
// The cpu.max of a cgroup that is made for this run, if that is possible. If it is not, but private
// mounts are, a file stands in for it at the place where the runtime looks: the runtime follows it,
// though nothing is throttled.
#ifndef SENNIT_TESTS_HOSTILE_QUOTA_HPP
#define SENNIT_TESTS_HOSTILE_QUOTA_HPP

#include <string>

namespace hostile
{

// Before the process has threads or children. Returns a remark to print, "" for a true cgroup.
std::string quota_prepare(bool *usable);
// Moves the process under test into the group. Before it has threads.
void quota_enter();
// Allows that many microseconds of CPU time in each period of 100,000; 0: no limit. False if it
// cannot be written.
bool quota_set(long microseconds);
// Removes the group, when the process under test has ended.
void quota_remove();

} // namespace hostile

#endif
