/* SPDX-License-Identifier: MIT */
/*
 * The inside of libsennit-tls, which is made of sennit's public interface and OpenSSL.
 *
 * A connection is the state of a layer (sennit/layer.h) on a stream. Two threads must not use its
 * SSL object at the same time, so each call of OpenSSL on it is made under the connection's lock.
 * The lock is never held across a wait, and nothing parks inside OpenSSL: what its callbacks need
 * is prepared before the call, and what they leave is taken after it.
 *
 * Bytes. OpenSSL reads from the socket through sennit's BIO (bio.c), which never waits, and writes
 * into memory: `out`, from which bytes go to the socket after the call. OpenSSL can therefore
 * always write, whichever call makes it write, and no write must be repeated with the same bytes.
 * The task's next write begins only when `out` has been sent, except bytes that are `deferred`.
 *
 * One task may read while another one writes. If a step of one task lets the other make progress,
 * that step follows an edge of the socket, and each edge wakes both tasks. Therefore neither waits
 * for something that the other has already done.
 */
#ifndef SENNIT_TLS_INTERNAL_H
#define SENNIT_TLS_INTERNAL_H

#include <pthread.h>
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

/* A certificate with its chain, its key and its OCSP response. Constant once it is made. Reference
 * counted, by sets. */
struct sn_tls_pair {
	_Atomic unsigned references;
	X509 *certificate;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
	unsigned char *response; /* DER; NULL: none */
	size_t response_size;
	ASN1_GENERALIZEDTIME *response_end; /* NULL: the response has none */
};

struct sn_tls_names;

/* A list of certificates. Constant once it is made. Reference counted, by the configuration and
 * connections. */
struct sn_tls_set {
	_Atomic unsigned references;
	size_t n;
	struct sn_tls_names *names; /* NULL: one certificate, or it is still being filled */
	struct sn_tls_pair *pairs[];
};

/* Keys of tickets; the first is used for new ones. Constant and reference counted, like a set. */
struct sn_tls_ring {
	_Atomic unsigned references;
	size_t n;
	unsigned char keys[][SN_TLS_TICKET_KEY];
};

/* A session that a client may resume, in a list that begins with the most recent one. */
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
	unsigned char folders[TLS_DIGEST]; /* a digest of the folders of authorities; zeros: none */
	unsigned char
		verification[TLS_DIGEST]; /* a digest of how clients are verified, once `used` is
					   * true */
	int key_log;                      /* a descriptor, or -1 */
	SSL_CTX *ctx;
	unsigned char *alpn; /* encoded as in the protocol */
	unsigned alpn_size;
	sn_mutex lock;            /* guards the fields below */
	bool checks_lists;        /* there is a revocation list */
	struct sn_tls_set *set;   /* NULL: none */
	struct sn_tls_ring *ring; /* NULL: OpenSSL's own key */
	/* The revocation lists that have come since the first connection; NULL: none. Written under
	 * both locks. The second is held for moments, because verifications take it. */
	STACK_OF(X509_CRL) * lists;
	pthread_mutex_t lists_lock;
	struct sn_tls_session *sessions;
	unsigned nsessions;
};

/* Marks the configuration as used, which completes it. Returns 0 or an error. config.c */
int sn_tls_config_use(sn_tls_config *config);

/* Computes a digest of how a server verifies its clients. The lock is held. Returns 0 or an error.
 * trust.c */
int sn_tls_trust_digest(const sn_tls_config *config, unsigned char digest[TLS_DIGEST]);

/* Drops a reference; NULL is ignored. certificates.c, ticket.c */
void sn_tls_set_release(struct sn_tls_set *set);
void sn_tls_ring_release(struct sn_tls_ring *ring);
/* Takes and drops a reference of a pair. */
struct sn_tls_pair *sn_tls_pair_ref(struct sn_tls_pair *pair);
void sn_tls_pair_release(struct sn_tls_pair *pair);
/* Makes a set with room for n pairs, and one reference. Returns NULL if there is no memory. */
struct sn_tls_set *sn_tls_set_new(size_t n);
/* Makes an index of the names in the set's certificates, with one reference. Returns NULL if there
 * is no memory. The other two calls ignore NULL. certificate_names.c */
struct sn_tls_names *sn_tls_names_new(const struct sn_tls_set *set);
struct sn_tls_names *sn_tls_names_ref(struct sn_tls_names *names);
void sn_tls_names_release(struct sn_tls_names *names);
/* The first pair of a set with an index whose certificate has the name; otherwise the first whose
 * wildcards fit it; otherwise NULL. The name does not begin with a dot. */
const struct sn_tls_pair *sn_tls_names_find(const struct sn_tls_set *set, const char *name);
/* The callback for a client's hello, which notes the name that the client asks for. */
int sn_tls_note_hello(SSL *ssl, int *alert, void *arg);
/* The callback that chooses a certificate of the connection's set. */
int sn_tls_choose_certificate(SSL *ssl, void *arg);

/* Gives each certificate of the new set the response that the same certificate has in the previous
 * set, if any. Returns 0 or an error. staple.c */
int sn_tls_staples_keep(struct sn_tls_set *set, const struct sn_tls_set *former);
/* The callback of a server, which sends the response of the certificate that it shows. */
int sn_tls_staple(SSL *ssl, void *arg);
/* The callback of a client, which judges the server's response. ocsp.c */
int sn_tls_check_staple(SSL *ssl, void *arg);

/* ---- connections ---- */

/* How many new sessions one call of OpenSSL may leave. */
#define TLS_FRESH 4

struct sn_tls {
	sn_mutex lock; /* guards all that follows `fd`; the others do not change */
	sn_tls_config *config;
	struct sn_tls_set *set;   /* the configuration's set when the connection was made; may be
				   * NULL */
	struct sn_tls_ring *ring; /* likewise */
	char *name;               /* the server's, in a client's connection; NULL: none. In a
				   * server's connection the name in the hello of the client, and
				   * guarded by the lock. */
	int fd;

	const struct sn_tls_pair *chosen; /* a pair of `set`, chosen by the callback; NULL: not
					   * yet */
	const char *refusal; /* why a client refuses the OCSP response; NULL: it does not */

	SSL *ssl;
	char *out; /* bytes for the socket: from out_start to out_end, of out_size */
	size_t out_start, out_end, out_size;
	size_t owed;       /* bytes of the present write that are in `out` */
	bool direct;       /* OpenSSL writes the last record of a write now, which may be sent
			* immediately */
	bool deferred;     /* what is in `out` may wait until the task writes or closes */
	int receive_error; /* the socket's error, negative; 0: none */
	int send_error;
	int broken;                    /* the error of TLS: every later call returns it; 0: none */
	bool established;              /* the handshake has been completed; written by a callback */
	bool flooded;                  /* the peer has sent too many messages without data */
	unsigned messages, records;    /* how many of those have come in a row */
	bool saw_end;                  /* the socket has ended, without close_notify */
	bool read_ended;               /* SN_SHUT_READ */
	bool notified;                 /* OpenSSL has written close_notify */
	bool heard;                    /* the peer has sent something since the handshake */
	bool lingers;                  /* a close waits until the peer has received everything */
	const SSL_SESSION *offered;    /* used only for comparison */
	SSL_SESSION *fresh[TLS_FRESH]; /* left by the callback for the configuration's cache */
	int nfresh;
	char reason[TLS_TEXT];  /* written once, before `broken` */
	_Atomic bool explained; /* the reason has been written */
};

extern const struct sn_layer sn_tls_layer;

static inline struct sn_tls *sn_tls_of(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

/* Makes the BIO of a connection. Returns NULL if there is no memory. bio.c */
BIO *sn_tls_bio_new(struct sn_tls *tls);
/* OpenSSL's callback for messages, which counts those of the peer; and a call that resets the
 * counts, because data was read or written. */
void sn_tls_note_message(int sent, int version, int type, const void *data, size_t size, SSL *ssl,
			 void *arg);
void sn_tls_note_data(struct sn_tls *tls);
/* Makes room for `size` more bytes in `out`. Returns false if there is no memory. */
bool sn_tls_make_room(struct sn_tls *tls, size_t size);
/* Frees the unused room of `out`. */
void sn_tls_trim(struct sn_tls *tls);
/* Sends what is in `out`. Returns 0, -EAGAIN or the socket's error. */
int sn_tls_flush(struct sn_tls *tls);

/* One attempt of the handshake, under the lock. stream.c */
int sn_tls_handshake_attempt(void *state, void *arg);
/* Frees a connection that has no stream. */
void sn_tls_free(struct sn_tls *tls);

/* ---- sessions: session.c ---- */

void sn_tls_sessions_init(sn_tls_config *config);
/* Offers a session to the server, before the handshake. */
void sn_tls_session_offer(struct sn_tls *tls);
/* Called by a callback, at the end of the handshake. */
void sn_tls_session_renewed(struct sn_tls *tls);
/* Moves the new sessions to the configuration. Called after a call of OpenSSL, with the
 * connection's lock held. */
void sn_tls_sessions_keep(struct sn_tls *tls);
/* Takes all sessions out, with the configuration's lock held; and frees those that were taken. */
struct sn_tls_session *sn_tls_sessions_take(sn_tls_config *config);
void sn_tls_sessions_free(struct sn_tls_session *all);

/* ---- reasons: reason.c ---- */

/* Called before a call whose failure is looked up in OpenSSL's queue. The queue is nearly always
 * empty, and checking that is cheaper than ERR_clear_error(), which goes through all of its
 * entries. */
static inline void sn_tls_clear_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* What is in OpenSSL's error queue. */
struct sn_tls_errors {
	unsigned long first, last; /* 0: none */
	bool lack_memory;          /* any of them says so */
};
/* Empties the queue. */
struct sn_tls_errors sn_tls_take_errors(void);
/* The connection fails with err, a negative errno. Notes why; errors: of OpenSSL, if err is -EPROTO
 * for that reason, else NULL. Returns the error with which the connection first failed. */
int sn_tls_fail(struct sn_tls *tls, int err, const struct sn_tls_errors *errors);
/* Notes why the call fails, in words. Returns err. */
int sn_tls_say(int err, const char *format, ...) SN_PRINTF(2, 3);
/* The same, with the newest entry of OpenSSL's error queue after `what`. Returns err, or -ENOMEM
 * where the queue says so. */
int sn_tls_say_openssl(int err, const char *what);
/* Notes the reason of a failed connection as that of the last failure. Returns err. */
int sn_tls_say_of(struct sn_tls *tls, int err);

#endif
