/* SPDX-License-Identifier: MIT */
/*
 * Coalescing the bytes of a relay's direction in the socket, by its low-water mark (SO_RCVLOWAT):
 * this carries out what coalesce.h decides.
 *
 * The mark is changed only where it was 1, the system's default; if the program has set another
 * one, it is left alone. It is 1 again when the copy ends.
 */
#ifndef SENNIT_COPY_LOW_WATER_H
#define SENNIT_COPY_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_copy_job;

/*
 * After a piece of n bytes was moved: whether the copy should wait for more, so that the pass ends
 * as if src had no more (SN_PASS_DRAINED). Always false outside relays.
 */
bool sn_low_water_coalesces(struct sn_copy_job *job, size_t n);

/* Whether sn_low_water_wait() has to wait for src. */
bool sn_low_water_is_set(const struct sn_copy_job *job);

/* Waits until enough has arrived, or it has taken too long. 0 when there may be something to read,
 * or an error. May park. */
int sn_low_water_wait(struct sn_copy_job *job);

/* Restores the mark. Not for a descriptor that may belong to another stream by now. */
void sn_low_water_reset(struct sn_copy_job *job);

/* How often a wait of any job has taken too long. Any thread. */
uint64_t sn_low_water_late(void);

#endif
