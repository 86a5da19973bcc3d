/* SPDX-License-Identifier: MIT */
/*
 * The pool of pipes that splice needs.
 *
 * Contract. A pipe belongs to a copy only between borrowing and returning, when there are bytes to
 * move and when none are left; so the pool serves many more copies than it has pipes. It never
 * waits, and lack of a pipe is no error: the copy then goes through userspace, which is correct,
 * and counted.
 *
 * What is scarce. The pages that a user's pipes may hold together (fs.pipe-user-pages-soft, 64 MiB
 * by default) are shared with all other programs of that user, so the pool uses at most half of
 * them. Past the quota the kernel refuses to resize a pipe and makes new ones of two pages or one,
 * which splice 8 KiB at a time: worse than copying (SMALLEST in pipe_pool.c). So the pool asks for
 * the size that was granted, closes a pipe that is too small, and makes none for a while.
 * Descriptors are scarce too: few free pipes are kept, and accepting closes them all when the
 * process has run out.
 *
 * Lock order: the pool's lock is a leaf. Any thread.
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
	struct sn_pipe *next_free;   /* the pool's */
	struct sn_pipe *next, *prev; /* of all that exist; the pool's */
};

/* An empty pipe, or NULL. */
struct sn_pipe *sn_pipe_borrow(void);

/* A pipe that is not empty is closed: its bytes must not reach another copy. */
void sn_pipe_return(struct sn_pipe *pipe, bool empty);

/* Whether there may be pipes at all: false with SENNIT_PIPES=0. */
bool sn_pipes_wanted(void);

/* Zeroes *stats and fills in the counters of pipes, which are not read at the same instant. */
void sn_pipes_count(struct sn_copy_stats *stats);

/* Closes the free pipes (io/shortage.h). */
void sn_pipes_trim(void);

/* For tests: the same; and the environment and the quota are read again. */
void sn_pipes_reset(void);

void sn_pipes_fork(enum sn_fork_phase phase);

#endif
