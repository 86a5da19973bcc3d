/* SPDX-License-Identifier: MIT */
/*
 * Steering: choosing the next piece of the counter's clock, so that it follows the kernel's.
 *
 * Contract. The functions below measure, compute a piece and publish it (piece.h). Any reader may
 * call them, at any time and several at once; the first to publish wins. A piece's slope is chosen
 * so that it meets the kernel's clock at the piece's own end: an accumulated error is corrected
 * evenly. Steps are only for jumps of the kernel's clock.
 *
 * Every measurement is compared with the last one, at the rate that was measured before (judge()):
 *
 *  - The rate is the same: the usual case.
 *  - The rate has changed. The kernel's clock can be steered by 500 ppm, and by ADJ_TICK, which
 *    chrony uses, from 10 % below to 10 % above. A piece that was laid before the change is wrong
 *    by the change of the rate times the time from the piece's measurement to its end, at most
 *    17/16 of a piece; this is the error bound that docs/clock.md states. The measured rate is then
 *    a mixture of the old one and the new one, so the next pieces are short, and double until they
 *    have full length again.
 *  - The kernel's clock is ahead by more than a rate explains: the counter stopped or was set back,
 *    or the process has entered another time namespace with setns(). The clock steps forward.
 *  - It is behind by that much, but later than at the last measurement: the counter ran while the
 *    machine slept, or jumped, or another namespace is some milliseconds behind. The clock must
 *    not go back; it runs at a sixteenth of its speed until the kernel's has caught up. Because no
 *    piece reaches far beyond its measurement, that takes a few pieces.
 *  - It is earlier than at the last measurement. CLOCK_MONOTONIC never does that, so the process is
 *    in another namespace, and this clock goes back as the kernel's did. A step back is at the join
 *    of two pieces like any other, so threads still agree on what a counter value means. (The
 *    kernel lets only a process with one thread enter a namespace.)
 *
 * If the kernel's clock jumps relative to the counter in several consecutive pieces, as with an
 * unstable counter, the counter is given up permanently (SN_PIECE_GIVEN_UP).
 *
 * There is no state here: all of it is in the pieces.
 *
 * Rejected: a thread that recalibrates, which a library for programs without threads cannot have;
 * the rate that CPUID or CNTFRQ report, because the kernel's clock is steered away from it;
 * comparing the inode of /proc/self/ns/time to notice setns(), because sandboxes forbid opening
 * files.
 */
#ifndef SENNIT_CLOCK_STEER_H
#define SENNIT_CLOCK_STEER_H

#include "clock/piece.h"

/*
 * Nanoseconds that a piece lasts: 4 ms. Measuring takes some 0.4 us, so it costs 0.01 % of the time
 * of one thread. Shorter pieces would cost more; longer ones would follow the kernel's clock later.
 */
#define SN_STEER_PIECE_NS 4000000

/* The first slope is measured over this time. Until then the kernel's clock is read. */
#define SN_STEER_FIRST_NS 20000000

/*
 * A time that lies this far behind one that was read before is of another namespace: no piece ends
 * more than 2 * SN_STEER_PIECE_NS beyond its beginning, and none begins far beyond the kernel's
 * time.
 */
#define SN_STEER_FAR_NS (16 * SN_STEER_PIECE_NS)

/* The first measurement, where there is none; the strikes are those of earlier first ones. */
void sn_steer_begin(struct sn_pieces *t, unsigned long current, uint32_t strikes);

/* The second measurement, SN_STEER_FIRST_NS later, and so the first line. */
void sn_steer_first_line(struct sn_pieces *t, unsigned long current,
			 const struct sn_piece *waiting);

/* The next piece, while the last one is still good. */
void sn_steer_append(struct sn_pieces *t, unsigned long current, const struct sn_piece *last);

/* A piece that begins now: the time was not read while the last one was good. */
void sn_steer_resume(struct sn_pieces *t, unsigned long current, const struct sn_piece *last);

#endif
