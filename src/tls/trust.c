/* SPDX-License-Identifier: MIT */
/*
 * Whom a configuration trusts: certificate authorities and revocation lists, in the store of its
 * SSL_CTX. The store has a lock of its own, so lists can be added while connections are made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include "tls/pem.h"
#include "tls/tls.h"

static int add_certificates(X509_STORE *store, const char *where)
{
	X509 *each;
	BIO *bio;
	int n = 0, err = sn_tls_pem_open(&bio, where);

	if (err < 0)
		return err;
	while (err == 0 && (each = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL) {
		if (X509_STORE_add_cert(store, each) == 1)
			n++;
		else
			err = sn_tls_say_openssl(-EBADMSG,
						 "an authority's certificate cannot be added");
		X509_free(each);
	}
	BIO_free(bio);
	if (err == 0 && !sn_tls_pem_at_end())
		err = sn_tls_say_openssl(-EBADMSG, "an authority's certificate cannot be read");
	if (err == 0 && n == 0)
		err = sn_tls_say(-EBADMSG, "no authority's certificate was found");
	return err;
}

/* Adds a folder to the digest. The digest has its path, because its content may change at any
 * time. */
static int note_folder(sn_tls_config *config, const char *path)
{
	const size_t size = strlen(path);
	unsigned char *both = malloc(TLS_DIGEST + size);
	int done;

	if (!both)
		return sn_tls_say(-ENOMEM, "no memory");
	memcpy(both, config->folders, TLS_DIGEST);
	memcpy(both + TLS_DIGEST, path, size);
	done = EVP_Digest(both, TLS_DIGEST + size, config->folders, NULL, EVP_sha256(), NULL);
	free(both);
	return done == 1 ? 0
			 : sn_tls_say_openssl(-ENOMEM,
					      "the folder of authorities cannot be digested");
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int sn_tls_config_add_ca(sn_tls_config *config, const char *where)
{
	X509_STORE *store;
	int err;

	if (!config || !where)
		return sn_tls_say(-EINVAL, "no configuration, or no authorities");
	if (config->used)
		return sn_tls_say(-EBUSY, "the configuration is in use");
	store = SSL_CTX_get_cert_store(config->ctx);
	ERR_clear_error();
	if (!sn_tls_pem_is_text(where) && is_folder(where))
		err = X509_STORE_load_path(store, where) == 1
			      ? note_folder(config, where)
			      : sn_tls_say_openssl(-EBADMSG,
						   "the folder of authorities cannot be added");
	else
		err = add_certificates(store, where);
	if (err == 0)
		config->own_trust = true;
	return err;
}

int sn_tls_config_add_system_ca(sn_tls_config *config)
{
	if (!config)
		return sn_tls_say(-EINVAL, "no configuration");
	if (config->used)
		return sn_tls_say(-EBUSY, "the configuration is in use");
	config->system_trust = true;
	return 0;
}

/* Reads the revocation lists of a file or text. */
static int read_lists(STACK_OF(X509_CRL) * lists, const char *where)
{
	X509_CRL *each;
	BIO *bio;
	int err = sn_tls_pem_open(&bio, where);

	if (err < 0)
		return err;
	while (err == 0 && (each = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
		if (sk_X509_CRL_push(lists, each) <= 0) {
			X509_CRL_free(each);
			err = sn_tls_say(-ENOMEM, "no memory");
		}
	}
	BIO_free(bio);
	if (err == 0 && (!sn_tls_pem_at_end() || sk_X509_CRL_num(lists) == 0))
		err = sn_tls_say_openssl(-EBADMSG, "no revocation list was found");
	return err;
}

/* The first list changes the store's flags, which connections read, so it must be added before the
 * first connection. The lock is held, so that no first connection begins during this call. */
static int add_lists(sn_tls_config *config, STACK_OF(X509_CRL) * lists)
{
	X509_STORE *store = SSL_CTX_get_cert_store(config->ctx);

	if (config->used && !config->checks_lists)
		return sn_tls_say(-EBUSY, "the configuration is in use, without revocation lists");
	for (int i = 0; i < sk_X509_CRL_num(lists); i++)
		if (X509_STORE_add_crl(store, sk_X509_CRL_value(lists, i)) != 1)
			return sn_tls_say_openssl(-EBADMSG, "a revocation list cannot be added");
	if (!config->checks_lists)
		X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	config->checks_lists = true;
	return 0;
}

int sn_tls_config_add_crl(sn_tls_config *config, const char *where)
{
	STACK_OF(X509_CRL) * lists;
	int err;

	if (!config || !where)
		return sn_tls_say(-EINVAL, "no configuration, or no list");
	ERR_clear_error();
	lists = sk_X509_CRL_new_null();
	err = lists ? read_lists(lists, where) : sn_tls_say(-ENOMEM, "no memory");
	if (err == 0) {
		sn_mutex_lock_uncancelled(&config->lock);
		err = add_lists(config, lists);
		sn_mutex_unlock(&config->lock);
	}
	sk_X509_CRL_pop_free(lists, X509_CRL_free);
	return err;
}

/* ---- the digest of how clients are verified ---- */

static int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, TLS_DIGEST);
}

/* The digest includes the purposes for which the file says that the certificate is trusted. */
static bool digest_one(X509 *certificate, unsigned char *to)
{
	unsigned char *der = NULL;
	int size = i2d_X509_AUX(certificate, &der), done;

	if (size < 0)
		return false;
	done = EVP_Digest(der, (size_t)size, to, NULL, EVP_sha256(), NULL);
	OPENSSL_free(der);
	return done == 1;
}

/* Sorted, so that the order in which authorities were added makes no difference. */
static bool digest_all(const STACK_OF(X509) * certificates, unsigned char *to)
{
	const int n = sk_X509_num(certificates);

	for (int i = 0; i < n; i++)
		if (!digest_one(sk_X509_value(certificates, i), to + (size_t)i * TLS_DIGEST))
			return false;
	qsort(to, (size_t)n, TLS_DIGEST, compare_digests);
	return true;
}

int sn_tls_trust_digest(const sn_tls_config *config, unsigned char digest[TLS_DIGEST])
{
	static const char label[] = "sennit: how clients are verified, 1";
	const bool verifies = config->verify != SN_TLS_VERIFY_NONE;
	X509_STORE *store = SSL_CTX_get_cert_store(config->ctx);
	STACK_OF(X509) *certificates = X509_STORE_get1_all_certs(store);
	const size_t n = certificates ? (size_t)sk_X509_num(certificates) : 0;
	/* The label, three flags, the folders, the authorities. */
	const size_t head = sizeof label + 3 + TLS_DIGEST;
	unsigned char *all = malloc(head + n * TLS_DIGEST), *at = all;
	bool done = certificates && all;

	if (done) {
		memcpy(at, label, sizeof label);
		at += sizeof label;
		*at++ = (unsigned char)config->verify;
		*at++ = config->system_trust || !config->own_trust;
		*at++ = config->checks_lists;
		memcpy(at, config->folders, TLS_DIGEST);
		at += TLS_DIGEST;
		/* If a server does not verify clients, it does not matter which authorities it
		 * trusts. */
		done = digest_all(certificates, at) &&
		       EVP_Digest(all, verifies ? head + n * TLS_DIGEST : sizeof label + 1, digest,
				  NULL, EVP_sha256(), NULL) == 1;
	}
	free(all);
	sk_X509_pop_free(certificates, X509_free);
	return done ? 0 : sn_tls_say_openssl(-ENOMEM, "no memory");
}
