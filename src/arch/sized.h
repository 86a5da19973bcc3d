/* SPDX-License-Identifier: MIT */
/*
 * Structures of the public headers that grow: attributes, options and statistics. This is the only
 * place that compares their sizes.
 *
 * Contract. Each of them begins with `size_t size`, which the program sets to the size that its
 * header has. A later version appends fields, in which zero means what held before the field
 * existed. It never puts one into what was padding at the end, because older programs need not set
 * padding to zero. A program and a library of different versions therefore understand each other:
 *
 *   taking (attributes)   a smaller structure is completed with zeros. A larger one is accepted if
 *                         the fields that this library does not know are zero. Otherwise the call
 *                         returns -E2BIG, because the program asks for something that this library
 *                         cannot do
 *   giving (statistics)   a smaller structure gets the fields that it has; a larger one gets zeros
 *                         in the fields that this library does not know. Nothing beyond its size is
 *                         written
 *
 * That is what the kernel's copy_struct_from_user() does. A size that has no room for itself, such
 * as the 0 of a program that forgot it, is -EINVAL. One above SN_SIZED_MOST was never set, and is
 * -E2BIG, before anything is read or written by it.
 *
 * Rejected: reserved words at the end, which run out, and which old programs do not set to zero;
 * the size as a parameter of each call, which is one more to forget, and which no macro could set.
 *
 * Header-only, because the libraries beside libsennit have such structures too. Any thread.
 */
#ifndef SENNIT_ARCH_SIZED_H
#define SENNIT_ARCH_SIZED_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* No such structure will be larger than a page. */
#define SN_SIZED_MOST ((size_t)4096)

/* Reads the size that a program has set into *size. Returns 0 or an error. */
static inline int sn_sized_read(const void *theirs, size_t *size)
{
	memcpy(size, theirs, sizeof *size);
	if (*size < sizeof *size)
		return -EINVAL;
	return *size > SN_SIZED_MOST ? -E2BIG : 0;
}

/* Copies a program's structure into the library's, which has `size` bytes, and completes it with
 * zeros. theirs may be NULL, for all zeros. Returns 0 or an error, after which *ours is
 * undefined. */
static inline int sn_sized_take(void *ours, size_t size, const void *theirs)
{
	size_t given = sizeof given;

	if (theirs) {
		int err = sn_sized_read(theirs, &given);

		if (err < 0)
			return err;
		for (size_t i = size; i < given; i++)
			if (((const char *)theirs)[i])
				return -E2BIG;
		if (given > size)
			given = size;
		memcpy(ours, theirs, given);
	}
	memset((char *)ours + given, 0, size - given);
	memcpy(ours, &size, sizeof size);
	return 0;
}

/* Fills a program's structure from the library's, except for its size. Returns 0 or an error. */
static inline int sn_sized_give(void *theirs, const void *ours, size_t size)
{
	size_t given;
	int err = theirs ? sn_sized_read(theirs, &given) : -EINVAL;

	if (err < 0)
		return err;
	if (given > size) {
		memset((char *)theirs + size, 0, given - size);
		given = size;
	}
	memcpy((char *)theirs + sizeof given, (const char *)ours + sizeof given,
	       given - sizeof given);
	return 0;
}

/* The same for a structure and a pointer to one, whose types are checked. */
#define SN_SIZED_TAKE(ours, theirs) \
	sn_sized_take((ours), sizeof *(ours), 1 ? (theirs) : (const __typeof__(*(ours)) *)NULL)
#define SN_SIZED_GIVE(theirs, ours) \
	sn_sized_give(1 ? (theirs) : (__typeof__(*(ours)) *)NULL, (ours), sizeof *(ours))

#endif
