// SPDX-License-Identifier: MIT
//
// The cpu.max of a cgroup that is created for this run, if that is possible. If it is not, but
// private mounts are, a file at the place where the runtime looks replaces it: the runtime follows
// the file, though nothing is throttled.
#ifndef SENNIT_TESTS_HOSTILE_QUOTA_HPP
#define SENNIT_TESTS_HOSTILE_QUOTA_HPP

#include <string>

namespace hostile
{

// Called before the process has threads or children. Returns a remark to print, or "" for a real
// cgroup.
std::string quota_prepare(bool *usable);
// Moves the process under test into the group. Called before it has threads.
void quota_enter();
// Allows so many microseconds of CPU time in each period of 100,000; 0: no limit. Returns false if
// the limit cannot be written.
bool quota_set(long microseconds);
// Removes the group; called when the process under test has ended.
void quota_remove();

} // namespace hostile

#endif
