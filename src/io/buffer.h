/* SPDX-License-Identifier: MIT */
/*
 * Buffers for copying in userspace, kept in one pool. A copy borrows one when there is something to
 * read, and returns it when there is nothing more. Therefore only busy copies use memory: ten
 * thousand idle ones hold none.
 *
 * The pool keeps a few free buffers and frees the rest. A processor has up to two of its own
 * (sched/free_store.h), so that a request which is copied there writes no line that other
 * processors write. A borrowed buffer belongs to the borrower alone.
 */
#ifndef SENNIT_IO_BUFFER_H
#define SENNIT_IO_BUFFER_H

#include <stddef.h>

#include "base/fork.h"

/* Enough for one system call: with more than 64 KiB a loopback copy gains little, and it evicts
 * more of the L2 cache. */
#define SN_BUFFER_SIZE ((size_t)64 << 10)

/* Returns NULL if there is no memory. Any thread may borrow and return. */
void *sn_buffer_borrow(void);
void sn_buffer_return(void *buffer);

void sn_buffers_fork(enum sn_fork_phase phase);

#endif
