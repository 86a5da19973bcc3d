/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets, in blocking style: connections and datagrams within one machine, by a path or an
 * abstract name, with descriptors passed and the peer's identity known. The calls of tcp.h take the
 * addresses of streams too.
 *
 * Addresses are strings. "/run/app.sock" is a path, which may also be relative; a file stands there
 * while a socket has the address. "@app" is an abstract name, which only Linux has: it belongs to a
 * network namespace, has no file, and everyone may connect to it. Each type of socket has names of
 * its own. "@" alone, for listening and binding, is any free abstract name, which
 * sn_unix_listener_address() returns. A prefix "unix:" is skipped: "unix:/run/app.sock",
 * "unix:@app". A path that begins with '@' or "unix:" is written with "./" before it. The longest
 * path or name has 107 bytes; a longer one is -ENAMETOOLONG, an empty one -EINVAL.
 *
 * A socket has one of three types. Both ends must have the same.
 *
 *   SN_UNIX_STREAM     a stream of bytes, as TCP. Such a connection is an sn_stream
 *                      (sn_unix_stream()): it can be copied, relayed and read through a buffer.
 *   SN_UNIX_SEQPACKET  a connection that carries messages: none is lost, they arrive in order, and
 *                      one recv returns what one send was given
 *   SN_UNIX_DATAGRAM   messages to any address, without a connection. None is lost either: a send
 *                      waits while the receiver's queue is full.
 *
 * A message is never cut silently: see sn_unix_recv(). The calls of stream.h that move bytes return
 * -EPROTOTYPE for the two types that carry messages.
 *
 * The rules of stream.h for sharing, closing, NULL, deadlines and SIGPIPE hold here too. One task
 * at a time may accept, receive or read, and one may send or write; a second one gets -EBUSY.
 * Cancellation of the task's scope (scope.h) ends the waits, with its reason.
 *
 * Threads outside the runtime: calls that return an address, a descriptor or who the peer is; calls
 * that wait, open or set a deadline return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_UNIX_H
#define SENNIT_UNIX_H

#include <sennit/base.h>
#include <sennit/stream.h>
#include <sennit/tcp.h>

SN_BEGIN

/* A socket that can send and receive, and a listener. */
typedef struct sn_unix sn_unix;
typedef struct sn_unix_listener sn_unix_listener;

/* The most room that an address needs as text, with its terminating zero. */
#define SN_UNIX_ADDRESS_MAX 110

/* The type of a socket. */
enum sn_unix_type {
	SN_UNIX_STREAM = 0,
	SN_UNIX_SEQPACKET = 1,
	SN_UNIX_DATAGRAM = 2,
};

/* The most descriptors that a message can carry: the kernel's limit. */
#define SN_UNIX_FDS_MAX 253

/* ---- listening ---- */

/* How an address is taken. SN_UNIX_OPTIONS_INIT(), or NULL in its place, is a stream with the usual
 * mode. */
struct sn_unix_options {
	/* Set by SN_UNIX_OPTIONS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_unix_options);
	enum sn_unix_type type; /* of the socket; a stream unless it is set */
	/*
	 * Who may connect to a path: permission bits, such as 0660, where the right to write
	 * counts. The file never has more rights than these, not even at first. 0: all that the
	 * umask allows. Not used for abstract names. Without the right to write for the owner
	 * (0200), a file that was left behind counts as one in use, except for root.
	 */
	int mode;
};

/* struct sn_unix_options with its size, and the fields that are given, as .name = value. */
#define SN_UNIX_OPTIONS_INIT(...) SN_SIZED_INIT(struct sn_unix_options, __VA_ARGS__)

/*
 * Listens on an address. The backlog is the system's largest. The caller owns *listener and closes
 * it with sn_unix_listener_close(). options->type is a stream or SN_UNIX_SEQPACKET.
 *
 * A path that exists already is an error, -EADDRINUSE, unless it is a socket that no process has
 * open, because its owner has ended and left the file behind. Such a file is removed. The owner of
 * a path that is in use does not notice the call. Of several processes that start at the same time,
 * one gets the path, if they all use sennit and may read the directory: they lock it (flock(2)) for
 * that moment. Someone else's lock on the directory delays the call for at most a second.
 *
 * Closing removes the file, if it is still the one that this call has made; so does the end of
 * sn_run() for listeners that are open then. A child of fork() leaves it alone. If the process
 * dies, the file stays until the next call. A relative path has to mean the same then.
 *
 * May park, and blocks the thread while the file system answers.
 * Errors: -EINVAL for an empty address, another type or a mode that has other bits than 0777;
 * -ENAMETOOLONG; -EADDRINUSE; -ENOENT, -ENOTDIR, -EACCES, -EROFS, -ELOOP, -ENOSPC as from bind(2)
 * for a path; -EMFILE, -ENFILE, -ENOMEM; -ENOSPC past fs.epoll.max_user_watches; the reason for
 * which the task's scope was cancelled; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_unix_listen(sn_unix_listener **listener, const char *address,
					  const struct sn_unix_options *options);

/*
 * Takes over a descriptor that is listening already, such as one of a service manager. *listener
 * owns it. Closing it removes no file (but see sn_unix_listener_set_unlink()). The descriptor
 * becomes close-on-exec and non-blocking; O_NONBLOCK affects everyone that shares its open file
 * description. Does not park.
 * Errors, after which fd is the caller's and as before: -EBADF; -ENOTSOCK; -EPROTOTYPE for a socket
 * that is not a Unix one; -EINVAL when it does not listen; -EEXIST when it belongs to this runtime
 * already; -ENOMEM; -ENOSPC past fs.epoll.max_user_watches; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_unix_listener_adopt(sn_unix_listener **listener, int fd);

/*
 * Waits for a connection, which has the listener's type. The caller owns *conn and closes it with
 * sn_unix_close(). When descriptors or memory run out it does not fail, but pauses, as
 * sn_tcp_accept() does (tcp.h). May park. Errors: -EBADF when the listener is closed during the
 * call; -ETIMEDOUT past the deadline; -EBUSY when another task is accepting; -ENOTSUP outside a
 * task.
 */
SN_API SN_CHECK_RESULT int sn_unix_accept(sn_unix_listener *listener, sn_unix **conn);

/* Sets the deadline of accepting. Any task; does not park. Returns 0 or -ENOMEM, as
 * sn_stream_set_read_deadline(). */
SN_API int sn_unix_listener_set_deadline(sn_unix_listener *listener, int64_t deadline);

/*
 * Writes the address that the listener is bound to into buf, as text without "unix:"; a size of
 * SN_UNIX_ADDRESS_MAX is always enough. Bytes of an abstract name that are 0 are shown as '@'.
 * Returns its length, or -ENOSPC. Any thread; does not park.
 */
SN_API int sn_unix_listener_address(sn_unix_listener *listener, char *buf, size_t size);

/* The descriptor, which stays the listener's. -EBADF when that is closed. Any thread. */
SN_API int sn_unix_listener_fd(sn_unix_listener *listener);

/*
 * Sets whether closing the listener, or the end of sn_run(), removes the file: 1 or 0. For a
 * listening socket that goes from one process to the next: the process that leaves sets 0, and the
 * process that has adopted the socket sets 1.
 *
 * A listener can own one file: the one that sn_unix_listen() has made or, for an adopted listener,
 * the socket's file that the first call with 1 finds at the address. If a call with 1 does not find
 * that file, because it is gone or another has replaced it, the call returns -ENOENT and changes
 * nothing.
 *
 * The file that an adopted listener finds at that first call may belong to another program, which
 * has replaced the first one: no call that is open to every user says which file is a socket's.
 * Where that could happen, the process that leaves passes on st_dev and st_ino of its file
 * (lstat(2)). The next process compares them after it has set 1, and sets 0 if they differ. While
 * the socket is open, no other file has them.
 *
 * For an abstract name the call does nothing. Any thread; does not park, but the file system may
 * block the thread. Returns the previous setting, 1 or 0; -ENOENT also when no socket's file is
 * there to be owned; other errors of lstat(2); -ENOMEM, -EBADF, -EINVAL.
 */
SN_API int sn_unix_listener_set_unlink(sn_unix_listener *listener, int on);

/*
 * Removes the file, if it is the listener's, and closes the listener; a waiting accept gets -EBADF.
 * Connections in the backlog are reset. Only a task may call it, so never after sn_run() has
 * returned; in a child of fork() any thread may (run.h). Does not park, but the file system may
 * block the thread. Returns 0, also for NULL; -EBADF when it was closed before.
 */
SN_API int sn_unix_listener_close(sn_unix_listener *listener);

/* ---- connecting ---- */

/*
 * Connects to an address with a socket of the type. With SN_UNIX_DATAGRAM nobody has to accept; the
 * socket then sends to that address, and receives only from there. The caller owns *conn and closes
 * it with sn_unix_close().
 *
 * While the listener's backlog is full, the call waits. The kernel reports no event when there is
 * room again, so the call tries again, first after 50 us, then less and less often. It is late by
 * at most 10 ms plus a tenth of the time that it has waited, and never by more than 100 ms. May
 * park, and blocks the thread while the file system answers. Errors: -EINVAL, -ENAMETOOLONG for the
 * address; -ENOENT when there is no such path; -ECONNREFUSED when nobody listens there; -EACCES
 * without the right to write to the path; -EPROTOTYPE when the other end has another type;
 * -ETIMEDOUT past the deadline; the reason for which the task's scope was cancelled; -EMFILE,
 * -ENFILE, -ENOMEM; -ENOSPC past fs.epoll.max_user_watches; -ENOTSUP outside a task.
 */
SN_API SN_CHECK_RESULT int sn_unix_connect(sn_unix **conn, const char *address,
					   enum sn_unix_type type, int64_t deadline);

/*
 * Opens a datagram socket at an address to which others can send; NULL: without an address, so that
 * nobody can answer. options->type is ignored. The path is treated as by sn_unix_listen(), and
 * closing removes it. May park, and blocks the thread while the file system answers. Errors: as
 * sn_unix_listen().
 */
SN_API SN_CHECK_RESULT int sn_unix_bind(sn_unix **socket, const char *address,
					const struct sn_unix_options *options);

/* Makes two sockets of the type that are connected to each other. Does not park. Errors: -EINVAL
 * for the type, -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -ENOTSUP. */
SN_API SN_CHECK_RESULT int sn_unix_pair(sn_unix *ends[2], enum sn_unix_type type);

/*
 * Takes over a Unix socket of any type that does not listen: one that was received, for example.
 * Otherwise as sn_unix_listener_adopt(): -EINVAL when it listens.
 */
SN_API SN_CHECK_RESULT int sn_unix_adopt(sn_unix **conn, int fd);

/* ---- messages ---- */

/*
 * What is sent or received in one call: a message, or on a stream a piece of it, with the
 * descriptors that accompany it. Set all of it to zero, then what is needed.
 */
struct sn_unix_message {
	void *data;  /* the caller's memory; only read when it is sent */
	size_t size; /* received: the room at data; to send: the number of bytes */
	/* Received: the bytes that the message had, more than size if it was cut. To send:
	 * unused. */
	size_t length;
	/* Descriptors. To send: they stay the caller's; the receiver gets others of the same open
	 * files. Received: they are close-on-exec, and the caller closes them. */
	int *fds;
	/* To send: how many, at most SN_UNIX_FDS_MAX. Received: the room at fds, and then how many
	 * have come. */
	int fd_count;
	const char *to; /* the address of a datagram; NULL: that to which the socket is connected */
	/* Received: gets the sender's address as text, cut if it does not fit, empty when the
	 * sender has none. */
	char *from;
	size_t from_size; /* the room at from; 0: the sender is not wanted */
};

/*
 * Waits for a message and takes it. Returns its number of bytes. 0 is the end of a connection; a
 * datagram can also be empty. From a stream this is what there is, at least one byte, up to where
 * other descriptors begin. May park.
 *
 * -EMSGSIZE: the message is gone, and with it something that did not fit. data has its first bytes,
 * and length says how many it had (on a stream, how many were read, all of which are in data). If
 * length is not more than size, it had more descriptors than fd_count. All of its descriptors are
 * closed, and fd_count is 0. -EMFILE: the same, because the process or the system could not open
 * its descriptors. In no case does a descriptor remain open that the caller does not know.
 *
 * Errors beside these: -EINVAL for a size of 0 or a negative count; -ECONNRESET when the peer was
 * closed with unread bytes; -ETIMEDOUT past the read deadline, -EBADF when the socket is closed
 * during the call, -ECANCELED after sn_unix_cancel(), -EBUSY, -ENOMEM, -ENOTSUP. After these
 * nothing was taken.
 */
SN_API SN_CHECK_RESULT ssize_t sn_unix_recv(sn_unix *socket, struct sn_unix_message *message);

/*
 * Sends a message, waiting while there is no room. Returns its size: a message is sent whole or not
 * at all. Of a stream's bytes it sends some, at least one, and returns how many; the descriptors go
 * with the first of them, so what is left is sent without. A datagram to an address whose queue is
 * full is tried again as sn_unix_connect() does. May park.
 * Errors: -EINVAL for descriptors that no byte accompanies, for an empty message of a connection,
 * which the receiver would take for the end, for more than SN_UNIX_FDS_MAX descriptors, and for
 * data of more than SSIZE_MAX; -EMSGSIZE for more than the send buffer (SO_SNDBUF) holds; -EBADF
 * also for a bad descriptor; -ETOOMANYREFS when too many descriptors are under way; -EPIPE and
 * -ECONNRESET when the peer is closed; for datagrams -EDESTADDRREQ without an address, and those of
 * sn_unix_connect(); -EISCONN for an address on a connection; -ETIMEDOUT past the write deadline,
 * -ECANCELED, -EBUSY, -ENOMEM, -ENOBUFS, -ENOTSUP.
 */
SN_API SN_CHECK_RESULT ssize_t sn_unix_send(sn_unix *socket, const struct sn_unix_message *message);

/* ---- who is there ---- */

/* A process, as it was when it connected, listened or made the pair. */
struct sn_unix_credentials {
	int pid;      /* 0: of another PID namespace */
	unsigned uid; /* effective user */
	unsigned gid; /* effective group */
};

/*
 * Who the peer of a connection is, according to the kernel (SO_PEERCRED): on the side that
 * accepted, the process that called connect; on the side that connected, the process that called
 * listen. That process may have ended, and another may have its number by now; the user and the
 * group stay true. Any thread; does not park. Returns 0; -ENOTCONN for a datagram socket without a
 * peer of a pair, -EBADF, -EINVAL.
 */
SN_API int sn_unix_peer_credentials(sn_unix *conn, struct sn_unix_credentials *peer);

/*
 * Returns a pidfd of that process, which never comes to mean another one: a close-on-exec
 * descriptor that the caller closes. Errors: -ENOPROTOOPT before Linux 6.5; -ENODATA where there is
 * no such process, -ESRCH or -EINVAL when it has ended; -EMFILE, -ENFILE, -EBADF. Any thread; does
 * not park.
 */
SN_API SN_CHECK_RESULT int sn_unix_peer_pidfd(sn_unix *conn);

/* Write this end's and the peer's address as text, as sn_unix_listener_address() does: empty, with
 * length 0, when it has none. -ENOTCONN for the peer's when the socket has no peer. Any thread; do
 * not park. */
SN_API int sn_unix_local_address(sn_unix *conn, char *buf, size_t size);
SN_API int sn_unix_peer_address(sn_unix *conn, char *buf, size_t size);

/* ---- by the calls of tcp.h ---- */

/*
 * A connection of tcp.h whose address is a Unix socket's, for the calls of this header: the same
 * object, to be closed once, by either name. What this header says of Unix sockets does not hold
 * for a connection of TCP: calls that ask for its address return -EPROTOTYPE. NULL for NULL.
 */
static inline sn_unix *sn_tcp_unix(sn_tcp *conn)
{
	return (sn_unix *)conn;
}

/* The same for a listener. */
static inline sn_unix_listener *sn_tcp_listener_unix(sn_tcp_listener *listener)
{
	return (sn_unix_listener *)listener;
}

/* The other way round: a listener of streams for the calls of tcp.h, such as one that was opened
 * with a mode of its own. NULL for NULL. */
static inline sn_tcp_listener *sn_unix_listener_tcp(sn_unix_listener *listener)
{
	return (sn_tcp_listener *)listener;
}

/* ---- as a stream ---- */

/* The socket as a stream: the same object, to be closed once, by either name. NULL for NULL. */
static inline sn_stream *sn_unix_stream(sn_unix *conn)
{
	return (sn_stream *)conn;
}

/* Reads what there is: sn_stream_read(). Descriptors that come with it are closed. May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_read(sn_unix *conn, void *buf, size_t size)
{
	return sn_stream_read(sn_unix_stream(conn), buf, size);
}

/* Writes some of the bytes: sn_stream_write(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_write(sn_unix *conn, const void *buf, size_t size)
{
	return sn_stream_write(sn_unix_stream(conn), buf, size);
}

/* Writes all of the bytes: sn_stream_write_all(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_write_all(sn_unix *conn, const void *buf, size_t size,
							size_t *done)
{
	return sn_stream_write_all(sn_unix_stream(conn), buf, size, done);
}

/* Reads exactly size bytes: sn_stream_read_full(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_read_full(sn_unix *conn, void *buf, size_t size,
							size_t *done)
{
	return sn_stream_read_full(sn_unix_stream(conn), buf, size, done);
}

/* Reads what there is into several pieces of memory: sn_stream_readv(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_readv(sn_unix *conn, const struct iovec *iov, int n)
{
	return sn_stream_readv(sn_unix_stream(conn), iov, n);
}

/* Writes some bytes of several pieces of memory: sn_stream_writev(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_writev(sn_unix *conn, const struct iovec *iov, int n)
{
	return sn_stream_writev(sn_unix_stream(conn), iov, n);
}

/* Writes all bytes of several pieces of memory: sn_stream_writev_all(). May park. */
static inline SN_CHECK_RESULT ssize_t sn_unix_writev_all(sn_unix *conn, const struct iovec *iov,
							 int n, size_t *done)
{
	return sn_stream_writev_all(sn_unix_stream(conn), iov, n, done);
}

/* Ends one half of a connection: sn_stream_shutdown(). Does not park. */
static inline int sn_unix_shutdown(sn_unix *conn, enum sn_stream_half half)
{
	return sn_stream_shutdown(sn_unix_stream(conn), half);
}

/* Closes the socket, and removes the path that sn_unix_bind() has given it, as
 * sn_unix_listener_close() does: sn_stream_close(). Does not park. */
static inline int sn_unix_close(sn_unix *conn)
{
	return sn_stream_close(sn_unix_stream(conn));
}

/* Closes; there is no reset, so it is as sn_unix_close(): sn_stream_abort(). Does not park. */
static inline int sn_unix_abort(sn_unix *conn)
{
	return sn_stream_abort(sn_unix_stream(conn));
}

/* Makes all calls fail with -ECANCELED: sn_stream_cancel(). Does not park. */
static inline int sn_unix_cancel(sn_unix *conn)
{
	return sn_stream_cancel(sn_unix_stream(conn));
}

/* Sets the deadline of reading and receiving: sn_stream_set_read_deadline(). Does not park. */
static inline int sn_unix_set_read_deadline(sn_unix *conn, int64_t deadline)
{
	return sn_stream_set_read_deadline(sn_unix_stream(conn), deadline);
}

/* Sets the deadline of writing and sending: sn_stream_set_write_deadline(). Does not park. */
static inline int sn_unix_set_write_deadline(sn_unix *conn, int64_t deadline)
{
	return sn_stream_set_write_deadline(sn_unix_stream(conn), deadline);
}

/* The descriptor, which stays the socket's: sn_stream_fd(). Does not park. */
static inline int sn_unix_fd(sn_unix *conn)
{
	return sn_stream_fd(sn_unix_stream(conn));
}

SN_END

#endif
