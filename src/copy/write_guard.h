/* SPDX-License-Identifier: MIT */
/*
 * A record of what was written to one connection of a relay, for the direction that reads from it.
 *
 * The kernel reports a reset once: a call, reading or writing, takes the error off the socket, and
 * the next read finds the end of the stream. So a reader that finds an end must know whether a
 * writer got the reset before it. The writer counts in begun before each call and, after it,
 * records a failure and then counts in ended. If it was the writer that took the error, the
 * reader's call took the socket's lock after the writer's had released it. So the reader sees begun
 * counted, waits briefly until ended has the same value, and then sees failed.
 */
#ifndef SENNIT_COPY_WRITE_GUARD_H
#define SENNIT_COPY_WRITE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sn_write_guard {
	_Atomic uint32_t begun, ended; /* written by the one task that writes */
	_Atomic bool failed;           /* the same */
};

/* Around each call that writes; n is what it returned. */
void sn_guard_begin(struct sn_write_guard *guard);
void sn_guard_end(struct sn_write_guard *guard, ssize_t n);

/*
 * For a reader that has found the end of the stream: whether that is a reset, which a writer got.
 * Waits for a system call of another thread, which does not block. May park.
 */
bool sn_guard_was_reset(struct sn_write_guard *guard);

#endif
