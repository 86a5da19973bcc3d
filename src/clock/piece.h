/* SPDX-License-Identifier: MIT */
/*
 * The pieces that the counter's clock is made of, and how readers and writers share them.
 *
 * The clock is one function of the counter's value, made of straight pieces that join end to end.
 * All readers of the same counter value compute the same time, and no piece is ever changed once a
 * reader may have used it. Because of that the clock cannot go back between two threads, however
 * long either of them is preempted in the middle of a read or of an update, provided that their
 * counters agree and that sn_counter() is ordered: there is no moment of switching over that a
 * thread could miss. This is what the layout below is for.
 *
 *      ns ^                                      E = start + length
 *         |                          W.....E--------
 *         |              S-----------------/  next piece, published between W and E
 *         |    ---------/
 *         +--------------------------------------> counter
 *
 *  - A piece (struct sn_piece) is a line from S = `start` on. It serves up to E. From W = start +
 *    `window` on, each reader tries to publish the next one, which begins at E exactly where this
 *    one ends.
 *  - A reader with a counter value in [S, W) needs nothing else: one multiplication, shift and
 *    addition. Before S, which happens when the next piece was published early, the reader uses the
 *    predecessor's line, which the piece carries along. A reader at E or later finds that no piece
 *    was published in time. No reader can have read a time there yet; the first one measures, and
 *    publishes a piece that begins now, at the kernel's time or at the end of the old piece,
 *    whichever is later.
 *  - No piece crosses a multiple of 2^32 of the counter, and its line is expressed from the last
 *    such multiple on, its *origin*. A reader can therefore multiply the counter's lower half as
 *    the processor delivers it. What costs time beyond the read of the counter is the work between
 *    its arrival and the result, because the next ordered read waits for that: joining the halves
 *    and subtracting the start first took 17.9 ns, this takes 16.4, compared with 15.2 for a
 *    function that returns the counter.
 *  - Publishing is one compare-and-swap of `current`. Writers fill a slot that they have claimed
 *    and that no reader can be led to. A writer that loses the race discards its piece and uses the
 *    winner's. No lock is held, so neither a preempted writer nor a signal handler that interrupts
 *    one keeps any thread waiting.
 *  - A reader takes the slot from `current`, reads its fields and then checks whether `current` is
 *    still the same; otherwise the slot may have been refilled, and it starts over.
 *
 * Memory ordering. Fields are stored with release and loaded with acquire; `current` is published
 * with release, and the reader checks it again after acquire loads. Suppose that a reader sees a
 * field of a later filling. The load that saw it acquires from the store that wrote it. Before that
 * store the writer claimed the slot (acquire); before that the slot's previous user gave it back
 * (release), after it had published another `current`. The reader's second look at `current`
 * therefore cannot see the old value, and the reader starts over. On x86 all of these are plain
 * moves except for the writer's three locked instructions 250 times a second; on ARM they are ldar
 * and stlr. There are no fences, because the thread sanitizer does not understand them.
 *
 * Who may write what:
 *   a slot    the writer that has set its bit in `claimed`, until it publishes it or clears the bit
 *   current   any writer, by compare-and-swap
 *   claimed   any writer, atomically
 *
 * Rejected: a seqlock around one line, with which a writer that is preempted between measuring and
 * publishing lets the clock step back, and which deadlocks in a signal handler; clamping to the
 * last value read, whose cache line all cores would compete for.
 */
#ifndef SENNIT_CLOCK_PIECE_H
#define SENNIT_CLOCK_PIECE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "clock/clock.h"

enum sn_piece_state {
	SN_PIECE_BLANK = 0, /* zero, as after fork(): nothing is known */
	SN_PIECE_WAITING,   /* there is a first measurement, not yet a second */
	SN_PIECE_LINE,
	SN_PIECE_GIVEN_UP /* the counter is not reliable */
};

/* What writers and readers work on; in shared memory it is in a slot. */
struct sn_piece {
	/* What each read needs comes first, and fits a line of the cache. */
	uint64_t start;       /* counter value at which the piece begins */
	uint32_t slope;       /* ns per step, times 2^SN_COUNTER_SHIFT */
	uint32_t window;      /* steps; 0 unless the state is SN_PIECE_LINE */
	uint64_t origin_ns;   /* the line's value at its origin: modulo 2^64, it may lie before 0 */
	uint64_t origin_wall; /* the sum of origin_ns and wall, set by sn_piece_publish() */
	uint32_t length, state; /* steps; enum sn_piece_state */

	/* Its predecessor, which ends at start: where it began, and its line. */
	uint64_t before, before_origin_ns;
	uint32_t before_slope;
	uint32_t strikes;           /* how many pieces in a row saw the kernel's clock jump */
	uint32_t rate;              /* as measured: ns per step, times 2^SN_COUNTER_SHIFT */
	uint32_t span;              /* ns that the piece is to last */
	uint64_t sample, sample_ns; /* the measurement: counter value and kernel's time */
	uint64_t wall, before_wall; /* to be added for CLOCK_REALTIME */
	uint64_t floor_ns;          /* SN_PIECE_GIVEN_UP: times may not fall below */
};

#define SN_PIECE_SLOTS 8
#define SN_PIECE_SLOT_BYTES SN_CACHE_LINE

/*
 * In shared memory: the fields of struct sn_piece, one after the other. Those that are read in
 * pairs are machine words, because 32-bit machines cannot easily load 64 bits at once. `current`
 * shows whether all values are of one piece.
 */
#define SN_PIECE_NARROW_BYTES offsetof(struct sn_piece, origin_ns)
#define SN_PIECE_NARROW (SN_PIECE_NARROW_BYTES / sizeof(uint32_t))
#define SN_PIECE_WIDE ((sizeof(struct sn_piece) - SN_PIECE_NARROW_BYTES) / sizeof(unsigned long))

struct sn_piece_slot {
	_Alignas(SN_PIECE_SLOT_BYTES) _Atomic uint32_t narrow[SN_PIECE_NARROW];
	_Atomic unsigned long wide[SN_PIECE_WIDE];
};

/* A page of its own, which fork() wipes; zeros are a blank piece. */
struct sn_pieces {
	struct sn_piece_slot slots[SN_PIECE_SLOTS]; /* first: see sn_piece_slot_of() */
	/*
	 * The slot's offset in the low bits; above it a count that makes each value a new one. A
	 * machine word suffices: with 32 bits the count takes hours to wrap around, and a reader
	 * would have to be stopped in the middle of a read for exactly that long.
	 */
	_Atomic unsigned long current;
	_Atomic uint32_t claimed; /* a bit per slot: a writer fills it, or it is the current one */
};

_Static_assert(sizeof(struct sn_pieces) <= SN_PAGE_BYTES, "one page on every machine");
_Static_assert(sizeof(struct sn_piece_slot) == SN_PIECE_SLOT_BYTES, "current holds offsets");

/* `current` has an offset, not a number, because each instruction between the counter's arrival and
 * the fields costs time. */
static inline struct sn_piece_slot *sn_piece_slot_of(struct sn_pieces *t, unsigned long current)
{
	return (struct sn_piece_slot *)((char *)t->slots +
					(current & (SN_PIECE_SLOTS - 1) * SN_PIECE_SLOT_BYTES));
}

/* Also for a 64-bit field: its lower half is at its offset, its upper half 4 bytes later. */
static inline uint32_t sn_piece_get32(struct sn_piece_slot *slot, size_t offset)
{
	return atomic_load_explicit(&slot->narrow[offset / sizeof(uint32_t)], memory_order_acquire);
}

static inline unsigned long sn_piece_get_word(struct sn_piece_slot *slot, size_t offset)
{
	return atomic_load_explicit(
		&slot->wide[(offset - SN_PIECE_NARROW_BYTES) / sizeof(unsigned long)],
		memory_order_acquire);
}

static inline uint64_t sn_piece_get64(struct sn_piece_slot *slot, size_t offset)
{
#if __SIZEOF_LONG__ == 8
	return sn_piece_get_word(slot, offset);
#else
	return sn_piece_get_word(slot, offset) | (uint64_t)sn_piece_get_word(slot, offset + 4)
							 << 32;
#endif
}

/* ---- lines ---- */

/* The origin for a counter value, or for a piece that begins there. */
static inline uint64_t sn_piece_origin(uint64_t counter)
{
	return counter >> 32 << 32;
}

/* The line's value `steps` after its origin. steps is at most 2^32, so the product cannot
 * overflow. */
static inline uint64_t sn_piece_along(uint64_t origin_ns, uint64_t steps, uint32_t slope)
{
	return origin_ns + (steps * slope >> SN_COUNTER_SHIFT);
}

/* The same for a piece in shared memory; offset: that of the field with the origin's time. */
static inline uint64_t sn_piece_along_slot(struct sn_piece_slot *slot, size_t offset,
					   unsigned long steps)
{
	uint32_t slope = sn_piece_get32(slot, offsetof(struct sn_piece, slope));

#if defined(__i386__)
	/* Adds in halves, because the compiler would add the 64-bit numbers in memory, which takes
	 * 2 ns. */
	uint32_t rise = (uint32_t)((uint64_t)steps * slope >> SN_COUNTER_SHIFT);
	uint32_t low = sn_piece_get_word(slot, offset) + rise;
	uint32_t high = sn_piece_get_word(slot, offset + 4) + (low < rise);

	_Static_assert(SN_COUNTER_SHIFT == 32, "rise fits");
	return (uint64_t)high << 32 | low;
#else
	return sn_piece_along(sn_piece_get64(slot, offset), steps, slope);
#endif
}

/* The time at a counter value from the piece's start to its end, both included. */
static inline uint64_t sn_piece_time_at(const struct sn_piece *p, uint64_t counter)
{
	return sn_piece_along(p->origin_ns, counter - sn_piece_origin(p->start), p->slope);
}

static inline uint64_t sn_piece_end_ns(const struct sn_piece *p)
{
	return sn_piece_time_at(p, p->start + p->length);
}

/* Copies the current piece; returns its `current`. */
unsigned long sn_piece_read(struct sn_pieces *t, struct sn_piece *piece);

/* Makes the piece the one that follows `current`, unless another one already does. */
void sn_piece_publish(struct sn_pieces *t, unsigned long current, const struct sn_piece *piece);

#endif
