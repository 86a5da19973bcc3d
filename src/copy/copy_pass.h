/* SPDX-License-Identifier: MIT */
/*
 * The paths for a job's bytes: each function makes one pass. enum sn_pass says how it ended.
 *
 * A pass does not wait for src. It writes all that it has read, unless it ends with SN_PASS_FULL
 * (copy_piece.h) or dst fails. It may let other tasks run (sn_fair_chance()), and blocks the
 * thread, in a bracket, on descriptors that cannot be polled.
 */
#ifndef SENNIT_COPY_COPY_PASS_H
#define SENNIT_COPY_COPY_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct sn_copy_job;
struct sn_pipe;

/* Moves bytes through a buffer in userspace; returns SN_PASS_MORE after `most` pieces. Does not
 * wait for dst. copy_user.c */
int sn_user_pass(struct sn_copy_job *job, int most);

/* Splices through an empty pipe, which is empty again afterwards unless dst failed; then *clean is
 * false. Waits for room in dst; if the pipe is a short loan, it returns SN_PASS_FULL instead, with
 * the rest as the job's piece. *moved: the number of bytes that left src. splice.c */
int sn_splice_pass(struct sn_copy_job *job, struct sn_pipe *pipe, uint64_t *moved, bool *clean);

/* Splices from or to a pipe of the program's. splice.c */
int sn_direct_pass(struct sn_copy_job *job);

/* Copies from a file to any kind of descriptor, as far as the kernel can. file_copy.c */
int sn_file_pass(struct sn_copy_job *job);

#endif
