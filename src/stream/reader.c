/* SPDX-License-Identifier: MIT */
/*
 * Buffered reading from a stream or a function.
 *
 * The buffer has `capacity` bytes. Those from `start` to `end` were read and not taken yet. Only
 * fill() moves them, to the beginning, so what a call returns stays in place until the next call
 * that needs more. A call takes bytes as its last step, when nothing can fail any more, so an error
 * leaves all of them in the reader. Calls that take bytes in parts report how many they have taken.
 *
 * All fields are written by the one task that uses the reader. Nothing here needs to be within the
 * runtime: the stream's own call enters it.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/buffered.h>

static bool usable(const sn_reader *reader)
{
	return reader && reader->buffer;
}

static size_t unread(const sn_reader *reader)
{
	return reader->end - reader->start;
}

static char *first(const sn_reader *reader)
{
	return reader->buffer + reader->start;
}

static void take(sn_reader *reader, size_t size)
{
	reader->start += size;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- the source ---- */

/* Reads once from the source: like sn_stream_read() of at least one byte. */
static ssize_t ask(sn_reader *reader, void *buf, size_t size)
{
	ssize_t n = reader->tied ? sn_writer_flush(reader->tied) : 0;

	if (n < 0)
		return n;
	size = least(size, SSIZE_MAX);
	n = reader->read ? reader->read(reader->source, buf, size)
			 : sn_stream_read(reader->source, buf, size);
	return n > 0 && (size_t)n > size ? -EIO : n; /* a mistake of the function */
}

/* At least doubles the buffer, so that all the copying while a line grows costs no more than the
 * line. */
static int grow(sn_reader *reader, size_t wanted)
{
	size_t capacity = reader->capacity * 2;
	char *buffer;

	capacity = least(capacity > wanted ? capacity : wanted, reader->limit);
	buffer = realloc(reader->buffer, capacity);
	if (!buffer)
		return -ENOMEM;
	reader->buffer = buffer;
	reader->capacity = capacity;
	return 0;
}

/*
 * Reads once into the buffer, which grows to `wanted` bytes if it is smaller. `wanted` is more than
 * the number of unread bytes, and at most the limit. Moves the unread bytes to the beginning first.
 * They are the start of what the caller looks for, so they are moved only once for each line or
 * delimited part. Returns the number of bytes read, 0 at the end, or an error.
 */
static ssize_t fill(sn_reader *reader, size_t wanted)
{
	ssize_t n = wanted > reader->capacity ? grow(reader, wanted) : 0;

	if (n < 0)
		return n;
	if (reader->start > 0) {
		memmove(reader->buffer, first(reader), unread(reader));
		reader->end -= reader->start;
		reader->start = 0;
	}
	n = ask(reader, reader->buffer + reader->end, reader->capacity - reader->end);
	if (n > 0)
		reader->end += (size_t)n;
	return n;
}

/* Reads until the buffer has `size` bytes, which is at most the limit, or the stream ends. */
static ssize_t fill_up(sn_reader *reader, size_t size)
{
	ssize_t n = 1;

	while (unread(reader) < size && n > 0)
		n = fill(reader, size);
	return n < 0 ? n : 0;
}

/* ---- delimiters ---- */

/* The number of bytes up to and including the first delimiter, within the first `size` unread
 * bytes; 0 if there is none. The caller knows that the first `searched` bytes contain none. */
static size_t find(const sn_reader *reader, size_t size, size_t searched, const void *delimiter,
		   size_t length)
{
	/* A delimiter may have begun at the end of the searched bytes. */
	const size_t from = searched < length ? 0 : searched - (length - 1);
	const char *data = first(reader), *at;

	if (length == 1)
		at = memchr(data + from, *(const unsigned char *)delimiter, size - from);
	else
		at = memmem(data + from, size - from, delimiter, length);
	return at ? (size_t)(at - data) + length : 0;
}

/* Reads up to the first delimiter. Returns the number of bytes up to and including it, 0 if the
 * stream ends before one, or an error. */
static ssize_t search(sn_reader *reader, const void *delimiter, size_t length)
{
	size_t size, searched = 0, end;
	ssize_t n;

	for (;;) {
		size = least(unread(reader), reader->limit);
		end = find(reader, size, searched, delimiter, length);
		if (end > 0)
			return (ssize_t)end;
		if (size == reader->limit)
			return -EMSGSIZE;
		searched = size;
		n = fill(reader, size + 1);
		if (n <= 0)
			return n;
	}
}

/* ---- the public calls ---- */

static int init(sn_reader *reader, sn_read_fn *read, void *source, void *buf, size_t size)
{
	if (size == 0 && !buf)
		size = SN_BUFFERED_SIZE;
	if (size == 0 || size > SSIZE_MAX)
		return -EINVAL;
	*reader = (sn_reader){
		.read = read,
		.source = source,
		.buffer = buf ? buf : malloc(size),
		.capacity = size,
		.limit = size,
		.allocated = !buf,
	};
	return reader->buffer ? 0 : -ENOMEM;
}

int sn_reader_init(sn_reader *reader, sn_stream *stream, void *buf, size_t size)
{
	return reader && stream ? init(reader, NULL, stream, buf, size) : -EINVAL;
}

int sn_reader_init_with_fn(sn_reader *reader, sn_read_fn *read, void *arg, void *buf, size_t size)
{
	return reader && read ? init(reader, read, arg, buf, size) : -EINVAL;
}

void sn_reader_free(sn_reader *reader)
{
	if (!reader)
		return;
	if (reader->allocated)
		free(reader->buffer);
	*reader = (sn_reader){0};
}

int sn_reader_set_limit(sn_reader *reader, size_t limit)
{
	if (!usable(reader) || limit == 0 || limit > SSIZE_MAX)
		return -EINVAL;
	if (limit > reader->capacity && !reader->allocated)
		return -EINVAL;
	reader->limit = limit;
	return 0;
}

int sn_reader_tie(sn_reader *reader, sn_writer *writer)
{
	if (!usable(reader))
		return -EINVAL;
	reader->tied = writer;
	return 0;
}

ssize_t sn_reader_line(sn_reader *reader, char **line, size_t *length)
{
	size_t size, rest;
	ssize_t n;
	char *at;

	if (!usable(reader) || !line)
		return -EINVAL;
	n = search(reader, "\n", 1);
	if (n < 0)
		return n;
	size = rest = n > 0 ? (size_t)n : unread(reader);
	at = first(reader);
	if (n > 0) {
		size--;
		if (size > 0 && at[size - 1] == '\r')
			size--;
	}
	/* The zero replaces the end of the line. If there was none, it follows all that was read,
	 * where fill() has just had room for more. */
	at[size] = 0;
	take(reader, rest);
	*line = at;
	if (length)
		*length = size;
	return (ssize_t)rest;
}

ssize_t sn_reader_through(sn_reader *reader, const void *delimiter, size_t size, char **data)
{
	ssize_t n;

	if (!usable(reader) || !delimiter || !data || size == 0)
		return -EINVAL;
	n = search(reader, delimiter, size);
	if (n < 0)
		return n;
	if (n == 0)
		n = (ssize_t)unread(reader);
	*data = first(reader);
	take(reader, (size_t)n);
	return n;
}

ssize_t sn_reader_peek(sn_reader *reader, size_t size, char **data)
{
	ssize_t err;

	if (!usable(reader) || !data)
		return -EINVAL;
	if (size > reader->limit)
		return -EMSGSIZE;
	err = fill_up(reader, size);
	if (err < 0)
		return err;
	*data = first(reader);
	return (ssize_t)unread(reader);
}

ssize_t sn_reader_take(sn_reader *reader, size_t size, char **data)
{
	ssize_t n = sn_reader_peek(reader, size, data);

	if (n < 0)
		return n;
	size = least(size, (size_t)n);
	take(reader, size);
	return (ssize_t)size;
}

/* Reads what is available, at least one byte. size is not 0. */
static ssize_t read_some(sn_reader *reader, void *buf, size_t size)
{
	if (unread(reader) == 0) {
		ssize_t n;

		if (size >= reader->capacity)
			return ask(reader, buf, size);
		n = fill(reader, 1);
		if (n <= 0)
			return n;
	}
	size = least(size, unread(reader));
	memcpy(buf, first(reader), size);
	take(reader, size);
	return (ssize_t)size;
}

ssize_t sn_reader_read(sn_reader *reader, void *buf, size_t size)
{
	if (!usable(reader) || (size > 0 && !buf))
		return -EINVAL;
	return size > 0 ? read_some(reader, buf, size) : 0;
}

/* For both calls that take exactly `size` bytes: copies them to buf, or discards them if it is
 * NULL. */
static ssize_t read_all(sn_reader *reader, char *buf, size_t size, size_t *done)
{
	size_t have = done ? *done : 0;
	ssize_t n = 1;

	if (!usable(reader) || size > SSIZE_MAX || have > size)
		return -EINVAL;
	while (have < size && n > 0) {
		if (buf) {
			n = read_some(reader, buf + have, size - have);
			have += n > 0 ? (size_t)n : 0;
		} else {
			const size_t some = least(unread(reader), size - have);

			take(reader, some);
			have += some;
			if (have < size)
				n = fill(reader, 1);
		}
	}
	if (done)
		*done = have;
	return n < 0 ? n : (ssize_t)have;
}

ssize_t sn_reader_read_full(sn_reader *reader, void *buf, size_t size, size_t *done)
{
	return buf || size == 0 ? read_all(reader, buf, size, done) : -EINVAL;
}

ssize_t sn_reader_skip(sn_reader *reader, size_t size, size_t *done)
{
	return read_all(reader, NULL, size, done);
}

int sn_reader_skip_through(sn_reader *reader, const void *delimiter, size_t size)
{
	ssize_t n = 1;

	if (!usable(reader) || !delimiter || size == 0)
		return -EINVAL;
	if (size > reader->limit)
		return -EMSGSIZE;
	while (n > 0) {
		const size_t end = find(reader, unread(reader), 0, delimiter, size);

		if (end > 0) {
			take(reader, end);
			return 1;
		}
		/* The last bytes may be the beginning of a delimiter. */
		take(reader, unread(reader) - least(unread(reader), size - 1));
		n = fill(reader, size);
	}
	if (n == 0)
		take(reader, unread(reader));
	return (int)n;
}

size_t sn_reader_buffered(const sn_reader *reader)
{
	return reader ? unread(reader) : 0;
}
