/* SPDX-License-Identifier: MIT */
/*
 * Buffered reading and writing: lines, delimiters and exact numbers of bytes from a stream, and
 * many small writes in few system calls.
 *
 *	sn_reader in;
 *	sn_writer out;
 *	char *line;
 *	size_t length;
 *
 *	sn_reader_init(&in, sn_tcp_stream(conn), NULL, 0);
 *	sn_writer_init(&out, sn_tcp_stream(conn), NULL, 0);
 *	sn_reader_tie(&in, &out);
 *	while (sn_reader_line(&in, &line, &length) > 0)
 *		sn_writer_print(&out, "%zu bytes: %s\n", length, line);
 *	sn_writer_flush(&out);
 *	sn_reader_free(&in);
 *	sn_writer_free(&out);
 *
 * A reader takes its bytes from a stream, or from a function of the program: TLS, a decompressor,
 * memory. A writer passes its bytes to a stream or to a function. Neither owns the stream, closes
 * it or changes its deadlines. What a reader has buffered is no longer in the stream, so code that
 * continues without the reader takes it over first: sn_reader_peek() of 0 bytes.
 *
 * Both are values that programs embed, initialised by one call and freed by another. They must not
 * be copied, and a writer stays in place while a reader is tied to it. Only one task at a time may
 * use a reader or a writer; the reader and the writer of one stream may be used by two different
 * tasks.
 *
 * The buffer is the caller's memory, which must stay until the reader or writer is freed. If it is
 * NULL, the call allocates one of the given size in bytes, or of SN_BUFFERED_SIZE if that is 0.
 *
 * A call that waits may park, and fails as sn_stream_read() or sn_stream_write() does: past the
 * stream's deadline, or when the stream is cancelled or closed. After any error of a reader nothing
 * that was read is lost. "Errors of a writer", below, says what is left after one of a writer.
 *
 * A reader or writer that is NULL, still all zeros, or already freed gives -EINVAL.
 *
 * Threads outside the runtime: all calls, if the bytes come from, or go to, a function that may be
 * called there; calls that need a stream return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_BUFFERED_H
#define SENNIT_BUFFERED_H

#include <sennit/base.h>
#include <sennit/stream.h>

#include <stdarg.h>
#include <sys/uio.h>

SN_BEGIN

/* The size of a buffer whose size is given as 0. */
#define SN_BUFFERED_SIZE ((size_t)4096)

/* ---- writing ---- */

/*
 * Where a writer's bytes go, if not to a stream. The function takes some of the bytes of the n
 * pieces (one or two), in their order, and at least one; the first piece is not empty. It returns
 * their number, or a negative errno. A function that can write only one piece writes iov[0] and
 * ignores the other. It is called in the task that uses the writer, and may park.
 */
typedef ssize_t sn_write_fn(void *arg, const struct iovec *iov, int n);

/* A writer; src/stream/writer.c says what the fields are. */
typedef struct sn_writer {
	sn_write_fn *write; /* not for programs */
	void *target;       /* not for programs */
	char *buffer;       /* not for programs */
	size_t size;        /* not for programs */
	size_t start;       /* not for programs */
	size_t end;         /* not for programs */
	size_t taken;       /* not for programs */
	int error;          /* not for programs */
	int allocated;      /* not for programs */
} sn_writer;

/*
 * Initialise a writer to a stream, or to a function that is called with arg. Any thread; do not
 * park. Return 0; -ENOMEM; -EINVAL for a buffer without a size, or one larger than SSIZE_MAX.
 */
SN_API SN_CHECK_RESULT int sn_writer_init(sn_writer *writer, sn_stream *stream, void *buf,
					  size_t size);
SN_API SN_CHECK_RESULT int sn_writer_init_with_fn(sn_writer *writer, sn_write_fn *write, void *arg,
						  void *buf, size_t size);

/*
 * Frees the buffer if it was allocated. Bytes that were not flushed are discarded, so call
 * sn_writer_flush() first. Does not park. Does nothing with NULL, or with a writer that was freed.
 */
SN_API void sn_writer_free(sn_writer *writer);

/*
 * Errors of a writer. The first error of any call below, other than -EINVAL for its arguments,
 * stays with the writer: every later call returns it and does nothing. So a program may ignore the
 * results of its writes, and test that of the sn_writer_flush() after them.
 *
 * The bytes that the writer has taken and not sent are still in its buffer, and no byte is sent
 * twice. For an error that passes, such as -ETIMEDOUT, sn_writer_clear_error() lets the writer
 * continue from there.
 */

/* The error that stays with the writer, or 0. Does not park. */
SN_API int sn_writer_error(const sn_writer *writer);

/*
 * Forgets the error, so that the next call continues. If a write failed, the writer has taken the
 * first *taken of its bytes, and the caller passes the others again; otherwise *taken is 0. taken
 * may be NULL. Does not park. Returns the error that it forgets, or 0.
 */
SN_API int sn_writer_clear_error(sn_writer *writer, size_t *taken);

/*
 * Writes size bytes: into the buffer if they fit. Otherwise the buffered bytes are sent together
 * with these, which are not copied, until the rest fits. Returns size, or an error. May park.
 */
SN_API ssize_t sn_writer_write(sn_writer *writer, const void *buf, size_t size);

/*
 * Writes text as printf(3) does. A text that is longer than the buffer is put into memory that is
 * allocated for the duration of the call. Returns its length, or an error: also -ENOMEM, and
 * -EILSEQ or -EOVERFLOW when it cannot be formatted. If the writer has not taken the whole text,
 * that error stays with it too, and sn_writer_clear_error() says how much of the text was taken.
 * May park.
 */
SN_API ssize_t sn_writer_print(sn_writer *writer, const char *format, ...) SN_PRINTF(2, 3);
SN_API ssize_t sn_writer_vprint(sn_writer *writer, const char *format, va_list args)
	SN_PRINTF(2, 0);

/* Sends everything that is in the buffer. Returns 0 or an error. May park, unless the buffer is
 * empty. */
SN_API SN_CHECK_RESULT int sn_writer_flush(sn_writer *writer);

/* How many bytes are in the buffer. Does not park. 0 for NULL. */
SN_API size_t sn_writer_buffered(const sn_writer *writer);

/* ---- reading ---- */

/*
 * Where a reader's bytes come from, if not from a stream. The function reads at least one byte into
 * buf and at most size, which is more than 0. It returns their number, 0 at the end, or a negative
 * errno. It is called in the task that uses the reader, and may park.
 */
typedef ssize_t sn_read_fn(void *arg, void *buf, size_t size);

/* A reader; src/stream/reader.c says what the fields are. */
typedef struct sn_reader {
	sn_read_fn *read; /* not for programs */
	void *source;     /* not for programs */
	sn_writer *tied;  /* not for programs */
	char *buffer;     /* not for programs */
	size_t capacity;  /* not for programs */
	size_t limit;     /* not for programs */
	size_t start;     /* not for programs */
	size_t end;       /* not for programs */
	int allocated;    /* not for programs */
} sn_reader;

/*
 * Initialise a reader of a stream, or of a function that is called with arg. Any thread; do not
 * park. Return 0; -ENOMEM; -EINVAL for a buffer without a size, or one larger than SSIZE_MAX.
 */
SN_API SN_CHECK_RESULT int sn_reader_init(sn_reader *reader, sn_stream *stream, void *buf,
					  size_t size);
SN_API SN_CHECK_RESULT int sn_reader_init_with_fn(sn_reader *reader, sn_read_fn *read, void *arg,
						  void *buf, size_t size);

/* Frees the buffer if it was allocated; what the buffer holds is lost. Does not park. Does nothing
 * with NULL, or with a reader that was freed. */
SN_API void sn_reader_free(sn_reader *reader);

/*
 * Sets the limit: the most bytes that one call may need in the buffer at the same time, such as a
 * line with its end. At first it is the size of the buffer. With a higher limit, an allocated
 * buffer grows when a call needs it to, and does not shrink again. Does not park. Returns 0;
 * -EINVAL for a limit of 0, one above SSIZE_MAX, or one that is more than the caller's buffer
 * holds.
 */
SN_API int sn_reader_set_limit(sn_reader *reader, size_t limit);

/*
 * Ties the reader to a writer (NULL: to none), which is flushed whenever the reader is about to ask
 * its source for bytes. So answers to several requests that have arrived together are sent
 * together, and none stays in the buffer while the reader waits. The same task must use both. When
 * the flush fails, the reader's call returns that error and reads nothing. Does not park. Returns
 * 0.
 */
SN_API int sn_reader_tie(sn_reader *reader, sn_writer *writer);

/*
 * The calls that follow give pointers into the buffer, without copying. The bytes belong to the
 * caller, who may also change them, until the next call on the reader. At the end of the stream
 * they give what is left. The end is not remembered: each later call asks the source again.
 *
 * -EMSGSIZE: the result would be longer than the limit. Everything stays in the buffer, so the same
 * call gives the same error; skip what is too long (sn_reader_skip_through()), read it in parts
 * (sn_reader_read()), or set another limit. -ENOMEM: the buffer could not grow; nothing has
 * changed.
 */

/*
 * Reads a line. It ends with LF or CR LF, which are not part of it: *length bytes are at *line,
 * with a zero byte after them, so that a line without zeros in it is a string. A CR elsewhere is a
 * byte like others. length may be NULL.
 *
 * Returns the number of bytes that the line and its end took from the stream, at least 1; 0 at the
 * end of the stream; or an error. A last line without LF is given as it is, even with a CR at its
 * end. The result then equals *length; a protocol should treat such a line as cut off. The limit
 * includes the end of the line: the call returns -EMSGSIZE as soon as that many bytes are there
 * without an LF. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_reader_line(sn_reader *reader, char **line, size_t *length);

/*
 * Reads up to and including a delimiter of one or more bytes, and sets *data to the first byte
 * read. Returns the number of bytes; 0 at the end of the stream; or an error: as sn_reader_line(),
 * and -EINVAL for a delimiter of no bytes. Bytes that are left at the end of the stream are given
 * without a delimiter. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_reader_through(sn_reader *reader, const void *delimiter,
						 size_t size, char **data);

/*
 * Waits until at least size bytes are in the buffer, and takes none. *data is set to the first.
 * Returns how many there are, which may be more; less only at the end of the stream; or an error.
 * With a size of 0 it does not wait, and gives what is there. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_reader_peek(sn_reader *reader, size_t size, char **data);

/* Reads exactly size bytes; *data is set to the first. Returns size; less only at the end of the
 * stream; or an error, after which none was taken. May park. */
SN_API SN_CHECK_RESULT ssize_t sn_reader_take(sn_reader *reader, size_t size, char **data);

/*
 * Reads what there is into buf, at least one byte and at most size. Gives what is in the buffer; if
 * that is empty, reads from the source first, straight into buf if buf is not smaller than the
 * buffer. Returns what sn_stream_read() returns. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_reader_read(sn_reader *reader, void *buf, size_t size);

/* Reads exactly size bytes into buf, which has *done of them already, with the results of
 * sn_stream_read_full(). The limit does not apply. May park. */
SN_API SN_CHECK_RESULT ssize_t sn_reader_read_full(sn_reader *reader, void *buf, size_t size,
						   size_t *done);

/*
 * Discards size bytes, of which *done were discarded by an earlier call: set it to 0 before the
 * first. Returns what sn_reader_read_full() returns: size; less at the end of the stream; or an
 * error, after which the same call continues. With NULL for done it begins at 0. May park.
 */
SN_API SN_CHECK_RESULT ssize_t sn_reader_skip(sn_reader *reader, size_t size, size_t *done);

/*
 * Discards everything up to and including a delimiter, however far away that is: the rest of a line
 * that is too long, for example. Returns 1; 0 when the stream ended without one; -EINVAL for a
 * delimiter of no bytes; -EMSGSIZE for one longer than the limit; or another error, after which the
 * same call continues. May park.
 */
SN_API SN_CHECK_RESULT int sn_reader_skip_through(sn_reader *reader, const void *delimiter,
						  size_t size);

/* How many bytes are in the buffer. Does not park. 0 for NULL. */
SN_API size_t sn_reader_buffered(const sn_reader *reader);

SN_END

#endif
