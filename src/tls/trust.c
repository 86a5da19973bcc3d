/* SPDX-License-Identifier: MIT */
/*
 * Whom a configuration trusts: certificate authorities and revocation lists, in the store of its
 * SSL_CTX. A store forgets nothing, but lists are renewed for as long as a program runs. Those that
 * come after the first connection are therefore kept here, where they replace one another, and the
 * store asks for them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

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

/* Whether both have the same value of an extension, or neither has it. */
static bool agree_on(const X509_CRL *a, const X509_CRL *b, int extension)
{
	const int in_a = X509_CRL_get_ext_by_NID(a, extension, -1),
		  in_b = X509_CRL_get_ext_by_NID(b, extension, -1);

	if (in_a < 0 || in_b < 0)
		return in_a < 0 && in_b < 0;
	return ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(X509_CRL_get_ext(a, in_a)),
				     X509_EXTENSION_get_data(X509_CRL_get_ext(b, in_b))) == 0;
}

/* Whether one of the lists can replace the other: they are of the same issuer, and of the same key
 * and about the same part of its certificates, if they say that. */
static bool is_same_list(const X509_CRL *a, const X509_CRL *b)
{
	return X509_NAME_cmp(X509_CRL_get_issuer(a), X509_CRL_get_issuer(b)) == 0 &&
	       agree_on(a, b, NID_authority_key_identifier) &&
	       agree_on(a, b, NID_issuing_distribution_point) && agree_on(a, b, NID_delta_crl);
}

/* Whether a list that is in force is preferred to the other now and forever: it is as new, and
 * expires no earlier. OpenSSL takes one in force before one that is not, and then the newest. */
static bool supersedes(const X509_CRL *list, const X509_CRL *other)
{
	const ASN1_TIME *begin = X509_CRL_get0_lastUpdate(list),
			*end = X509_CRL_get0_nextUpdate(list),
			*other_end = X509_CRL_get0_nextUpdate(other);
	const int older = ASN1_TIME_compare(X509_CRL_get0_lastUpdate(other), begin);

	if (X509_cmp_current_time(begin) >= 0 || (older != -1 && older != 0))
		return false;
	if (!end)
		return true;
	return other_end && ASN1_TIME_compare(end, other_end) >= 0;
}

/* Adds a list, and drops those that it replaces. Returns false if there is no memory. */
static bool renew(STACK_OF(X509_CRL) * lists, X509_CRL *list)
{
	for (int i = sk_X509_CRL_num(lists) - 1; i >= 0; i--) {
		X509_CRL *each = sk_X509_CRL_value(lists, i);

		if (!is_same_list(each, list))
			continue;
		if (supersedes(list, each))
			X509_CRL_free(sk_X509_CRL_delete(lists, i));
		else if (supersedes(each, list))
			return true;
	}
	if (X509_CRL_up_ref(list) != 1)
		return false;
	if (sk_X509_CRL_push(lists, list) > 0)
		return true;
	X509_CRL_free(list);
	return false;
}

static STACK_OF(X509_CRL) * copy_of(const STACK_OF(X509_CRL) * lists)
{
	STACK_OF(X509_CRL) *copy = sk_X509_CRL_new_null();

	for (int i = 0; copy && i < sk_X509_CRL_num(lists); i++)
		if (!renew(copy, sk_X509_CRL_value(lists, i))) {
			sk_X509_CRL_pop_free(copy, X509_CRL_free);
			return NULL;
		}
	return copy;
}

/* ---- the store asks ---- */

static int config_of_store; /* the index of this datum */

static void make_index(void)
{
	config_of_store = X509_STORE_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

/* OpenSSL's callback, which frees what it gets: the lists of this issuer, with those of the store
 * and of its folders. */
static STACK_OF(X509_CRL) * lists_of(const X509_STORE_CTX *verification, const X509_NAME *issuer)
{
	X509_STORE *store = X509_STORE_CTX_get0_store(verification);
	sn_tls_config *config = X509_STORE_get_ex_data(store, config_of_store);
	STACK_OF(X509_CRL) *found = X509_STORE_CTX_get1_crls(verification, issuer);

	if (!found)
		found = sk_X509_CRL_new_null();
	pthread_mutex_lock(&config->lists_lock);
	for (int i = 0; found && i < sk_X509_CRL_num(config->lists); i++) {
		X509_CRL *each = sk_X509_CRL_value(config->lists, i);

		if (X509_NAME_cmp(X509_CRL_get_issuer(each), issuer) != 0)
			continue;
		X509_CRL_up_ref(each);
		if (sk_X509_CRL_push(found, each) <= 0) {
			/* Without it an older list would count. With none the peer is refused. */
			X509_CRL_free(each);
			sk_X509_CRL_pop_free(found, X509_CRL_free);
			found = NULL;
		}
	}
	pthread_mutex_unlock(&config->lists_lock);
	return found;
}

/* Adds lists to the store. The first one changes what connections read, so it must be added before
 * the first connection. */
static int begin_lists(sn_tls_config *config, STACK_OF(X509_CRL) * added)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	X509_STORE *store = SSL_CTX_get_cert_store(config->ctx);

	for (int i = 0; i < sk_X509_CRL_num(added); i++)
		if (X509_STORE_add_crl(store, sk_X509_CRL_value(added, i)) != 1)
			return sn_tls_say_openssl(-EBADMSG, "a revocation list cannot be added");
	if (config->checks_lists)
		return 0;
	pthread_once(&once, make_index);
	if (X509_STORE_set_ex_data(store, config_of_store, config) != 1)
		return sn_tls_say(-ENOMEM, "no memory");
	X509_STORE_set_lookup_crls(store, lists_of);
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	config->checks_lists = true;
	return 0;
}

/* Adds lists to those that replace one another. */
static int renew_lists(sn_tls_config *config, STACK_OF(X509_CRL) * added)
{
	STACK_OF(X509_CRL) *lists = copy_of(config->lists), *former;

	for (int i = 0; lists && i < sk_X509_CRL_num(added); i++)
		if (!renew(lists, sk_X509_CRL_value(added, i))) {
			sk_X509_CRL_pop_free(lists, X509_CRL_free);
			lists = NULL;
		}
	if (!lists)
		return sn_tls_say(-ENOMEM, "no memory");
	pthread_mutex_lock(&config->lists_lock);
	former = config->lists;
	config->lists = lists;
	pthread_mutex_unlock(&config->lists_lock);
	sk_X509_CRL_pop_free(former, X509_CRL_free);
	return 0;
}

/* The lock is held, so that no first connection begins during this call, and no other one of this
 * function. */
static int add_lists(sn_tls_config *config, STACK_OF(X509_CRL) * added)
{
	if (!config->used)
		return begin_lists(config, added);
	if (!config->checks_lists)
		return sn_tls_say(-EBUSY, "the configuration is in use, without revocation lists");
	return renew_lists(config, added);
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
