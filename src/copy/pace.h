/* SPDX-License-Identifier: MIT */
/*
 * Holding back a direction of a relay: struct sn_relay_pace, see relay.h.
 *
 * Contract. No byte is read that was not granted. What was granted and not read is given back
 * before the task waits for more, or ends. A task that waits for its time holds nothing: no buffer,
 * no pipe, no operation of the descriptor's other side; and it sleeps, whatever arrives meanwhile.
 * Cancelling the connection wakes it.
 *
 * It first asks how many bytes are there, so that a grant is what will be read. So a connection
 * that has nothing to read takes nothing of a rate that others share, and one that has little does
 * not wait for much. That costs a system call for each grant, in limited relays only.
 *
 * Rejected: reading first and sleeping afterwards. Then no grant has to be given back, but each
 * connection exceeds the rate by a chunk, and a thousand of them exceed it by a thousand.
 */
#ifndef SENNIT_COPY_PACE_H
#define SENNIT_COPY_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/relay.h>

struct sn_copy_job;

/* Belongs to the task of the job. */
struct sn_pace {
	const struct sn_relay_pace *calls; /* NULL: no limit, and nothing below is used */
	enum sn_relay_direction direction;
	bool limited;   /* granted was taken, and the rest of it has to be given back */
	size_t granted; /* bytes that may be read before it asks again */
	/* Called when the job is about to sleep until then. */
	void (*pausing)(struct sn_copy_job *job, int64_t until);
};

/*
 * Requests a grant for what src has, unless some of the last one is left, and sleeps until it may
 * be read. Returns SN_PASS_MORE when the next pass can begin; otherwise the result of that pass.
 * sn_pace_end() gives back what is left.
 */
int sn_pace_begin(struct sn_copy_job *job);
/* Without a limit: true, as sn_pace_begin(). Otherwise it does nothing. Does not park. */
bool sn_pace_is_free(struct sn_copy_job *job);
void sn_pace_end(struct sn_pace *pace);

#endif
