/* SPDX-License-Identifier: MIT */
/*
 * Whom a configuration trusts: certificate authorities and revocation lists, in the store of its
 * SSL_CTX. The store has a lock of its own, so lists can be added while connections are made.
 */
#include <errno.h>
#include <sys/stat.h>

#include <openssl/err.h>
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
			err = sn_tls_say_openssl(-EBADMSG, "an authority's certificate");
		X509_free(each);
	}
	BIO_free(bio);
	if (err == 0 && !sn_tls_pem_at_end())
		err = sn_tls_say_openssl(-EBADMSG, "an authority's certificate cannot be read");
	if (err == 0 && n == 0)
		err = sn_tls_say(-EBADMSG, "there is no certificate in it");
	return err;
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
			      ? 0
			      : sn_tls_say_openssl(-EBADMSG, "the folder of authorities");
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

int sn_tls_config_add_crl(sn_tls_config *config, const char *where)
{
	X509_STORE *store;
	X509_CRL *each;
	BIO *bio;
	int n = 0, err;

	if (!config || !where)
		return sn_tls_say(-EINVAL, "no configuration, or no list");
	ERR_clear_error();
	err = sn_tls_pem_open(&bio, where);
	if (err < 0)
		return err;
	store = SSL_CTX_get_cert_store(config->ctx);
	while (err == 0 && (each = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
		if (X509_STORE_add_crl(store, each) == 1)
			n++;
		else
			err = sn_tls_say_openssl(-EBADMSG, "a revocation list");
		X509_CRL_free(each);
	}
	BIO_free(bio);
	if (err == 0 && (!sn_tls_pem_at_end() || n == 0))
		err = sn_tls_say_openssl(-EBADMSG, "there is no revocation list in it");
	/* Only its first list changes the flags, and so must come before the connections. */
	if (err == 0 && !config->used)
		X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return err;
}
