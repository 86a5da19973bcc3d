/* SPDX-License-Identifier: MIT */
/* For the programs that run_test.py runs: what does not hold is printed and counted. */
#ifndef TESTS_SENNIT_RUN_CHECK_H
#define TESTS_SENNIT_RUN_CHECK_H

#include <stdio.h>

extern int failures; /* written by any thread: the program is about to fail */

#define CHECK(what)                                                                     \
	do {                                                                            \
		if (!(what)) {                                                          \
			printf("%s:%d does not hold: %s\n", __FILE__, __LINE__, #what); \
			failures++;                                                     \
		}                                                                       \
	} while (0)

/* ---- c11.c ---- */

/* Threads, values and condition variables of C11. */
void check_c11(void);

#endif
