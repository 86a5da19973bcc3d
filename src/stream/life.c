/* SPDX-License-Identifier: MIT */
/*
 * The lives of a connection's descriptor (stream.h): which of those that have used the same memory
 * a handle was given for. In a 32-bit process a handle tells only 63 of them apart.
 */
#include <sennit/stream.h>

#include "io/fd.h"
#include "stream/stream.h"

uint32_t sn_conn_life(const void *handle)
{
	const struct sn_fd *d = sn_handle_object(handle);

	return atomic_load_explicit(&d->generation, memory_order_relaxed);
}

void sn_conn_close_life(sn_stream *stream, uint32_t life)
{
	struct sn_fd *d;

	if (!stream || sn_fd_use_handle(&d, stream) < 0)
		return;
	/* While this is a user, the stream is not reused. */
	if (sn_conn_life(stream) == life)
		sn_stream_close(stream);
	sn_fd_unuse(d);
}
