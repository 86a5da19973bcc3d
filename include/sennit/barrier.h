/* SPDX-License-Identifier: MIT */
/*
 * Barriers: so many parties wait for each other, again and again. For tasks and for the program's
 * own threads.
 *
 * A value: SN_BARRIER_INIT(parties). It may be reused, or its memory be, as soon as one wait of the
 * last round has returned.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_BARRIER_H
#define SENNIT_BARRIER_H

#include <sennit/base.h>

SN_BEGIN

/* The fields are not for programs; src/sync/barrier.c says what they are. */
typedef struct sn_barrier {
	uint32_t parties;       /* not for programs: how many there are */
	uint32_t arrived;       /* not for programs: how many have come */
	struct sn__waits waits; /* not for programs: those */
} sn_barrier;

/* parties: at least 1. */
#define SN_BARRIER_INIT(parties)        \
	{                               \
		(uint32_t)(parties), 0, \
		{                       \
			0, 0            \
		}                       \
	}

/* What one of each round's waits returns, the last to arrive. */
#define SN_BARRIER_SERIAL 1

/*
 * Waits until as many have come as there are parties. Any thread; tasks may park.
 * Returns SN_BARRIER_SERIAL to one of them and 0 to the others; why the calling task's scope is
 * cancelled; -ETIMEDOUT or -ENOMEM with a deadline; -EINVAL when there are no parties. Who gets an
 * error has not come: the others still wait for one more. There is no form that tries: the last to
 * come does not wait, all others have to.
 */
SN_API SN_CHECK_RESULT int sn_barrier_wait(sn_barrier *barrier);
SN_API SN_CHECK_RESULT int sn_barrier_wait_until(sn_barrier *barrier, int64_t deadline);

SN_END

#endif
