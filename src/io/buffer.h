/* SPDX-License-Identifier: MIT */
/*
 * Buffers for copying in userspace, kept in one pool. A copy borrows one when there is something to
 * read, and returns it as soon as there is not. So memory is used by the copies that are busy, not
 * by those that are open: ten thousand idle ones hold none.
 */
#ifndef SENNIT_IO_BUFFER_H
#define SENNIT_IO_BUFFER_H

#include <stddef.h>

#include "base/fork.h"

/* Enough for one system call: beyond 64 KiB a loopback copy gains little, and the L2 cache
 * loses. */
#define SN_BUFFER_SIZE ((size_t)64 << 10)

/* NULL without memory. Any thread. */
void *sn_buffer_borrow(void);
void sn_buffer_return(void *buffer);

void sn_buffers_fork(enum sn_fork_phase phase);

#endif
