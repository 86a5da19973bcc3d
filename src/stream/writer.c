/* SPDX-License-Identifier: MIT */
/*
 * Buffered writing to a stream or a function.
 *
 * The buffer has `size` bytes. Those from `start` to `end` were taken from the caller and not sent
 * yet. What does not fit is not copied: it is sent together with the buffer, as the second of two
 * pieces. How many bytes a write has moved is always known, so after an error exactly the bytes
 * that were not sent are left. The error stays in `error`; `taken` is how many bytes of its data
 * the call that met the error had taken before.
 *
 * All fields are written by the one task that uses the writer. Nothing here needs to be within the
 * runtime: the stream's own call enters it.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/buffered.h>

#include "arch/compiler.h"

static bool usable(const sn_writer *writer)
{
	return writer && writer->buffer;
}

static size_t unsent(const sn_writer *writer)
{
	return writer->end - writer->start;
}

static int fail(sn_writer *writer, ssize_t error, size_t taken)
{
	writer->error = (int)error;
	writer->taken = taken;
	return (int)error;
}

/* ---- sending ---- */

static ssize_t pass_on(sn_writer *writer, const struct iovec *iov, int n)
{
	if (writer->write)
		return writer->write(writer->target, iov, n);
	if (n == 1)
		return sn_stream_write(writer->target, iov->iov_base, iov->iov_len);
	return sn_stream_writev(writer->target, iov, n);
}

/* Makes one write of the buffer followed by data, at least one byte in all. Returns how many bytes
 * of data were taken, or an error. */
static ssize_t send_some(sn_writer *writer, const void *data, size_t size)
{
	const size_t first = unsent(writer);
	struct iovec pieces[2] = {{writer->buffer + writer->start, first}};
	int n = first > 0;
	ssize_t sent;

	if (size > SSIZE_MAX - first)
		size = SSIZE_MAX - first;
	if (size > 0)
		pieces[n++] = (struct iovec){(void *)data, size};
	sent = pass_on(writer, pieces, n);
	if (sent < 0)
		return sent;
	if (sent == 0 || (size_t)sent > first + size)
		return -EIO; /* a mistake of the function */
	if ((size_t)sent < first) {
		writer->start += (size_t)sent;
		return 0;
	}
	writer->start = writer->end = 0;
	return sent - (ssize_t)first;
}

/* Whether `size` more bytes fit into the buffer. May move the unsent bytes to its beginning. */
static bool fits(sn_writer *writer, size_t size)
{
	if (size <= writer->size - writer->end)
		return true;
	if (size > writer->size - unsent(writer))
		return false;
	memmove(writer->buffer, writer->buffer + writer->start, unsent(writer));
	writer->end -= writer->start;
	writer->start = 0;
	return true;
}

static ssize_t write_through(sn_writer *writer, const char *data, size_t size)
{
	size_t taken = 0;
	ssize_t n;

	while (!fits(writer, size - taken)) {
		n = send_some(writer, data + taken, size - taken);
		if (n < 0)
			return fail(writer, n, taken);
		taken += (size_t)n;
	}
	memcpy(writer->buffer + writer->end, data + taken, size - taken);
	writer->end += size - taken;
	return (ssize_t)size;
}

static int flush(sn_writer *writer)
{
	while (unsent(writer) > 0) {
		ssize_t n = send_some(writer, NULL, 0);

		if (n < 0)
			return fail(writer, n, 0);
	}
	return 0;
}

/* ---- the public calls ---- */

static int init(sn_writer *writer, sn_write_fn *write, void *target, void *buf, size_t size)
{
	if (size == 0 && !buf)
		size = SN_BUFFERED_SIZE;
	if (size == 0 || size > SSIZE_MAX)
		return -EINVAL;
	*writer = (sn_writer){
		.write = write,
		.target = target,
		.buffer = buf ? buf : malloc(size),
		.size = size,
		.allocated = !buf,
	};
	return writer->buffer ? 0 : -ENOMEM;
}

int sn_writer_init(sn_writer *writer, sn_stream *stream, void *buf, size_t size)
{
	return writer && stream ? init(writer, NULL, stream, buf, size) : -EINVAL;
}

int sn_writer_init_with_fn(sn_writer *writer, sn_write_fn *write, void *arg, void *buf, size_t size)
{
	return writer && write ? init(writer, write, arg, buf, size) : -EINVAL;
}

void sn_writer_free(sn_writer *writer)
{
	if (!writer)
		return;
	if (writer->allocated)
		free(writer->buffer);
	*writer = (sn_writer){0};
}

int sn_writer_error(const sn_writer *writer)
{
	return usable(writer) ? writer->error : -EINVAL;
}

int sn_writer_clear_error(sn_writer *writer, size_t *taken)
{
	int error;

	if (!usable(writer))
		return -EINVAL;
	if (taken)
		*taken = writer->taken;
	error = writer->error;
	writer->error = 0;
	writer->taken = 0;
	return error;
}

ssize_t sn_writer_write(sn_writer *writer, const void *buf, size_t size)
{
	if (!usable(writer) || (size > 0 && !buf) || size > SSIZE_MAX)
		return -EINVAL;
	if (writer->error < 0)
		return writer->error;
	return size > 0 ? write_through(writer, buf, size) : 0;
}

/* Formats into size bytes, like vsnprintf(), and returns the length or a negative errno. Never
 * inlined, because errno's address must not be kept across calls that may change threads. */
static sn_noinline int format_text(char *buf, size_t size, const char *format, va_list args)
{
	int n;
	va_list copy;

	va_copy(copy, args);
	n = vsnprintf(buf, size, format, copy);
	va_end(copy);
	return n < 0 ? -errno : n;
}

/* Writes a text of `length` bytes, for which the buffer is too small. */
static ssize_t print_long(sn_writer *writer, size_t length, const char *format, va_list args)
{
	char *text = malloc(length + 1);
	ssize_t n;

	if (!text)
		return fail(writer, -ENOMEM, 0);
	n = format_text(text, length + 1, format, args);
	if (n < 0)
		n = fail(writer, n, 0);
	else
		n = write_through(writer, text, (size_t)n < length ? (size_t)n : length);
	free(text);
	return n;
}

ssize_t sn_writer_vprint(sn_writer *writer, const char *format, va_list args)
{
	size_t room;
	int n;

	if (!usable(writer) || !format)
		return -EINVAL;
	if (writer->error < 0)
		return writer->error;
	for (int again = 0; again < 2; again++) {
		/* The text must be a byte shorter than the room, because vsnprintf() also writes a
		 * zero. */
		room = writer->size - writer->end;
		n = format_text(writer->buffer + writer->end, room, format, args);
		if (n < 0)
			return fail(writer, n, 0);
		if ((size_t)n < room) {
			writer->end += (size_t)n;
			return n;
		}
		if ((size_t)n >= writer->size)
			return print_long(writer, (size_t)n, format, args);
		if (flush(writer) < 0)
			return writer->error;
	}
	/* The text has grown although the buffer is empty: another task has changed the arguments
	 * during the flush. */
	return print_long(writer, (size_t)n, format, args);
}

ssize_t sn_writer_print(sn_writer *writer, const char *format, ...)
{
	va_list args;
	ssize_t n;

	va_start(args, format);
	n = sn_writer_vprint(writer, format, args);
	va_end(args);
	return n;
}

int sn_writer_flush(sn_writer *writer)
{
	if (!usable(writer))
		return -EINVAL;
	return writer->error < 0 ? writer->error : flush(writer);
}

size_t sn_writer_buffered(const sn_writer *writer)
{
	return writer ? unsent(writer) : 0;
}
