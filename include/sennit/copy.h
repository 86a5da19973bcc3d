/* SPDX-License-Identifier: MIT */
/*
 * Copying from one stream to another, in the kernel where that pays. relay.h has both directions.
 *
 * The path is chosen while the bytes flow. A small flow goes through a buffer in userspace. After
 * three reads in a row of 4 KiB or more, a flow goes through a pipe in the kernel (splice), until
 * it comes in small pieces again. From a file, sendfile and copy_file_range take the bytes. Where
 * the kernel refuses that, or there is no pipe, the bytes go through userspace. docs/copy.md has
 * the figures.
 *
 * Pipes are held only while bytes are in them. They come from one pool of the process, which stays
 * within a part of the user's quota of pipe pages. Copies whose dst has no room hold at most half
 * of them. Environment, read once:
 *   SENNIT_PIPES        the most pipes in the pool; default: what fits into half of the quota, at
 *                       most 64; 0: never splice
 *   SENNIT_PIPE_SIZE    bytes requested for a pipe; the system rounds them up to a power of two of
 *                       pages
 *
 * Threads outside the runtime: sn_copy_stats(); sn_copy() returns -ENOTSUP. Signal handlers:
 * none.
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

/* sn_copy() zeroes it first, and fills it even when it fails. bytes_written is the sum of the last
 * three. */
struct sn_copy_result {
	uint64_t bytes_read;      /* taken from src */
	uint64_t bytes_written;   /* taken by dst; the difference is lost */
	enum sn_copy_side failed; /* which side, when the call failed */
	uint64_t bytes_userspace; /* through a buffer */
	uint64_t bytes_spliced;   /* through a pipe */
	uint64_t bytes_file;      /* by sendfile or copy_file_range */
};

/* Called after every delivered chunk, so that the caller can push an idle deadline forward. */
typedef void sn_copy_progress(void *arg, size_t bytes);

/*
 * Copies from src to dst until the end of the stream, or n bytes when n is not negative. Waiting
 * for data holds no buffer and no pipe, so idle copies cost none. Neither stream is shut down or
 * closed. A file is read and written at its position, which advances. progress (NULL: none) is
 * called in the calling task after each delivered chunk; it must not park.
 *
 * Returns 0 at the end of the stream or after n bytes; otherwise the error of the side that
 * result->failed names (as sn_stream_read()'s or sn_stream_write()'s), or -ENOMEM. When src fails,
 * what was read before is delivered first. When dst fails, the bytes that were read but not
 * written, bytes_read - bytes_written, are lost; otherwise the two are equal. A deadline that
 * passes counts as a failure of its side, so it loses bytes only on dst. Before the call fails, it
 * still moves what had arrived by that time, as far as one read and the room in dst allow. If
 * progress then moves both deadlines, the copy continues. May park.
 */
SN_API SN_CHECK_RESULT int sn_copy(sn_stream *dst, sn_stream *src, int64_t n,
				   sn_copy_progress *progress, void *arg,
				   struct sn_copy_result *result);

/* The pool of pipes, and what the paths have carried since the program began. */
struct sn_copy_stats {
	/* Set by SN_COPY_STATS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_copy_stats);
	uint64_t pipes;          /* that exist now, two descriptors each */
	uint64_t pipes_borrowed; /* of those, with bytes in flight now */
	uint64_t pipes_limit;    /* the most that there may be, as the quota allows */
	uint64_t pipe_bytes;     /* capacity of all that exist now, as the system granted it */
	uint64_t pipes_made;     /* ever */
	uint64_t pipes_missed;   /* times that none was available, and bytes were copied instead */
	uint64_t coalesced_late; /* times that a relay waited 250 us for more bytes */
};

/* struct sn_copy_stats with its size, and the fields that are given, as .name = value. */
#define SN_COPY_STATS_INIT(...) SN_SIZED_INIT(struct sn_copy_stats, __VA_ARGS__)

/* Fills *stats, from counters that are not read at the same instant. Any thread. Returns 0. */
SN_API int sn_copy_stats(struct sn_copy_stats *stats);

SN_END

#endif
