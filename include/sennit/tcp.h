/* SPDX-License-Identifier: MIT */
/*
 * TCP over IPv4 and IPv6, in blocking style; and Unix sockets, where the address is one.
 *
 * Addresses are strings: "127.0.0.1:80", "[::1]:80", "name:80", "name:http"; for listening also
 * ":80" (every address of the machine, both families) and "127.0.0.1:0" (any free port, which
 * sn_tcp_listener_address() returns).
 *
 * "unix:/run/app.sock", "unix:./app.sock" and "unix:@app" are the addresses of Unix sockets
 * (unix.h), so that a program whose addresses come from its configuration needs no second set of
 * calls. The result is a Unix stream socket as an sn_tcp: every call of this header takes it, and
 * so do those of unix.h, by sn_tcp_unix() and sn_tcp_listener_unix(). unix.h describes these
 * addresses, their files and their errors. A Unix socket differs from TCP in these points: there is
 * no reset, so sn_tcp_abort() closes; there are no options of TCP; and a client usually has no
 * address, which is "unix:" as text. What follows "unix:" has to begin with '/', '.' or '@'.
 * Anything else is the port of a host that is called unix.
 *
 * A connection is a stream: sn_tcp_read() and the others at the end of this header are the calls of
 * stream.h under another name. The rules of stream.h for sharing, closing, NULL, deadlines, 0 bytes
 * and SIGPIPE hold here too, also for listeners: one task at a time may accept.
 *
 * Threads outside the runtime: calls that return an address or a descriptor; calls that wait or set
 * a deadline return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_TCP_H
#define SENNIT_TCP_H

#include <sennit/address.h>
#include <sennit/base.h>
#include <sennit/stream.h>

SN_BEGIN

/* A connection, and a listener. */
typedef struct sn_tcp sn_tcp;
typedef struct sn_tcp_listener sn_tcp_listener;

/*
 * Listens on an address. The port is reusable immediately after a restart (SO_REUSEADDR); the
 * backlog is the system's largest. The caller owns *listener and closes it with
 * sn_tcp_listener_close(). May park while a name resolves. A Unix socket's path is treated as by
 * sn_unix_listen(): a stale file is replaced, and closing removes it; the umask says who may
 * connect (for another mode: sn_unix_listen(), then sn_unix_listener_tcp()).
 * Errors: -EINVAL for a malformed address; those of sn_resolve() for its name (resolve.h):
 * -ENOENT when it or the service is unknown, -EAGAIN when the name service failed for now, and
 * others; -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE, -ENFILE, -ENOMEM as from bind(2); -ENOTSUP
 * outside a task. For a Unix socket those of sn_unix_listen().
 */
SN_API SN_CHECK_RESULT int sn_tcp_listen(sn_tcp_listener **listener, const char *address);

/*
 * Takes over a descriptor that is listening already, of TCP or a Unix stream socket: one that a
 * service manager or a previous process handed down, or that was set up with options that
 * sn_tcp_listen() does not know. *listener owns it and is closed with sn_tcp_listener_close(),
 * which leaves other descriptors of the same socket, if there are any, listening. The descriptor
 * becomes close-on-exec and non-blocking; O_NONBLOCK affects everyone that shares its open file
 * description. Does not park. Closing removes no Unix socket's file, unless
 * sn_unix_listener_set_unlink() says so. Errors, after which fd is the caller's and as before:
 * -EBADF; -ENOTSOCK; -EPROTOTYPE for a socket that is neither TCP over IPv4 or IPv6 nor a Unix
 * stream socket; -EINVAL when it does not listen; -EEXIST when it is a listener, connection or
 * stream of this runtime already; -ENOMEM; -ENOSPC past fs.epoll.max_user_watches; -ENOTSUP outside
 * a task.
 */
SN_API SN_CHECK_RESULT int sn_tcp_listener_adopt(sn_tcp_listener **listener, int fd);

/*
 * Waits for a connection. The caller owns *conn and closes it. May park. When descriptors or memory
 * run out (EMFILE, ENFILE, ENOBUFS, ENOMEM) it does not fail. It pauses, counts that in
 * accept_pauses (sn_run_stats(), run.h), and continues when some are available again; until then
 * connections wait in the backlog. But where only the memory to wait on a connection is missing
 * (fs.epoll.max_user_watches, or the runtime's own), the system has already handed one out at each
 * try, and that one is closed. Errors: -EBADF when the listener is closed during the call;
 * -ETIMEDOUT past the deadline; -EBUSY when another task is accepting; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_tcp_accept(sn_tcp_listener *listener, sn_tcp **conn);

/* Sets the deadline of accepting. Any task; does not park. Returns 0 or -ENOMEM, as
 * sn_stream_set_read_deadline(). */
SN_API int sn_tcp_listener_set_deadline(sn_tcp_listener *listener, int64_t deadline);

/*
 * Writes the address that the listener is bound to into buf, as text; a size of SN_ADDRESS_MAX is
 * always enough. Returns its length, or -ENOSPC. Any task; does not park.
 */
SN_API int sn_tcp_listener_address(sn_tcp_listener *listener, char *buf, size_t size);

/* The same as a value; returns 0, or -EAFNOSUPPORT for a Unix socket. */
SN_API int sn_tcp_listener_local(sn_tcp_listener *listener, struct sn_address *address);

/* The descriptor, for getsockopt and the like; it still belongs to the listener. -EBADF when that
 * is closed. */
SN_API int sn_tcp_listener_fd(sn_tcp_listener *listener);

/*
 * Closes the listener; a waiting accept gets -EBADF. Only a task may call it, so never after
 * sn_run() has returned; in a child of fork() any thread may (run.h). Returns 0, also for NULL;
 * -EBADF when it was closed before.
 */
SN_API int sn_tcp_listener_close(sn_tcp_listener *listener);

/*
 * Connects to the first of the name's addresses that answers (RFC 8305). The attempts begin in the
 * order of sn_resolve(), but alternating between IPv6 and IPv4; each begins when the one before has
 * failed, or after 250 ms. With many addresses and a near deadline that interval is shorter, down
 * to 100 ms. The first attempt that succeeds wins, and the others are closed. An address that drops
 * packets therefore costs 250 ms. At most 8 attempts are under way, each with a descriptor: one
 * more takes the place of the oldest. If there are no descriptors for more, those that have begun
 * continue. Without a deadline the kernel's limit decides, some two minutes for each address.
 *
 * The name is looked up as by sn_resolve() (resolve.h): the deadline counts during the lookup too,
 * and the task's scope can be cancelled then. The caller owns *conn. TCP_NODELAY is set, as on
 * accepted connections. May park.
 * Errors: those of sn_tcp_listen() for the address; -ETIMEDOUT past the deadline; -ECANCELED or
 * another reason, when the task's scope is cancelled; -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM when not
 * even one attempt can begin; -ENOSPC past fs.epoll.max_user_watches. When each address has failed,
 * the error as from connect(2) that says most: what a peer has answered, such as -ECONNREFUSED;
 * else an error on the way to it, such as -EHOSTUNREACH or -ETIMEDOUT; else that there is no route,
 * such as -ENETUNREACH. Among equals it is the one that came first. For a Unix socket those of
 * sn_unix_connect(), which also says what a full backlog does.
 */
SN_API SN_CHECK_RESULT int sn_tcp_connect(sn_tcp **conn, const char *address, int64_t deadline);

/*
 * Takes over a descriptor that is connected already, of TCP or a Unix stream socket: one that
 * another library connected, or that another process passed on. *conn owns it and is closed with
 * sn_tcp_close(). The descriptor becomes close-on-exec. It also becomes non-blocking, for everyone
 * that shares its open file description. TCP_NODELAY is set. Does not park.
 * Errors, after which fd is the caller's and as before: -EBADF; -ENOTSOCK; -EPROTOTYPE for a socket
 * that is neither TCP over IPv4 or IPv6 nor a Unix stream socket; -EINVAL when it listens;
 * -ENOTCONN when it is TCP and not connected, or not any more; otherwise as
 * sn_tcp_listener_adopt().
 */
SN_API SN_CHECK_RESULT int sn_tcp_adopt(sn_tcp **conn, int fd);

/*
 * Waits until the connection is over in both directions, however that happens, without reading from
 * it. Returns 0 when both halves were shut in good order, -ECONNRESET (or the error pending on the
 * socket) when it was reset. Counts as reading: the read deadline and -EBUSY apply. Meant for the
 * side of a relay that has read to the end and must still notice a reset. May park.
 */
SN_API int sn_tcp_wait_closed(sn_tcp *conn);

/* This end's and the peer's address as text; as sn_tcp_listener_address(). -ENOTCONN when the
 * connection is gone. */
SN_API int sn_tcp_local_address(sn_tcp *conn, char *buf, size_t size);
SN_API int sn_tcp_peer_address(sn_tcp *conn, char *buf, size_t size);

/* The same as values; return 0. -EAFNOSUPPORT for a Unix socket, whose address is no
 * sn_address. */
SN_API int sn_tcp_local(sn_tcp *conn, struct sn_address *address);
SN_API int sn_tcp_peer(sn_tcp *conn, struct sn_address *address);

/* The connection as a stream: the same object, to be closed once, by either name. NULL for NULL. */
static inline sn_stream *sn_tcp_stream(sn_tcp *conn)
{
	return (sn_stream *)conn;
}

/* Reads what there is: sn_stream_read(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_read(sn_tcp *conn, void *buf, size_t size)
{
	return sn_stream_read(sn_tcp_stream(conn), buf, size);
}

/* Writes some of the bytes: sn_stream_write(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_write(sn_tcp *conn, const void *buf, size_t size)
{
	return sn_stream_write(sn_tcp_stream(conn), buf, size);
}

/* Writes all of the bytes: sn_stream_write_all(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_write_all(sn_tcp *conn, const void *buf, size_t size,
						       size_t *done)
{
	return sn_stream_write_all(sn_tcp_stream(conn), buf, size, done);
}

/* Reads exactly size bytes: sn_stream_read_full(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_read_full(sn_tcp *conn, void *buf, size_t size,
						       size_t *done)
{
	return sn_stream_read_full(sn_tcp_stream(conn), buf, size, done);
}

/* Reads what there is into several pieces of memory: sn_stream_readv(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_readv(sn_tcp *conn, const struct iovec *iov, int n)
{
	return sn_stream_readv(sn_tcp_stream(conn), iov, n);
}

/* Writes some bytes of several pieces of memory: sn_stream_writev(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_writev(sn_tcp *conn, const struct iovec *iov, int n)
{
	return sn_stream_writev(sn_tcp_stream(conn), iov, n);
}

/* Writes all bytes of several pieces of memory: sn_stream_writev_all(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_tcp_writev_all(sn_tcp *conn, const struct iovec *iov,
							int n, size_t *done)
{
	return sn_stream_writev_all(sn_tcp_stream(conn), iov, n, done);
}

/* Ends one half: sn_stream_shutdown(). Does not park. */
static inline int sn_tcp_shutdown(sn_tcp *conn, enum sn_stream_half half)
{
	return sn_stream_shutdown(sn_tcp_stream(conn), half);
}

/* Closes in good order (FIN), unless there are bytes of the peer that were not read:
 * sn_stream_close(). Does not park. */
static inline int sn_tcp_close(sn_tcp *conn)
{
	return sn_stream_close(sn_tcp_stream(conn));
}

/* Closes with a reset (RST): sn_stream_abort(). Does not park. */
static inline int sn_tcp_abort(sn_tcp *conn)
{
	return sn_stream_abort(sn_tcp_stream(conn));
}

/* Makes all calls fail with -ECANCELED: sn_stream_cancel(). Does not park. */
static inline int sn_tcp_cancel(sn_tcp *conn)
{
	return sn_stream_cancel(sn_tcp_stream(conn));
}

/* Sets the deadline of reading: sn_stream_set_read_deadline(). Does not park. */
static inline int sn_tcp_set_read_deadline(sn_tcp *conn, int64_t deadline)
{
	return sn_stream_set_read_deadline(sn_tcp_stream(conn), deadline);
}

/* Sets the deadline of writing: sn_stream_set_write_deadline(). Does not park. */
static inline int sn_tcp_set_write_deadline(sn_tcp *conn, int64_t deadline)
{
	return sn_stream_set_write_deadline(sn_tcp_stream(conn), deadline);
}

/* The descriptor, which stays the connection's: sn_stream_fd(). Does not park. */
static inline int sn_tcp_fd(sn_tcp *conn)
{
	return sn_stream_fd(sn_tcp_stream(conn));
}

SN_END

#endif
