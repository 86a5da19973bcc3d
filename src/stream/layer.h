/* SPDX-License-Identifier: MIT */
/*
 * Streams with a layer (sennit/layer.h), as other parts of the library see them: attempts on a
 * descriptor of the kind SN_KIND_LAYERED. The functions are called inside the runtime, and leave it
 * while the layer's code runs. That code may wait for its locks, so these functions may park and
 * return on another thread.
 *
 * Every edge of such a descriptor makes both sides ready (crossed in struct sn_fd). So a task that
 * waits on its own side is woken by room although it reads, and by bytes although it writes. The
 * side keeps an edge that comes between an attempt and the wait after it, as for other descriptors.
 */
#ifndef SENNIT_STREAM_LAYER_H
#define SENNIT_STREAM_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <sennit/stream.h>

#include "io/fd.h"

struct sn_layer;

/* The layer of a stream (NULL if it has none) and the layer's state. Written by the holder of both
 * sides. */
static inline const struct sn_layer *sn_layer_of(const struct sn_fd *d)
{
	return d->layered[0];
}

static inline void *sn_layer_state(const struct sn_fd *d)
{
	return d->layered[1];
}

/* Like sn_conn_attempt_read() and sn_conn_attempt_write(). */
ssize_t sn_layer_attempt_read(struct sn_fd *d, void *buf, size_t size);
ssize_t sn_layer_attempt_write(struct sn_fd *d, const void *buf, size_t size);
/* The same for several pieces, at least one of which is not empty. */
ssize_t sn_layer_attempt_readv(struct sn_fd *d, const struct iovec *iov, int n);
ssize_t sn_layer_attempt_writev(struct sn_fd *d, const struct iovec *iov, int n);

/* For a write operation that is about to fail: returns how many bytes the layer has taken over,
 * which it will send with what is written next. Returns 0 for other kinds of descriptors. */
ssize_t sn_layer_settle_some(struct sn_fd *d);

/* Within a read operation: returns true if a read would return something before the socket becomes
 * readable. Otherwise the layer has prepared for a long wait. */
bool sn_layer_quiet(struct sn_fd *d);

/* sn_stream_shutdown() of a stream with a layer; waits for room to write. */
int sn_layer_shutdown(struct sn_fd *d, enum sn_stream_half half);

/* The first part of sn_stream_close(), for any stream: waits for the layer, if there is one. */
void sn_layer_linger(const void *handle);

/* The hooks closed and abandoned of struct sn_fd_ops, for each kind that may have a layer. */
void sn_layer_closed(struct sn_fd *d, bool orderly);
void sn_layer_abandoned(struct sn_fd *d, bool used);

#endif
