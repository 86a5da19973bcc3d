/* SPDX-License-Identifier: MIT */
/*
 * The layer's functions: each makes one attempt to read, write, handshake or end.
 *
 * Each takes the connection's lock, sends what is left in `out`, clears OpenSSL's error queue,
 * calls OpenSSL, reads its result, sends what OpenSSL has written, and passes new sessions on.
 * Nothing parks between the first call of OpenSSL and the last.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>

#include "tls/tls.h"

/* How much one write takes: several records are sent by one system call. */
#define MOST_WRITE ((size_t)64 << 10)
/* The most bytes that a record takes in `out` beyond its content, by RFC 5246. */
#define MOST_PER_RECORD ((size_t)SSL3_RT_HEADER_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD)

/* How much may wait for the next write: a ticket, which may have a client's certificate. */
#define MOST_DEFERRED ((size_t)8 << 10)

/* How many times one attempt reads input that is discarded. */
#define MOST_DRAINS 256

static void lock(struct sn_tls *tls)
{
	sn_mutex_lock_uncancelled(&tls->lock);
}

static void unlock(struct sn_tls *tls)
{
	if (tls->nfresh)
		sn_tls_sessions_keep(tls);
	sn_mutex_unlock(&tls->lock);
}

/*
 * Whether OpenSSL has found something wrong with the certificate. X509_V_ERR_OUT_OF_MEM is such a
 * finding, too: a certificate whose extensions cannot be processed has it. A true lack of memory is
 * in the error queue.
 */
static bool was_judged(const struct sn_tls *tls)
{
	return SSL_get_verify_result(tls->ssl) != X509_V_OK;
}

/* Called after a failed call of OpenSSL. Returns -EAGAIN, 0 at the end of the stream, or an error,
 * which all later calls return too. */
static int outcome(struct sn_tls *tls, int result)
{
	struct sn_tls_errors errors;

	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		break;
	}
	errors = sn_tls_take_errors();
	if (tls->flooded)
		return sn_tls_fail(tls, -EPROTO, NULL);
	if (tls->receive_error)
		return sn_tls_fail(tls, tls->receive_error, NULL);
	/* Before all that may follow from it, such as a certificate that cannot be verified. */
	if (tls->send_error == -ENOMEM || errors.lack_memory)
		return sn_tls_fail(tls, -ENOMEM, NULL);
	if (tls->saw_end)
		return sn_tls_fail(tls, -ECONNABORTED, NULL);
	if (tls->refusal)
		return sn_tls_fail(tls, -EKEYREJECTED, NULL);
	if (ERR_GET_REASON(errors.first) == SSL_R_CERTIFICATE_VERIFY_FAILED ||
	    ERR_GET_REASON(errors.last) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return sn_tls_fail(tls, was_judged(tls) ? -EKEYREJECTED : -ENOMEM, NULL);
	return sn_tls_fail(tls, -EPROTO, &errors);
}

/* Called before OpenSSL is. Returns 0, or why OpenSSL cannot be called. A handshake needs a deep
 * stack. */
static int begin(struct sn_tls *tls)
{
	if (tls->broken)
		return tls->broken;
	if (tls->flooded)
		return sn_tls_fail(tls, -EPROTO, NULL);
	if (!tls->established && sn_layer_stack_left() < SN_TLS_STACK_LEAST)
		return sn_tls_say(-ENOBUFS, "the task's stack is too small for a handshake");
	sn_tls_clear_errors();
	return 0;
}

/* ---- reading ---- */

/* Reads a record, and more of them only while OpenSSL's buffer has something. */
static ssize_t read_some(struct sn_tls *tls, char *buf, size_t size)
{
	size_t total = 0, got;
	int result;

	do {
		result = SSL_read_ex(tls->ssl, buf + total, size - total, &got);
		if (result <= 0)
			break;
		sn_tls_note_data(tls);
		tls->heard = true;
		total += got;
	} while (total < size && SSL_has_pending(tls->ssl));
	if (result > 0)
		return (ssize_t)total;
	result = outcome(tls, result);
	/* The next read finds the end or the error again. */
	return total ? (ssize_t)total : result;
}

/*
 * Whether what is in `out` may wait until the task writes or closes. A server's ticket is then sent
 * in one packet with its answer. Moreover, a client that only sends, and closes without reading,
 * then gets no ticket: an unread ticket would make its kernel reset the connection, and lose what
 * is still to be sent (RFC 8446, 4.6.1, lets a server give tickets at any time). In TLS 1.3 nothing
 * that a server sends after the handshake is urgent; in other cases the peer may wait for it.
 */
static bool may_defer(const struct sn_tls *tls)
{
	return tls->established && tls->config->role == SN_TLS_SERVER && !tls->notified &&
	       tls->out_end - tls->out_start <= MOST_DEFERRED && tls->send_error == 0 &&
	       SSL_version(tls->ssl) >= TLS1_3_VERSION;
}

/* Sends `out` unless it may wait. Returns 0, -EAGAIN or the socket's error. before: the result of
 * flush_before() for the present call of OpenSSL. Bytes that a writer waits for are always sent. */
static int flush_rest(struct sn_tls *tls, int before)
{
	tls->deferred = before == 0 && may_defer(tls);
	return tls->deferred ? 0 : sn_tls_flush(tls);
}

/* Sends `out` before a call of OpenSSL that does not write. Returns 0 also if `out` may keep
 * waiting. */
static int flush_before(struct sn_tls *tls)
{
	return tls->deferred ? 0 : sn_tls_flush(tls);
}

/* A reader also sends what is left in `out`, so that this needs no writer. If sending fails, the
 * writer reports it. */
static ssize_t layer_read(void *state, void *buf, size_t size)
{
	struct sn_tls *tls = state;
	ssize_t n;
	int before;

	lock(tls);
	before = flush_before(tls);
	/* After SN_SHUT_READ, OpenSSL would take the end of the socket for a truncated
	 * connection. */
	n = begin(tls);
	if (n == 0 && !tls->read_ended) {
		n = read_some(tls, buf, size);
		flush_rest(tls, n > 0 || n == -EAGAIN ? before : (int)n);
		if (n == -EAGAIN && tls->deferred)
			sn_tls_trim(tls); /* the wait may be long */
		/* The peer's answer cannot come, because nothing more can be sent to it. */
		if (n == -EAGAIN && !tls->established && tls->send_error)
			n = sn_tls_fail(tls, tls->send_error, NULL);
	}
	unlock(tls);
	return n;
}

/* ---- writing ---- */

static ssize_t encrypt(struct sn_tls *tls, const char *buf, size_t size)
{
	size_t total = 0, put;

	if (size > MOST_WRITE)
		size = MOST_WRITE;
	/* All records but the last go to `out`, so this makes room for them in one step. If there
	 * is no memory for that, `out` grows below record by record, or the write fails there. */
	if (size > SSL3_RT_MAX_PLAIN_LENGTH)
		(void)sn_tls_make_room(tls, size + 4 * MOST_PER_RECORD);
	while (total < size) {
		int result;

		/* Only after the handshake: before that, this call writes more than the record. */
		tls->direct = tls->established && size - total <= SSL3_RT_MAX_PLAIN_LENGTH;
		result = SSL_write_ex(tls->ssl, buf + total, size - total, &put);
		tls->direct = false;
		if (result <= 0) {
			result = outcome(tls, result);
			if (total == 0 || result != -EAGAIN)
				return result ? result : -EPIPE;
			break;
		}
		sn_tls_note_data(tls);
		total += put;
	}
	return (ssize_t)total;
}

/* Called when `out` has nothing but deferred bytes, and nothing is owed. */
static ssize_t write_some(struct sn_tls *tls, const char *buf, size_t size)
{
	ssize_t n = begin(tls);
	int err;

	if (n < 0)
		return n;
	if (tls->notified)
		return -EPIPE;
	n = encrypt(tls, buf, size);
	err = sn_tls_flush(tls);
	if (n < 0)
		return n == -EAGAIN && err < 0 ? err : n;
	if (err == -EAGAIN)
		tls->owed = (size_t)n;
	return err < 0 ? err : n;
}

static ssize_t layer_write(void *state, const void *buf, size_t size)
{
	struct sn_tls *tls = state;
	ssize_t n;

	lock(tls);
	/* Deferred bytes are sent together with the data. */
	n = tls->deferred ? 0 : sn_tls_flush(tls);
	tls->deferred = false;
	if (n == 0 && tls->owed) {
		n = (ssize_t)(tls->owed < size ? tls->owed : size);
		tls->owed = 0;
	} else if (n == 0) {
		n = write_some(tls, buf, size);
	}
	if (n < 0 && n != -EAGAIN)
		tls->owed = 0; /* those bytes are lost */
	unlock(tls);
	return n;
}

static size_t layer_settle(void *state)
{
	struct sn_tls *tls = state;
	size_t n;

	lock(tls);
	n = tls->owed;
	tls->owed = 0;
	unlock(tls);
	return n;
}

/* ---- quiet ---- */

/* Whether a read would return something. bio_read() keeps nothing, so bytes that OpenSSL does not
 * have are still in the socket. */
static int layer_quiet(void *state)
{
	struct sn_tls *tls = state;
	int ready;

	lock(tls);
	if (flush_before(tls) == 0 && tls->deferred)
		sn_tls_trim(tls);
	ready = tls->broken || tls->read_ended || SSL_has_pending(tls->ssl);
	unlock(tls);
	return ready;
}

/* ---- the handshake ---- */

/* One attempt. If the peer has said why it has closed, that counts, and not an error of sending. */
static int handshake(struct sn_tls *tls)
{
	int n = begin(tls), before = flush_before(tls), result, err;

	if (n < 0)
		return n;
	result = SSL_do_handshake(tls->ssl);
	n = result > 0 ? 0 : outcome(tls, result);
	err = flush_rest(tls, n == 0 && result > 0 ? before : -EAGAIN);
	if (n == 0 && result <= 0)
		return sn_tls_fail(tls, -ECONNABORTED, NULL);
	if (err < 0 && err != -EAGAIN && n == -EAGAIN)
		return sn_tls_fail(tls, err, NULL);
	return n == 0 ? err : n;
}

int sn_tls_handshake_attempt(void *state, void *arg)
{
	struct sn_tls *tls = state;
	int n;

	(void)arg;
	lock(tls);
	n = handshake(tls);
	unlock(tls);
	return n;
}

/* ---- the end ---- */

static int end_writing(struct sn_tls *tls)
{
	int n = 0;

	if (tls->broken)
		return tls->broken;
	/* Not `established`: while keys change, OpenSSL would refuse to shut down. */
	if (!SSL_is_init_finished(tls->ssl))
		n = handshake(tls);
	if (n < 0)
		return n;
	if (!tls->notified) {
		sn_tls_clear_errors();
		/* Called only once, because a second call would read. */
		if (SSL_shutdown(tls->ssl) < 0)
			return outcome(tls, -1);
		tls->notified = true;
	}
	return sn_tls_flush(tls);
}

static int layer_shutdown(void *state, enum sn_stream_half half)
{
	struct sn_tls *tls = state;
	int n = 0;

	lock(tls);
	if (half == SN_SHUT_READ) {
		tls->read_ended = true;
	} else {
		tls->deferred = false;
		n = sn_tls_flush(tls);
		if (n == 0)
			n = end_writing(tls);
	}
	unlock(tls);
	return n;
}

/* Whether the kernel could reset the connection when it is closed, and discard what is still to be
 * sent. It does that if there is unread input, or if a server's tickets arrive later. */
static bool may_be_reset(const struct sn_tls *tls)
{
	int unread = 0;

	if (tls->config->role == SN_TLS_CLIENT && !tls->heard &&
	    SSL_version(tls->ssl) >= TLS1_3_VERSION)
		return true;
	return ioctl(tls->fd, FIONREAD, &unread) == 0 && unread > 0;
}

/* Reads and discards input. Returns 0 if the peer's kernel has received everything, or the peer has
 * ended too, and -EAGAIN before that. */
static int drain(const struct sn_tls *tls)
{
	char buf[2048];
	ssize_t n = 1;
	int left = 0;

	for (int i = 0; n > 0 && i < MOST_DRAINS; i++)
		n = recv(tls->fd, buf, sizeof buf, MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		return 0;
	return ioctl(tls->fd, SIOCOUTQ, &left) < 0 || left == 0 ? 0 : -EAGAIN;
}

static int linger(struct sn_tls *tls)
{
	int n;

	if (tls->broken || tls->send_error || !tls->established)
		return 0;
	if (!tls->lingers && !may_be_reset(tls))
		return 0;
	tls->lingers = true;
	tls->deferred = false;
	n = sn_tls_flush(tls);
	if (n == 0)
		n = end_writing(tls);
	if (n < 0)
		return n;
	shutdown(tls->fd, SHUT_WR);
	return drain(tls);
}

static int layer_linger(void *state)
{
	struct sn_tls *tls = state;
	int n;

	lock(tls);
	n = linger(tls);
	unlock(tls);
	return n;
}

void sn_tls_free(struct sn_tls *tls)
{
	SSL_free(tls->ssl); /* with its BIO */
	for (int i = 0; i < tls->nfresh; i++)
		SSL_SESSION_free(tls->fresh[i]);
	sn_tls_set_release(tls->set);
	sn_tls_ring_release(tls->ring);
	sn_tls_config_unref(tls->config);
	free(tls->name);
	free(tls->out);
	free(tls);
}

/* No other task uses the connection any more, so the lock is not needed. */
static void layer_close(void *state, int orderly)
{
	struct sn_tls *tls = state;

	sn_tls_clear_errors();
	if (orderly && !tls->broken && !tls->notified && tls->established &&
	    (SSL_is_init_finished(tls->ssl) || SSL_do_handshake(tls->ssl) > 0))
		SSL_shutdown(tls->ssl);
	if (orderly)
		sn_tls_flush(tls);
	sn_tls_free(tls);
	sn_tls_clear_errors();
}

const struct sn_layer sn_tls_layer = {
	.read = layer_read,
	.write = layer_write,
	.settle = layer_settle,
	.shutdown = layer_shutdown,
	.close = layer_close,
	.quiet = layer_quiet,
	.linger = layer_linger,
};
