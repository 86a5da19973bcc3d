/* SPDX-License-Identifier: MIT */
/*
 * For task_test.cc, in C as the library's headers are.
 */
#ifndef SENNIT_TESTS_ARCH_THREAD_BLOCK_H
#define SENNIT_TESTS_ARCH_THREAD_BLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Parks so many times, and looks at its thread's block before and after, all in one function, so
 * that a compiler that took the block's address for constant would keep it. Returns how often it
 * was the wrong one; adds to *moves how often the task came to another thread. Runs in a task.
 */
int thread_block_follows(int rounds, int *moves);

#ifdef __cplusplus
}
#endif

#endif
