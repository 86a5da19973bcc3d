/* SPDX-License-Identifier: MIT */
/*
 * When a copy coalesces the bytes of a stream before it reads them, and how many.
 *
 * A stream of small pieces, one soon after the other, is expensive: each piece takes a read and a
 * write, and often a wake-up. The copy therefore starts to *coalesce* once PIECES pieces in a row
 * were smaller than SMALL, each at most QUICK_NS after the one before, while nothing went in the
 * other direction. It sets the socket's low-water mark (SO_RCVLOWAT), so that the kernel reports
 * bytes only when there are enough, or an end or an error; after MOST_NS the copy looks without a
 * report. Enough is what arrives in AIM_NS at the rate of the last wait, as a power of two. Network
 * cards do the same with their interrupts.
 *
 * The copy stops coalescing when less than two pieces have arrived in that time, because then it
 * gains nothing. It also stops when something goes in the other direction. Whoever sent that may
 * have waited for the last bytes, which coalescing then made late for nothing, even if it had
 * stopped in between. Therefore starting again takes twice as many pieces as before, up to
 * MOST_PIECES, unless WORTH_IT bytes were coalesced since the previous answer. A peer that sends a
 * megabyte and waits for an answer, again and again, finds the last piece late a few times and then
 * never again.
 *
 * No byte is late by more than MOST_NS (plus the timer's lateness), and only after PIECES pieces
 * have arrived at a rate of 20,000 a second, for a receiver that sent nothing. Bytes that have
 * arrived are never delayed if there are enough of them: the copy then reads again immediately.
 *
 * The program can ask for coalescing from the first piece on, or for none (sn_relay_coalesce).
 *
 * CPU seconds per GiB of a relay on two CPUs that the sender and the sink need as well, with and
 * without, medians of four runs in turns (bench-relay, bulk): 1 KiB 1.7 and 5.1, 4 KiB 0.53 and
 * 1.05, 16 KiB 0.25 and 0.32; larger chunks take the same. With 16 KiB as enough for all rates, 4
 * KiB took 0.98. With 64 KiB for all rates, 1 KiB took 4.1, because the bytes did not arrive in
 * time.
 *
 * Rejected: coalescing in copies without a relay, where the traffic in the other direction is
 * unknown; sleeping instead of setting the low-water mark, because each piece would be an edge for
 * a poller.
 *
 * Nothing here makes a system call: the callers report what has happened, and act on the answers. A
 * state belongs to one job, whose task alone writes it.
 */
#ifndef SENNIT_COPY_COALESCE_H
#define SENNIT_COPY_COALESCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/unstable.h>

#define SN_COALESCE_SMALL ((size_t)256 << 10)
#define SN_COALESCE_QUICK_NS 50000
#define SN_COALESCE_PIECES 16u
#define SN_COALESCE_MOST_PIECES 4096u

#define SN_COALESCE_AIM_NS 100000
#define SN_COALESCE_MOST_NS 250000
#define SN_COALESCE_LEAST ((uint32_t)16 << 10)
/* The kernel enlarges the socket's buffer for this mark, to several times its size and
 * permanently. */
#define SN_COALESCE_MOST ((uint32_t)128 << 10)
#define SN_COALESCE_WORTH_IT ((uint64_t)16 << 20)

struct sn_coalesce {
	enum sn_relay_coalesce how;
	uint32_t enough;  /* bytes; 0: it does not coalesce */
	uint32_t pieces;  /* small pieces in a row, while it does not coalesce */
	uint32_t wanted;  /* how many of those make it start */
	uint32_t answers; /* how often the other direction had moved bytes, at the last check */
	int64_t at;       /* when the last piece came; or when the wait began, 0: not yet */
	uint64_t since;   /* bytes of those pieces; or bytes since the wait began */
	uint64_t size;    /* while it coalesces: the average size of a piece before */
	uint64_t total;   /* bytes coalesced since the last answer */
};

static inline void sn_coalesce_init(struct sn_coalesce *coalesce, enum sn_relay_coalesce how)
{
	coalesce->how = how;
	coalesce->enough = 0;
	coalesce->pieces = 0;
	coalesce->wanted = how == SN_RELAY_COALESCE_ALWAYS ? 1 : SN_COALESCE_PIECES;
	coalesce->answers = 0;
	coalesce->at = 0;
	coalesce->since = 0;
	coalesce->total = 0;
}

static inline void sn_coalesce_begin(struct sn_coalesce *coalesce)
{
	coalesce->enough = SN_COALESCE_LEAST;
	coalesce->size = coalesce->since / coalesce->pieces;
	coalesce->pieces = 0;
	coalesce->since = 0;
	coalesce->at = 0;
}

/* Whether the other direction has moved bytes since the last check; always false for a stream that
 * always coalesces. */
static inline bool sn_coalesce_answered(struct sn_coalesce *coalesce, uint32_t answers)
{
	const bool answered =
		answers != coalesce->answers && coalesce->how != SN_RELAY_COALESCE_ALWAYS;

	coalesce->answers = answers;
	if (!answered || coalesce->total == 0)
		return answered;
	if (coalesce->total >= SN_COALESCE_WORTH_IT)
		coalesce->wanted = SN_COALESCE_PIECES;
	else if (coalesce->wanted < SN_COALESCE_MOST_PIECES)
		coalesce->wanted *= 2;
	coalesce->total = 0;
	return true;
}

/* Reports a piece that was moved while the copy does not coalesce. Returns whether it coalesces
 * from now on. */
static inline bool sn_coalesce_piece(struct sn_coalesce *coalesce, int64_t now, size_t size,
				     uint32_t answers)
{
	const bool answered = sn_coalesce_answered(coalesce, answers);
	const bool soon = now - coalesce->at < SN_COALESCE_QUICK_NS ||
			  coalesce->how == SN_RELAY_COALESCE_ALWAYS;

	if (size < SN_COALESCE_SMALL && soon && !answered) {
		coalesce->pieces++;
		coalesce->since += size;
	} else {
		coalesce->pieces = 0;
		coalesce->since = 0;
	}
	coalesce->at = now;
	if (coalesce->pieces < coalesce->wanted)
		return false;
	sn_coalesce_begin(coalesce);
	return true;
}

/* Reports bytes that were moved while the copy coalesces. Returns whether they are enough, so that
 * it should wait again. */
static inline bool sn_coalesce_more(struct sn_coalesce *coalesce, size_t size)
{
	coalesce->since += size;
	coalesce->total += size;
	return coalesce->since >= coalesce->enough;
}

/* Adjusts the amount by the rate of the last wait. */
static inline void sn_coalesce_adjust(struct sn_coalesce *coalesce, int64_t time)
{
	const uint64_t rate =
		coalesce->since * SN_COALESCE_AIM_NS / (uint64_t)(time > 0 ? time : 1);

	if (rate >= 2 * (uint64_t)coalesce->enough && coalesce->enough < SN_COALESCE_MOST)
		coalesce->enough *= 2;
	else if (rate < coalesce->enough / 2 && coalesce->enough > SN_COALESCE_LEAST)
		coalesce->enough /= 2;
}

/* Called while the copy coalesces, after it has taken all that had arrived and before it waits.
 * Returns how many bytes are enough from now on, or 0 if it no longer coalesces. */
static inline uint32_t sn_coalesce_wait(struct sn_coalesce *coalesce, int64_t now, uint32_t answers)
{
	const bool first = coalesce->at == 0;

	if (sn_coalesce_answered(coalesce, answers) ||
	    (!first && coalesce->since < 2 * coalesce->size))
		coalesce->enough = 0;
	else if (!first)
		sn_coalesce_adjust(coalesce, now - coalesce->at);
	coalesce->at = now;
	coalesce->since = 0;
	return coalesce->enough;
}

#endif
