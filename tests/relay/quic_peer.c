/* SPDX-License-Identifier: MIT */
/*
 * A server and a client of QUIC, made of ngtcp2 and GnuTLS, for quic_test.py:
 *
 *   quic_peer server NAME CERTIFICATE KEY    prints its port on loopback, and answers each stream
 *                                            that has ended with NAME, a colon and what came; ends
 *                                            when its input does
 *   quic_peer client PORT NAME CA [HOW]      sends its input in a stream to the server NAME, whose
 *                                            certificate CA has to verify, and prints the answer;
 *                                            HOW is "long", a hello of two datagrams, or "unknown",
 *                                            which begins with a version that nobody knows
 */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UNKNOWN_VERSION 0x1a2a3a4au
#define PRIORITY                                                                             \
	"%DISABLE_TLS13_COMPAT_MODE:NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:" \
	"-GROUP-ALL:"

struct text {
	uint8_t *bytes;
	size_t size;
};

/* One end of a connection. */
struct peer {
	struct peer *next;
	ngtcp2_conn *connection;
	gnutls_session_t tls;
	ngtcp2_crypto_conn_ref reference;
	struct sockaddr_in remote;
	const char *name; /* of the server, in its answers; of a client NULL */
	int64_t stream;
	struct text in, out;
	size_t sent;
	bool in_ended, out_ready, out_ended, negotiate;
};

static int udp;
static struct sockaddr_in local;
static gnutls_certificate_credentials_t credentials;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "quic_peer: %s: %s\n", what, why);
	exit(1);
}

static void need(int result, const char *what)
{
	if (result < 0) {
		die(what, gnutls_strerror(result));
	}
}

static void need_quic(int result, const char *what)
{
	if (result < 0) {
		die(what, ngtcp2_strerror(result));
	}
}

static ngtcp2_tstamp now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (ngtcp2_tstamp)time.tv_sec * NGTCP2_SECONDS + (ngtcp2_tstamp)time.tv_nsec;
}

static void append(struct text *text, const void *bytes, size_t size)
{
	text->bytes = realloc(text->bytes, text->size + size + 1);
	if (text->bytes == NULL) {
		die("realloc", "no memory");
	}
	if (size != 0) {
		memcpy(text->bytes + text->size, bytes, size);
	}
	text->size += size;
}

/* --- what ngtcp2 calls ---------------------------------------------------------------------- */

static void randomize(uint8_t *to, size_t size, const ngtcp2_rand_ctx *unused)
{
	(void)unused;
	need(gnutls_rnd(GNUTLS_RND_NONCE, to, size), "random bytes");
}

static int new_id(ngtcp2_conn *connection, ngtcp2_cid *id, uint8_t *token, size_t size, void *peer)
{
	(void)connection, (void)peer;
	id->datalen = size;
	randomize(id->data, size, NULL);
	randomize(token, NGTCP2_STATELESS_RESET_TOKENLEN, NULL);
	return 0;
}

static int received(ngtcp2_conn *connection, uint32_t flags, int64_t stream, uint64_t offset,
		    const uint8_t *bytes, size_t size, void *user, void *of_stream)
{
	struct peer *peer = user;
	(void)offset, (void)of_stream;
	append(&peer->in, bytes, size);
	ngtcp2_conn_extend_max_stream_offset(connection, stream, size);
	ngtcp2_conn_extend_max_offset(connection, size);
	if ((flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0) {
		peer->in_ended = true;
		if (peer->name != NULL) {
			peer->stream = stream;
			append(&peer->out, peer->name, strlen(peer->name));
			append(&peer->out, ":", 1);
			append(&peer->out, peer->in.bytes, peer->in.size);
			peer->out_ready = true;
		}
	}
	return 0;
}

static int negotiation(ngtcp2_conn *connection, const ngtcp2_pkt_hd *head, const uint32_t *versions,
		       size_t n, void *user)
{
	struct peer *peer = user;
	(void)connection, (void)head;
	for (size_t i = 0; i < n; i++) {
		peer->negotiate |= versions[i] == NGTCP2_PROTO_VER_V1;
	}
	return 0;
}

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
	return ((struct peer *)reference->user_data)->connection;
}

static const ngtcp2_callbacks callbacks = {
	.client_initial = ngtcp2_crypto_client_initial_cb,
	.recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
	.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
	.recv_version_negotiation = negotiation,
	.encrypt = ngtcp2_crypto_encrypt_cb,
	.decrypt = ngtcp2_crypto_decrypt_cb,
	.hp_mask = ngtcp2_crypto_hp_mask_cb,
	.recv_stream_data = received,
	.recv_retry = ngtcp2_crypto_recv_retry_cb,
	.rand = randomize,
	.get_new_connection_id = new_id,
	.update_key = ngtcp2_crypto_update_key_cb,
	.delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
	.delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
	.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
	.version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

/* --- connections ---------------------------------------------------------------------------- */

static ngtcp2_path path_of(struct peer *peer)
{
	return (ngtcp2_path){
		.local = {(struct sockaddr *)&local, sizeof local},
		.remote = {(struct sockaddr *)&peer->remote, sizeof peer->remote},
	};
}

static void limits(ngtcp2_settings *settings, ngtcp2_transport_params *params)
{
	ngtcp2_settings_default(settings);
	settings->initial_ts = now();
	settings->handshake_timeout = 60 * NGTCP2_SECONDS;
	ngtcp2_transport_params_default(params);
	params->initial_max_data = 1 << 20;
	params->initial_max_stream_data_bidi_local = 1 << 18;
	params->initial_max_stream_data_bidi_remote = 1 << 18;
	params->initial_max_streams_bidi = 1;
	params->max_idle_timeout = 60 * NGTCP2_SECONDS;
}

static struct peer *new_peer(const struct sockaddr_in *remote, unsigned flags, const char *groups)
{
	static const gnutls_datum_t protocol = {(unsigned char *)"echo", 4};
	char priority[400];
	struct peer *peer = calloc(1, sizeof *peer);
	if (peer == NULL) {
		die("calloc", "no memory");
	}
	peer->remote = *remote;
	peer->stream = -1;
	peer->reference = (ngtcp2_crypto_conn_ref){connection_of, peer};
	snprintf(priority, sizeof priority, "%s%s", PRIORITY, groups);
	need(gnutls_init(&peer->tls, flags), "gnutls_init");
	need(gnutls_priority_set_direct(peer->tls, priority, NULL), priority);
	need(gnutls_alpn_set_protocols(peer->tls, &protocol, 1, GNUTLS_ALPN_MANDATORY), "ALPN");
	need(gnutls_credentials_set(peer->tls, GNUTLS_CRD_CERTIFICATE, credentials), "credentials");
	gnutls_session_set_ptr(peer->tls, &peer->reference);
	return peer;
}

static void random_id(ngtcp2_cid *id)
{
	id->datalen = 16;
	randomize(id->data, id->datalen, NULL);
}

static struct peer *new_client(const struct sockaddr_in *remote, const char *name, bool is_long,
			       uint32_t version)
{
	ngtcp2_settings settings;
	ngtcp2_transport_params params;
	ngtcp2_cid source, destination;
	/* The keys of the first two fill 1,536 bytes. */
	struct peer *peer = new_peer(
		remote,
		GNUTLS_CLIENT | GNUTLS_NO_END_OF_EARLY_DATA | (is_long ? GNUTLS_KEY_SHARE_TOP3 : 0),
		is_long ? "+GROUP-FFDHE8192:+GROUP-FFDHE4096:+GROUP-X25519" : "+GROUP-X25519");
	ngtcp2_path path = path_of(peer);
	need(ngtcp2_crypto_gnutls_configure_client_session(peer->tls), "QUIC of a client");
	need(gnutls_server_name_set(peer->tls, GNUTLS_NAME_DNS, name, strlen(name)), "name");
	gnutls_session_set_verify_cert(peer->tls, name, 0);
	limits(&settings, &params);
	random_id(&source);
	random_id(&destination);
	need_quic(ngtcp2_conn_client_new(&peer->connection, &destination, &source, &path, version,
					 &callbacks, &settings, &params, NULL, peer),
		  "client");
	ngtcp2_conn_set_tls_native_handle(peer->connection, peer->tls);
	return peer;
}

/* NULL if the datagram begins no connection. */
static struct peer *new_server(const struct sockaddr_in *remote, const char *name,
			       const uint8_t *datagram, size_t size)
{
	ngtcp2_settings settings;
	ngtcp2_transport_params params;
	ngtcp2_pkt_hd head;
	ngtcp2_cid source;
	struct peer *peer;
	if (ngtcp2_accept(&head, datagram, size) != 0) {
		return NULL;
	}
	peer = new_peer(remote,
			GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET | GNUTLS_NO_END_OF_EARLY_DATA,
			"+GROUP-X25519");
	ngtcp2_path path = path_of(peer);
	peer->name = name;
	need(ngtcp2_crypto_gnutls_configure_server_session(peer->tls), "QUIC of a server");
	limits(&settings, &params);
	params.original_dcid = head.dcid;
	random_id(&source);
	need_quic(ngtcp2_conn_server_new(&peer->connection, &head.scid, &source, &path,
					 head.version, &callbacks, &settings, &params, NULL, peer),
		  "server");
	ngtcp2_conn_set_tls_native_handle(peer->connection, peer->tls);
	return peer;
}

static void delete_peer(struct peer *peer)
{
	ngtcp2_conn_del(peer->connection);
	gnutls_deinit(peer->tls);
	free(peer->in.bytes);
	free(peer->out.bytes);
	free(peer);
}

/* The connection is over, and tells the other side. */
static void close_connection(struct peer *peer)
{
	uint8_t datagram[1500];
	ngtcp2_connection_close_error reason;
	ngtcp2_pkt_info info;
	ngtcp2_path_storage path;
	ngtcp2_path_storage_zero(&path);
	ngtcp2_connection_close_error_default(&reason);
	ngtcp2_ssize size = ngtcp2_conn_write_connection_close(
		peer->connection, &path.path, &info, datagram, sizeof datagram, &reason, now());
	if (size > 0) {
		sendto(udp, datagram, (size_t)size, 0, (struct sockaddr *)&peer->remote,
		       sizeof peer->remote);
	}
}

/* Sends what there is. Returns 0 or an error. */
static int write_some(struct peer *peer)
{
	uint8_t datagram[1500];
	ngtcp2_pkt_info info;
	ngtcp2_path_storage path;
	bool is_blocked = false;
	ngtcp2_path_storage_zero(&path);
	for (;;) {
		const bool with = peer->out_ready && !peer->out_ended && !is_blocked;
		const ngtcp2_vec rest = {peer->out.bytes + (with ? peer->sent : 0),
					 peer->out.size - peer->sent};
		ngtcp2_ssize taken = -1;
		ngtcp2_ssize size = ngtcp2_conn_writev_stream(
			peer->connection, &path.path, &info, datagram, sizeof datagram, &taken,
			with ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0, with ? peer->stream : -1,
			with ? &rest : NULL, with ? 1 : 0, now());
		if (size == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
			is_blocked = true;
			continue;
		}
		if (size < 0) {
			return (int)size;
		}
		if (with && taken >= 0) {
			peer->sent += (size_t)taken;
			peer->out_ended = peer->sent == peer->out.size;
		}
		if (size == 0) {
			ngtcp2_conn_update_pkt_tx_time(peer->connection, now());
			return 0;
		}
		/* A datagram that the system does not take counts as lost. */
		sendto(udp, datagram, (size_t)size, 0, (struct sockaddr *)&peer->remote,
		       sizeof peer->remote);
	}
}

static int read_one(struct peer *peer, const uint8_t *datagram, size_t size)
{
	const ngtcp2_path path = path_of(peer);
	const ngtcp2_pkt_info info = {0};
	return ngtcp2_conn_read_pkt(peer->connection, &path, &info, datagram, size, now());
}

static int pass_time(struct peer *peer)
{
	const ngtcp2_tstamp time = now();
	return ngtcp2_conn_get_expiry(peer->connection) <= time
		       ? ngtcp2_conn_handle_expiry(peer->connection, time)
		       : 0;
}

/* In milliseconds. */
static int time_until(const struct peer *peer, int most)
{
	const ngtcp2_tstamp expiry = ngtcp2_conn_get_expiry(peer->connection), time = now();
	const ngtcp2_tstamp left = expiry <= time ? 0 : (expiry - time) / NGTCP2_MILLISECONDS + 1;
	return left < (ngtcp2_tstamp)most ? (int)left : most;
}

/* --- the server ----------------------------------------------------------------------------- */

static struct peer *peers;

static void serve_one(const char *name)
{
	uint8_t datagram[65536];
	struct sockaddr_in remote;
	socklen_t length = sizeof remote;
	struct peer *peer;
	const ssize_t size = recvfrom(udp, datagram, sizeof datagram, MSG_DONTWAIT,
				      (struct sockaddr *)&remote, &length);
	if (size < 0) {
		return;
	}
	for (peer = peers; peer != NULL && peer->remote.sin_port != remote.sin_port;) {
		peer = peer->next;
	}
	if (peer == NULL) {
		peer = new_server(&remote, name, datagram, (size_t)size);
		if (peer == NULL) {
			return;
		}
		peer->next = peers;
		peers = peer;
	}
	if (read_one(peer, datagram, (size_t)size) != 0) {
		for (struct peer **at = &peers; *at != NULL; at = &(*at)->next) {
			if (*at == peer) {
				*at = peer->next;
				break;
			}
		}
		delete_peer(peer);
	}
}

static int serve(const char *name)
{
	struct pollfd ready[2] = {{.fd = udp, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
	printf("%d\n", ntohs(local.sin_port));
	fflush(stdout);
	for (;;) {
		int timeout = 1000;
		for (struct peer *peer = peers; peer != NULL; peer = peer->next) {
			/* One that fails is silent until the client has given up. */
			if (pass_time(peer) == 0 && write_some(peer) == 0) {
				timeout = time_until(peer, timeout);
			}
		}
		if (poll(ready, 2, timeout) < 0 && errno != EINTR) {
			die("poll", strerror(errno));
		}
		if (ready[1].revents != 0) {
			return 0;
		}
		if (ready[0].revents != 0) {
			serve_one(name);
		}
	}
}

/* --- the client ----------------------------------------------------------------------------- */

/* Until the answer is complete. Returns 0 or an error. */
static int talk(struct peer *peer)
{
	uint8_t datagram[65536];
	int result = 0;
	while (result == 0 && !peer->in_ended) {
		struct pollfd ready = {.fd = udp, .events = POLLIN};
		if (peer->stream < 0 && ngtcp2_conn_get_handshake_completed(peer->connection)) {
			peer->out_ready = ngtcp2_conn_open_bidi_stream(peer->connection,
								       &peer->stream, NULL) == 0;
		}
		result = write_some(peer);
		if (result == 0 && poll(&ready, 1, time_until(peer, 1000)) > 0) {
			const ssize_t size = recv(udp, datagram, sizeof datagram, MSG_DONTWAIT);
			result = size < 0 ? 0 : read_one(peer, datagram, (size_t)size);
		}
		result = result == 0 ? pass_time(peer) : result;
	}
	return result;
}

static int ask(const struct sockaddr_in *remote, const char *name, const char *how)
{
	struct text question = {NULL, 0};
	uint8_t piece[65536];
	ssize_t n;
	int result;
	while ((n = read(0, piece, sizeof piece)) > 0) {
		append(&question, piece, (size_t)n);
	}
	uint32_t version = strcmp(how, "unknown") == 0 ? UNKNOWN_VERSION : NGTCP2_PROTO_VER_V1;
	struct peer *peer = new_client(remote, name, strcmp(how, "long") == 0, version);
	append(&peer->out, question.bytes, question.size);
	result = talk(peer);
	if (result == NGTCP2_ERR_RECV_VERSION_NEGOTIATION && peer->negotiate) {
		fprintf(stderr, "another version\n");
		delete_peer(peer);
		peer = new_client(remote, name, false, NGTCP2_PROTO_VER_V1);
		append(&peer->out, question.bytes, question.size);
		result = talk(peer);
	}
	if (result != 0) {
		/* All bits are set as long as there was nothing to verify. */
		const unsigned verified = gnutls_session_get_verify_cert_status(peer->tls);
		const bool is_bad = result == NGTCP2_ERR_CRYPTO && verified != 0 && ~verified != 0;
		fprintf(stderr, "%s%s\n", ngtcp2_strerror(result),
			is_bad ? ": the certificate is not verified" : "");
	} else {
		fwrite(peer->in.bytes, 1, peer->in.size, stdout);
	}
	close_connection(peer);
	delete_peer(peer);
	free(question.bytes);
	return result == 0 && fflush(stdout) == 0 ? 0 : 1;
}

int main(int count, char **words)
{
	socklen_t length = sizeof local;
	const int is_server = count == 5 && strcmp(words[1], "server") == 0;
	if (!is_server && (count < 5 || strcmp(words[1], "client") != 0)) {
		die("usage", "server NAME CERTIFICATE KEY | client PORT NAME CA [HOW]");
	}
	local.sin_family = AF_INET;
	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	struct sockaddr_in remote = local;
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (udp < 0 || bind(udp, (struct sockaddr *)&local, sizeof local) != 0 ||
	    getsockname(udp, (struct sockaddr *)&local, &length) != 0) {
		die("socket", strerror(errno));
	}
	need(gnutls_certificate_allocate_credentials(&credentials), "credentials");
	if (is_server) {
		need(gnutls_certificate_set_x509_key_file(credentials, words[3], words[4],
							  GNUTLS_X509_FMT_PEM),
		     words[3]);
		return serve(words[2]);
	}
	/* The wall clock may be stepped while this runs. */
	gnutls_certificate_set_verify_flags(credentials,
					    GNUTLS_VERIFY_DISABLE_TIME_CHECKS |
						    GNUTLS_VERIFY_DISABLE_TRUSTED_TIME_CHECKS);
	need(gnutls_certificate_set_x509_trust_file(credentials, words[4], GNUTLS_X509_FMT_PEM),
	     words[4]);
	remote.sin_port = htons((uint16_t)atoi(words[2]));
	return ask(&remote, words[3], count > 5 ? words[5] : "");
}
