/* SPDX-License-Identifier: MIT */
/*
 * Letting the bytes of a relay's direction gather in the socket, by its low-water mark (SO_RCVLOWAT):
 * what gather.h decides is carried out here.
 *
 * The mark is changed only where it was 1, the system's own value; a program that has set another one
 * is left alone. It is 1 again when the copy ends.
 */
#ifndef SENNIT_NET_LOW_WATER_H
#define SENNIT_NET_LOW_WATER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_copy_job;

/*
 * After a piece of so many bytes was moved: whether the copy should wait for more to gather, so that
 * the pass ends as if src had no more (SN_PASS_DRAINED). Always false outside of relays.
 */
bool sn_low_water_gathers(struct sn_copy_job *job, size_t n);

/* Whether sn_low_water_wait() is to wait for src. */
bool sn_low_water_is_set(const struct sn_copy_job *job);

/* Waits until enough has come, or it has taken too long. 0 when there may be something to read, or an
 * error. May park. */
int sn_low_water_wait(struct sn_copy_job *job);

/* The mark is as before. Not of a descriptor that may be another one's by now. */
void sn_low_water_reset(struct sn_copy_job *job);

/* Of all jobs, how often waiting has taken too long. Any thread. */
uint64_t sn_low_water_late(void);

#endif
