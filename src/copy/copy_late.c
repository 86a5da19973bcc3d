/* SPDX-License-Identifier: MIT */
#include "copy/copy_late.h"

#include <errno.h>

#include <sennit/task.h>

#include "copy/copy_job.h"
#include "io/sys.h"
#include "sched/switch.h"

/* How long a relay waits for another writer: the pause doubles from the first, MOST_BUSY - 1 times.
 * Nothing wakes the relay when the other ends, because that would cost every write a look. */
#define FIRST_PAUSE_NS INT64_C(1000000)
#define MOST_BUSY 5

static struct sn_fd *fd_of(const struct sn_copy_job *job, enum sn_side_index side)
{
	return side == SN_SIDE_READ ? job->src : job->dst;
}

static bool is_late(const struct sn_copy_job *job, enum sn_side_index side)
{
	return sn_fd_check_deadline(fd_of(job, side), side) < 0;
}

/* False if the judge (`late`) has not moved the deadline of this side, for example because it is
 * not the relay's own: then the copy ends. */
bool sn_copy_goes_on(struct sn_copy_job *job, enum sn_side_index side, int err)
{
	return err == -ETIMEDOUT && job->late && job->late(job) && !is_late(job, side);
}

/* Whether an attempt of a copy alone may be made past the deadline. */
static bool owes_look(struct sn_copy_job *job, enum sn_side_index side)
{
	const bool waited = job->waited[side];

	if (job->late)
		return false;
	job->waited[side] = false;
	if (side == SN_SIDE_WRITE)
		return waited || job->read_late;
	job->read_late = waited && is_late(job, side);
	return job->read_late;
}

int sn_copy_hold_src(struct sn_copy_job *job)
{
	int err = job->holds_src ? 0 : sn_fd_begin(job->src, SN_SIDE_READ);

	job->holds_src = err == 0;
	return err;
}

void sn_copy_release_src(struct sn_copy_job *job)
{
	if (!job->holds_src)
		return;
	job->holds_src = false;
	sn_fd_end(job->src, SN_SIDE_READ);
}

void sn_copy_write_done(struct sn_copy_job *job, ssize_t n)
{
	job->holds_dst = n == -EAGAIN && job->dst->registered;
	if (!job->holds_dst)
		sn_fd_end(job->dst, SN_SIDE_WRITE);
}

void sn_copy_release_dst(struct sn_copy_job *job)
{
	if (!job->holds_dst)
		return;
	job->holds_dst = false;
	sn_fd_end(job->dst, SN_SIDE_WRITE);
}

/* Whether the attempt is part of the operation that the job holds. */
static bool is_held(const struct sn_copy_job *job, enum sn_side_index side)
{
	return side == SN_SIDE_READ ? job->holds_src : job->holds_dst;
}

static int continue_held(struct sn_copy_job *job, enum sn_side_index side)
{
	struct sn_fd *d = fd_of(job, side);
	int err = sn_fd_check(d);

	return err ? err : sn_conn_check_deadline_at(d, side, job->now);
}

int sn_copy_attempt(struct sn_copy_job *job, enum sn_side_index side)
{
	struct sn_fd *d = fd_of(job, side);
	int err;

	if (owes_look(job, side))
		return is_held(job, side) ? sn_fd_check(d) : sn_fd_begin(d, side);
	do {
		err = is_held(job, side) ? continue_held(job, side)
					 : sn_conn_attempt_begin_at(d, side, job->now);
	} while (sn_unlikely(err < 0) && sn_copy_goes_on(job, side, err));
	if (side == SN_SIDE_READ || !job->relay)
		return err;
	job->busy = err == -EBUSY ? (uint8_t)(job->busy + (job->busy < MOST_BUSY)) : 0;
	return err == -EBUSY ? -EAGAIN : err;
}

void sn_copy_attempt_end(struct sn_copy_job *job, enum sn_side_index side)
{
	if (!is_held(job, side))
		sn_fd_end(fd_of(job, side), side);
}

ssize_t sn_copy_peek(struct sn_copy_job *job)
{
	ssize_t n = sn_copy_attempt(job, SN_SIDE_READ);

	if (n < 0)
		return n;
	/* Other kinds have no urgent data, and cannot be peeked at, so this says yes and the
	 * next read finds out. */
	n = sn_conn_kind(job->src) == SN_KIND_SOCKET ? sn_sys_peek(job->src->fd) : 1;
	sn_copy_attempt_end(job, SN_SIDE_READ);
	return n;
}

static int wait_for_bytes(struct sn_copy_job *job)
{
	int err;

	SN_ASSERT(!job->holds_src);
	do {
		err = sn_conn_wait(job->src, SN_SIDE_READ);
	} while (sn_copy_goes_on(job, SN_SIDE_READ, err));
	return err;
}

int sn_copy_await_room(struct sn_copy_job *job)
{
	int err;

	do {
		err = sn_fd_await(job->dst, SN_SIDE_WRITE);
	} while (sn_copy_goes_on(job, SN_SIDE_WRITE, err));
	/* The job ends. Room that is made now must not keep the other direction waiting. */
	if (err < 0)
		atomic_store_explicit(&job->owes, false, memory_order_relaxed);
	return err;
}

int sn_copy_wait_for_writer(struct sn_copy_job *job)
{
	/* A reason to stop is found by the next attempt. */
	sn_runtime_leave();
	(void)!sn_sleep(FIRST_PAUSE_NS << (job->busy ? job->busy - 1 : 0));
	sn_runtime_enter();
	if (!is_late(job, SN_SIDE_WRITE) || sn_copy_goes_on(job, SN_SIDE_WRITE, -ETIMEDOUT))
		return 0;
	/* As in sn_copy_await_room(): nobody must judge by what this job will not write. */
	atomic_store_explicit(&job->owes, false, memory_order_relaxed);
	return -ETIMEDOUT;
}

static int wait_for_room(struct sn_copy_job *job)
{
	int err;

	if (sn_unlikely(job->busy))
		return sn_copy_wait_for_writer(job);
	if (job->holds_dst)
		return sn_copy_await_room(job);
	err = sn_fd_begin(job->dst, SN_SIDE_WRITE);
	if (err < 0)
		return err;
	err = job->dst->registered ? sn_copy_await_room(job) : -EAGAIN;
	sn_fd_end(job->dst, SN_SIDE_WRITE);
	return err;
}

int sn_copy_wait(struct sn_copy_job *job, enum sn_side_index side)
{
	int err = side == SN_SIDE_READ ? wait_for_bytes(job) : wait_for_room(job);

	job->waited[side] = err == 0;
	return err;
}
