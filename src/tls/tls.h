/* SPDX-License-Identifier: MIT */
/*
 * The inside of libsennit-tls, which is made of sennit's public interface and OpenSSL.
 *
 * A connection is the state of a layer (sennit/layer.h) on a stream. Its SSL object is not for two
 * threads at once, so each call of OpenSSL on it is made under the connection's lock. The lock is
 * never held across a wait, and nothing parks inside OpenSSL: what its callbacks need was prepared
 * before the call, and what they leave is taken after it.
 *
 * Bytes. OpenSSL reads from the socket through sennit's BIO (bio.c), which never waits, and writes
 * into memory: `out`, from where bytes go to the socket after the call. OpenSSL can therefore
 * always write, whichever call makes it write, and no write must be repeated with the same bytes.
 * Nothing more is written while there is something in `out`.
 *
 * One task may read while another one writes. A step of one that lets the other make progress
 * always follows an edge of the socket, and each edge wakes both tasks. Therefore neither waits for
 * something that the other has already done.
 */
#ifndef SENNIT_TLS_INTERNAL_H
#define SENNIT_TLS_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <sennit/layer.h>
#include <sennit/mutex.h>
#include <sennit/tls.h>

#define TLS_TEXT 200
#define TLS_DIGEST 32 /* SHA-256 */

/* ---- configuration ---- */

/* A certificate with its chain, its key and its OCSP response. Does not change once it is made.
 * Reference counted, by sets. */
struct sn_tls_pair {
	_Atomic unsigned references;
	X509 *certificate;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
	unsigned char *response; /* DER; NULL: none */
	size_t response_size;
	ASN1_GENERALIZEDTIME *response_end; /* NULL: it names none */
};

struct sn_tls_names;

/* The same. Reference counted, by the configuration and connections. */
struct sn_tls_set {
	_Atomic unsigned references;
	size_t n;
	struct sn_tls_names *names; /* NULL: one certificate, or it is still being filled */
	struct sn_tls_pair *pairs[];
};

/* Keys of tickets, the first for new ones. As a set. */
struct sn_tls_ring {
	_Atomic unsigned references;
	size_t n;
	unsigned char keys[][SN_TLS_TICKET_KEY];
};

/* A session that a client may resume; the most recent first. */
struct sn_tls_session {
	struct sn_tls_session *next;
	SSL_SESSION *session;
	char name[];
};

struct sn_tls_config {
	_Atomic unsigned references;
	_Atomic bool used;
	enum sn_tls_role role;
	enum sn_tls_verify verify;
	enum sn_tls_stapling stapling;
	bool own_trust; /* sn_tls_config_add_ca() was called */
	bool system_trust;
	bool resumes;
	unsigned char folders[TLS_DIGEST]; /* of the folders of authorities; zeros: none */
	unsigned char
		verification[TLS_DIGEST]; /* stands for how clients are verified, from `used` on */
	int key_log;                      /* a descriptor, or -1 */
	SSL_CTX *ctx;
	unsigned char *alpn; /* as on the wire */
	unsigned alpn_size;
	sn_mutex lock;            /* guards the fields below */
	bool checks_lists;        /* there is a revocation list */
	struct sn_tls_set *set;   /* NULL: none */
	struct sn_tls_ring *ring; /* NULL: OpenSSL's own key */
	struct sn_tls_session *sessions;
	unsigned nsessions;
};

/* Marks the configuration as used, which completes it. 0 or an error. config.c */
int sn_tls_config_use(sn_tls_config *config);

/* A digest of how a server verifies its clients. The lock is held. 0 or an error. trust.c */
int sn_tls_trust_digest(const sn_tls_config *config, unsigned char digest[TLS_DIGEST]);

/* Drops a reference; does nothing with NULL. certificates.c, ticket.c */
void sn_tls_set_release(struct sn_tls_set *set);
void sn_tls_ring_release(struct sn_tls_ring *ring);
/* Takes and drops a reference of a pair. */
struct sn_tls_pair *sn_tls_pair_ref(struct sn_tls_pair *pair);
void sn_tls_pair_release(struct sn_tls_pair *pair);
/* A set with room for n pairs, and one reference; NULL without memory. */
struct sn_tls_set *sn_tls_set_new(size_t n);
/* An index of the names in the set's certificates, with one reference; NULL without memory. NULL is
 * none for the two that count. certificate_names.c */
struct sn_tls_names *sn_tls_names_new(const struct sn_tls_set *set);
struct sn_tls_names *sn_tls_names_ref(struct sn_tls_names *names);
void sn_tls_names_release(struct sn_tls_names *names);
/* The first pair of a set with an index whose certificate has the name, or else the first whose
 * wildcards fit it; NULL: none. The name does not begin with a dot. */
const struct sn_tls_pair *sn_tls_names_find(const struct sn_tls_set *set, const char *name);
/* The callback that chooses one of the connection's set. */
int sn_tls_choose_certificate(SSL *ssl, void *arg);

/* Gives the responses of the previous set to those of the new one that have the same certificate
 * and no response. 0 or an error. staple.c */
int sn_tls_staples_keep(struct sn_tls_set *set, const struct sn_tls_set *former);
/* The callback of a server: the response of the certificate that it shows. */
int sn_tls_staple(SSL *ssl, void *arg);
/* The callback of a client: whether the server's response is good. ocsp.c */
int sn_tls_check_staple(SSL *ssl, void *arg);

/* ---- connections ---- */

/* How many new sessions one call of OpenSSL may leave. */
#define TLS_FRESH 4

struct sn_tls {
	sn_mutex lock; /* guards all that follows `fd`; the others do not change */
	sn_tls_config *config;
	struct sn_tls_set *set;   /* the configuration's when the connection was made, */
	struct sn_tls_ring *ring; /* and this; either may be NULL */
	char *name;               /* of the server, for a client; NULL: none */
	int fd;

	const struct sn_tls_pair *chosen; /* of the set, by the callback; NULL: not yet */
	const char *refusal; /* why a client refuses the OCSP response; NULL: it does not */

	SSL *ssl;
	char *out; /* for the socket: from out_start to out_end of out_size */
	size_t out_start, out_end, out_size;
	size_t owed;   /* bytes of the present write that are in `out` */
	bool direct;   /* what OpenSSL writes now is the last of a write, and may be sent at once */
	bool deferred; /* what is in `out` may wait until the task writes or closes */
	int receive_error; /* the socket's error, negative; 0: none */
	int send_error;
	int broken;                    /* the error of TLS: every later call returns it; 0: none */
	bool established;              /* the handshake has been completed; by a callback */
	bool flooded;                  /* the peer has sent too many messages without data */
	unsigned messages, records;    /* how many of those have come in a row */
	bool saw_end;                  /* of the socket, without close_notify */
	bool read_ended;               /* SN_SHUT_READ */
	bool notified;                 /* OpenSSL has written close_notify */
	bool heard;                    /* the peer has sent something since the handshake */
	bool lingers;                  /* is being closed, until the peer has received everything */
	const SSL_SESSION *offered;    /* only to be compared */
	SSL_SESSION *fresh[TLS_FRESH]; /* left by the callback for the configuration's cache */
	int nfresh;
	char reason[TLS_TEXT];  /* written once, before `broken` */
	_Atomic bool explained; /* reason is there */
};

extern const struct sn_layer sn_tls_layer;

static inline struct sn_tls *sn_tls_of(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

/* The BIO of a connection; NULL without memory. bio.c */
BIO *sn_tls_bio_new(struct sn_tls *tls);
/* OpenSSL's callback for messages, which counts those of the peer; and the call that resets the
 * count, because data was read or written. */
void sn_tls_note_message(int sent, int version, int type, const void *data, size_t size, SSL *ssl,
			 void *arg);
void sn_tls_note_data(struct sn_tls *tls);
/* Makes room for `size` more bytes in `out`. false: there is no memory. */
bool sn_tls_make_room(struct sn_tls *tls, size_t size);
/* Frees the room in `out` that is not used. */
void sn_tls_trim(struct sn_tls *tls);
/* Sends what is in `out`: 0, -EAGAIN or the socket's error. */
int sn_tls_flush(struct sn_tls *tls);

/* One attempt of the handshake, under the lock. stream.c */
int sn_tls_handshake_attempt(void *state, void *arg);
/* Frees a connection without a stream. */
void sn_tls_free(struct sn_tls *tls);

/* ---- sessions: session.c ---- */

void sn_tls_sessions_init(sn_tls_config *config);
/* Offers a session to the server, before the handshake. */
void sn_tls_session_offer(struct sn_tls *tls);
/* At the end of the handshake, by a callback. */
void sn_tls_session_renewed(struct sn_tls *tls);
/* After a call of OpenSSL, with the connection's lock held: moves the new sessions to the
 * configuration. */
void sn_tls_sessions_keep(struct sn_tls *tls);
/* Takes all of them out, with the configuration's lock held; and frees what was taken. */
struct sn_tls_session *sn_tls_sessions_take(sn_tls_config *config);
void sn_tls_sessions_free(struct sn_tls_session *all);

/* ---- reasons: reason.c ---- */

/* Before a call whose failure is looked up in OpenSSL's queue. It is nearly always empty, and
 * finding that out is cheaper than ERR_clear_error(), which goes through all of its entries. */
static inline void sn_tls_clear_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* The connection has failed with err, a negative errno that it returns: notes why, from OpenSSL's
 * error queue. */
int sn_tls_fail(struct sn_tls *tls, int err);
/* Notes the reason in words. Returns err. */
int sn_tls_say(int err, const char *format, ...) SN_PRINTF(2, 3);
/* Notes what was to be done, and the newest entry of OpenSSL's error queue. Returns err. */
int sn_tls_say_openssl(int err, const char *what);
/* Notes the reason of a failed connection as the last one. Returns err. */
int sn_tls_say_of(struct sn_tls *tls, int err);

#endif
