/* SPDX-License-Identifier: MIT */
/*
 * Certificates: reading them, choosing one for a connection, and replacing them while connections
 * are made.
 *
 * A set never changes. A connection takes a reference of the present set when it is made, so the
 * callback that chooses a certificate needs no lock, and a handshake ends with the set that it
 * began with.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls/pem.h"
#include "tls/tls.h"

/* ---- sets ---- */

struct sn_tls_pair *sn_tls_pair_ref(struct sn_tls_pair *pair)
{
	/* relaxed: the caller has a set, which has a reference */
	atomic_fetch_add_explicit(&pair->references, 1, memory_order_relaxed);
	return pair;
}

void sn_tls_pair_release(struct sn_tls_pair *pair)
{
	/* Acquire as well as release: the last one must see what the others did with the pair. */
	if (!pair || atomic_fetch_sub_explicit(&pair->references, 1, memory_order_acq_rel) != 1)
		return;
	X509_free(pair->certificate);
	sk_X509_pop_free(pair->chain, X509_free);
	EVP_PKEY_free(pair->key);
	free(pair->response);
	ASN1_GENERALIZEDTIME_free(pair->response_end);
	free(pair);
}

struct sn_tls_set *sn_tls_set_new(size_t n)
{
	struct sn_tls_set *set = calloc(1, sizeof *set + n * sizeof(struct sn_tls_pair *));

	if (set)
		atomic_init(&set->references, 1);
	return set;
}

void sn_tls_set_release(struct sn_tls_set *set)
{
	/* Acquire as well as release: the last one must see what the others did with the set. */
	if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < set->n; i++)
		sn_tls_pair_release(set->pairs[i]);
	sn_tls_names_release(set->names);
	free(set);
}

/* ---- reading ---- */

static int read_chain(struct sn_tls_pair *pair, const char *where)
{
	BIO *bio;
	X509 *next;
	bool is_full = false;
	int err = sn_tls_pem_open(&bio, where);

	if (err < 0)
		return err;
	pair->certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	pair->chain = sk_X509_new_null();
	if (pair->certificate && pair->chain)
		while ((next = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
			if (sk_X509_push(pair->chain, next) <= 0) {
				X509_free(next);
				is_full = true;
				break;
			}
	BIO_free(bio);
	if (!pair->certificate)
		return sn_tls_say_openssl(-EBADMSG, "the certificate cannot be read");
	if (!pair->chain || is_full)
		return sn_tls_say(-ENOMEM, "no memory");
	if (!sn_tls_pem_at_end())
		return sn_tls_say_openssl(-EBADMSG, "the certificate's chain cannot be read");
	return 0;
}

/* Refuses encrypted keys, because a library cannot ask for a password. */
static int no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static int read_key(struct sn_tls_pair *pair, const char *where)
{
	BIO *bio;
	int err = sn_tls_pem_open(&bio, where);

	if (err < 0)
		return err;
	pair->key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
	BIO_free(bio);
	if (!pair->key)
		return sn_tls_say_openssl(-EBADMSG, "the key cannot be read");
	if (X509_check_private_key(pair->certificate, pair->key) != 1)
		return sn_tls_say_openssl(-EBADMSG, "the key does not belong to the certificate");
	return 0;
}

static int read_set(struct sn_tls_set *set, const struct sn_tls_certificate *list, size_t n)
{
	int err = 0;

	while (err == 0 && set->n < n) {
		const struct sn_tls_certificate *each = &list[set->n];
		struct sn_tls_pair *pair;

		if (!each->chain || !each->key)
			return sn_tls_say(-EINVAL, "a certificate without a chain or a key");
		pair = calloc(1, sizeof *pair);
		if (!pair)
			return sn_tls_say(-ENOMEM, "no memory");
		atomic_init(&pair->references, 1);
		set->pairs[set->n++] = pair;
		ERR_clear_error();
		err = read_chain(pair, each->chain);
		if (err == 0)
			err = read_key(pair, each->key);
	}
	if (err < 0 || n == 1)
		return err;
	set->names = sn_tls_names_new(set);
	return set->names ? 0 : sn_tls_say(-ENOMEM, "no memory");
}

/* The present set, with a reference; or NULL. */
static struct sn_tls_set *present(sn_tls_config *config)
{
	struct sn_tls_set *set;

	sn_mutex_lock_uncancelled(&config->lock);
	set = config->set;
	if (set) /* relaxed: the configuration has a reference, under its lock */
		atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
	sn_mutex_unlock(&config->lock);
	return set;
}

/* Puts a set in the place of `former`. Returns false if that is no longer the present one. */
static bool replace(sn_tls_config *config, struct sn_tls_set *former, struct sn_tls_set *set,
		    struct sn_tls_session **sessions)
{
	bool done;

	sn_mutex_lock_uncancelled(&config->lock);
	done = config->set == former;
	if (done) {
		config->set = set;
		/* A resumed session would still identify the client by the previous
		 * certificates. */
		*sessions = sn_tls_sessions_take(config);
	}
	sn_mutex_unlock(&config->lock);
	if (done)
		sn_tls_set_release(former);
	return done;
}

/* What takes long with very many certificates is done without the lock, for which connections
 * wait. */
int sn_tls_config_set_certificates(sn_tls_config *config, const struct sn_tls_certificate *list,
				   size_t n)
{
	struct sn_tls_session *sessions = NULL;
	struct sn_tls_set *set, *former;
	bool done;
	int err;

	if (!config || !list || n == 0 || n > 100000)
		return sn_tls_say(-EINVAL, "no certificates");
	set = sn_tls_set_new(n);
	if (!set)
		return sn_tls_say(-ENOMEM, "no memory");
	err = read_set(set, list, n);
	if (err < 0) {
		sn_tls_set_release(set);
		return err;
	}
	do {
		former = present(config);
		err = former ? sn_tls_staples_keep(set, former) : 0;
		done = err < 0 || replace(config, former, set, &sessions);
		sn_tls_set_release(former);
	} while (!done);
	sn_tls_sessions_free(sessions);
	if (err < 0)
		sn_tls_set_release(set);
	return err;
}

/* ---- the name that a client asks for ---- */

/* The extension has a list of names, of which only a host name is in use: the size of the list, a
 * type, the size of the name, and the name. OpenSSL refuses a hello with any other list or name,
 * after this call. Returns false if there is no memory. */
static bool copy_name(struct sn_tls *tls, const unsigned char *list, size_t size)
{
	const size_t before = 5; /* the name */

	if (size <= before || list[2] != TLSEXT_NAMETYPE_host_name ||
	    (size_t)(list[0] << 8 | list[1]) != size - 2 ||
	    (size_t)(list[3] << 8 | list[4]) != size - before ||
	    size - before > TLSEXT_MAXLEN_host_name)
		return true;
	tls->name = strndup((const char *)list + before, size - before);
	return tls->name != NULL;
}

/*
 * SSL_get_servername() is not enough: in TLS 1.2 it returns the name of a session that is resumed,
 * and not the name in the hello. This comes before OpenSSL looks at a ticket, and again if the
 * client sends a second hello.
 */
int sn_tls_note_hello(SSL *ssl, int *alert, void *arg)
{
	struct sn_tls *tls = sn_tls_of(ssl);
	const unsigned char *list;
	size_t size;

	(void)arg;
	free(tls->name);
	tls->name = NULL;
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &list, &size) != 1 ||
	    copy_name(tls, list, size))
		return SSL_CLIENT_HELLO_SUCCESS;
	ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
	*alert = SSL_AD_INTERNAL_ERROR;
	return SSL_CLIENT_HELLO_ERROR;
}

/* ---- choosing ---- */

/* Chooses a certificate for the name. One for the name itself is preferred to one with a wildcard,
 * whatever their order. */
static const struct sn_tls_pair *pair_for(const struct sn_tls_set *set, const char *name)
{
	const struct sn_tls_pair *found = NULL;

	/* OpenSSL would take a dot at the beginning as any name with this ending. */
	if (name && *name != '.' && set->names)
		found = sn_tls_names_find(set, name);
	return found ? found : set->pairs[0];
}

/* Returns 1 to continue, or 0 to make the handshake fail. */
int sn_tls_choose_certificate(SSL *ssl, void *arg)
{
	struct sn_tls *tls = sn_tls_of(ssl);
	const struct sn_tls_set *set = tls->set;
	const struct sn_tls_pair *pair;

	(void)arg;
	if (!set)
		return 1;
	pair = pair_for(set, SSL_is_server(ssl) ? tls->name : NULL);
	tls->chosen = pair;
	return SSL_use_cert_and_key(ssl, pair->certificate, pair->key, pair->chain, 1);
}
