/* SPDX-License-Identifier: MIT */
/*
 * Memory in whole pages, from the kernel instead of malloc().
 *
 * Whatever a wait may have to allocate comes from here: the heap of timers, and what is kept for
 * each descriptor. An allocator may sleep until another thread has released its lock, and under the
 * hooks that sleep parks the task. If the wait then called the allocator, the allocator would find
 * its lock taken, and sleep again, and so on without end. The slabs of task blocks come from here,
 * too (control_block.h).
 *
 * Under the address sanitizer the memory does come from malloc(), because leak checkers look only
 * there for what refers to other memory. It then begins at a multiple of 256 bytes, not at a page,
 * and signal handlers must not ask for it.
 *
 * Rejected: mremap() to grow. It would save a copy, which is rare because sizes double, but the
 * thread sanitizer does not know what the memory at the new place means.
 *
 * Any thread may call these functions, and so may signal handlers.
 */
#ifndef SENNIT_BASE_PAGES_H
#define SENNIT_BASE_PAGES_H

#include <stddef.h>

/* Returns zeroed memory at the beginning of a page, or NULL if there is none. */
void *sn_pages_take(size_t size);

/* Returns memory of a larger size with the contents, and gives the old back. If there is none, it
 * returns NULL, and the old stays. From NULL and 0: takes. */
void *sn_pages_grow(void *pages, size_t size, size_t larger);

/* `size` is the one with which the memory was taken, or grown to. NULL is ignored. */
void sn_pages_give(void *pages, size_t size);

#endif
