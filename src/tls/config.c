/* SPDX-License-Identifier: MIT */
/*
 * Configurations: each has an SSL_CTX, and the settings for which OpenSSL has no place.
 *
 * Who may write what: until the first connection, one caller at a time sets a configuration up;
 * `used` ends that. Whatever may change after that is guarded by the configuration's lock, or by
 * OpenSSL's locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>

#include "tls/tls.h"

/* ---- making and freeing ---- */

/* Writes each line by one call, so that the lines of several threads and processes do not mix. */
static void log_key(const SSL *ssl, const char *line)
{
	const struct sn_tls *tls = sn_tls_of(ssl);
	char buf[512];
	size_t size = strlen(line);

	if (!tls || size + 1 > sizeof buf)
		return;
	memcpy(buf, line, size);
	buf[size++] = '\n';
	if (write(tls->config->key_log, buf, size) < 0)
		return; /* the callback cannot report an error */
}

/* Notes the end of the handshake. SSL_is_init_finished() cannot replace this, because it is false
 * again after an error, and while keys change. */
static void note_state(const SSL *ssl, int where, int value)
{
	struct sn_tls *tls = sn_tls_of(ssl);

	(void)value;
	if (tls && (where & SSL_CB_HANDSHAKE_DONE)) {
		if (!tls->established)
			sn_tls_note_data(tls); /* the count starts again with the next data */
		tls->established = true;
		sn_tls_session_renewed(tls);
	}
}

/*
 * A server accepts what Mozilla's intermediate recommendation has: of TLS 1.2 only ciphers with
 * forward secrecy, and no CBC; three curves, and no finite fields, because a client could ask for
 * one of 8,192 bits, a hundred times the work. Every browser and library since 2014 supports one of
 * these ciphers. A client accepts more, because it also meets older servers.
 *
 * The server decides the order. AES with 128 bits comes first, because it is as good as any and
 * takes the least time. Only clients that prefer ChaCha20, because they have no instructions for
 * AES, get ChaCha20.
 */
static int choose_ciphers(sn_tls_config *config)
{
	SSL_CTX *ctx = config->ctx;

	if (config->role == SN_TLS_CLIENT)
		return 0;
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	if (SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
					  "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
	    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
	    SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1)
		return 0;
	SSL_CTX_free(ctx);
	return sn_tls_say_openssl(-ENOMEM, "the ciphers cannot be set");
}

static int setup(sn_tls_config *config)
{
	SSL_CTX *ctx = SSL_CTX_new(config->role == SN_TLS_CLIENT ? TLS_client_method()
								 : TLS_server_method());

	if (!ctx)
		return sn_tls_say_openssl(-ENOMEM, "OpenSSL cannot be set up");
	config->ctx = ctx;
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* Writes return after each record; idle connections give their buffers back. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* Reads a whole record by one system call, instead of its header first. */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_info_callback(ctx, note_state);
	SSL_CTX_set_msg_callback(ctx, sn_tls_note_message);
	SSL_CTX_set_cert_cb(ctx, sn_tls_choose_certificate, NULL);
	if (config->role == SN_TLS_SERVER) {
		SSL_CTX_set_client_hello_cb(ctx, sn_tls_note_hello, NULL);
		SSL_CTX_set_tlsext_status_cb(ctx, sn_tls_staple);
	}
	sn_tls_sessions_init(config);
	return choose_ciphers(config);
}

int sn_tls_config_new(sn_tls_config **out, enum sn_tls_role role)
{
	sn_tls_config *config;
	int err;

	if (!out || (role != SN_TLS_CLIENT && role != SN_TLS_SERVER))
		return sn_tls_say(-EINVAL, "no pointer for the result, or an unknown role");
	config = calloc(1, sizeof *config);
	if (!config)
		return sn_tls_say(-ENOMEM, "no memory");
	atomic_init(&config->references, 1);
	config->role = role;
	config->key_log = -1;
	pthread_mutex_init(&config->lists_lock, NULL);
	config->verify = role == SN_TLS_CLIENT ? SN_TLS_VERIFY_REQUIRE : SN_TLS_VERIFY_NONE;
	ERR_clear_error();
	err = setup(config);
	if (err < 0) {
		free(config);
		return err;
	}
	*out = config;
	return 0;
}

sn_tls_config *sn_tls_config_ref(sn_tls_config *config)
{
	if (config) /* relaxed: the caller has a reference */
		atomic_fetch_add_explicit(&config->references, 1, memory_order_relaxed);
	return config;
}

void sn_tls_config_unref(sn_tls_config *config)
{
	/* Acquire as well as release: the last one must see what the others did with the
	 * configuration. */
	if (!config || atomic_fetch_sub_explicit(&config->references, 1, memory_order_acq_rel) != 1)
		return;
	sn_tls_sessions_free(config->sessions);
	sn_tls_set_release(config->set);
	sn_tls_ring_release(config->ring);
	SSL_CTX_free(config->ctx);
	sk_X509_CRL_pop_free(config->lists, X509_CRL_free);
	if (config->key_log >= 0)
		close(config->key_log);
	free(config->alpn);
	free(config);
}

/* ---- settings ---- */

/* Returns 0 if the configuration may still be changed. */
static int check(const sn_tls_config *config)
{
	if (!config)
		return sn_tls_say(-EINVAL, "no configuration");
	return config->used ? sn_tls_say(-EBUSY, "the configuration is in use") : 0;
}

int sn_tls_config_set_verify(sn_tls_config *config, enum sn_tls_verify verify)
{
	int err = check(config);

	if (err < 0)
		return err;
	if ((int)verify < SN_TLS_VERIFY_NONE || verify > SN_TLS_VERIFY_REQUIRE)
		return sn_tls_say(-EINVAL, "unknown way to verify");
	config->verify = verify;
	return 0;
}

int sn_tls_config_set_stapling(sn_tls_config *config, enum sn_tls_stapling stapling)
{
	int err = check(config);

	if (err < 0)
		return err;
	if (config->role != SN_TLS_CLIENT || (int)stapling < SN_TLS_STAPLING_NONE ||
	    stapling > SN_TLS_STAPLING_REQUIRE)
		return sn_tls_say(-EINVAL, "not a client's configuration, or unknown stapling");
	config->stapling = stapling;
	return 0;
}

int sn_tls_config_set_versions(sn_tls_config *config, enum sn_tls_version lowest,
			       enum sn_tls_version highest)
{
	int err = check(config);

	if (err < 0)
		return err;
	if (lowest == SN_TLS_DEFAULT)
		lowest = SN_TLS_1_2;
	if (lowest < SN_TLS_1_2 || (highest && highest < lowest) ||
	    SSL_CTX_set_min_proto_version(config->ctx, (int)lowest) != 1 ||
	    SSL_CTX_set_max_proto_version(config->ctx, (int)highest) != 1)
		return sn_tls_say(-EINVAL, "unknown versions of TLS");
	return 0;
}

/* Encodes a list such as "h2,http/1.1" for the protocol: each name follows its length. Returns the
 * size, or 0 if the list is malformed. */
static size_t encode_protocols(unsigned char *to, const char *protocols)
{
	size_t size = 0;

	while (*protocols) {
		const size_t length = strcspn(protocols, ",");

		if (length == 0 || length > 255)
			return 0;
		to[size++] = (unsigned char)length;
		memcpy(to + size, protocols, length);
		size += length;
		protocols += length;
		if (*protocols && *++protocols == '\0')
			return 0; /* a comma at the end */
	}
	return size;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size,
			   const unsigned char *offered, unsigned offered_size, void *arg)
{
	const sn_tls_config *config = arg;
	unsigned char *chosen;

	(void)ssl;
	if (SSL_select_next_proto(&chosen, size, config->alpn, config->alpn_size, offered,
				  offered_size) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

int sn_tls_config_set_alpn(sn_tls_config *config, const char *protocols)
{
	unsigned char *encoded = NULL;
	size_t size = 0;
	int err = check(config);

	if (err < 0)
		return err;
	if (protocols) {
		encoded = malloc(strlen(protocols) + 2);
		if (!encoded)
			return sn_tls_say(-ENOMEM, "no memory");
		size = encode_protocols(encoded, protocols);
		if (size == 0 || size > UINT16_MAX) {
			free(encoded);
			return sn_tls_say(-EINVAL, "not a list of protocols");
		}
	}
	free(config->alpn);
	config->alpn = encoded;
	config->alpn_size = (unsigned)size;
	return 0;
}

int sn_tls_config_set_key_log(sn_tls_config *config, const char *path)
{
	char buf[TLS_TEXT];
	int fd, err = check(config);

	if (err < 0)
		return err;
	if (!path)
		path = getenv("SSLKEYLOGFILE");
	if (!path || !*path)
		return 0;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		err = errno;
		return sn_tls_say(-err, "%.100s: %s", path, strerror_r(err, buf, sizeof buf));
	}
	if (config->key_log >= 0)
		close(config->key_log);
	config->key_log = fd;
	SSL_CTX_set_keylog_callback(config->ctx, log_key);
	return 0;
}

void *sn_tls_config_ssl_ctx(sn_tls_config *config)
{
	return config ? config->ctx : NULL;
}

/* ---- the first use ---- */

static int verify_mode(const sn_tls_config *config)
{
	switch (config->verify) {
	case SN_TLS_VERIFY_NONE:
		return SSL_VERIFY_NONE;
	case SN_TLS_VERIFY_REQUEST:
		return SSL_VERIFY_PEER;
	default:
		return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	}
}

/* Passes to OpenSSL what depends on several settings. The lock is held. */
static int complete(sn_tls_config *config)
{
	const bool verifies = config->verify != SN_TLS_VERIFY_NONE;
	int err;

	/* Done before the system's authorities are in the store, because these may differ between
	 * the machines of a service. */
	err = sn_tls_trust_digest(config, config->verification);
	if (err < 0)
		return err;
	/* Any client can get a certificate from one of the system's authorities. */
	if (verifies && config->role == SN_TLS_SERVER && !config->own_trust &&
	    !config->system_trust)
		return sn_tls_say(-EINVAL, "clients are verified, but no authority is trusted");
	SSL_CTX_set_verify(config->ctx, verify_mode(config), NULL);
	ERR_clear_error();
	if (verifies && (config->system_trust || !config->own_trust) &&
	    SSL_CTX_set_default_verify_paths(config->ctx) != 1)
		return sn_tls_say_openssl(-ENOMEM, "the system's authorities cannot be loaded");
	if (config->stapling != SN_TLS_STAPLING_NONE) {
		/* Only an issuer that is known to be good can sign a response. */
		if (!verifies)
			return sn_tls_say(-EINVAL, "OCSP responses need servers to be verified");
		SSL_CTX_set_tlsext_status_type(config->ctx, TLSEXT_STATUSTYPE_ocsp);
		SSL_CTX_set_tlsext_status_cb(config->ctx, sn_tls_check_staple);
	}
	if (!config->alpn)
		return 0;
	if (config->role == SN_TLS_SERVER)
		SSL_CTX_set_alpn_select_cb(config->ctx, choose_protocol, config);
	else if (SSL_CTX_set_alpn_protos(config->ctx, config->alpn, config->alpn_size) != 0)
		return sn_tls_say(-ENOMEM, "no memory");
	return 0;
}

int sn_tls_config_use(sn_tls_config *config)
{
	int err = 0;

	/* Acquire: a thread that sees `used` also sees what complete() has done. */
	if (atomic_load_explicit(&config->used, memory_order_acquire))
		return 0;
	sn_mutex_lock_uncancelled(&config->lock);
	if (config->role == SN_TLS_SERVER && !config->set)
		err = sn_tls_say(-EINVAL, "the server has no certificate");
	if (err == 0 && !config->used)
		err = complete(config);
	if (err == 0)
		atomic_store_explicit(&config->used, true, memory_order_release);
	sn_mutex_unlock(&config->lock);
	return err;
}
