/* SPDX-License-Identifier: MIT */
#include "copy/rate_limit.h"

#include <errno.h>

#include <sennit/clock.h>

#include "copy/copy_job.h"
#include "copy/copy_late.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"

/* The grant while there is no limit: small enough that a flow that never pauses notices a new
 * limit. */
#define UNLIMITED ((size_t)4 << 20)

/* A task that waits asks again at this interval, because the rate may have changed. */
#define LOOK_AGAIN_NS 250000000

/* The grant when the kernel does not say how many bytes there are, as after urgent data. */
#define UNKNOWN_SIZE ((size_t)4 << 10)

static int64_t take(struct sn_rate_limit *rate_limit, int64_t bytes)
{
	int64_t when;

	sn_runtime_leave();
	when = rate_limit->calls->take(rate_limit->calls->arg, rate_limit->direction, bytes);
	sn_runtime_enter();
	return when;
}

static size_t most_at_once(struct sn_rate_limit *rate_limit)
{
	size_t most;

	sn_runtime_leave();
	most = rate_limit->calls->most(rate_limit->calls->arg, rate_limit->direction);
	sn_runtime_enter();
	return most;
}

/* How many bytes there are to read; 0 at the end; or a negative errno. */
static ssize_t available(struct sn_copy_job *job)
{
	ssize_t n = sn_copy_attempt(job, SN_SIDE_READ);

	if (n < 0)
		return n;
	n = (ssize_t)sn_sys_readable(job->src->fd);
	sn_copy_attempt_end(job, SN_SIDE_READ);
	if (n > 0)
		return n;
	n = sn_copy_peek(job);
	return n > 0 ? (ssize_t)UNKNOWN_SIZE : n;
}

static int sleep_until(struct sn_copy_job *job, int64_t until)
{
	int err;

	SN_ASSERT(!job->holds_src);
	err = sn_fd_begin(job->src, SN_SIDE_READ);
	if (err < 0)
		return err;
	sn_conn_acknowledge(job->src);
	do {
		err = sn_fd_sleep(job->src, SN_SIDE_READ, until);
	} while (sn_copy_goes_on(job, SN_SIDE_READ, err));
	sn_fd_end(job->src, SN_SIDE_READ);
	return err;
}

/* Sleeps until `when`, or until the time that a later answer of the program gives. */
static int wait_for_grant(struct sn_copy_job *job, int64_t when)
{
	for (int64_t now; (now = sn_now()) < when; when = take(&job->relay->rate_limit, 0)) {
		const int64_t until = when - now > LOOK_AGAIN_NS ? now + LOOK_AGAIN_NS : when;
		int err;

		job->relay->rate_limit.pausing(job, until);
		err = sleep_until(job, until);
		if (err < 0)
			return sn_copy_fail(job, SN_COPY_READ, err);
	}
	return 0;
}

/* The most bytes of one grant. 0: there is no limit, and a large grant was made. */
static size_t limit_of(struct sn_rate_limit *rate_limit)
{
	size_t most = most_at_once(rate_limit);

	rate_limit->limited = most > 0;
	if (!rate_limit->limited)
		rate_limit->granted = UNLIMITED;
	return most;
}

bool sn_rate_limit_is_free(struct sn_copy_job *job)
{
	return job->relay->rate_limit.granted > 0 || limit_of(&job->relay->rate_limit) == 0;
}

int sn_rate_limit_begin(struct sn_copy_job *job)
{
	struct sn_rate_limit *rate_limit = &job->relay->rate_limit;
	size_t most;
	ssize_t n;
	int err;

	if (rate_limit->granted > 0)
		return SN_PASS_MORE;
	most = limit_of(rate_limit);
	if (most == 0)
		return SN_PASS_MORE;
	n = available(job);
	if (n == -EAGAIN)
		return SN_PASS_DRAINED;
	if (n <= 0)
		return n == 0 ? SN_PASS_END : sn_copy_fail(job, SN_COPY_READ, n);
	rate_limit->granted = (size_t)n < most ? (size_t)n : most;
	err = wait_for_grant(job, take(rate_limit, (int64_t)rate_limit->granted));
	return err < 0 ? err : SN_PASS_MORE;
}

void sn_rate_limit_end(struct sn_rate_limit *rate_limit)
{
	if (rate_limit->limited && rate_limit->granted > 0)
		take(rate_limit, -(int64_t)rate_limit->granted);
	rate_limit->granted = 0;
	rate_limit->limited = false;
}
