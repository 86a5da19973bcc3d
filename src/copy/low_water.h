/* SPDX-License-Identifier: MIT */
/*
 * Coalescing the bytes of a relay's direction in the socket, with its low-water mark (SO_RCVLOWAT):
 * this file carries out what coalesce.h decides.
 *
 * The copy changes the mark only if it was 1, the system's default, and leaves a mark alone that
 * the program has set. The mark is 1 again when the copy ends. Everything belongs to the job's
 * task.
 */
#ifndef SENNIT_COPY_LOW_WATER_H
#define SENNIT_COPY_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_copy_job;

/*
 * Called after a piece of n bytes was moved. Returns whether the copy should wait for more, so that
 * the pass ends as if src had no more (SN_PASS_DRAINED). Always false outside relays.
 */
bool sn_low_water_coalesces(struct sn_copy_job *job, size_t n);

/* Whether sn_low_water_wait() has to wait for src. */
bool sn_low_water_is_set(const struct sn_copy_job *job);

/* Waits until enough has arrived, or MOST_NS has passed. Returns 0 when there may be something to
 * read, or an error. May park. */
int sn_low_water_wait(struct sn_copy_job *job);

/* Restores the mark. Must not be called for a descriptor that may belong to another stream by
 * now. */
void sn_low_water_reset(struct sn_copy_job *job);

/* How many waits, of all jobs, ended because too little had arrived in time. Any thread. */
uint64_t sn_low_water_late(void);

#endif
