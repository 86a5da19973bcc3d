/* SPDX-License-Identifier: MIT */
/*
 * Whether sennit-run can run a program, and if not, why.
 *
 * Contract. Reads the file, and an interpreter that it names, and runs nothing. What it reads of an
 * ELF file is bounded, and a file that contradicts itself is one that cannot be read. The verdict
 * is about the file alone: its libraries are known when it runs (library/start.c).
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
	bool forcible;             /* refused for what it might do, which --force accepts */
	char reason[2 * PATH_MAX]; /* why not: "PATH: it is linked statically" */
	char path[PATH_MAX];       /* the file */
	/* The file is a script for this program, found by env(1), which then gets the file's path as
	 * its first argument. Empty otherwise. */
	char interpreter[PATH_MAX];
};

/* Finds the program as execvp() does, and reads it. */
void run_judge(const char *name, struct run_verdict *verdict);

#endif
