/* SPDX-License-Identifier: MIT */
/*
 * What a copy does when a deadline of src or dst has passed. All attempts and waits of a job go
 * through here.
 *
 * A deadline that passed while the process was stopped, or the machine was busy, is no evidence
 * that nothing has come. So neither kind of copy gives up without a look:
 *
 * A relay (the job's `late`) judges itself. It polls both connections, and moves the deadlines when
 * there is something to pass on. Then the attempt or the wait continues as if nothing had been.
 *
 * A copy alone has the deadlines of its caller, and may not move them. It makes the attempt that
 * follows a wait even when the deadline has passed meanwhile (io/fd_wait.c). What it reads thus
 * past src's deadline may also be written past dst's: they are often the same, and the caller's
 * progress function moves both. There is no second piece, as the next attempt to read finds src's
 * deadline passed.
 *
 * The fields of the job belong to the job's task, except `full`, which the other direction's task
 * reads; relaxed, because a wait that it does not see yet began after an attempt of just now.
 */
#ifndef SENNIT_COPY_COPY_LATE_H
#define SENNIT_COPY_COPY_LATE_H

#include <sys/types.h>

#include "io/fd.h"

struct sn_copy_job;

/* Begins an attempt on src (SN_SIDE_READ) or dst (SN_SIDE_WRITE), which sn_fd_end() ends: as
 * sn_attempt_begin_at() at the job's time. */
int sn_copy_attempt(struct sn_copy_job *job, enum sn_side_index side);

/* Whether there is something to read from src, without taking it: > 0 yes, 0 the end, -EAGAIN no,
 * or an error. */
ssize_t sn_copy_peek(struct sn_copy_job *job);

/* Waits for src or dst: as sn_conn_wait(). */
int sn_copy_wait(struct sn_copy_job *job, enum sn_side_index side);

/* Waits for room in dst, within an operation that writes: as sn_fd_await(). */
int sn_copy_await_room(struct sn_copy_job *job);

/* Whether a wait for the side that has returned err is to be repeated. */
bool sn_copy_goes_on(struct sn_copy_job *job, enum sn_side_index side, int err);

#endif
