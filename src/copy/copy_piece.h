/* SPDX-License-Identifier: MIT */
/*
 * A piece: bytes that a copy has read into a buffer, and has not yet written completely.
 *
 * When dst has no room, the pass ends with SN_PASS_FULL and the piece stays in the job with its
 * buffer; the next pass begins by writing the rest. Therefore no pass waits in the middle of a
 * write, and a relay can decide between two passes which task waits. A copy that ends discards the
 * piece.
 */
#ifndef SENNIT_COPY_COPY_PIECE_H
#define SENNIT_COPY_COPY_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_copy_job;

struct sn_copy_piece {
	char *buffer; /* NULL: there is no piece */
	uint32_t size, written;
	/* What reading ahead has found after the piece, which is reported once the piece is
	 * written: SN_BEHIND_UNKNOWN, 0 for the end, -EAGAIN if there is nothing for now, or an
	 * error. */
	int behind;
	bool partial; /* less was read than would have fitted */
	bool is_last; /* the end of the stream follows immediately: the bytes go with the FIN */
};

#define SN_BEHIND_UNKNOWN 1

/* Gives the piece an empty buffer of SN_BUFFER_SIZE, unless it has one. Returns 0 or -ENOMEM. */
int sn_piece_borrow(struct sn_copy_piece *piece);

/* Returns the buffer to the pool, with whatever is left in it. */
void sn_piece_return(struct sn_copy_piece *piece);

/* Writes the rest of the job's piece to dst. Returns 0, SN_PASS_FULL, or an error. */
int sn_piece_write(struct sn_copy_job *job);

/* For a job that ends: ends the operation that a write without room has left (copy_late.h). The
 * bytes of the piece that a layer of dst has taken over count as written. */
void sn_piece_settle(struct sn_copy_job *job);

#endif
