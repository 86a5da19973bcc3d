/* SPDX-License-Identifier: MIT */
/*
 * For task_test.cc. In C, because the library's headers are.
 */
#ifndef SENNIT_TESTS_ARCH_THREAD_BLOCK_H
#define SENNIT_TESTS_ARCH_THREAD_BLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Parks the given number of times, and looks at its thread's block before and after each park. All
 * of this is one function, so that a compiler that assumes a constant address of the block would
 * keep it. Returns how often the block was the wrong one, and adds to *moves how often the task
 * moved to another thread. Runs in a task.
 */
int thread_block_follows(int rounds, int *moves);

#ifdef __cplusplus
}
#endif

#endif
