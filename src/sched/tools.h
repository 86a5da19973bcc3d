/* SPDX-License-Identifier: MIT */
/*
 * The tools that a program runs under, and what this library was built for.
 *
 * ASan, TSan and valgrind follow each thread's one stack, and take a switch to a task's for a
 * mistake of the program's, or lose what they know. A library that is built for the tool tells it
 * (sanitizer.h). One that is not lets it report what is right and miss what is wrong; the user has
 * to be told.
 */
#ifndef SENNIT_SCHED_TOOLS_H
#define SENNIT_SCHED_TOOLS_H

/*
 * Logs a line for each such tool, with the library to link instead: the first time that it is
 * called. By sn_run(), which one thread at a time is in.
 */
void sn_tools_check(void);

#endif
