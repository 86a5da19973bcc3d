/* SPDX-License-Identifier: MIT */
/*
 * Layers: what a library needs to put a protocol, such as TLS (tls.h), between a stream socket and
 * the calls of stream.h. UNSTABLE: what is here may change or disappear in any version, and old
 * forms are not kept. sennit.h does not include it.
 *
 * A stream with a layer keeps its handle. All calls of stream.h, buffered.h, copy.h and relay.h
 * take it as before: they read and write what the layer gives and takes. Its descriptor is that of
 * the socket. The layer makes its own system calls on that; it never waits there. Messages and
 * descriptors can no longer be passed on a Unix socket (unix.h): -EPROTOTYPE.
 *
 * Attempts. The layer's functions are attempts: each does what can be done without waiting. One
 * that cannot continue returns -EAGAIN, after a system call on the socket has returned EAGAIN in
 * whichever direction it needs. The calling task then waits for an edge of the socket, in either
 * direction, and makes the same attempt again. A read that must first send something, and a write
 * that must first receive, therefore need nothing special. The task waits on its own side of the
 * stream: its deadline, cancellation and close end the wait as those of a plain stream.
 *
 * They are called in a task, outside the runtime, so they may compute for long and may lock an
 * sn_mutex, by sn_mutex_lock_uncancelled(). One task reads and one writes at a time, and both may
 * be in the layer at the same time. Neither may leave its work to the other: after -EAGAIN each of
 * them has to act on the next edge.
 *
 * Threads outside the runtime: none, except where a function says so. Signal handlers: none.
 */
#ifndef SENNIT_LAYER_H
#define SENNIT_LAYER_H

#include <sennit/base.h>
#include <sennit/stream.h>

SN_BEGIN

/* The functions of a layer. The structure has to outlive its streams. */
struct sn_layer {
	/* Reads at least one byte and at most size, which is more than 0. Returns their number, 0
	 * at the end of the stream, -EAGAIN or another error. */
	ssize_t (*read)(void *state, void *buf, size_t size);
	/*
	 * Writes some of the bytes; size is more than 0. Returns their number when the socket has
	 * taken everything that represents them; otherwise -EAGAIN or another error. After -EAGAIN
	 * the layer may have taken bytes over; the next attempt is made with the same bytes.
	 */
	ssize_t (*write)(void *state, const void *buf, size_t size);
	/* The writer gives up after -EAGAIN. Returns the number of bytes that the layer has taken
	 * over and will send before the next ones. */
	size_t (*settle)(void *state);
	/* Ends one half (SN_SHUT_READ, SN_SHUT_WRITE), before the library ends that of the socket.
	 * Returns 0, -EAGAIN or another error. */
	int (*shutdown)(void *state, enum sn_stream_half half);
	/*
	 * Frees the state of a stream that is closed and that nobody uses any more. orderly: 1 when
	 * the peer should be notified, as far as that is possible without waiting; 0 after
	 * sn_stream_abort(), in a child of fork(), whose parent still has the stream, and at the
	 * end of a run whose tasks have left it open. In that last case abandoned tasks, which
	 * never run again, may hold locks of the state. Any thread; must not park.
	 */
	void (*close)(void *state, int orderly);
	/*
	 * The stream becomes quiet: no task is going to read until the socket is readable
	 * (when_readable.h). Sends what was put off, as far as possible. Returns 1 if a read would
	 * return something before the socket is readable, otherwise 0. NULL: the task that is to
	 * read begins immediately.
	 */
	int (*quiet)(void *state);
	/*
	 * A task closes the stream, which nobody else reads or writes. Tries to make sure that the
	 * close does not lose what was written. Returns 0, -EAGAIN to be called again after a
	 * moment, or an error; sn_stream_close() waits for it for up to a second. NULL: there is
	 * nothing to do.
	 */
	int (*linger)(void *state);
};

/*
 * Puts the layer onto a stream, which owns the state from then on. Nobody else may use the stream
 * during the call. Returns 0; -EBUSY when a task reads or writes; -EEXIST when it has a layer;
 * -ENOTSOCK for what is not a stream socket; -EBADF, -ECANCELED, -EINVAL, -ENOTSUP as a read. Does
 * not park.
 */
SN_API int sn_layer_push(sn_stream *stream, const struct sn_layer *layer, void *state);

/*
 * Begins a use of the layer's state, which stays until sn_layer_unuse(). Returns 0; -EPROTOTYPE
 * when the stream does not have this layer; -EBADF, -EINVAL. Any thread; do not park.
 */
SN_API int sn_layer_use(sn_stream *stream, const struct sn_layer *layer, void **state);
SN_API void sn_layer_unuse(sn_stream *stream);

/* An attempt of the layer's own: a result that is not negative, -EAGAIN, or an error. */
typedef int sn_layer_attempt(void *state, void *arg);

/*
 * Repeats an attempt until it returns something other than -EAGAIN. It counts as an operation that
 * both reads and writes, so the call returns -EBUSY when another task does either. Returns what the
 * attempt returned; -ETIMEDOUT past the deadline or one of the stream's deadlines; the errors of
 * sn_layer_use() and of a read. May park.
 */
SN_API int sn_layer_run(sn_stream *stream, const struct sn_layer *layer, sn_layer_attempt *attempt,
			void *arg, int64_t deadline);

/* How many bytes of the calling task's stack are left below its caller's frame; SIZE_MAX outside a
 * task. Any thread; does not park. */
SN_API size_t sn_layer_stack_left(void);

SN_END

#endif
