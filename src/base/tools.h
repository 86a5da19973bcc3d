/* SPDX-License-Identifier: MIT */
/*
 * Warns if the program runs under a tool that this library was not built for.
 *
 * ASan, TSan and valgrind follow one stack for each thread. They take a switch to a task's stack
 * for a mistake of the program, or lose what they know about memory. A library that is built for
 * the tool announces its stacks (stack/sanitizer.h). Under any other library the tool reports
 * correct code and misses mistakes.
 */
#ifndef SENNIT_BASE_TOOLS_H
#define SENNIT_BASE_TOOLS_H

/*
 * The first call logs a line for each such tool, with the library to link instead. Only sn_run()
 * calls it, which only one thread at a time executes; the flag in it is therefore not atomic.
 */
void sn_tools_check(void);

#endif
