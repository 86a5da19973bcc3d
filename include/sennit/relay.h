/* SPDX-License-Identifier: MIT */
/*
 * Relaying between two connections: two copies in opposite directions (copy.h) that share one fate.
 *
 * A stream of small pieces that nobody answers is read when some of them have come, 250 us after the
 * first at the latest: half to a third of the CPU time for pieces of 1 and 4 KiB (make bench-relay).
 * For that SO_RCVLOWAT of the stream is changed, and 1 again afterwards; the system may enlarge its
 * receive buffer. A stream that has another value than 1 is left alone, as is what is not TCP.
 *
 * The last bytes and the end of a stream go on in one packet where they have come together (MSG_MORE),
 * on connections of sn_tcp_accept() and sn_tcp_connect(). One whose descriptor was given TLS in the
 * kernel (TCP_ULP) would lose these bytes; adopt its descriptor by sn_stream_adopt() instead.
 *
 * Threads outside the runtime: -EPERM. Signal handlers: none.
 */
#ifndef SENNIT_RELAY_H
#define SENNIT_RELAY_H

#include <sennit/base.h>
#include <sennit/copy.h>
#include <sennit/stream.h>

SN_BEGIN

struct sn_relay_tuning;

/* Which way a relay's bytes went. */
enum sn_relay_direction {
	SN_RELAY_A_TO_B = 0,
	SN_RELAY_B_TO_A = 1,
};

/* How a relay ended. */
enum sn_relay_end {
	SN_RELAY_FINISHED = 0,   /* both streams ended, and every byte was delivered */
	SN_RELAY_FAILED = 1,     /* either side was reset or failed */
	SN_RELAY_IDLE = 2,       /* no byte was delivered for the idle timeout */
	SN_RELAY_HALF_CLOSE = 3, /* nor, after one stream's end, for the half-close timeout */
	SN_RELAY_CANCELED = 4,   /* somebody closed or cancelled a or b */
};

/*
 * How fast a relay may read, and so pass on. Before it reads it asks how much at once, and then for
 * when: a token bucket fits in behind it, one of its own or one that many relays share. Both are
 * called in the task that copies in this direction; they must not park, and be brief.
 */
struct sn_relay_pace {
	/* Most bytes to be read at once now, such as a fiftieth of a second's; 0: there is no limit
	 * for now. It is asked again after some megabytes at the latest. */
	size_t (*most)(void *arg, enum sn_relay_direction direction);
	/*
	 * bytes > 0: they are there, and are wanted. Returns the time, as of sn_now(), from which
	 * on they may be read; until then the task sleeps, and holds no buffer and no pipe.
	 * bytes == 0: asks anew for the time of those that were wanted last: while they are waited
	 * for, four times a second and when it seems to have come.
	 * bytes < 0: so many of them were not read, and are given back.
	 */
	int64_t (*take)(void *arg, enum sn_relay_direction direction, int64_t bytes);
	void *arg; /* of both */
};

/* Zero-initialise, then set what should differ. NULL stands for all zeros. */
struct sn_relay_options {
	int64_t idle_timeout;       /* ns without a byte in either direction; 0: for ever */
	int64_t half_close_timeout; /* the same once one stream has ended; 0: as idle_timeout */
	/* After each delivered chunk, in the task that copies in this direction; must not park, and
	 * be brief, as others' wake-ups may wait for it. NULL: none. */
	void (*progress)(void *arg, enum sn_relay_direction direction, size_t bytes);
	void *arg; /* of progress */
	/* NULL: as fast as can be. Time that is spent waiting for it does not count as idle. */
	const struct sn_relay_pace *pace;
	const struct sn_relay_tuning *tuning; /* NULL: automatic; unstable.h */
};

/* Filled by sn_relay(), also on failure. */
struct sn_relay_result {
	struct sn_copy_result directions[2]; /* indexed by enum sn_relay_direction */
	enum sn_relay_end end;               /* how it ended */
	int error;                           /* what sn_relay() returned */
	int lost;                            /* 1: bytes that were read could not be delivered */
	/*
	 * Whose doing it was, 0 for a, 1 for b: SN_RELAY_FINISHED, SN_RELAY_HALF_CLOSE: whose
	 * stream ended first; SN_RELAY_FAILED: whose connection failed; otherwise -1.
	 */
	int side;
};

/*
 * Passes bytes on in both directions between two connected stream sockets until both streams have
 * ended or one side fails. The end of one stream is passed on as a half-close as soon as all before
 * it is delivered, and the other direction goes on; a reset, also one that comes after a half-close,
 * ends both directions and is never taken for an end of stream. Timeouts are noticed up to an eighth
 * late; they use the deadlines of both streams, which the caller must leave alone.
 *
 * Neither stream is closed: the caller does, in good order when the relay has finished, and by
 * sn_stream_abort() on both when it has failed or result->lost says so, so that nobody takes a
 * broken stream for a complete one. After any end but SN_RELAY_FINISHED both streams are cancelled
 * (sn_stream_cancel()) and can only be closed. To end a relay from outside, cancel either stream.
 *
 * The calling task alone passes on small messages that come now and then; once a direction has more to do, or
 * waits for room, it keeps that one and starts a task for the other. Returns 0 when it has
 * finished; otherwise what happened first: an error of the connections, -ETIMEDOUT, -ECANCELED,
 * -EBADF; -ENOMEM or what sn_spawn() returns when the task cannot be had; -ENOTSOCK; -EPERM outside
 * a task. May park.
 */
SN_API int sn_relay(sn_stream *a, sn_stream *b, const struct sn_relay_options *options,
		    struct sn_relay_result *result);

SN_END

#endif
