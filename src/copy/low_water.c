/* SPDX-License-Identifier: MIT */
#include "copy/low_water.h"

#include <errno.h>
#include <sys/socket.h>

#include <sennit/clock.h>

#include "copy/copy_job.h"
#include "copy/copy_late.h"
#include "io/sys.h"
#include "sched/netpoll.h"

static _Atomic uint64_t nlate; /* waits that ended without enough */

uint64_t sn_low_water_late(void)
{
	return atomic_load_explicit(&nlate, memory_order_relaxed);
}

static void set(struct sn_copy_job *job, uint32_t size)
{
	if (job->relay->low_water == size || sn_fd_use(job->src) < 0)
		return; /* the next read finds out about a failure */
	job->relay->low_water = size;
	sn_sys_set_option(job->src->fd, SOL_SOCKET, SO_RCVLOWAT, (int)size);
	sn_fd_unuse(job->src);
}

/* Whether the copy may change the mark: not if the program has set one of its own. */
static bool is_ours_to_set(struct sn_copy_job *job)
{
	struct sn_relayed *relay = job->relay;

	if (sn_fd_use(job->src) < 0)
		return false;
	if (sn_sys_low_water(job->src->fd) == 1)
		relay->low_water = 1;
	else
		relay->coalesce.how = SN_RELAY_COALESCE_NEVER;
	sn_fd_unuse(job->src);
	return relay->low_water == 1;
}

/* Whether enough bytes are left to read on now: bytes that have arrived already will not be an
 * edge. */
static bool is_enough_left(struct sn_copy_job *job)
{
	bool enough;

	if (sn_fd_use(job->src) < 0)
		return true; /* the next read finds out */
	enough = sn_sys_readable(job->src->fd) >= job->relay->coalesce.enough;
	sn_fd_unuse(job->src);
	return enough;
}

static uint32_t answers(const struct sn_copy_job *job)
{
	return atomic_load_explicit(job->relay->answers, memory_order_relaxed);
}

bool sn_low_water_coalesces(struct sn_copy_job *job, size_t n)
{
	struct sn_coalesce *coalesce;

	/* After an end, an error or urgent data there may be no more edges. */
	if (!job->relay || job->relay->coalesce.how == SN_RELAY_COALESCE_NEVER ||
	    !sn_conn_drained(job->src))
		return false;
	coalesce = &job->relay->coalesce;
	if (coalesce->enough)
		return sn_coalesce_more(coalesce, n) && !is_enough_left(job);
	/* Where the poller has a resolution of milliseconds, bytes would be late, so this needs the
	 * program's request. */
	if (coalesce->how == SN_RELAY_COALESCE_AUTO && !sn_netpoll_is_exact())
		return false;
	if (!sn_coalesce_piece(coalesce, sn_copy_now(job), n, answers(job)))
		return false;
	if (job->relay->low_water || is_ours_to_set(job))
		return !is_enough_left(job);
	coalesce->enough = 0;
	return false;
}

bool sn_low_water_is_set(const struct sn_copy_job *job)
{
	return job->relay && job->relay->coalesce.enough;
}

int sn_low_water_wait(struct sn_copy_job *job)
{
	struct sn_coalesce *coalesce = &job->relay->coalesce;
	const int64_t now = sn_now();
	const uint32_t enough = sn_coalesce_wait(coalesce, now, answers(job));
	int n;

	SN_ASSERT(!job->holds_src);
	/* Set even when coalescing stops. Bytes that have arrived since the last read, but were not
	 * enough, have made no edge, so there may be something to read now. */
	set(job, enough ? enough : 1);
	if (enough == 0)
		return 0;
	do {
		n = sn_conn_wait_until(job->src, SN_SIDE_READ, now + SN_COALESCE_MOST_NS);
	} while (sn_copy_goes_on(job, SN_SIDE_READ, n));
	if (n == 1)
		atomic_fetch_add_explicit(&nlate, 1, memory_order_relaxed);
	return n < 0 ? sn_copy_fail(job, SN_COPY_READ, n) : 0;
}

void sn_low_water_reset(struct sn_copy_job *job)
{
	if (job->relay && job->relay->low_water)
		set(job, 1);
}
