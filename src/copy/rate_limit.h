/* SPDX-License-Identifier: MIT */
/*
 * Holding back a direction of a relay: struct sn_relay_rate_limit, see relay.h.
 *
 * Contract. The task reads no byte that was not granted. It gives back what was granted and not
 * read before it waits for more, or ends. While it waits for the time of its grant it holds no
 * buffer, no pipe and no operation on the descriptor's other side, and it sleeps whatever arrives.
 * Cancelling the connection wakes it.
 *
 * The task first asks the kernel how many bytes have arrived, so that it requests a grant for what
 * it will read. A connection with nothing to read then takes nothing of a rate that others share,
 * and a connection with little to read does not wait for a large grant. That costs a system call
 * for each grant, in limited relays only.
 *
 * Rejected: reading first and sleeping afterwards. Then no grant has to be given back, but each
 * connection exceeds the rate by a chunk, and a thousand connections exceed it by a thousand
 * chunks.
 */
#ifndef SENNIT_COPY_RATE_LIMIT_H
#define SENNIT_COPY_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/relay.h>

struct sn_copy_job;

/* Belongs to the task of the job. */
struct sn_rate_limit {
	const struct sn_relay_rate_limit *calls; /* NULL: no limit, and nothing below is used */
	size_t granted; /* bytes that may be read before the next request */
	enum sn_relay_direction direction;
	bool limited; /* `granted` was taken from a limited rate, so the rest of it has to be given
		       * back */
	/* Called when the job is about to sleep until that time. */
	void (*pausing)(struct sn_copy_job *job, int64_t until);
};

/*
 * Requests a grant for what has arrived at src, unless some of the last grant is left, and sleeps
 * until the granted bytes may be read. Returns SN_PASS_MORE when the next pass can begin; any other
 * value is the result of that pass.
 */
int sn_rate_limit_begin(struct sn_copy_job *job);
/* Whether bytes may be read now without a request: something granted is left, or there is no limit.
 * Does not park. */
bool sn_rate_limit_is_free(struct sn_copy_job *job);
void sn_rate_limit_end(struct sn_rate_limit *rate_limit);

#endif
