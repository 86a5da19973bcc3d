/* SPDX-License-Identifier: MIT */
/*
 * Copying: the driver, which decides which path the bytes take next, and waits in between.
 *
 * A flow goes through userspace while it is small, and is spliced while it is large: copy_policy.h.
 *
 * A relay may wait until more than one piece has arrived before it reads: coalesce.h. Its direction
 * may be held back: rate_limit.h.
 *
 * If src or dst is a pipe, splice needs no pipe in between. If src is a file, sendfile and
 * copy_file_range need none either, and are tried from the start. If the kernel refuses (EINVAL),
 * the rest goes through userspace.
 */
#include "copy/copy.h"

#include <errno.h>
#include <limits.h>

#include "arch/sized.h"
#include "copy/copy_late.h"
#include "copy/copy_pass.h"
#include "copy/low_water.h"
#include "copy/pipe_pool.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"

/* ---- which way ---- */

static bool needs_no_pipe(const struct sn_copy_job *job)
{
	return sn_conn_kind(job->src) == SN_KIND_PIPE || sn_conn_kind(job->dst) == SN_KIND_PIPE;
}

/* Whether splice supports both kinds, and the program has not forbidden pipes (SENNIT_PIPES=0). */
static bool suitable(const struct sn_copy_job *job)
{
	return sn_conn_kind(job->src) != SN_KIND_LAYERED &&
	       sn_conn_kind(job->dst) != SN_KIND_LAYERED &&
	       sn_conn_kind(job->src) != SN_KIND_OTHER && sn_conn_kind(job->dst) != SN_KIND_OTHER &&
	       (needs_no_pipe(job) || sn_pipes_wanted());
}

static void start_splicing(struct sn_copy_job *job)
{
	sn_policy_begin(&job->policy);
	/* Checked only here, so that small copies do not pay for it. */
	job->hold_sigpipe = !sn_sys_sigpipe_ignored();
}

static void begin(struct sn_copy_job *job)
{
	if (job->begun)
		return;
	job->begun = true;
	sn_policy_init(&job->policy);
	job->may_splice = suitable(job);
	if (sn_conn_kind(job->src) == SN_KIND_FILE)
		start_splicing(job);
}

static int pass_in_userspace(struct sn_copy_job *job, int most)
{
	int end = sn_user_pass(job, most);

	if (end == SN_PASS_SWITCH)
		start_splicing(job);
	return end;
}

static int pass_directly(struct sn_copy_job *job)
{
	int end = sn_direct_pass(job);

	if (end == SN_PASS_SWITCH)
		sn_policy_end(&job->policy);
	return end;
}

static int pass_through_pipe(struct sn_copy_job *job)
{
	struct sn_pipe *pipe = sn_pipe_borrow();
	uint64_t moved;
	bool clean;
	int end;

	if (!pipe) {
		sn_policy_pause(&job->policy);
		return SN_PASS_SWITCH;
	}
	end = sn_splice_pass(job, pipe, &moved, &clean);
	sn_pipe_return(pipe, clean);
	/* With SN_PASS_FULL the rest is a piece, which is written from userspace. A flow that does
	 * that often is better off there: it pays for the splice and for the copy. */
	if (sn_policy_pass(&job->policy, moved) || end == SN_PASS_SWITCH || end == SN_PASS_FULL)
		sn_policy_end(&job->policy);
	return end;
}

static int next_pass(struct sn_copy_job *job)
{
	if (!job->policy.splicing || !job->may_splice)
		return pass_in_userspace(job, INT_MAX);
	if (sn_conn_kind(job->src) == SN_KIND_FILE)
		return sn_file_pass(job);
	return needs_no_pipe(job) ? pass_directly(job) : pass_through_pipe(job);
}

/* ---- waiting ---- */

static int wait_for(struct sn_copy_job *job, enum sn_side_index side)
{
	int err = sn_copy_wait(job, side);

	return err < 0 ? sn_copy_fail(job, side == SN_SIDE_READ ? SN_COPY_READ : SN_COPY_WRITE, err)
		       : 0;
}

/* Waits for the side that stopped the pass. Returns 0 when there may be another pass. */
static int wait_after(struct sn_copy_job *job, int end)
{
	if (end == SN_PASS_FULL)
		return wait_for(job, SN_SIDE_WRITE);
	if (end != SN_PASS_DRAINED)
		return 0;
	return sn_low_water_is_set(job) ? sn_low_water_wait(job) : wait_for(job, SN_SIDE_READ);
}

/* Runs a pass within the grant of the direction's pace. The bytes of a piece that is still to be
 * written were granted when they were read. */
static int limited_pass(struct sn_copy_job *job)
{
	int end = job->piece.buffer ? SN_PASS_MORE : sn_rate_limit_begin(job);

	if (end == SN_PASS_MORE)
		end = next_pass(job);
	if (end == SN_PASS_DRAINED)
		sn_rate_limit_end(&job->relay->rate_limit);
	return end;
}

/* Runs passes until src ends, or something fails. */
static int run(struct sn_copy_job *job)
{
	int end = SN_PASS_MORE;

	/* Begins with the rest of a piece that sn_copy_try() has left, or waits first if src is
	 * likely to be silent: a backend that was just connected to, for example, sends nothing
	 * before it is asked. */
	if (job->piece.buffer)
		end = SN_PASS_FULL;
	else if (!job->begun && job->left != 0 && sn_conn_is_tcp(job->src) &&
		 sn_fd_is_silent(job->src))
		end = SN_PASS_DRAINED;
	begin(job);
	do {
		int err = wait_after(job, end);

		if (err < 0)
			return err;
		end = sn_copy_is_rate_limited(job) ? limited_pass(job) : next_pass(job);
	} while (end > 0);
	return end;
}

int sn_copy_run(struct sn_copy_job *job)
{
	int end;

	SN_ASSERT(!job->holds_src);
	end = run(job);
	sn_piece_settle(job);
	sn_piece_return(&job->piece);
	if (sn_copy_is_rate_limited(job))
		sn_rate_limit_end(&job->relay->rate_limit);
	/* A descriptor that was closed may belong to another stream by now. */
	if (end != -EBADF)
		sn_low_water_reset(job);
	return end;
}

/*
 * How many pieces sn_copy_try() moves: two, because one mostly takes all that there is. A flow that
 * leaves more than that gets a task of its own before the other direction waits for long.
 */
#define PIECES_OF_A_TRY 2

int sn_copy_try(struct sn_copy_job *job)
{
	int end;

	begin(job);
	if (sn_copy_is_rate_limited(job) && !sn_rate_limit_is_free(job))
		return SN_PASS_MORE;
	end = pass_in_userspace(job, PIECES_OF_A_TRY);
	if (sn_copy_is_rate_limited(job) && (end <= 0 || end == SN_PASS_DRAINED))
		sn_rate_limit_end(&job->relay->rate_limit);
	return end == SN_PASS_DRAINED && sn_low_water_is_set(job) ? SN_PASS_MORE : end;
}

/* ---- the public call ---- */

struct reported_copy {
	struct sn_copy_job job; /* first */
	sn_copy_progress *progress;
	void *arg;
};

/* The progress function is the caller's code, so it is called outside the runtime: it may use calls
 * that do not park. */
static void report(struct sn_copy_job *job, size_t n)
{
	struct reported_copy *copy = sn_container_of(job, struct reported_copy, job);

	sn_runtime_leave();
	copy->progress(copy->arg, n);
	sn_runtime_enter();
}

/* Like sn_fd_use_handle(), for streams without message boundaries. */
static int use_stream(struct sn_fd **d, const void *handle)
{
	int err = sn_fd_use_handle(d, handle);

	if (err == 0 && sn_conn_has_messages(*d)) {
		sn_fd_unuse(*d);
		err = -EPROTOTYPE;
	}
	return err;
}

/* Runs the job as brief if none of its calls can block: between sockets and pipes, without a
 * progress function, which may do anything that does not park. */
static int run_alone(struct sn_copy_job *job)
{
	const bool brief = job->src->registered && job->dst->registered && !job->delivered;
	int err;

	if (brief)
		sn_brief_begin();
	err = sn_copy_run(job);
	if (brief)
		sn_brief_end();
	return err;
}

int sn_copy(sn_stream *dst, sn_stream *src, int64_t n, sn_copy_progress *progress, void *arg,
	    struct sn_copy_result *result)
{
	struct sn_copy_result unwanted;
	struct reported_copy copy = {.job = {.left = n,
					     .result = result ? result : &unwanted,
					     .delivered = progress ? report : NULL},
				     .progress = progress,
				     .arg = arg};
	struct sn_copy_job *job = &copy.job;
	int err;

	*job->result = (struct sn_copy_result){0};
	if (!sn_runtime_enter())
		return -ENOTSUP;
	/* Another task may close a stream during this call, but its block must not be reused before
	 * the end. */
	err = use_stream(&job->dst, dst);
	if (err < 0) {
		sn_copy_fail(job, SN_COPY_WRITE, err);
	} else {
		err = use_stream(&job->src, src);
		if (err < 0) {
			sn_copy_fail(job, SN_COPY_READ, err);
		} else {
			err = run_alone(job);
			sn_fd_unuse(job->src);
		}
		sn_fd_unuse(job->dst);
	}
	sn_runtime_leave();
	return err;
}

int sn_copy_stats(struct sn_copy_stats *stats)
{
	struct sn_copy_stats current;

	sn_pipes_count(&current);
	current.coalesced_late = sn_low_water_late();
	return SN_SIZED_GIVE(stats, &current);
}
