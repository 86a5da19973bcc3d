/* SPDX-License-Identifier: MIT */
/*
 * The tools that a program runs under, and what this library was built for.
 *
 * ASan, TSan and valgrind follow one stack for each thread. They take a switch to a task's stack
 * for a mistake of the program, or lose what they know. A library that is built for the tool
 * announces its stacks (stack/sanitizer.h). With one that is not, the tool reports correct code and
 * misses mistakes, so the user has to be warned.
 */
#ifndef SENNIT_BASE_TOOLS_H
#define SENNIT_BASE_TOOLS_H

/*
 * The first call logs a line for each such tool, with the library to link instead. Called by
 * sn_run(), which only one thread at a time is in.
 */
void sn_tools_check(void);

#endif
