/* SPDX-License-Identifier: MIT */
/* CHECK: if the condition does not hold, prints it and ends the process immediately with status
 * 1. */
#ifndef SENNIT_BENCH_CHECK_H
#define SENNIT_BENCH_CHECK_H

#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition)) {                                                      \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, \
				#condition);                                             \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

#endif
