/* SPDX-License-Identifier: MIT */
/*
 * What other parts of the library use of streams. Called inside the runtime; the calls that wait
 * may park.
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

/* What kind of descriptor a stream has. The kind of a connection is 0, because connections are made
 * without a check. */
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
	uint8_t tcp;  /* made by net/tcp.c: TCP without delays; on a listener: its connections
		       * are */
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

/* The notes that one read operation leaves for the next (notes in struct sn_fd). */
enum sn_conn_note {
	/* The operation that read before this one has left a TCP socket empty
	 * (sn_conn_read_some()). */
	SN_NOTE_DRAINED,
	/* A read that begins past its deadline still makes an attempt, because its task was
	 * parked for it before the task began to run (when_readable.c). */
	SN_NOTE_OWES_LOOK,
};

/* For streams whose kind needs no other hooks, such as TCP connections. They may have a layer
 * (layer.h). */
extern const struct sn_fd_ops sn_conn_ops sn_hidden;

static inline bool sn_conn_has_messages(const struct sn_fd *d)
{
	return sn_conn_kind(d) >= SN_KIND_SEQPACKET;
}

/*
 * How a connection acknowledges. A connection of sn_tcp_connect_to_write() holds its
 * acknowledgements back (TCP_QUICKACK 0), so that they travel with data: the acknowledgement of the
 * handshake with the first bytes that are written, and the acknowledgement of an answer with
 * whatever is written next, or with the end. However, a peer whose bytes wait for the
 * acknowledgement of earlier ones (Nagle's algorithm) would have to wait 40 ms. Therefore a reader
 * that has read something and is about to wait for more sends the acknowledgement, and all that
 * follow are sent as usual.
 */
enum sn_acks {
	SN_ACKS_AS_USUAL = 0,
	SN_ACKS_HELD,
	SN_ACKS_DUE, /* held, and something was read */
};

/*
 * Functions that take a handle serve the public calls. A handle is what the program passes for a
 * connection, a listener or a stream; it may be NULL (-EINVAL) or stale (-EBADF).
 */

/* Finds the descriptor of a handle and begins an operation on it, like sn_conn_attempt_begin(). */
int sn_conn_begin(struct sn_fd **d, const void *handle, enum sn_side_index side);

/* sn_stream_read() of at least one byte. Parks. */
ssize_t sn_conn_read_some(const void *handle, void *buf, size_t size);

/* An operation of size 0: it returns the errors that others would, but neither attempts nor
 * waits. */
int sn_conn_move_nothing(const void *handle, enum sn_side_index side);

/* Waits for an edge. Returns 0, or the error that sn_stream_read() or sn_stream_write() would
 * return. */
int sn_conn_wait(struct sn_fd *d, enum sn_side_index side);

/* The same, but waits no longer than `until`; returns 1 if there was no edge. For a registered
 * descriptor. */
int sn_conn_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until);

/*
 * For callers that make their own system calls. sn_conn_attempt_begin() begins an operation without
 * waiting, and returns 0 or an error. Nothing may park before sn_fd_end(), except, briefly, an
 * attempt on a stream with a layer.
 */
int sn_conn_attempt_begin(struct sn_fd *d, enum sn_side_index side);
/* The same for a caller that has just read the clock, as `now`; 0: it has not. */
int sn_conn_attempt_begin_at(struct sn_fd *d, enum sn_side_index side, int64_t now);

/* Returns -ETIMEDOUT if the side's deadline has passed, otherwise 0. now: as above. */
static inline int sn_conn_check_deadline_at(struct sn_fd *d, enum sn_side_index side, int64_t now)
{
	return now ? sn_fd_check_deadline_at(d, side, now) : sn_fd_check_deadline(d, side);
}

/* One attempt within an operation that has begun. `more` is that of sn_sys_send(), and only for
 * sockets. */
ssize_t sn_conn_attempt_read(struct sn_fd *d, void *buf, size_t size);
ssize_t sn_conn_attempt_write(struct sn_fd *d, const void *buf, size_t size, bool more);

/* Waits for an edge, within an operation whose attempt returned -EAGAIN. Returns 0, the error that
 * sn_stream_read() or sn_stream_write() would return, or -EAGAIN if there is no way to wait.
 * Parks. */
int sn_conn_attempt_wait(struct sn_fd *d, enum sn_side_index side);

/* The result of a write operation that ends with n. That is n, unless n is an error and a layer had
 * taken over bytes before it; then it is their number. */
ssize_t sn_conn_settle(struct sn_fd *d, ssize_t n);

/* For a read operation that has read n bytes by other means than sn_conn_attempt_read(). */
static inline void sn_conn_note_read(struct sn_fd *d, ssize_t n)
{
	if (sn_unlikely(sn_conn_marks(d)->acks == SN_ACKS_HELD) && n > 0)
		sn_conn_marks(d)->acks = SN_ACKS_DUE;
}

/* Sends the acknowledgement that is due, in a read operation that is about to wait for more. */
void sn_conn_send_ack(struct sn_fd *d);

static inline void sn_conn_acknowledge(struct sn_fd *d)
{
	if (sn_unlikely(sn_conn_marks(d)->acks == SN_ACKS_DUE))
		sn_conn_send_ack(d);
}

/* Brackets a system call that may block the thread, when the descriptor is not registered. */
void sn_conn_blocking_enter(const struct sn_fd *d, const char *what);
void sn_conn_blocking_leave(const struct sn_fd *d);

/*
 * Whether a short read from this socket means that it is empty for now and that whatever arrives
 * next makes an edge. Then a further read, which would return EAGAIN, is unnecessary. An edge that
 * has not been harvested when the bytes are read is still to come, whatever it reports.
 *
 * False after an end or an error, whose edge may have come together with the edge of the bytes
 * before it, and after urgent data, at which reading stops. Always false for other sockets than
 * TCP: reading from Unix sockets stops where credentials change.
 */
bool sn_conn_drained(const struct sn_fd *d);

/* Waits until the connection has ended in both directions: sn_tcp_wait_closed(). */
int sn_conn_wait_closed(const void *handle);

/*
 * The same for a caller that has read to the end of the connection's stream, and that must be able
 * to stop waiting although the connection stays open: also returns 0 once *over is set. The party
 * that sets *over calls sn_fd_wake() for the reading side. Asks the kernel only when epoll has
 * reported an error, or the end of both directions. Returns 1 past the deadline. -ETIMEDOUT is the
 * connection's own error: the kernel has given up on the peer.
 */
int sn_conn_watch(struct sn_fd *d, const _Atomic bool *over);

/* sn_stream_shutdown(), within the runtime. Parks only for a stream with a layer. */
int sn_conn_shutdown(struct sn_fd *d, enum sn_stream_half half);

/* sn_stream_close(), or with SN_FD_ABORT sn_stream_abort(). Any thread. */
int sn_conn_close(const void *handle, uint32_t flags);
/* sn_stream_set_read_deadline(), sn_stream_set_write_deadline(). */
int sn_conn_set_deadline(const void *handle, enum sn_side_index side, int64_t deadline);
/*
 * The generation of a connection's descriptor, which tells it from others for longer than a handle
 * does in a 32-bit process. The second closes the connection if it still has that generation. Any
 * thread.
 */
uint32_t sn_conn_life(const void *handle);
void sn_conn_close_life(sn_stream *stream, uint32_t life);
/* sn_stream_fd(). */
int sn_conn_descriptor(const void *handle);

#endif
