// SPDX-License-Identifier: MIT
//
// Locks in which faults can be planted, for the tests of the checked build (wait/checked.h). C++
// cannot include the lock's header.
#ifndef SENNIT_TESTS_SUPPORT_CHECKED_H
#define SENNIT_TESTS_SUPPORT_CHECKED_H

#ifdef __cplusplus
extern "C" {
#endif

void checked_take_outer(void);
void checked_release_outer(void);
void checked_take_inner(void);
void checked_release_inner(void);
void checked_take_nameless(void);

// Sleeps on a futex until the deadline.
void checked_sleep(long long deadline);

// Whether the checks can see system calls with this kernel.
int checked_sees_calls(void);

// From now on the thread must not wait, like the monitor; with NULL it may again.
void checked_forbid(const char *name);

// Writes a line on stderr in the way of the runtime.
void checked_log(void);

void checked_pass(void);
void checked_pass_end(void);

#ifdef __cplusplus
}
#endif

#endif
