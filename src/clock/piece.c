/* SPDX-License-Identifier: MIT */
#include "clock/piece.h"

/* The count in `current`, above the offset. */
#define COUNT_STEP ((unsigned long)SN_PIECE_SLOTS * SN_PIECE_SLOT_BYTES)

union image {
	struct sn_piece piece;
	struct {
		uint32_t narrow[SN_PIECE_NARROW];
		unsigned long wide[SN_PIECE_WIDE];
	};
};

static inline uint32_t slot_number(unsigned long current)
{
	return (uint32_t)(current / SN_PIECE_SLOT_BYTES % SN_PIECE_SLOTS);
}

unsigned long sn_piece_read(struct sn_pieces *t, struct sn_piece *piece)
{
	union image image;
	unsigned long current;
	struct sn_piece_slot *slot;

	/* Ends when no piece is published during a round; there are about 250 a second. */
	do {
		current = atomic_load_explicit(&t->current, memory_order_acquire);
		slot = sn_piece_slot_of(t, current);
		for (size_t i = 0; i < SN_PIECE_NARROW; i++)
			image.narrow[i] =
				atomic_load_explicit(&slot->narrow[i], memory_order_acquire);
		for (size_t i = 0; i < SN_PIECE_WIDE; i++)
			image.wide[i] = atomic_load_explicit(&slot->wide[i], memory_order_acquire);
	} while (atomic_load_explicit(&t->current, memory_order_relaxed) != current);
	*piece = image.piece;
	return current;
}

void sn_piece_publish(struct sn_pieces *t, unsigned long current, const struct sn_piece *piece)
{
	uint32_t claimed = atomic_load_explicit(&t->claimed, memory_order_relaxed), bit, slot;
	unsigned long mine = current;
	union image image;

	do {
		slot = 0;
		while (slot < SN_PIECE_SLOTS &&
		       ((claimed >> slot & 1) || slot == slot_number(current)))
			slot++;
		/* No slot is free: as many writers as there are slots are at work or preempted, and
		 * one of them will publish. */
		if (slot == SN_PIECE_SLOTS)
			return;
		bit = (uint32_t)1 << slot;
	} while (!atomic_compare_exchange_weak_explicit(
		&t->claimed, &claimed, claimed | bit, memory_order_acquire, memory_order_relaxed));

	image.piece = *piece;
	image.piece.origin_wall = piece->origin_ns + piece->wall;
	for (size_t i = 0; i < SN_PIECE_NARROW; i++)
		atomic_store_explicit(&t->slots[slot].narrow[i], image.narrow[i],
				      memory_order_release);
	for (size_t i = 0; i < SN_PIECE_WIDE; i++)
		atomic_store_explicit(&t->slots[slot].wide[i], image.wide[i], memory_order_release);
	if (atomic_compare_exchange_strong_explicit(&t->current, &mine,
						    (current / COUNT_STEP + 1) * COUNT_STEP +
							    slot * SN_PIECE_SLOT_BYTES,
						    memory_order_acq_rel, memory_order_relaxed))
		bit = (uint32_t)1 << slot_number(current); /* the old slot is free now */
	atomic_fetch_and_explicit(&t->claimed, ~bit, memory_order_release);
}
