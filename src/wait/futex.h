/* SPDX-License-Identifier: MIT */
/*
 * The futex system call, in the two forms that sennit needs, and the parking place of a thread.
 *
 * Contract. These are the only sleeps on a word of memory in the library. They put the thread to
 * sleep, so a task must not get here except where its thread may block. Only threads of this
 * process meet on a word (FUTEX_PRIVATE_FLAG). Any thread may call these, also outside a run; the
 * wake-ups are async-signal-safe. A wake-up uses only the word's address, so the memory may have
 * been freed. A thread that sleeps there on another word wakes early, and looks at its word again.
 */
#ifndef SENNIT_WAIT_FUTEX_H
#define SENNIT_WAIT_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Sleeps while *word == expected, at most until the deadline (sn_now()'s clock, 0: forever). May
 * return early, so callers loop. Returns 0 or -ETIMEDOUT. Preserves errno.
 */
int sn_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline);

/* Whether sn_futex_wait() makes the separate system call with 64-bit times: on 32-bit machines
 * whose kernel has it. Preserves errno. */
bool sn_futex_is_wide(void);

/* Wakes at most count sleepers. Preserves errno. */
void sn_futex_wake(_Atomic uint32_t *word, int count);

/*
 * A parking place: its owner, one thread, waits in it, and any thread releases it. A release that
 * comes before the wait is kept; several merge into one. Everything written before
 * sn_parker_release() is visible after the sn_parker_wait() that it ends (release by the exchange,
 * acquire by the compare-and-swap).
 */
struct sn_parker {
	_Atomic uint32_t word; /* 0 empty, 1 released, 2 the owner is asleep */
};

/* Waits for a release. Returns 0 when released, -ETIMEDOUT past the deadline (0: none). Only the
 * owner may call it. */
int sn_parker_wait(struct sn_parker *parker, int64_t deadline);
void sn_parker_release(struct sn_parker *parker);

#endif
