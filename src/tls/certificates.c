/* SPDX-License-Identifier: MIT */
/*
 * Certificates: reading them, choosing one for a connection, and replacing them while connections
 * are made.
 *
 * A set never changes. A connection takes a reference of the present set when it is made, so the
 * callback that chooses needs no lock, and a handshake ends with the set that it began with.
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

static void free_pair(struct sn_tls_pair *pair)
{
	X509_free(pair->certificate);
	sk_X509_pop_free(pair->chain, X509_free);
	EVP_PKEY_free(pair->key);
}

void sn_tls_set_release(struct sn_tls_set *set)
{
	/* Acquire as well as release: the last one must see what the others did with it. */
	if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < set->n; i++)
		free_pair(&set->pairs[i]);
	free(set);
}

/* ---- reading ---- */

static int read_chain(struct sn_tls_pair *pair, const char *where)
{
	BIO *bio;
	X509 *next;
	int err = sn_tls_pem_open(&bio, where);

	if (err < 0)
		return err;
	pair->certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	pair->chain = sk_X509_new_null();
	if (pair->certificate && pair->chain)
		while ((next = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
			sk_X509_push(pair->chain, next);
	BIO_free(bio);
	if (!pair->certificate)
		return sn_tls_say_openssl(-EBADMSG, "the certificate cannot be read");
	if (!sn_tls_pem_at_end())
		return sn_tls_say_openssl(-EBADMSG, "the certificate's chain cannot be read");
	return pair->chain ? 0 : -ENOMEM;
}

/* There is nobody to ask for a password. */
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
		return sn_tls_say_openssl(-EBADMSG, "the key is not the certificate's");
	return 0;
}

static int read_set(struct sn_tls_set *set, const struct sn_tls_certificate *list, size_t n)
{
	for (; set->n < n; set->n++) {
		const struct sn_tls_certificate *each = &list[set->n];
		struct sn_tls_pair pair = {0};
		int err;

		if (!each->chain || !each->key)
			return sn_tls_say(-EINVAL, "a certificate without a chain or a key");
		ERR_clear_error();
		err = read_chain(&pair, each->chain);
		if (err == 0)
			err = read_key(&pair, each->key);
		if (err < 0) {
			free_pair(&pair);
			return err;
		}
		set->pairs[set->n] = pair;
	}
	return 0;
}

int sn_tls_config_set_certificates(sn_tls_config *config, const struct sn_tls_certificate *list,
				   size_t n)
{
	struct sn_tls_set *set, *former;
	int err;

	if (!config || !list || n == 0 || n > 100000)
		return sn_tls_say(-EINVAL, "no certificates");
	set = calloc(1, sizeof *set + n * sizeof *set->pairs);
	if (!set)
		return sn_tls_say(-ENOMEM, "no memory");
	atomic_init(&set->references, 1);
	err = read_set(set, list, n);
	if (err < 0) {
		sn_tls_set_release(set);
		return err;
	}
	sn_mutex_lock_uncancelled(&config->lock);
	former = config->set;
	config->set = set;
	sn_mutex_unlock(&config->lock);
	sn_tls_set_release(former);
	return 0;
}

/* ---- choosing ---- */

static const struct sn_tls_pair *pair_for(const struct sn_tls_set *set, const char *name)
{
	if (name)
		for (size_t i = 0; i < set->n; i++)
			if (X509_check_host(set->pairs[i].certificate, name, 0, 0, NULL) == 1)
				return &set->pairs[i];
	return &set->pairs[0];
}

/* 1: go on; 0: the handshake fails. */
int sn_tls_choose_certificate(SSL *ssl, void *arg)
{
	const struct sn_tls_set *set = sn_tls_of(ssl)->set;
	const struct sn_tls_pair *pair;

	(void)arg;
	if (!set)
		return 1;
	pair = pair_for(set, SSL_is_server(ssl) ? SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)
						: NULL);
	return SSL_use_cert_and_key(ssl, pair->certificate, pair->key, pair->chain, 1);
}
