/* SPDX-License-Identifier: MIT */
/*
 * How the C library marks its objects, in words that it does not document.
 */
#include "marks.h"

#include <string.h>

bool sn_run_find_mark(struct sn_run_mark *mark, const void *without, const void *with, size_t size)
{
	int found = 0;

	for (size_t at = 0; at + sizeof mark->bits <= size; at += sizeof mark->bits) {
		unsigned plain, marked;

		memcpy(&plain, (const char *)without + at, sizeof plain);
		memcpy(&marked, (const char *)with + at, sizeof marked);
		if (plain == marked)
			continue;
		*mark = (struct sn_run_mark){.at = at, .bits = plain ^ marked, .plain = plain};
		found++;
	}
	return found == 1;
}
