/* SPDX-License-Identifier: MIT */
/*
 * Copying from one stream to another, and relaying between two: in the kernel where that pays.
 *
 * Which way bytes take is chosen while they flow. A small flow goes through a buffer in userspace.
 * One whose reads keep filling that buffer goes through a pipe in the kernel (splice), until it
 * comes in small pieces again. From a file, sendfile and copy_file_range take them. What the kernel
 * refuses, and what there is no pipe for, goes through userspace. docs/copy.md has the figures.
 *
 * A relay lets the bytes of a stream of small pieces gather before it reads them: sn_relay_gather.
 *
 * Pipes are held only while bytes are in them, and come from one pool of the process, which keeps to
 * a part of the user's quota of pipe pages. Environment, read once:
 *   SENNIT_PIPES        most pipes of the pool; default: what fits into half of the quota, at most
 *                       64; 0: never splice
 *   SENNIT_PIPE_SIZE    bytes that a pipe is asked to hold; rounded up by the system to a power of
 *                       two of pages
 *
 * Threads outside the runtime: sn_copy_stats(); the others return -EPERM. Signal handlers: none.
 */
#ifndef SENNIT_COPY_H
#define SENNIT_COPY_H

#include <sennit/base.h>
#include <sennit/stream.h>

SN_BEGIN

/* Which side of a copy failed. */
enum sn_copy_side {
	SN_COPY_NONE = 0,  /* nothing failed */
	SN_COPY_READ = 1,  /* reading from src failed */
	SN_COPY_WRITE = 2, /* writing to dst failed */
};

/* Zeroed by sn_copy(), filled also on failure. bytes_written is the sum of the last three. */
struct sn_copy_result {
	uint64_t bytes_read;      /* taken from src */
	uint64_t bytes_written;   /* taken by dst; the difference is lost */
	enum sn_copy_side failed; /* which side, when the call failed */
	uint64_t bytes_userspace; /* through a buffer */
	uint64_t bytes_spliced;   /* through a pipe */
	uint64_t bytes_file;      /* by sendfile or copy_file_range */
};

/* Told after every chunk that was delivered, so that the caller can push an idle deadline forward.
 */
typedef void sn_copy_progress(void *arg, size_t bytes);

/*
 * Copies from src to dst until the end of the stream, or n bytes when n is not negative. Waiting
 * for data holds no buffer and no pipe, so idle copies cost none. Neither stream is shut down or
 * closed. A file is read from and written at its position, which moves. progress (NULL: none) is
 * called in the calling task after each delivered chunk; it must not park.
 *
 * Returns 0 at the end of the stream or after n bytes; otherwise the error of the side that
 * result->failed names (as sn_stream_read()'s or sn_stream_write()'s), or -ENOMEM. When src fails,
 * what was read before is delivered first. When dst fails, bytes_read - bytes_written bytes that
 * were read are lost; otherwise the two are equal. A deadline that passes, like any failure, can
 * leave bytes lost only in dst. May park.
 */
SN_API int sn_copy(sn_stream *dst, sn_stream *src, int64_t n, sn_copy_progress *progress, void *arg,
		   struct sn_copy_result *result);

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

/*
 * Whether a relay lets bytes gather, for at most 250 us and what timers are late by, so that it moves
 * many small pieces at once: half to a third of the CPU time for pieces of 1 and 4 KiB (make
 * bench-relay). While it does, SO_RCVLOWAT of the stream
 * that it reads from is changed, and 1 again afterwards; the system may enlarge its receive buffer for
 * that. A stream that has another value than 1 is left alone, as is what is not TCP.
 */
enum sn_relay_gather {
	/* When many came soon after one another and nothing went in the other direction meanwhile,
	 * so that nobody seems to wait for them. */
	SN_RELAY_GATHER_AUTO = 0,
	SN_RELAY_GATHER_NEVER = 1,
	SN_RELAY_GATHER_ALWAYS = 2, /* whatever follows another piece */
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
	/* 1: the caller closes both streams at once when the relay has finished. Then the end of the
	 * stream that ended last is passed on by that, which saves a system call. */
	int closing;
	enum sn_relay_gather gather; /* whether small pieces of a stream wait for more */
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
 * Relays.
 *
 * The last bytes and the end of a stream go on in one packet where they have come together (MSG_MORE), on
 * connections of sn_tcp_accept() and sn_tcp_connect(). One whose descriptor was given TLS in the kernel
 * (TCP_ULP) would lose these bytes; adopt its descriptor by sn_stream_adopt() instead.
 */

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

/* The pool of pipes and what the paths have carried since the program began. */
struct sn_copy_stats {
	uint64_t pipes;          /* that exist now, two descriptors each */
	uint64_t pipes_borrowed; /* of those, with bytes in flight now */
	uint64_t pipes_limit;    /* most that there may be; what the quota allows */
	uint64_t pipe_bytes;     /* capacity of all that exist now, as the system granted it */
	uint64_t pipes_made;     /* ever */
	uint64_t pipes_missed;   /* times that none was to be had, and bytes were copied instead */
	uint64_t gathered_late;  /* times that a relay waited 250 us for more: sn_relay_gather */
};

/* Fills *stats, from counters that may be a moment apart. Any thread. Returns 0. */
SN_API int sn_copy_stats(struct sn_copy_stats *stats);

SN_END

#endif
