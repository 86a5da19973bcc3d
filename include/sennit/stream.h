/* SPDX-License-Identifier: MIT */
/*
 * Streams: any descriptor that bytes can be read from or written to, in blocking style.
 *
 * A stream is made of a descriptor (sn_stream_adopt()), or is a connection under another name
 * (sn_tcp_stream()). Descriptors that can be polled, which are stream sockets, pipes and terminals,
 * are made non-blocking, and the runtime's poller waits for them. Calls on the others, which are
 * files and some devices, block the thread, whose processor then goes to other tasks.
 *
 * Sharing. A stream may be used by several tasks at the same time; the usual arrangement is one
 * reader and one writer. At most one task may read, and one write, at a time: a second one gets
 * -EBUSY. Closing or aborting wakes both with -EBADF. The descriptor is closed only after they have
 * left, so that a reused number can never confuse them. The closer should be the last to use the
 * pointer. A call that begins after the close returns -EBADF. It reaches no later stream until four
 * million streams have used the same place in memory (63 in a 32-bit process). A call that begins
 * during the close either still reaches the stream or returns -EBADF.
 *
 * NULL gives -EINVAL, but closing or aborting NULL does nothing and returns 0, as free() does.
 *
 * Deadlines are points on sn_now()'s clock. A deadline in the past makes the calls fail
 * immediately; one that is set while a task waits applies to that wait too; SN_NO_DEADLINE removes
 * it. A call that fails with -ETIMEDOUT leaves the stream as it was and can be repeated with a
 * later deadline. A call whose deadline was ahead when it began fails only after an attempt that
 * was made past the deadline: bytes that arrived while the process, or the machine, was stopped are
 * not taken for silence. A call that waits may therefore succeed past its deadline, even past one
 * that was moved into the past to end the call. Deadlines do not interrupt a call on a file; they
 * are checked before it.
 *
 * Reading or writing 0 bytes never waits and returns 0, unless the stream, its deadline or its
 * other users make a call of any size fail immediately.
 *
 * A write to a socket or pipe that the peer has closed returns -EPIPE; SIGPIPE is not raised.
 *
 * Threads outside the runtime: sn_stream_fd(); calls that read, write, wait or set a deadline
 * return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_STREAM_H
#define SENNIT_STREAM_H

#include <sennit/base.h>

#include <sys/uio.h>

SN_BEGIN

/* A stream of bytes: a socket, a pipe, a file. */
typedef struct sn_stream sn_stream;

/*
 * Takes over a descriptor; *stream owns it and is closed with sn_stream_close(). A descriptor that
 * can be polled becomes non-blocking, which affects everyone that shares its open file description:
 * think of terminals. Does not park.
 * Errors, after which fd is as before: -EBADF; -EPROTOTYPE for a socket that is not a stream
 * socket, or that listens; -EINVAL for an epoll descriptor, or NULL; -EISDIR; -EEXIST when it is a
 * listener, connection or stream of this runtime already, which is noticed only for what can be
 * polled: whoever adopts a file twice closes its number twice; -ENOMEM; -ENOSPC past
 * fs.epoll.max_user_watches; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_stream_adopt(sn_stream **stream, int fd);

/*
 * Reads what there is, at least one byte and at most size, waiting for the first. Returns the
 * number of bytes, 0 at the end of the stream (or when size is 0); -ECONNRESET and other errors of
 * read(2); -ETIMEDOUT past the read deadline, -EBADF when the stream is closed during the call,
 * -EBUSY, -ENOTSUP. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_read(sn_stream *stream, void *buf, size_t size);

/*
 * Writes some of the bytes, at least one, waiting for room. Returns the number written; -EPIPE,
 * -ECONNRESET and other errors of write(2); -ETIMEDOUT past the write deadline, -EBADF, -EBUSY,
 * -ENOTSUP. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_write(sn_stream *stream, const void *buf, size_t size);

/*
 * Writes all of the bytes, in as many writes as that takes. *done says how many of them have been
 * written already: set it to 0 before the first call. It is always up to date when the call
 * returns, so after an error the same call again writes the rest, and no byte twice. Returns size,
 * or an error as above; -EINVAL when *done is more than size, or size more than SSIZE_MAX. With
 * NULL for done the call begins at 0, and an error leaves it unknown what was written. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_write_all(sn_stream *stream, const void *buf, size_t size,
						   size_t *done);

/*
 * Reads exactly size bytes, in as many reads as that takes. *done says how many of them are in buf
 * already: set it to 0 before the first call. It is always up to date when the call returns, so
 * after an error nothing is lost, and the same call again continues where that one ended.
 *
 * Returns size. At the end of the stream, returns *done, which is then less: 0 when the stream
 * ended before the first byte, and otherwise what there was of a message that was cut off. Errors
 * are those of sn_stream_read(), however many bytes came before: after -ETIMEDOUT, for example,
 * another try may follow. -EINVAL when *done is more than size, or size more than SSIZE_MAX. With
 * NULL for done the call begins at 0, and an error leaves an unknown part in buf.
 *
 * Between two of its reads the stream is free: what another task reads then is missing here. May
 * park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_read_full(sn_stream *stream, void *buf, size_t size,
						   size_t *done);

/*
 * As sn_stream_read() and sn_stream_write(), with several pieces of memory, iov[0] to iov[n - 1],
 * which one system call fills or takes in that order. Return the number of bytes over all pieces,
 * at least one unless all are empty. Further errors: -EINVAL when n is below 1 or above IOV_MAX
 * (1024), or when the sizes add up to more than SSIZE_MAX. iov is not changed. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_readv(sn_stream *stream, const struct iovec *iov, int n);
SN_API SN_CHECK_RESULT ssize_t sn_stream_writev(sn_stream *stream, const struct iovec *iov, int n);

/*
 * Writes all pieces, of which there may be any number, in as few writes as possible. *done says how
 * many bytes have been written already, as for sn_stream_read_full(): 0 before the first call, and
 * up to date afterwards. After an error the same call again writes the rest, and no byte twice.
 * With NULL for done, an error leaves it unknown what was written.
 *
 * Returns the size of all pieces. Errors, as sn_stream_writev(), but n has no upper limit; -EINVAL
 * when *done is more than that size. iov is not changed. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_stream_writev_all(sn_stream *stream, const struct iovec *iov,
						    int n, size_t *done);

/* Which half sn_stream_shutdown() ends. */
enum sn_stream_half {
	SN_SHUT_READ = 0,
	SN_SHUT_WRITE = 1,
};

/*
 * Ends one half of a socket. SN_SHUT_WRITE sends a FIN after what was written, and the peer reads
 * to the end; SN_SHUT_READ makes reads return 0. Returns 0, -ENOTCONN, -EINVAL; -ENOTSOCK for what
 * is not a socket. Does not park, unless the stream has TLS (tls.h).
 */
SN_API int sn_stream_shutdown(sn_stream *stream, enum sn_stream_half half);

/*
 * Closes the stream. A connection ends in good order: the peer reads what was written, and then the
 * end (FIN). But if the peer has sent bytes that were not read here, or sends more, the kernel
 * resets a TCP connection instead, and the peer may lose what it has not read yet. If a Unix socket
 * has such bytes when it is closed, the peer reads what was written, and then -ECONNRESET instead
 * of the end. Where that matters, end the half by sn_stream_shutdown() and read to the peer's end,
 * with a deadline, before closing. Waiting tasks wake with -EBADF. Returns 0, also for NULL; -EBADF
 * when it was closed before. Does not park, unless the stream has TLS (tls.h).
 */
SN_API int sn_stream_close(sn_stream *stream);

/* Closes TCP with a reset (RST): unsent bytes are discarded. Otherwise as sn_stream_close(). */
SN_API int sn_stream_abort(sn_stream *stream);

/*
 * Wakes tasks that wait on the stream, and makes every later call on it fail, with -ECANCELED; the
 * stream itself stays open until it is closed or aborted. For ending the tasks that use it, without
 * invalidating the pointer they use. Any task; does not park. Returns 0.
 */
SN_API int sn_stream_cancel(sn_stream *stream);

/* Set the deadline of reading and of writing. Any task; do not park. Return 0, or -ENOMEM when a
 * task waits and there is no memory for a timer: that wait then continues past the deadline. One in
 * the past needs no memory. */
SN_API int sn_stream_set_read_deadline(sn_stream *stream, int64_t deadline);
SN_API int sn_stream_set_write_deadline(sn_stream *stream, int64_t deadline);

/* The descriptor, for setsockopt and the like. It still belongs to the stream, and stays
 * non-blocking if it can be polled. -EBADF when it is closed, -EINVAL. */
SN_API int sn_stream_fd(sn_stream *stream);

SN_END

#endif
