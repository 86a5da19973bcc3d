/* SPDX-License-Identifier: MIT */
/* Beginning TLS on a stream, connecting, the handshake, and queries about a connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <sennit/task.h>
#include <sennit/tcp.h>

#include "arch/sized.h"
#include "tls/tls.h"

/* ---- beginning ---- */

/* Whether sn_tcp_connect() would read the name as an IP address. If so, *text is the form that is
 * compared with certificates: without a zone (RFC 6874), and for IPv4 with all four numbers. */
static bool is_numeric(char text[INET6_ADDRSTRLEN], const char *name)
{
	const size_t length = strcspn(name, "%");
	struct in6_addr v6;
	struct in_addr v4;

	/* inet_aton() ignores what follows a space. */
	if (!name[strspn(name, "0123456789abcdefABCDEFxX.")] && inet_aton(name, &v4))
		return inet_ntop(AF_INET, &v4, text, INET6_ADDRSTRLEN) != NULL;
	if (length >= INET6_ADDRSTRLEN)
		return false;
	memcpy(text, name, length);
	text[length] = '\0';
	return inet_pton(AF_INET6, text, &v6) == 1;
}

/*
 * Sets the name that the server's certificate must have, and the name that is sent to the server.
 * By RFC 6066 the name that is sent is not an IP address, and has no dot at the end (which means
 * that a name is looked up as it is). A name may come from outside, for example from a redirection.
 * A name that begins with a dot is refused, because OpenSSL would accept any name with this ending.
 */
static int expect(struct sn_tls *tls, const char *name)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);
	char address[INET6_ADDRSTRLEN];
	size_t length = strlen(name);
	int done;

	if (length > 1 && name[length - 1] == '.')
		length--;
	if (name[0] == '.' || name[length - 1] == '.')
		return sn_tls_say(-EINVAL,
				  "a server's name cannot begin with a dot or end with two");
	name = tls->name = strndup(name, length);
	if (!name)
		return sn_tls_say(-ENOMEM, "no memory");
	if (is_numeric(address, name)) {
		done = X509_VERIFY_PARAM_set1_ip_asc(param, address);
	} else {
		X509_VERIFY_PARAM_set_hostflags(param,
						X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
							X509_CHECK_FLAG_SINGLE_LABEL_SUBDOMAINS);
		done = X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
		       SSL_set_tlsext_host_name(tls->ssl, name) == 1;
	}
	return done == 1 ? 0 : sn_tls_say_openssl(-EINVAL, "the server's name cannot be used");
}

static int prepare(struct sn_tls *tls, const char *name)
{
	BIO *bio = NULL;

	ERR_clear_error();
	tls->ssl = SSL_new(tls->config->ctx);
	if (tls->ssl)
		bio = sn_tls_bio_new(tls);
	if (!bio)
		return sn_tls_say_openssl(-ENOMEM, "OpenSSL cannot be set up");
	SSL_set_app_data(tls->ssl, tls);
	SSL_set_bio(tls->ssl, bio, bio);
	if (tls->config->role == SN_TLS_SERVER) {
		SSL_set_accept_state(tls->ssl);
		return 0;
	}
	SSL_set_connect_state(tls->ssl);
	return name ? expect(tls, name) : 0;
}

/* Takes references of the objects that the program may replace during the connection's life. */
static void take_present(struct sn_tls *tls, sn_tls_config *config)
{
	sn_mutex_lock_uncancelled(&config->lock);
	tls->set = config->set;
	tls->ring = config->ring;
	/* relaxed: the configuration has references, under its lock */
	if (tls->set)
		atomic_fetch_add_explicit(&tls->set->references, 1, memory_order_relaxed);
	if (tls->ring)
		atomic_fetch_add_explicit(&tls->ring->references, 1, memory_order_relaxed);
	sn_mutex_unlock(&config->lock);
}

static int begin(sn_stream *stream, sn_tls_config *config, const char *name)
{
	struct sn_tls *tls;
	int err = sn_tls_config_use(config);

	if (err < 0)
		return err;
	tls = calloc(1, sizeof *tls);
	if (!tls)
		return sn_tls_say(-ENOMEM, "no memory");
	tls->config = sn_tls_config_ref(config);
	take_present(tls, config);
	tls->fd = sn_stream_fd(stream);
	if (tls->fd < 0)
		err = sn_tls_say(tls->fd, "the stream cannot be used: %s", strerror(-tls->fd));
	else
		err = prepare(tls, name);
	if (err == 0) {
		sn_tls_session_offer(tls);
		err = sn_layer_push(stream, &sn_tls_layer, tls);
		if (err < 0)
			sn_tls_say(err, "the stream cannot carry TLS: %s", strerror(-err));
	}
	if (err < 0)
		sn_tls_free(tls);
	return err;
}

int sn_tls_client(sn_stream *stream, sn_tls_config *config, const char *name)
{
	if (!sn_self())
		return sn_tls_say(-ENOTSUP, "not in a task");
	if (!config || config->role != SN_TLS_CLIENT)
		return sn_tls_say(-EINVAL, "not a client's configuration");
	if ((!name || !*name) && config->verify != SN_TLS_VERIFY_NONE)
		return sn_tls_say(-EINVAL, "there is no name to verify the server by");
	return begin(stream, config, name && *name ? name : NULL);
}

int sn_tls_server(sn_stream *stream, sn_tls_config *config)
{
	if (!sn_self())
		return sn_tls_say(-ENOTSUP, "not in a task");
	if (!config || config->role != SN_TLS_SERVER)
		return sn_tls_say(-EINVAL, "not a server's configuration");
	return begin(stream, config, NULL);
}

/* ---- the handshake ---- */

int sn_tls_handshake(sn_stream *stream, int64_t deadline)
{
	void *state;
	int err = sn_layer_run(stream, &sn_tls_layer, sn_tls_handshake_attempt, NULL, deadline);

	if (err == 0)
		return 0;
	/* The attempt itself has said that the task's stack is too small. */
	if (err != -ENOBUFS)
		sn_tls_say(err, "the handshake has failed: %s", strerror(-err));
	/* These are no errors of the connection, which may have one all the same. */
	if (err == -ETIMEDOUT || err == -EBUSY || err == -EPROTOTYPE || err == -ECANCELED)
		return err;
	if (sn_layer_use(stream, &sn_tls_layer, &state) == 0) {
		sn_tls_say_of(state, err);
		sn_layer_unuse(stream);
	}
	return err;
}

/* Whether it is the address of a Unix socket, by the rules of sn_tcp_connect(). */
static bool is_path(const char *address)
{
	return strncmp(address, "unix:", 5) == 0 && address[5] && strchr("/.@", address[5]);
}

/* The host of "host:port" or "[address]:port", by the rules of sn_tcp_connect(). */
static int host_of(char *host, size_t size, const char *address)
{
	const char *begin = address, *colon = strrchr(address, ':'), *end = colon;
	size_t length;

	if (colon && *address == '[') {
		begin++;
		end = strchr(begin, ']');
		if (end && end + 1 != colon)
			end = NULL;
	} else if (colon && memchr(address, ':', (size_t)(colon - address))) {
		end = NULL; /* v6 without brackets, whose end cannot be found */
	}
	if (!end || end == begin || (length = (size_t)(end - begin)) >= size)
		return sn_tls_say(-EINVAL, "the address has no host");
	memcpy(host, begin, length);
	host[length] = '\0';
	return 0;
}

int sn_tls_connect(sn_stream **stream, const char *address, sn_tls_config *config, int64_t deadline)
{
	char host[256] = "";
	sn_stream *made;
	sn_tcp *conn;
	int err;

	if (!stream || !address)
		return sn_tls_say(-EINVAL, "no address, or no pointer for the stream");
	if (!is_path(address)) {
		err = host_of(host, sizeof host, address);
		if (err < 0)
			return err;
	} else if (!config || config->verify != SN_TLS_VERIFY_NONE) {
		return sn_tls_say(
			-EINVAL,
			"the address is a path, so there is no name to verify the server by");
	}
	err = sn_tcp_connect(&conn, address, deadline);
	if (err < 0)
		return sn_tls_say(err, "cannot connect to %.100s: %s", address, strerror(-err));
	made = sn_tcp_stream(conn);
	err = sn_tls_client(made, config, host);
	if (err == 0)
		err = sn_tls_handshake(made, deadline);
	if (err < 0)
		sn_stream_close(made);
	else
		*stream = made;
	return err;
}

/* ---- queries ---- */

static int use(sn_stream *stream, struct sn_tls **tls)
{
	void *state;
	int err = sn_self() ? sn_layer_use(stream, &sn_tls_layer, &state) : -ENOTSUP;

	if (err < 0)
		return sn_tls_say(err, "the stream cannot be used: %s", strerror(-err));
	*tls = state;
	sn_mutex_lock_uncancelled(&(*tls)->lock);
	return 0;
}

static int unuse(sn_stream *stream, struct sn_tls *tls, int result)
{
	sn_mutex_unlock(&tls->lock);
	sn_layer_unuse(stream);
	return result;
}

int sn_tls_update_keys(sn_stream *stream)
{
	const char *why = NULL;
	struct sn_tls *tls;
	int err = use(stream, &tls);

	if (err < 0)
		return err;
	ERR_clear_error();
	if (!tls->established) {
		err = -ENOTCONN;
		why = "the handshake is not complete";
	} else if (SSL_version(tls->ssl) < TLS1_3_VERSION) {
		err = -EOPNOTSUPP;
		why = "TLS 1.2 cannot change keys";
	} else if (SSL_key_update(tls->ssl, SSL_KEY_UPDATE_REQUESTED) != 1 &&
		   SSL_get_key_update_type(tls->ssl) == SSL_KEY_UPDATE_NONE) {
		err = -EPROTO;
		why = "the keys cannot be changed";
	}
	ERR_clear_error();
	unuse(stream, tls, 0);
	return why ? sn_tls_say(err, "%s", why) : 0;
}

const char *sn_tls_error(sn_stream *stream)
{
	struct sn_tls *tls;
	void *state;
	const char *text = "";

	if (sn_layer_use(stream, &sn_tls_layer, &state) < 0)
		return NULL;
	tls = state;
	/* Acquire: sees the text, which was written before `explained`. */
	if (atomic_load_explicit(&tls->explained, memory_order_acquire))
		text = tls->reason;
	sn_layer_unuse(stream);
	return text;
}

static void copy_text(char *to, size_t size, const char *from, size_t length)
{
	if (!from)
		length = 0;
	if (length >= size)
		length = size - 1;
	if (length)
		memcpy(to, from, length);
	to[length] = '\0';
}

static void fill(struct sn_tls_info *info, const struct sn_tls *tls)
{
	const SSL *ssl = tls->ssl;
	const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
	const char *name = tls->config->role == SN_TLS_SERVER
				   ? tls->name
				   : SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	X509 *peer = SSL_get0_peer_certificate(ssl);
	const unsigned char *alpn;
	unsigned alpn_size;

	*info = (struct sn_tls_info){.finished = tls->established,
				     .version = (enum sn_tls_version)SSL_version(ssl),
				     .resumed = SSL_session_reused(ssl),
				     .verify_result = SSL_get_verify_result(ssl),
				     .peer_size = peer ? (size_t)i2d_X509(peer, NULL) : 0};
	SSL_get0_alpn_selected(ssl, &alpn, &alpn_size);
	copy_text(info->alpn, sizeof info->alpn, (const char *)alpn, alpn_size);
	if (cipher) {
		const char *text = SSL_CIPHER_get_name(cipher);

		copy_text(info->cipher, sizeof info->cipher, text, strlen(text));
	}
	copy_text(info->server_name, sizeof info->server_name, name, name ? strlen(name) : 0);
}

int sn_tls_info(sn_stream *stream, struct sn_tls_info *info)
{
	struct sn_tls_info current;
	struct sn_tls *tls;
	int err = info ? use(stream, &tls) : sn_tls_say(-EINVAL, "no place for the result");

	if (err < 0)
		return err;
	fill(&current, tls);
	err = unuse(stream, tls, SN_SIZED_GIVE(info, &current));
	return err < 0 ? sn_tls_say(err, "the result has an unknown size") : err;
}

ssize_t sn_tls_peer_certificate(sn_stream *stream, void *buf, size_t size)
{
	struct sn_tls *tls;
	unsigned char *to = buf;
	X509 *peer;
	int needed, err = use(stream, &tls);

	if (err < 0)
		return err;
	peer = SSL_get0_peer_certificate(tls->ssl);
	needed = peer ? i2d_X509(peer, NULL) : -ENOENT;
	if (needed > 0 && ((size_t)needed > size || !buf))
		needed = -ENOSPC;
	if (needed > 0)
		i2d_X509(peer, &to);
	unuse(stream, tls, 0);
	if (needed == -ENOSPC)
		return sn_tls_say(needed, "the peer's certificate is larger than the buffer");
	return needed < 0 ? sn_tls_say(needed, "the peer has shown no certificate") : needed;
}
