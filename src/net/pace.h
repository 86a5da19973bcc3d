/* SPDX-License-Identifier: MIT */
/*
 * Holding a direction of a relay back: struct sn_relay_pace, see relay.h.
 *
 * Contract. No byte is read that was not granted, and what was granted and not read is given back
 * before the task waits for more, or ends. A task that waits for its time holds nothing: no buffer,
 * no pipe, no operation of the descriptor's other side; and sleeps, whatever arrives meanwhile. What
 * cancels the connection wakes it.
 *
 * What is there is asked for first, so that a grant is what will be read: a connection that has
 * nothing to read takes nothing of a rate that others share, and one that has little does not wait
 * for much. That costs a system call for each grant, of relays that are limited only.
 *
 * Rejected: reading first and sleeping afterwards. That needs no grants to be given back, but then
 * each connection exceeds the rate by a chunk, and a thousand of them by a thousand.
 */
#ifndef SENNIT_NET_PACE_H
#define SENNIT_NET_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/relay.h>

struct sn_copy_job;

/* Belongs to the task of the job. */
struct sn_pace {
	const struct sn_relay_pace *calls; /* NULL: as fast as can be, and nothing below is used */
	enum sn_relay_direction direction;
	bool limited;   /* granted was taken, and what is left of it is to be given back */
	size_t granted; /* bytes that may be read before it is asked again */
	/* The job sleeps until then. */
	void (*pausing)(struct sn_copy_job *job, int64_t until);
};

/*
 * Has what src has to give granted, unless something is left, and sleeps until it may be read.
 * SN_PASS_MORE when the next pass can begin; otherwise how that has ended already. sn_pace_end()
 * gives back what is left.
 */
int sn_pace_begin(struct sn_copy_job *job);
/* When there is no limit, as sn_pace_begin(): true. Otherwise nothing was done. Does not park. */
bool sn_pace_is_free(struct sn_copy_job *job);
void sn_pace_end(struct sn_pace *pace);

#endif
