/* SPDX-License-Identifier: MIT */
/*
 * What a copy does when a deadline of src or dst has passed. All attempts and waits of a job go
 * through here.
 *
 * A deadline that passed while the process was stopped, or the machine was busy, does not prove
 * that nothing has arrived. Therefore neither kind of copy gives up without a look:
 *
 * A relay (the job has a `late` function) judges itself. It polls both connections, and moves the
 * deadlines if there is something to pass on. Then the attempt or the wait continues.
 *
 * A copy alone has the deadlines of its caller, and may not move them. It still makes the attempt
 * that follows a wait if the deadline passed during the wait (io/fd_wait.c). What it reads in this
 * way past src's deadline may also be written past dst's, because the two are often the same, and
 * the caller's progress function moves both. No second piece follows, because the next attempt to
 * read finds that src's deadline has passed.
 *
 * Who may write what: all fields belong to the job's task. The other direction's task also reads
 * `owes`; relaxed, because it makes no difference whether bytes that have just been read, or taken,
 * count already. Bytes count from when they were read until dst has taken them, and not only while
 * the task waits for room: a task that was woken because there is room may not run before the
 * deadline has passed.
 */
#ifndef SENNIT_COPY_COPY_LATE_H
#define SENNIT_COPY_COPY_LATE_H

#include <sys/types.h>

#include "io/fd.h"

struct sn_copy_job;

/*
 * Begin and end an attempt on src (SN_SIDE_READ) or dst (SN_SIDE_WRITE), like
 * sn_conn_attempt_begin_at() at the job's time, and sn_fd_end(). If the job holds src, an attempt
 * to read belongs to that operation, and is refused for the same reasons.
 */
/* While another task writes to dst of a relay, which relay.h allows, an attempt to write returns
 * -EAGAIN, as if there was no room; sn_copy_wait() then waits for a moment instead of an edge. */
int sn_copy_attempt(struct sn_copy_job *job, enum sn_side_index side);
void sn_copy_attempt_end(struct sn_copy_job *job, enum sn_side_index side);

/*
 * Ends an attempt to write that has returned n, and that the job continues with the same bytes. If
 * dst has no room, the operation lasts through the wait and the next attempt, as in
 * sn_stream_write(). No other task writes in between: it could take the edge for which the job
 * waits, and a layer would report to it the bytes that it has taken over from the job.
 */
void sn_copy_write_done(struct sn_copy_job *job, ssize_t n);
/* Ends that operation, if there is one. */
void sn_copy_release_dst(struct sn_copy_job *job);

/* Begins an operation that reads from src, unless the job holds src already, and keeps it for the
 * wait for both connections and the attempts that follow. sn_copy_run() and what waits within it
 * begin operations of their own, so the job must not hold src there. Returns 0 or an error of
 * sn_fd_begin(). */
int sn_copy_hold_src(struct sn_copy_job *job);
/* Ends that operation, if there is one. */
void sn_copy_release_src(struct sn_copy_job *job);

/* Looks for bytes in src without taking them. Returns more than 0 if there are some, 0 at the end,
 * -EAGAIN if there are none, or an error. */
ssize_t sn_copy_peek(struct sn_copy_job *job);

/* Waits for src or dst, like sn_conn_wait(). */
int sn_copy_wait(struct sn_copy_job *job, enum sn_side_index side);

/* Waits for a moment while another task writes to dst. Returns 0, or -ETIMEDOUT past the
 * deadline. */
int sn_copy_wait_for_writer(struct sn_copy_job *job);

/* Waits for room in dst, within a write operation, like sn_fd_await(). */
int sn_copy_await_room(struct sn_copy_job *job);

/* Whether a wait for this side, which has returned err, should be repeated. */
bool sn_copy_goes_on(struct sn_copy_job *job, enum sn_side_index side, int err);

#endif
