/* SPDX-License-Identifier: MIT */
/*
 * When a copy coalesces the bytes of a stream before it reads them, and how many.
 *
 * A stream of small pieces, one soon after the other, is expensive: each takes a read and a write,
 * and often a wake-up. So the copy starts to *coalesce* once PIECES of them in a row were smaller
 * than SMALL, each at most QUICK_NS after the one before, and nothing went in the other direction
 * meanwhile. It sets the socket's low-water mark (SO_RCVLOWAT), by which the kernel reports bytes
 * only when there are enough, or an end or an error; and the copy looks by itself after MOST_NS.
 * Enough is what arrives in AIM_NS, by the rate of the last wait, as a power of two. Network cards
 * do the same with their interrupts.
 *
 * It stops when less than two pieces have arrived in that time, because then it gains nothing. It
 * also stops when something goes in the other direction. The sender of that may have waited for the
 * last bytes, which were then late for nothing, even where coalescing had stopped before. So it
 * takes twice as many pieces as before to start again, up to MOST_PIECES, unless WORTH_IT bytes
 * were coalesced since the previous answer. A peer that sends a megabyte and waits for an answer,
 * again and again, finds the last piece late a few times and then never again.
 *
 * So no byte is late by more than MOST_NS (and the timer's lateness), and only where more than
 * PIECES pieces arrived at a rate of 20,000 a second, for a receiver that sent nothing. Bytes that
 * are there are never delayed: a piece that leaves enough behind it is followed by the next at
 * once.
 *
 * If the program has asked for it (sn_relay_gather), it starts with the first piece, or never.
 *
 * CPU seconds per GiB of a relay on two CPUs that the sender and the sink need as well, with and
 * without, medians of four runs in turns (bench-relay, bulk): 1 KiB 1.7 and 5.1, 4 KiB 0.53 and
 * 1.05, 16 KiB 0.25 and 0.32; beyond that alike. At first enough was 16 KiB for all rates: 4 KiB
 * took 0.98. With 64 KiB for all rates, 1 KiB took 4.1, because the bytes did not arrive in time.
 *
 * Rejected: in copies without a relay, where the traffic in the other direction is unknown.
 * Sleeping instead of the low-water mark: each piece would be an edge for a poller.
 *
 * Nothing here acts: the callers report what has happened. A state belongs to one job.
 */
#ifndef SENNIT_NET_GATHER_H
#define SENNIT_NET_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/unstable.h>

#define SN_GATHER_SMALL ((size_t)256 << 10)
#define SN_GATHER_QUICK_NS 50000
#define SN_GATHER_PIECES 16u
#define SN_GATHER_MOST_PIECES 4096u

#define SN_GATHER_AIM_NS 100000
#define SN_GATHER_MOST_NS 250000
#define SN_GATHER_LEAST ((uint32_t)16 << 10)
/* The kernel enlarges the socket's buffer for it, to several times that size and permanently. */
#define SN_GATHER_MOST ((uint32_t)128 << 10)
#define SN_GATHER_WORTH_IT ((uint64_t)16 << 20)

struct sn_gather {
	enum sn_relay_gather how;
	uint32_t enough;  /* bytes; 0: it does not coalesce */
	uint32_t pieces;  /* in a row; while it does not coalesce */
	uint32_t wanted;  /* how many of those it takes */
	uint32_t answers; /* how often the other direction had moved bytes by then */
	int64_t at;     /* when the last piece came; when it began to wait for enough, 0: not yet */
	uint64_t since; /* bytes of those pieces; since it began to wait */
	uint64_t size;  /* while it coalesces: of a piece, before */
	uint64_t total; /* coalesced since the last answer */
};

static inline void sn_gather_init(struct sn_gather *gather, enum sn_relay_gather how)
{
	gather->how = how;
	gather->enough = 0;
	gather->pieces = 0;
	gather->wanted = how == SN_RELAY_GATHER_ALWAYS ? 1 : SN_GATHER_PIECES;
	gather->answers = 0;
	gather->at = 0;
	gather->since = 0;
	gather->total = 0;
}

static inline void sn_gather_begin(struct sn_gather *gather)
{
	gather->enough = SN_GATHER_LEAST;
	gather->size = gather->since / gather->pieces;
	gather->pieces = 0;
	gather->since = 0;
	gather->at = 0;
}

/* Whether the other direction has moved bytes since the last check; always false for a stream that
 * always coalesces. */
static inline bool sn_gather_answered(struct sn_gather *gather, uint32_t answers)
{
	const bool answered = answers != gather->answers && gather->how != SN_RELAY_GATHER_ALWAYS;

	gather->answers = answers;
	if (!answered || gather->total == 0)
		return answered;
	if (gather->total >= SN_GATHER_WORTH_IT)
		gather->wanted = SN_GATHER_PIECES;
	else if (gather->wanted < SN_GATHER_MOST_PIECES)
		gather->wanted *= 2;
	gather->total = 0;
	return true;
}

/* A piece was moved while it does not coalesce. Returns whether it does from now on. */
static inline bool sn_gather_piece(struct sn_gather *gather, int64_t now, size_t size,
				   uint32_t answers)
{
	const bool answered = sn_gather_answered(gather, answers);
	const bool soon =
		now - gather->at < SN_GATHER_QUICK_NS || gather->how == SN_RELAY_GATHER_ALWAYS;

	if (size < SN_GATHER_SMALL && soon && !answered) {
		gather->pieces++;
		gather->since += size;
	} else {
		gather->pieces = 0;
		gather->since = 0;
	}
	gather->at = now;
	if (gather->pieces < gather->wanted)
		return false;
	sn_gather_begin(gather);
	return true;
}

/* Bytes were moved while it coalesces. Returns whether that is enough, and it should wait again. */
static inline bool sn_gather_more(struct sn_gather *gather, size_t size)
{
	gather->since += size;
	gather->total += size;
	return gather->since >= gather->enough;
}

/* Adjusts the amount by the rate of the last wait. */
static inline void sn_gather_adjust(struct sn_gather *gather, int64_t time)
{
	const uint64_t rate = gather->since * SN_GATHER_AIM_NS / (uint64_t)(time > 0 ? time : 1);

	if (rate >= 2 * (uint64_t)gather->enough && gather->enough < SN_GATHER_MOST)
		gather->enough *= 2;
	else if (rate < gather->enough / 2 && gather->enough > SN_GATHER_LEAST)
		gather->enough /= 2;
}

/* While it coalesces, it has taken what there was, and is about to wait. Returns how much is enough
 * from now on; 0: it no longer coalesces. */
static inline uint32_t sn_gather_wait(struct sn_gather *gather, int64_t now, uint32_t answers)
{
	const bool first = gather->at == 0;

	if (sn_gather_answered(gather, answers) || (!first && gather->since < 2 * gather->size))
		gather->enough = 0;
	else if (!first)
		sn_gather_adjust(gather, now - gather->at);
	gather->at = now;
	gather->since = 0;
	return gather->enough;
}

#endif
