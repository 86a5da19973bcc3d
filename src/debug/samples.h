/* SPDX-License-Identifier: MIT */
/*
 * The samples of a profile while it is being made: a table of events, with sums.
 *
 * Contract. Any thread may add to the table at any time, also in signal handlers, and never waits:
 * there is no lock, and no heap. Events that have all of a key in common (stack, labels, name and
 * so on) are one sample. The caller makes sure that no thread adds any more before it reads, or
 * ends, the table.
 *
 * A place in the table belongs to the thread that has set its hash, by a compare-and-swap, and is
 * never given back. The hash of 64 bits stands for the whole key, so other threads may add to the
 * sums immediately, while the owner is still writing the key; a signal handler that has interrupted
 * the owner must be able to do so. (Two keys with the same hash would be taken for one: with 10,000
 * samples, in one of 10^11 profiles.)
 *
 * When the table is nearly full, keys lose the parts in which they differ most: the object, the
 * name and the labels. When it is full, events are only counted (left_out). The profile always says
 * how many are missing.
 *
 * Samples with a complete key are in a list, to which each owner adds its own. Nothing is ever
 * removed, so that a compare-and-swap of its head is enough, and a signal handler may add a sample
 * while the thread that it has interrupted is about to do so. Readers follow the list. Rejected:
 * that they look at each place of the table. Nearly all of its 23 MB are untouched, and reading
 * them took 4 ms for each profile, and a page fault for every 4 KiB. A sample whose owner is lost
 * before its key was complete, in a child of fork(), is not in the list, and nothing waits for it.
 *
 * Who may write what:
 *   hash       any thread, from 0 to a value, by compare-and-swap
 *   key, next  the thread that has set the hash
 *   last       that thread, by compare-and-swap with release, after the key
 *   values, left_out*   any thread, by atomic additions
 *   used       any thread, atomically
 */
#ifndef SENNIT_DEBUG_SAMPLES_H
#define SENNIT_DEBUG_SAMPLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/task.h>

#include "debug/modules.h"
#include "stack/stack.h"
#include "task/label.h"

#define SN_SAMPLE_FRAMES 64
#define SN_SAMPLE_VALUES 4

struct sn_registers;

/* The part that all events of a sample have in common. */
struct sn_sample_key {
	struct sn_labels *labels; /* the table takes references of its own */
	const void *spawned_at;
	const void *object;
	const char *state, *waits_for; /* strings that stay valid, or NULL */
	uint16_t frames;
	uint8_t vary; /* how many innermost frames do not count: compilers make copies of calls */
	bool exact;   /* the first pc is not a return address */
	bool has_task;
	char name[SN_TASK_NAME_MAX + 1];
	uintptr_t pcs[SN_SAMPLE_FRAMES];
};

struct sn_sample {
	_Atomic uint64_t hash; /* 0 if the place is free */
	struct sn_sample *next;
	_Atomic int64_t values[SN_SAMPLE_VALUES];
	struct sn_sample_key key;
};

struct sn_samples {
	size_t size; /* of the table, a power of two */
	_Atomic size_t used;
	_Atomic uint64_t left_out; /* events that had no place */
	_Atomic int64_t left_out_values[SN_SAMPLE_VALUES];
	struct sn_sample *all;
	struct sn_sample *_Atomic last; /* the head of the list */
};

/* Makes an empty table. Returns 0 or -ENOMEM. The memory is a mapping, of which only the used part
 * takes pages. */
int sn_samples_begin(struct sn_samples *samples);
void sn_samples_end(struct sn_samples *samples);

/* Adds the values to the sample of the key. Changes the key if the table is nearly full. */
void sn_samples_add(struct sn_samples *samples, struct sn_sample_key *key, const int64_t *values);

/* The next sample with a complete key after this one, or the first after NULL; NULL if there is no
 * more. They are in no particular order. */
struct sn_sample *sn_samples_next(struct sn_samples *samples, struct sn_sample *after);

/* ---- filling in keys ---- */

/* Fills in a task's name, spawn and labels; the caller keeps the task from running. */
void sn_sample_task(struct sn_sample_key *key, const struct sn_task *task);

/* Fills in the stack, from the registers. */
void sn_sample_walk(struct sn_sample_key *key, struct sn_modules *modules,
		    struct sn_registers *registers, const void *low, const void *high, bool exact);

/* The same for a task that no thread runs. If the task has not begun, the stack is its function. */
void sn_sample_walk_saved(struct sn_sample_key *key, struct sn_modules *modules,
			  const struct sn_task *task);

#endif
