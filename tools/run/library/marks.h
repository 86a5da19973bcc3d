/* SPDX-License-Identifier: MIT */
/*
 * How the C library marks its objects: that one is shared between processes, for example.
 *
 * Contract. The marks are in words whose layout is the C library's own. They are found once, when
 * the runtime begins, by comparing an object that has the mark with one that has not.
 */
#ifndef SENNIT_RUN_LIBRARY_MARKS_H
#define SENNIT_RUN_LIBRARY_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/* Bits of one word of the object. */
struct sn_run_mark {
	size_t at;
	unsigned bits, plain; /* plain: the word without the mark */
};

/* Both objects are new, and have that size. Returns false if not exactly one word distinguishes
 * them. */
bool sn_run_find_mark(struct sn_run_mark *mark, const void *without, const void *with, size_t size);

/* Whether the object has the mark. Other threads may use the object. */
static inline bool sn_run_is_marked(const struct sn_run_mark *mark, const void *object)
{
	const unsigned *word = (const void *)((const char *)object + mark->at);

	return ((__atomic_load_n(word, __ATOMIC_RELAXED) ^ mark->plain) & mark->bits) != 0;
}

#endif
