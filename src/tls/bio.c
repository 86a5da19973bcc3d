/* SPDX-License-Identifier: MIT */
/*
 * The BIO between OpenSSL and a connection. Reads attempt to receive. Writes go to memory, except
 * the last record of a write by the task, which need not be copied.
 *
 * It also limits the messages of the peer that are not data. After such a message OpenSSL continues
 * to read as long as there is more, and nothing checks deadlines and cancellation in that time.
 * Therefore the BIO reads nothing more after a number of them.
 *
 * OpenSSL calls it under the connection's lock. It never waits, and calls nothing of sennit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tls/tls.h"

#include <openssl/bio.h>

/* A write adds at most 64 KiB and the overhead of its records. `out` has more only if a peer
 * asks for answers and does not read them; then OpenSSL has to wait. */
#define MOST_OUT ((size_t)160 << 10)
#define LEAST_OUT ((size_t)17 << 10)

/*
 * MOST_MESSAGES limits handshake messages in a row, without data in either direction. A handshake
 * has at most ten, and a server sends a few tickets together. The peer sends one message in answer
 * to each key update of the program, which goes with data. Go allows 16 records. MOST_RECORDS
 * limits the records of these messages. One message may take many records: a peer may ask for
 * records of 512 bytes, and the largest chain of certificates fills 200 of them.
 */
#define MOST_MESSAGES 32
#define MOST_RECORDS 1024

void sn_tls_note_message(int sent, int version, int type, const void *data, size_t size, SSL *ssl,
			 void *arg)
{
	struct sn_tls *tls = sn_tls_of(ssl);

	(void)version;
	(void)data;
	(void)size;
	(void)arg;
	if (!tls || sent)
		return;
	if (type == SSL3_RT_HEADER)
		tls->records++;
	else if (type == SSL3_RT_HANDSHAKE)
		tls->messages++;
	if (type == SSL3_RT_HANDSHAKE && tls->established)
		tls->heard = true;
	if (tls->messages >= MOST_MESSAGES || tls->records >= MOST_RECORDS)
		tls->flooded = true;
}

void sn_tls_note_data(struct sn_tls *tls)
{
	tls->messages = tls->records = 0;
}

static int bio_read(BIO *bio, char *buf, size_t size, size_t *got)
{
	struct sn_tls *tls = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (tls->flooded)
		return 0;
	do {
		n = recv(tls->fd, buf, size, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		*got = (size_t)n;
		return 1;
	}
	if (n == 0)
		tls->saw_end = true;
	else if (errno == EAGAIN || errno == EWOULDBLOCK)
		BIO_set_retry_read(bio);
	else
		tls->receive_error = -errno;
	return 0;
}

bool sn_tls_make_room(struct sn_tls *tls, size_t size)
{
	const size_t pending = tls->out_end - tls->out_start;
	size_t wanted = tls->out_end + size;
	char *grown;

	if (wanted <= tls->out_size)
		return true;
	/* Reuses the room of the bytes that have been sent. Without this a peer that asks for
	 * answers, and reads them so slowly that `out` is never empty, would let it grow forever.
	 * This moves no more bytes than have been sent since the last time. */
	if (tls->out_start >= pending && tls->out_start > 0) {
		memmove(tls->out, tls->out + tls->out_start, pending);
		tls->out_start = 0;
		tls->out_end = pending;
		wanted = pending + size;
		if (wanted <= tls->out_size)
			return true;
	}
	if (wanted < LEAST_OUT)
		wanted = LEAST_OUT;
	grown = realloc(tls->out, wanted);
	if (!grown)
		return false;
	tls->out = grown;
	tls->out_size = wanted;
	return true;
}

void sn_tls_trim(struct sn_tls *tls)
{
	const size_t pending = tls->out_end - tls->out_start;
	char *trimmed;

	if (pending == 0 || pending == tls->out_size)
		return;
	memmove(tls->out, tls->out + tls->out_start, pending);
	tls->out_start = 0;
	tls->out_end = pending;
	trimmed = realloc(tls->out, pending);
	if (trimmed) {
		tls->out = trimmed;
		tls->out_size = pending;
	}
}

/* Sends what is in `out` and then data, in one call. Returns how many bytes of data need no further
 * attempt: all of them after an error, which the socket reports only once. */
static size_t send_directly(struct sn_tls *tls, const char *data, size_t size)
{
	const size_t before = tls->out_end - tls->out_start;
	struct iovec parts[] = {
		{.iov_base = tls->out ? tls->out + tls->out_start : NULL, .iov_len = before},
		{.iov_base = (char *)data, .iov_len = size},
	};
	const struct msghdr all = {.msg_iov = parts, .msg_iovlen = 2};
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t n;

	/* Uses send() where possible, because the kernel takes longer for sendmsg(). */
	do {
		n = before ? sendmsg(tls->fd, &all, flags) : send(tls->fd, data, size, flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n < 0) {
		tls->send_error = -errno;
		tls->out_start = tls->out_end = 0;
		return size;
	}
	if ((size_t)n < before) {
		tls->out_start += (size_t)n;
		return 0;
	}
	tls->out_start = tls->out_end = 0;
	return (size_t)n - before;
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *written)
{
	struct sn_tls *tls = BIO_get_data(bio);
	size_t sent = 0;

	BIO_clear_retry_flags(bio);
	*written = 0;
	/* Nothing is sent after close_notify, not even an answer to the peer's new keys: the peer
	 * may have closed, and would reset the connection. */
	if (tls->notified) {
		*written = size;
		return 1;
	}
	if (tls->out_end - tls->out_start > MOST_OUT) {
		BIO_set_retry_write(bio);
		return 0;
	}
	if (tls->direct)
		sent = send_directly(tls, data, size);
	if (sent < size && !sn_tls_make_room(tls, size - sent)) {
		tls->send_error = -ENOMEM;
		return 0;
	}
	if (sent < size)
		memcpy(tls->out + tls->out_end, data + sent, size - sent);
	tls->out_end += size - sent;
	*written = size;
	return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	struct sn_tls *tls = BIO_get_data(bio);

	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return tls->saw_end;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
	BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sennit");

	if (!made)
		return;
	BIO_meth_set_read_ex(made, bio_read);
	BIO_meth_set_write_ex(made, bio_write);
	BIO_meth_set_ctrl(made, bio_control);
	method = made;
}

BIO *sn_tls_bio_new(struct sn_tls *tls)
{
	static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
	BIO *bio;

	CRYPTO_THREAD_run_once(&once, make_method);
	bio = method ? BIO_new(method) : NULL;
	if (!bio)
		return NULL;
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	return bio;
}

int sn_tls_flush(struct sn_tls *tls)
{
	/* Sends until EAGAIN, because after a short write alone the kernel does not report room. */
	while (tls->out_start < tls->out_end) {
		ssize_t n = send(tls->fd, tls->out + tls->out_start, tls->out_end - tls->out_start,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			tls->out_start += (size_t)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return -EAGAIN;
		} else if (errno != EINTR) {
			tls->send_error = -errno;
			tls->out_start = tls->out_end;
		}
	}
	free(tls->out); /* an idle connection needs none */
	tls->out = NULL;
	tls->out_start = tls->out_end = tls->out_size = 0;
	return tls->send_error;
}
