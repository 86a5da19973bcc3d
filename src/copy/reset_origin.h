/* SPDX-License-Identifier: MIT */
/*
 * A record of what was written to one connection of a relay, for the direction that reads from it.
 *
 * The kernel reports a reset once: a call, reading or writing, takes the error off the socket, and
 * the next read finds the end of the stream. Therefore a reader that finds an end must know whether
 * a writer got the reset before it. The writer increments begun before each call. After the call it
 * records a failure in failed, and then increments ended. If the writer took the error, the
 * reader's call took the socket's lock after the writer's call had released it. In that case the
 * reader sees begun incremented, waits briefly until ended has the same value, and then sees
 * failed.
 */
#ifndef SENNIT_COPY_RESET_ORIGIN_H
#define SENNIT_COPY_RESET_ORIGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sn_reset_origin {
	_Atomic uint32_t begun, ended; /* by the one task that writes to the connection */
	_Atomic bool failed;           /* by the same task */
};

/* These two surround each call that writes; n is what it returned. */
void sn_reset_origin_begin(struct sn_reset_origin *origin);
void sn_reset_origin_end(struct sn_reset_origin *origin, ssize_t n);

/*
 * For a reader that has found the end of the stream: whether it stands for a reset that a writer
 * got. Waits until another thread's system call, which does not block, is over. May park.
 */
bool sn_reset_origin_is_writer(struct sn_reset_origin *origin);

#endif
