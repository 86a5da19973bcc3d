/* SPDX-License-Identifier: MIT */
/*
 * Relaying between two connections: two copies in opposite directions (copy.h) that end together.
 *
 * The small pieces of a stream that the other side does not answer are coalesced: they are read
 * when several have arrived, 250 us after the first at the latest. That takes half to a third of
 * the CPU time for pieces of 1 and 4 KiB (make bench-relay). For that the relay changes SO_RCVLOWAT
 * of the socket, and sets it back to 1 afterwards; the system may enlarge the socket's receive
 * buffer. A socket whose SO_RCVLOWAT is not 1, or that is not TCP, is left alone.
 *
 * The last bytes and the end of a stream are sent in one packet if they arrived together
 * (MSG_MORE), on connections of sn_tcp_accept() and sn_tcp_connect(). A connection whose descriptor
 * was given TLS in the kernel (TCP_ULP) would lose these bytes; adopt its descriptor by
 * sn_stream_adopt() instead.
 *
 * Threads outside the runtime: -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_RELAY_H
#define SENNIT_RELAY_H

#include <sennit/base.h>
#include <sennit/copy.h>
#include <sennit/stream.h>

SN_BEGIN

struct sn_relay_tuning;

/* The direction in which a relay's bytes went. */
enum sn_relay_direction {
	SN_RELAY_A_TO_B = 0,
	SN_RELAY_B_TO_A = 1,
};

/* How a relay ended. */
enum sn_relay_end {
	SN_RELAY_FINISHED = 0,   /* both streams ended, and every byte was delivered */
	SN_RELAY_FAILED = 1,     /* either side was reset or failed */
	SN_RELAY_IDLE = 2,       /* no byte was delivered for the idle timeout */
	SN_RELAY_HALF_CLOSE = 3, /* the same for the half-close timeout, after one stream's end */
	SN_RELAY_CANCELED = 4,   /* a or b was closed or cancelled */
};

/*
 * How fast a relay may read, and so pass bytes on. Before it reads, it asks how many bytes it may
 * read in one call, and then from when. A token bucket fits into this, one for each relay or one
 * that many share. Both functions are called in the task that copies in this direction; they must
 * not park, and must be brief.
 */
struct sn_relay_rate_limit {
	/* The most bytes to read in one call now, such as those of a fiftieth of a second; 0: no
	 * limit for now. Called again at least every few megabytes. */
	size_t (*most)(void *arg, enum sn_relay_direction direction);
	/*
	 * bytes > 0: that many have arrived and are wanted. Returns the time, on sn_now()'s clock,
	 * from which on they may be read; until then the task sleeps, and holds no buffer and no
	 * pipe.
	 * bytes == 0: asks again for the time of the bytes that were wanted last. While the task
	 * waits for them it does so four times a second, and when that time seems to have come.
	 * bytes < 0: that many were not read, and are given back.
	 */
	int64_t (*take)(void *arg, enum sn_relay_direction direction, int64_t bytes);
	void *arg; /* of both */
};

/* How a relay should differ from the default: SN_RELAY_OPTIONS_INIT(). What is not given is zero,
 * which is the default; NULL stands for that. */
struct sn_relay_options {
	/* Set by SN_RELAY_OPTIONS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_relay_options);
	int64_t idle_timeout;       /* ns without a byte in either direction; 0: forever */
	int64_t half_close_timeout; /* the same once one stream has ended; 0: as idle_timeout */
	/* Called after each delivered chunk, in the task that copies in this direction; must not
	 * park, and must be brief, as the wake-ups of others may wait for it. NULL: none. */
	void (*progress)(void *arg, enum sn_relay_direction direction, size_t bytes);
	void *arg; /* of progress */
	/* NULL: no limit. Time that is spent waiting for it does not count as idle. */
	const struct sn_relay_rate_limit *rate_limit;
	const struct sn_relay_tuning *tuning; /* NULL: automatic; unstable.h */
};

/* struct sn_relay_options with its size, and the fields that are given, as .name = value. */
#define SN_RELAY_OPTIONS_INIT(...) SN_SIZED_INIT(struct sn_relay_options, __VA_ARGS__)

/* Filled by sn_relay(), also on failure. A relay that cannot begin (-EINVAL, -ENOTSOCK,
 * -EPROTOTYPE, -ENOTSUP) ends as SN_RELAY_FAILED with side -1, and leaves both streams as they
 * were. So does one with a stream that was closed before (-EBADF), which ends as
 * SN_RELAY_CANCELED. */
struct sn_relay_result {
	struct sn_copy_result directions[2]; /* indexed by enum sn_relay_direction */
	enum sn_relay_end end;               /* how it ended */
	int error;                           /* what sn_relay() returned */
	int lost;                            /* 1: bytes that were read could not be delivered */
	/*
	 * The side that caused the end, 0 for a, 1 for b. SN_RELAY_FINISHED, SN_RELAY_HALF_CLOSE:
	 * the one whose stream ended first; SN_RELAY_FAILED: the one whose connection failed;
	 * otherwise -1.
	 */
	int side;
};

/*
 * Passes bytes on in both directions between two connected stream sockets until both streams have
 * ended or one side fails. The end of one stream is passed on as a half-close once everything
 * before it is delivered, and the other direction continues. A reset, also one that comes after a
 * half-close, ends both directions and is never taken for an end of stream. Timeouts are noticed up
 * to an eighth late; they use the deadlines of both streams, which the caller must leave alone. A
 * timeout that passes while there are bytes that could be passed on, as after the process was
 * stopped, starts again from then on.
 *
 * Neither stream is closed; that is left to the caller. After SN_RELAY_FINISHED it closes both in
 * good order. When the relay has failed or result->lost is set, it calls sn_stream_abort() on both,
 * so that no peer takes a broken stream for a complete one. After any end but SN_RELAY_FINISHED
 * both streams are cancelled (sn_stream_cancel()) and can only be closed. To end a relay from
 * outside, cancel either stream. While it runs, the relay is the reader of both streams: another
 * task's read returns -EBUSY, or takes bytes from the relay. Writing is allowed; it returns -EBUSY
 * while the relay itself waits for room. The relay waits while another task writes, and looks every
 * 16 ms at least; so writes one after another can keep it out, and its idle limit may end it. What
 * the two write may alternate wherever one of them had to wait.
 *
 * As long as messages are small and infrequent, the calling task alone serves both directions. Once
 * a direction has more to do, or waits for room, the task keeps that one and starts a task for the
 * other. Returns 0 when it has finished; otherwise what happened first: an error of the
 * connections, -ETIMEDOUT, -ECANCELED, -EBADF; -ENOMEM, or what sn_spawn() returns when it cannot
 * start the task; -ENOTSOCK; -ENOTSUP outside a task. May park.
 */
SN_API SN_CHECK_RESULT int sn_relay(sn_stream *a, sn_stream *b, struct sn_relay_result *result,
				    const struct sn_relay_options *options);

SN_END

#endif
