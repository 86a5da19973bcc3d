/* SPDX-License-Identifier: MIT */
/*
 * Which libraries the dynamic linker loads for a program.
 *
 * Contract. The dynamic linker itself says it (--list), because it alone knows all of its rules:
 * run paths, its cache, LD_LIBRARY_PATH, LD_PRELOAD. It maps the files and executes no code of
 * theirs. If it fails, there are no libraries: it fails again when the program is executed, and
 * says why. Libraries that a program opens by dlopen() are unknown before it runs.
 */
#ifndef SENNIT_RUN_LIBRARIES_H
#define SENNIT_RUN_LIBRARIES_H

typedef void run_library_fn(const char *path, void *arg);

/* Calls fn for each library of the program. `linker` is the path of the dynamic linker. */
void run_libraries(const char *linker, const char *program, run_library_fn *fn, void *arg);

#endif
