/* SPDX-License-Identifier: MIT */
/*
 * Streams with a layer (sennit/layer.h), as other parts of the library see them: attempts on a
 * descriptor of the kind SN_KIND_LAYERED. Within the runtime, which they leave for the layer's
 * code. They may park, for the layer's locks, and change threads.
 *
 * Every edge of such a descriptor makes both sides ready (crossed in struct sn_fd). So a task that
 * waits on its own side sees room although it reads, and bytes although it writes. An edge that
 * comes between an attempt and its wait is kept by the side, as for other descriptors.
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

/* The layer of a stream, NULL without one, and its state. Written by a user who holds both
 * sides. */
static inline const struct sn_layer *sn_layer_of(const struct sn_fd *d)
{
	return d->layered[0];
}

static inline void *sn_layer_state(const struct sn_fd *d)
{
	return d->layered[1];
}

/* As sn_attempt_read() and sn_attempt_write(). */
ssize_t sn_layer_attempt_read(struct sn_fd *d, void *buf, size_t size);
ssize_t sn_layer_attempt_write(struct sn_fd *d, const void *buf, size_t size);
/* The same for several pieces, at least one of which is not empty. */
ssize_t sn_layer_attempt_readv(struct sn_fd *d, const struct iovec *iov, int n);
ssize_t sn_layer_attempt_writev(struct sn_fd *d, const struct iovec *iov, int n);

/* Within an operation that writes, which fails: how many bytes the layer has taken over and will
 * send with what comes next. 0 for other kinds of descriptors. */
ssize_t sn_layer_settle_some(struct sn_fd *d);

/* Within an operation that reads: whether a read would have something to return before the socket
 * has. Otherwise the layer has prepared for a long wait. */
bool sn_layer_quiet(struct sn_fd *d);

/* sn_stream_shutdown(); waits for room. */
int sn_layer_shutdown(struct sn_fd *d, enum sn_stream_half half);

/* sn_stream_close() of any stream, before it; waits for the layer, if there is one. */
void sn_layer_linger(const void *handle);

/* For the hooks of struct sn_fd_ops of those names, of each kind that may have a layer. */
void sn_layer_closed(struct sn_fd *d, bool orderly);
void sn_layer_abandoned(struct sn_fd *d, bool used);

#endif
