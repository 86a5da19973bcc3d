/* SPDX-License-Identifier: MIT */
/*
 * Copying from one connection to another.
 */
#ifndef SENNIT_COPY_H
#define SENNIT_COPY_H

#include <sennit/base.h>
#include <sennit/tcp.h>

SN_BEGIN

enum sn_copy_side {
	SN_COPY_NONE = 0,  /* nothing failed */
	SN_COPY_READ = 1,  /* reading from src failed */
	SN_COPY_WRITE = 2, /* writing to dst failed */
};

/* Zeroed by sn_copy(), filled also on failure. */
struct sn_copy_result {
	uint64_t bytes_read;
	uint64_t bytes_written;
	enum sn_copy_side failed;
};

/* Told after every chunk that was delivered, so that the caller can push an idle deadline forward.
 */
typedef void sn_copy_progress(void *arg, size_t bytes);

/*
 * Copies from src to dst until the end of the stream, or n bytes when n is not negative. Waiting
 * for data holds no buffer, so idle connections cost none. Neither connection is shut down or
 * closed. progress (NULL: none) is called in the calling task after each delivered chunk; it must
 * not park. Returns 0 at the end of the stream or after n bytes; otherwise the error of the side
 * that result->failed names (sn_tcp_read()'s or sn_tcp_write()'s), or -ENOMEM. After a failure to
 * write, up to bytes_read - bytes_written bytes that were read are lost. May park.
 */
SN_API int sn_copy(sn_tcp *dst, sn_tcp *src, int64_t n, sn_copy_progress *progress, void *arg,
		   struct sn_copy_result *result);

SN_END

#endif
