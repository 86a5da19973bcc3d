/* SPDX-License-Identifier: MIT */
/*
 * The inside of copying: a job, and what the paths for its bytes share.
 *
 * Bytes move in *passes* (copy_pass.h): a pass borrows what it needs (a buffer, a pipe), moves the
 * bytes that have arrived, returns what it borrowed, and says how it ended. Only the driver,
 * copy.c, decides what comes next, and only the driver waits for src. A pass never calls the
 * driver; the parts of the job that it uses are here.
 *
 *     relay.c -> copy.c -> copy_user.c, splice.c, file_copy.c, rate_limit.c -> copy_piece.c,
 *     low_water.c
 *                       -> copy_late.c, for attempts and waits
 *
 * A job belongs to the one task that runs it, which writes all fields; another task may continue it
 * after a pass. Everything here runs inside the runtime.
 */
#ifndef SENNIT_COPY_COPY_JOB_H
#define SENNIT_COPY_COPY_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/clock.h>
#include <sennit/copy.h>

#include "copy/coalesce.h"
#include "copy/copy_piece.h"
#include "copy/copy_policy.h"
#include "copy/rate_limit.h"
#include "copy/reset_origin.h"
#include "stream/stream.h"

/*
 * The additional state of a relay's direction. The relay passes the end of src on to dst
 * immediately.
 *
 * Order, here and in struct sn_copy_job: what a small piece needs comes first and has no gaps,
 * because a relay with thousands of connections finds none of it in the cache.
 */
struct sn_relayed {
	struct sn_reset_origin *origin;  /* of dst */
	const _Atomic uint32_t *answers; /* how often the other direction has moved bytes */
	struct sn_rate_limit rate_limit;
	struct sn_coalesce coalesce;
	uint32_t low_water; /* of src, once it was found to be 1 and may be changed
			     * (low_water.c); until then 0 */
};

struct sn_copy_job {
	struct sn_fd *dst, *src;
	int64_t left; /* bytes to copy; negative: until the end */
	struct sn_copy_result *result;
	/* Called after each chunk that dst has taken; must not park. NULL: none. */
	void (*delivered)(struct sn_copy_job *job, size_t n);
	struct sn_relayed *relay; /* NULL: a copy alone */
	/* Called when a deadline of either side has passed. Returns true if the deadline was moved
	 * in the meantime, or is moved now because there is something to copy. Must not park. NULL:
	 * deadlines are final (copy_late.h). */
	bool (*late)(struct sn_copy_job *job);

	/* The fields from here on belong to the copy, and are zero at first. */

	/* While a relay moves a piece through userspace: the time when it began to. The deadlines
	 * of both sides, the idle limit and coalescing all use it instead of reading the clock.
	 * Otherwise 0. */
	int64_t now;
	struct sn_copy_piece piece;
	bool begun;        /* the policy is initialised */
	bool may_splice;   /* until the kernel refuses */
	bool hold_sigpipe; /* SIGPIPE is not ignored by the program; known before the first
			    * splice */
	/* An operation that reads from src has begun, and attempts to read are part of it
	 * (sn_copy_hold_src()). */
	bool holds_src;
	/* The same for writing to dst: the last attempt has found no room
	 * (sn_copy_write_done()). */
	bool holds_dst;
	/* A relay: how often in a row another task was writing to dst (sn_copy_attempt()). */
	uint8_t busy;
	/* These are explained in copy_late.h. */
	bool waited[2];    /* the job has waited for the side, and made no attempt since */
	bool read_late;    /* the last attempt to read was made past src's deadline */
	_Atomic bool owes; /* the job has read bytes that dst has not taken yet */
	struct sn_copy_policy policy;
};

/* How a pass ended. A negative result is an error, and result->failed names the side. */
enum sn_pass {
	SN_PASS_END = 0, /* the stream has ended, or everything that was asked for is copied */
	SN_PASS_DRAINED, /* src has no more for now, or not enough while the job coalesces; what
			  * arrives next will be an edge */
	SN_PASS_FULL,    /* dst has no room; room will be an edge */
	SN_PASS_MORE,    /* there may be more; the pass has moved as much as it should, or may */
	SN_PASS_SWITCH,  /* there may be more, which should take another path */
};

static inline int sn_copy_fail(struct sn_copy_job *job, enum sn_copy_side side, ssize_t err)
{
	job->result->failed = side;
	return (int)err;
}

static inline bool sn_copy_is_rate_limited(const struct sn_copy_job *job)
{
	return job->relay && job->relay->rate_limit.calls;
}

static inline int64_t sn_copy_now(const struct sn_copy_job *job)
{
	return job->now ? job->now : sn_now();
}

/* The smallest of `most`, what is left to copy, and what the rate limit allows to be read now. */
static inline size_t sn_copy_limit(const struct sn_copy_job *job, size_t most)
{
	if (sn_copy_is_rate_limited(job) && job->relay->rate_limit.granted < most)
		most = job->relay->rate_limit.granted;
	return job->left >= 0 && (uint64_t)job->left < most ? (size_t)job->left : most;
}

/* The result of a pass when sn_copy_limit() is 0. */
static inline enum sn_pass sn_copy_limit_reached(const struct sn_copy_job *job)
{
	return job->left == 0 ? SN_PASS_END : SN_PASS_MORE;
}

/* Accounts for n bytes that were read. */
static inline void sn_copy_taken(struct sn_copy_job *job, size_t n)
{
	job->result->bytes_read += n;
	atomic_store_explicit(&job->owes, true, memory_order_relaxed);
	if (job->left >= 0)
		job->left -= (int64_t)n;
	if (sn_copy_is_rate_limited(job))
		job->relay->rate_limit.granted -= n;
}

/* Accounts for n bytes that dst has taken on one of the result's paths, and reports them. */
static inline void sn_copy_delivered(struct sn_copy_job *job, size_t n, uint64_t *path)
{
	job->result->bytes_written += n;
	*path += n;
	if (job->result->bytes_written == job->result->bytes_read)
		atomic_store_explicit(&job->owes, false, memory_order_relaxed);
	if (job->delivered)
		job->delivered(job, n);
}

/* These two surround each call that writes to dst; n is what it returned. */
static inline void sn_copy_write_begin(struct sn_copy_job *job)
{
	if (job->relay)
		sn_reset_origin_begin(job->relay->origin);
}

static inline void sn_copy_write_end(struct sn_copy_job *job, ssize_t n)
{
	if (job->relay)
		sn_reset_origin_end(job->relay->origin, n);
}

#endif
