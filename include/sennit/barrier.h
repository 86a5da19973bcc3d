/* SPDX-License-Identifier: MIT */
/*
 * Barriers: a fixed number of parties wait for each other, round after round. For tasks and for
 * the program's own threads.
 *
 * A barrier is a value: SN_BARRIER_INIT(parties). It, or its memory, may be reused as soon as one
 * wait of the last round has returned.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_BARRIER_H
#define SENNIT_BARRIER_H

#include <sennit/base.h>

SN_BEGIN

/* The fields are not for programs; src/sync/barrier.c says what they are. */
typedef struct sn_barrier {
	uint32_t parties;              /* not for programs: how many there are */
	uint32_t arrived;              /* not for programs: how many have arrived in this round */
	struct sn_private_waits waits; /* not for programs: the parties that have arrived */
} sn_barrier;

/* parties: at least 1. */
#define SN_BARRIER_INIT(parties)        \
	{                               \
		(uint32_t)(parties), 0, \
		{                       \
			0, 0            \
		}                       \
	}

/* What the wait of the last party to arrive in a round returns. */
#define SN_BARRIER_SERIAL 1

/*
 * Waits until all parties have arrived. Any thread; tasks may park.
 *
 * Returns SN_BARRIER_SERIAL to one of them and 0 to the others. Errors: the reason of the calling
 * task's scope when that is cancelled; with a deadline, -ETIMEDOUT or -ENOMEM; -EINVAL when there
 * are no parties. A caller that gets an error does not count as arrived: the others still wait for
 * one more. There is no try form, because only the last party to arrive would not have to wait.
 */
SN_API SN_CHECK_RESULT int sn_barrier_wait(sn_barrier *barrier);
SN_API SN_CHECK_RESULT int sn_barrier_wait_until(sn_barrier *barrier, int64_t deadline);

SN_END

#endif
