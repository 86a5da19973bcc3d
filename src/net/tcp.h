/* SPDX-License-Identifier: MIT */
/* What the rest of the net layer uses of connections. Within the runtime; all of these may park. */
#ifndef SENNIT_NET_TCP_H
#define SENNIT_NET_TCP_H

#include <stddef.h>
#include <sys/types.h>

struct sn_fd;

/* As sn_tcp_read() and sn_tcp_write(), with a size that is not 0. */
ssize_t sn_conn_read(struct sn_fd *d, void *buf, size_t size);
ssize_t sn_conn_write(struct sn_fd *d, const void *buf, size_t size);

/* Waits for an edge on the reading side: 0 or the error that sn_tcp_read() would return. */
int sn_conn_wait_readable(struct sn_fd *d);

#endif
