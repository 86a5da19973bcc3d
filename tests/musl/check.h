/* SPDX-License-Identifier: MIT */
/* What the programs of this folder share. A check that fails ends the program with its place. */
#ifndef SENNIT_TESTS_MUSL_CHECK_H
#define SENNIT_TESTS_MUSL_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			_Exit(1);                                                               \
		}                                                                               \
	} while (0)

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

#endif
