/* SPDX-License-Identifier: MIT */
/*
 * The pool of pipes that splice needs.
 *
 * Contract. A copy borrows a pipe when there are bytes to move, and returns it when none are left,
 * so the pool serves many more copies than it has pipes. It never waits, and lack of a pipe is not
 * an error: the copy then goes through userspace, and the pool counts that.
 *
 * What is scarce. The pages that a user's pipes may hold together (fs.pipe-user-pages-soft, 64 MiB
 * by default) are shared with all other programs of that user, so the pool uses at most half of
 * them. Past the quota the kernel refuses to resize a pipe and makes new ones of two pages or one,
 * which splice 8 KiB at a time: worse than copying (SMALLEST in pipe_pool.c). Therefore the pool
 * checks which size the kernel has granted, closes a pipe that is too small, and makes none for a
 * while. Descriptors are scarce too: the pool keeps few free pipes, and accepting closes them all
 * when the process has run out of descriptors (io/shortage.h).
 *
 * Who gets how much. A receiver that does not read would keep its copy's pipe, and some clients
 * that do not read would soon have them all. Therefore at most half of the pipes, rounded up, are
 * lent for as long as the copy wants, unless memory has run out as well. The others are short loans
 * (is_short): when dst has no room, the copy takes its bytes out of the pipe and returns it
 * (splice.c). So the second half always comes back to flows that move. The bound is exact: a loan
 * is long only if no more than half of the pipes are borrowed with it. Rejected: taking a pipe back
 * after a time, when it may hold a MiB for which there is no memory yet; a number of pipes for each
 * listener or client, of which this file knows nothing.
 *
 * Who may write what: the pool's lock guards its lists; a borrowed pipe belongs to the borrower.
 * The lock is a leaf, and no system call is made while it is held. Any thread may call.
 */
#ifndef SENNIT_COPY_PIPE_POOL_H
#define SENNIT_COPY_PIPE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include <sennit/copy.h>

#include "base/fork.h"

struct sn_pipe {
	int read_end, write_end;
	size_t size;                 /* granted; it has no more pages than this */
	bool is_short;               /* the borrower does not wait with bytes in it */
	struct sn_pipe *next_free;   /* in the list of free pipes, under the pool's lock */
	struct sn_pipe *next, *prev; /* in the list of all pipes, under the pool's lock */
};

/* Returns an empty pipe, or NULL if there is none. */
struct sn_pipe *sn_pipe_borrow(void);

/* Returns the pipe. One that is not empty is closed, because its bytes must not reach another
 * copy. */
void sn_pipe_return(struct sn_pipe *pipe, bool empty);

/* Whether there may be pipes at all: false with SENNIT_PIPES=0. */
bool sn_pipes_wanted(void);

/* Zeroes *stats and fills in the counters of pipes. They are not read at the same instant. */
void sn_pipes_count(struct sn_copy_stats *stats);

/* Closes the free pipes (io/shortage.h). */
void sn_pipes_trim(void);

/* For tests: the same, and the environment and the quota are read again at the next use. */
void sn_pipes_reset(void);

void sn_pipes_fork(enum sn_fork_phase phase);

#endif
