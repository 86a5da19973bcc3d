/* SPDX-License-Identifier: MIT */
/*
 * Streams: any descriptor that bytes can be read from or written to, in blocking style.
 *
 * A stream is made of a descriptor (sn_stream_adopt()) or is a connection under its other name
 * (sn_tcp_stream()). Descriptors that can be polled, which are stream sockets, pipes and terminals,
 * are made non-blocking and waited for by the netpoller; calls on the others, which are files and
 * some devices, block the thread, whose processor then goes to other tasks.
 *
 * Sharing, closing, cancelling, deadlines, 0 bytes, NULL and streams that were closed are as tcp.h says.
 * Deadlines do not interrupt a call on a file, they are looked at before it. SIGPIPE is not raised.
 *
 * Threads outside the runtime: sn_stream_fd(); what reads, writes, waits or sets a deadline returns
 * -EPERM. Signal handlers: none.
 */
#ifndef SENNIT_STREAM_H
#define SENNIT_STREAM_H

#include <sennit/base.h>
#include <sennit/tcp.h>

SN_BEGIN

/* A stream of bytes: a socket, a pipe, a file. */
typedef struct sn_stream sn_stream;

/*
 * Takes over a descriptor; *stream owns it and is closed with sn_stream_close(). One that can be
 * polled becomes non-blocking, which all who share its open file description notice: think of
 * terminals. Does not park.
 * Errors, after which fd is as before: -EBADF; -EPROTOTYPE a socket that is not a stream's, or that
 * listens; -EINVAL an epoll descriptor, or NULL; -EISDIR; -ENOMEM; -ENOSPC past fs.epoll.max_user_watches; -EPERM outside a task.
 */
SN_API int sn_stream_adopt(sn_stream **stream, int fd);

/* The connection as a stream: the same object, closed once, by either name. NULL only for NULL. */
SN_API sn_stream *sn_tcp_stream(sn_tcp *conn);

/*
 * As sn_tcp_read(), sn_tcp_write() and sn_tcp_write_all(); errors of read(2) and write(2) besides.
 * May park.
 */
SN_API ssize_t sn_stream_read(sn_stream *stream, void *buf, size_t size);
SN_API ssize_t sn_stream_write(sn_stream *stream, const void *buf, size_t size);
SN_API ssize_t sn_stream_write_all(sn_stream *stream, const void *buf, size_t size);

/* As sn_tcp_shutdown(); -ENOTSOCK for what is not a socket. Does not park. */
SN_API int sn_stream_shutdown(sn_stream *stream, int half);

/* As sn_tcp_close(), sn_tcp_abort() (which resets TCP only), sn_tcp_cancel(). Do not park. */
SN_API int sn_stream_close(sn_stream *stream);
SN_API int sn_stream_abort(sn_stream *stream);
SN_API int sn_stream_cancel(sn_stream *stream);

/* Deadlines of reading and of writing. Any task; do not park. Return 0. */
SN_API int sn_stream_set_read_deadline(sn_stream *stream, int64_t deadline);
SN_API int sn_stream_set_write_deadline(sn_stream *stream, int64_t deadline);

/* The descriptor; stays the stream's. Also -EINVAL and -EBADF. */
SN_API int sn_stream_fd(sn_stream *stream);

SN_END

#endif
