/* SPDX-License-Identifier: MIT */
#include "base/pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/compiler.h"

#if SN_ASAN
#	define ALIGNMENT 256 /* what is kept here needs two cache lines at most */

void *sn_pages_take(size_t size)
{
	const size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *pages = aligned_alloc(ALIGNMENT, rounded);

	return pages ? memset(pages, 0, rounded) : NULL;
}

void sn_pages_give(void *pages, size_t size)
{
	(void)size;
	free(pages);
}
#else
/* Without a reservation: of an array of task blocks, for instance, only a part may ever be used. */
void *sn_pages_take(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return pages != MAP_FAILED ? pages : NULL;
}

void sn_pages_give(void *pages, size_t size)
{
	if (pages)
		munmap(pages, size);
}
#endif

void *sn_pages_grow(void *pages, size_t size, size_t larger)
{
	void *made = sn_pages_take(larger);

	if (!made)
		return NULL;
	if (pages)
		memcpy(made, pages, size);
	sn_pages_give(pages, size);
	return made;
}
