/* SPDX-License-Identifier: MIT */
/*
 * What is known of libraries that have thread-local variables, by their names.
 *
 * Contract. The names are those of files, without a folder, and are compared by how they begin. The
 * launcher judges the libraries that a program is linked with; the library that it preloads judges
 * those that are loaded when the first thread is created.
 */
#ifndef SENNIT_RUN_LOCALS_H
#define SENNIT_RUN_LOCALS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool run_begins_with_one_of(const char *name, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

/* Whether tasks may share the library's variables. errno and the like are read again after a wait,
 * or saved with the task; glibc's malloc() uses its cache between waits only, and frees it by a
 * call of the C library when the thread ends. */
static inline bool run_locals_are_harmless(const char *name)
{
	static const char *const known[] = {"libc.so",       "ld-linux",    "libm.so",
					    "libstdc++.so",  "libgcc_s.so", "libresolv.so",
					    "libpthread.so", "libsennit"};

	return run_begins_with_one_of(name, known, sizeof known / sizeof *known);
}

/* Whether the library cannot work with tasks: it has a variable that says which thread runs, as
 * runtimes of languages do, or a cache of malloc() that the destructor of a key frees. The value of
 * the key belongs to a task, so the end of that task frees the cache of a thread that continues. */
static inline bool run_locals_are_fatal(const char *name)
{
	static const char *const known[] = {
		"libjvm.so",    "libpython3",  "libruby",     "libperl.so", "libcoreclr.so",
		"libmono",      "libnode.so",  "libphp",      "libguile",   "libgo.so",
		"libjemalloc.", "libtcmalloc", "libmimalloc", "libsnmalloc"};

	return run_begins_with_one_of(name, known, sizeof known / sizeof *known);
}

#endif
