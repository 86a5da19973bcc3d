/* SPDX-License-Identifier: MIT */
/* What a benchmark relies on: says what does not hold, and ends the process with 1, whatever else runs. */
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
