/* SPDX-License-Identifier: MIT */
/*
 * Copying from a file: copy_file_range(2) to another file, sendfile(2) to other descriptors.
 *
 * Contract. A pass copies until the end of the file or the limit. It returns SN_PASS_SWITCH if the
 * kernel cannot do this, and when the kernel reports the end, where userspace should look once
 * more: files of /proc and the like claim to be empty. It reads nothing that it does not write: the
 * file's position advances by what was written. A read from a disk blocks the thread, so each call
 * is in a bracket.
 */
#include <errno.h>

#include "copy/copy_job.h"
#include "copy/copy_late.h"
#include "copy/copy_pass.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"

/* The most bytes between two checks of the deadlines and of cancellation: some milliseconds. */
#define MOST_AT_ONCE ((size_t)4 << 20)

static ssize_t once(struct sn_copy_job *job, size_t size, enum sn_copy_side *refused)
{
	ssize_t n = sn_copy_attempt(job, SN_SIDE_READ);

	*refused = SN_COPY_READ;
	if (n < 0)
		return n;
	n = sn_copy_attempt(job, SN_SIDE_WRITE);
	if (n == 0) {
		*refused = SN_COPY_NONE;
		sn_copy_write_begin(job);
		sn_conn_blocking_enter(job->src, "sendfile");
		n = sn_conn_kind(job->dst) == SN_KIND_FILE
			    ? sn_sys_copy_file_range(job->src->fd, job->dst->fd, size)
			    : sn_sys_sendfile(job->dst->fd, job->src->fd, size, job->hold_sigpipe);
		sn_conn_blocking_leave(job->src);
		sn_copy_write_end(job, n);
		sn_fd_end(job->dst, SN_SIDE_WRITE);
	} else {
		*refused = SN_COPY_WRITE;
	}
	sn_copy_attempt_end(job, SN_SIDE_READ);
	return n;
}

/*
 * Whether the kernel cannot copy between these files. copy_file_range() returns EBADF for a
 * destination that is open for appending. On some network file systems (CIFS) it returns EIO
 * although both files can be read and written. If the disk has failed, userspace finds out, and on
 * which side.
 */
static bool cannot(const struct sn_copy_job *job, ssize_t n)
{
	if (n == -EIO)
		return sn_conn_kind(job->dst) == SN_KIND_FILE;
	return n == -EINVAL || n == -EXDEV || n == -ENOSYS || n == -EOPNOTSUPP || n == -EBADF ||
	       n == -EPERM || n == -ETXTBSY || n == -EOVERFLOW;
}

int sn_file_pass(struct sn_copy_job *job)
{
	for (;;) {
		size_t size = sn_copy_limit(job, MOST_AT_ONCE);
		enum sn_copy_side refused;
		ssize_t n;

		if (size == 0)
			return sn_copy_limit_reached(job);
		n = once(job, size, &refused);
		if (n < 0 && refused != SN_COPY_NONE)
			return sn_copy_fail(job, refused, n);
		if (n == 0 || cannot(job, n)) {
			job->may_splice = false;
			return SN_PASS_SWITCH;
		}
		if (n == -EAGAIN && job->dst->registered)
			return SN_PASS_FULL;
		if (n < 0)
			return sn_copy_fail(job, n == -EIO ? SN_COPY_READ : SN_COPY_WRITE, n);
		sn_copy_taken(job, (size_t)n);
		sn_copy_delivered(job, (size_t)n, &job->result->bytes_file);
		sn_fair_chance(sn_thread_self());
	}
}
