/* SPDX-License-Identifier: MIT */
/*
 * Steering: choosing the next piece of the counter's clock, so that it follows the kernel's.
 *
 * Contract. The functions below measure, compute a piece and publish it (piece.h). Any reader may
 * call them at any time, and several may do so at the same time; the first to publish wins. They
 * choose the slope so that the piece meets the kernel's clock at its end, which corrects an
 * accumulated error evenly. The clock steps only when the kernel's clock jumps.
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
 *  - The kernel's clock is behind by more than that, but later than at the last measurement: the
 *    counter ran while the machine slept, or jumped, or the process has entered a namespace that is
 *    some milliseconds behind. This clock must not go back; it runs at a sixteenth of its speed
 *    until the kernel's has caught up. Because no piece reaches far beyond its measurement, that
 *    takes a few pieces.
 *  - The kernel's clock is earlier than at the last measurement. CLOCK_MONOTONIC never goes back,
 *    so the process is in another namespace, and this clock goes back as the kernel's did. Like any
 *    step, this one lies at the join of two pieces, so threads still agree on what a counter value
 *    means. (The kernel lets only a process with one thread enter a namespace.)
 *
 * If the kernel's clock jumps relative to the counter in several consecutive pieces, as with an
 * unstable counter, the counter is given up permanently (SN_PIECE_GIVEN_UP).
 *
 * These functions keep no state of their own: all of it is in the pieces.
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
 * A time that is this much earlier than one that was read before belongs to another namespace: no
 * piece ends more than 2 * SN_STEER_PIECE_NS after its beginning, and none begins much later than
 * the kernel's time.
 */
#define SN_STEER_FAR_NS (16 * SN_STEER_PIECE_NS)

/* Makes the first measurement. strikes: how many earlier first measurements were of no use. */
void sn_steer_begin(struct sn_pieces *t, unsigned long current, uint32_t strikes);

/* Makes the second measurement, SN_STEER_FIRST_NS later, and publishes the first line. */
void sn_steer_first_line(struct sn_pieces *t, unsigned long current,
			 const struct sn_piece *waiting);

/* Publishes the next piece, while the last one still holds. */
void sn_steer_append(struct sn_pieces *t, unsigned long current, const struct sn_piece *last);

/* Publishes a piece that begins now, because no reader came while the last one still held. */
void sn_steer_resume(struct sn_pieces *t, unsigned long current, const struct sn_piece *last);

#endif
