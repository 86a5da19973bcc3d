/* SPDX-License-Identifier: MIT */
/*
 * Whether sennit-run can run a program, and if not, why.
 *
 * Contract. Reads the file, the interpreter that a script names, and the libraries with which the
 * program is linked (libraries.h). Executes nothing but the dynamic linker, and no code of theirs.
 * What is read of an ELF file is bounded. A file whose headers contradict each other is refused; a
 * library that cannot be read is left to the dynamic linker. Libraries that the program opens by
 * dlopen() are judged when it creates its first thread (library/start.c).
 */
#ifndef SENNIT_RUN_PROGRAM_H
#define SENNIT_RUN_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Exit statuses, as those of env(1) and timeout(1). */
enum {
	RUN_REFUSED = 125,    /* sennit-run itself failed, or cannot run this program */
	RUN_NO_PROGRAM = 126, /* it is there, and cannot be executed */
	RUN_NOT_FOUND = 127,
};

struct run_verdict {
	int status;                /* 0: it can be run */
	bool forcible;             /* refused for what it may do, which --force accepts */
	char reason[2 * PATH_MAX]; /* why not: "PATH: it is linked statically" */
	char path[PATH_MAX];       /* the file */
	/* The file is a script for this program, found by env(1), which then gets the file's path
	 * as its first argument. Empty otherwise. */
	char interpreter[PATH_MAX];
	/* A line for each library with thread-local variables, as many as there is room for. */
	char notes[4096];
};

/* Finds the program as execvp() does, and reads it. */
void run_judge(const char *name, struct run_verdict *verdict);

#endif
