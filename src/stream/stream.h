/* SPDX-License-Identifier: MIT */
/*
 * What other parts of the library use of streams. Within the runtime; the calls that wait may park.
 *
 * A descriptor that is registered with the poller is non-blocking: an attempt on it returns -EAGAIN
 * when it would block. A descriptor that is not registered is a file, or a device that cannot be
 * polled: an attempt blocks the thread, in a bracket, and the lease lets other tasks run. -EAGAIN
 * from such a descriptor is an error like any other, because there is no way to wait for it.
 */
#ifndef SENNIT_STREAM_STREAM_H
#define SENNIT_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <sennit/stream.h>

#include "io/fd.h"

/* What can be read and written. 0 is the kind of a connection, which is not checked. */
enum sn_kind {
	SN_KIND_SOCKET = 0, /* of a stream */
	SN_KIND_PIPE,
	SN_KIND_FILE,    /* a regular file, or a block device: not registered */
	SN_KIND_OTHER,   /* terminals and other devices, registered or not */
	SN_KIND_LAYERED, /* a socket with a layer: stream/layer.h */
	/* Unix sockets that keep message boundaries: SOCK_SEQPACKET and SOCK_DGRAM. */
	SN_KIND_SEQPACKET,
	SN_KIND_DATAGRAM,
};

/*
 * What streams keep in the marks of a descriptor.
 *
 * Who may write what:
 *   kind   the opener, before the descriptor is shared; a user who holds both sides
 *   tcp    the same
 *   acks   the holder of the read side
 */
struct sn_conn_marks {
	uint8_t kind; /* enum sn_kind */
	uint8_t tcp;  /* made by net/tcp.c: TCP without delays; on a listener, of it */
	uint8_t acks; /* enum sn_acks */
};

_Static_assert(sizeof(struct sn_conn_marks) <= sizeof((struct sn_fd *)0)->marks, "they fit");

static inline struct sn_conn_marks *sn_conn_marks(struct sn_fd *d)
{
	return (struct sn_conn_marks *)d->marks;
}

static inline enum sn_kind sn_conn_kind(const struct sn_fd *d)
{
	return (enum sn_kind)((const struct sn_conn_marks *)d->marks)->kind;
}

static inline bool sn_conn_is_tcp(const struct sn_fd *d)
{
	return ((const struct sn_conn_marks *)d->marks)->tcp;
}

/* The notes of a descriptor. */
enum sn_conn_note {
	/* The operation that read before this one has left a TCP socket empty
	 * (sn_conn_read_some()). */
	SN_NOTE_DRAINED,
	/* A read that begins past its deadline makes an attempt all the same: its task has waited
	 * for it before it began (when_readable.c). */
	SN_NOTE_OWES_LOOK,
};

/* Of streams that are nothing else: they may have a layer (layer.h). */
extern const struct sn_fd_ops sn_stream_ops sn_hidden;

static inline bool sn_conn_has_messages(const struct sn_fd *d)
{
	return sn_conn_kind(d) >= SN_KIND_SEQPACKET;
}

/*
 * How a connection acknowledges. A connection of sn_tcp_connect_to_write() holds
 * its acknowledgements back (TCP_QUICKACK 0). The first, that of the handshake, goes with the first
 * bytes that are written; that of an answer goes with what is written next, or with the end. But a
 * peer whose bytes wait for the acknowledgement of earlier ones (Nagle's algorithm) would have to
 * wait 40 ms. So a reader that has read something and is about to wait for more sends it, and all
 * that follow are sent as usual.
 */
enum sn_acks {
	SN_ACKS_AS_USUAL = 0,
	SN_ACKS_HELD,
	SN_ACKS_DUE, /* held, and something was read */
};

/*
 * Functions that take a handle serve the public calls: it is what the program passes for a
 * connection, a listener or a stream, and may be NULL (-EINVAL) or stale (-EBADF).
 */

/* Begins an operation, as sn_attempt_begin(). */
int sn_conn_begin(struct sn_fd **d, const void *handle, enum sn_side_index side);

/* sn_stream_read() of at least one byte. Parks. */
ssize_t sn_conn_read_some(const void *handle, void *buf, size_t size);

/* An operation of size 0: it has the errors of other sizes, but neither attempts nor waits. */
int sn_conn_move_nothing(const void *handle, enum sn_side_index side);

/* Waits for an edge: 0 or the error that sn_stream_read() or sn_stream_write() would return. */
int sn_conn_wait(struct sn_fd *d, enum sn_side_index side);

/* The same, but no longer than until a time; 1 when there was no edge. For a registered
 * descriptor. */
int sn_conn_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * For callers that make their own system calls. sn_attempt_begin() begins an operation that does
 * not wait: 0, or the error. Nothing may park before sn_fd_end(), except an attempt on a stream
 * with a layer, for a moment.
 */
int sn_attempt_begin(struct sn_fd *d, enum sn_side_index side);
/* The same for a caller that has read the clock a moment ago, at `now`; 0: it has not. */
int sn_attempt_begin_at(struct sn_fd *d, enum sn_side_index side, int64_t now);

/* One attempt within an operation that has begun. more: as for sn_sys_send(), for sockets. */
ssize_t sn_attempt_read(struct sn_fd *d, void *buf, size_t size);
ssize_t sn_attempt_write(struct sn_fd *d, const void *buf, size_t size, bool more);

/* Within an operation that has begun, after -EAGAIN: waits for an edge. 0, or the error that
 * sn_stream_read() or sn_stream_write() would return; -EAGAIN if there is no way to wait. Parks. */
int sn_attempt_wait(struct sn_fd *d, enum sn_side_index side);

/* The end of an operation that writes: its result is n, unless a layer took over bytes before it
 * failed; then it is their number. */
ssize_t sn_conn_settle(struct sn_fd *d, ssize_t n);

/* After n bytes were read by other means than an attempt. Within an operation that reads. */
static inline void sn_conn_note_read(struct sn_fd *d, ssize_t n)
{
	if (sn_unlikely(sn_conn_marks(d)->acks == SN_ACKS_HELD) && n > 0)
		sn_conn_marks(d)->acks = SN_ACKS_DUE;
}

/* Before a wait for more: sends the acknowledgement that is due. Within an operation that reads. */
void sn_conn_send_ack(struct sn_fd *d);

static inline void sn_conn_acknowledge(struct sn_fd *d)
{
	if (sn_unlikely(sn_conn_marks(d)->acks == SN_ACKS_DUE))
		sn_conn_send_ack(d);
}

/* Brackets a system call that may block the thread, when the descriptor is not registered. */
void sn_block_enter(const struct sn_fd *d, const char *what);
void sn_block_leave(const struct sn_fd *d);

/*
 * Whether a TCP socket that gave less than it was asked for has no more for now, and what comes
 * next will be an edge; then another read that would return EAGAIN is unnecessary. False once there
 * was an end or an error, whose edge may have come with that of the bytes before it, and with
 * urgent data, before which reading stops. An edge that has not been harvested when the bytes are
 * read is still to come, whatever it reports. Always false for other kinds: reading from Unix
 * sockets stops where credentials change.
 */
bool sn_conn_drained(const struct sn_fd *d);

/* Waits until the connection is over in both directions: sn_tcp_wait_closed(). */
int sn_conn_wait_closed(const void *handle);

/*
 * The same for a caller that has read to the end of the connection's stream, and must not be kept
 * by a connection that stays open: also 0 once *over is set, which sn_fd_wake() of the reading
 * side announces. It asks the kernel only when epoll has reported an error, or the end of both
 * directions. 1 past the deadline; -ETIMEDOUT is the kernel's, which has given up on the peer.
 */
int sn_conn_watch(struct sn_fd *d, const _Atomic bool *over);

/* sn_stream_shutdown(), within the runtime. Parks only for a stream with a layer. */
int sn_conn_shutdown(struct sn_fd *d, enum sn_stream_half half);

/* sn_stream_close(), or with SN_FD_ABORT sn_stream_abort(). Any thread. */
int sn_conn_close(const void *handle, uint32_t flags);
/* sn_stream_set_read_deadline(), sn_stream_set_write_deadline(). */
int sn_conn_set_deadline(const void *handle, enum sn_side_index side, int64_t deadline);
/* sn_stream_fd(). */
int sn_conn_descriptor(const void *handle);

#endif
