/* SPDX-License-Identifier: MIT */
/*
 * OCSP responses that a server staples to its certificates: finding the certificate of a response,
 * replacing responses, and sending them. Clients decide whether to trust the responder (ocsp.c).
 *
 * A pair never changes. A new response makes a new pair, in a new set, so a handshake needs no lock
 * and ends with the response that it began with.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>

#include "tls/tls.h"

/* The limit for a response; ordinary ones have one to a few kilobytes. */
#define MOST_RESPONSE ((size_t)64 << 10)

/* ---- replacing ---- */

/* Makes a copy of the pair with another response. Returns NULL if there is no memory. */
static struct sn_tls_pair *with_response(const struct sn_tls_pair *from, const void *der,
					 size_t size, const ASN1_GENERALIZEDTIME *end)
{
	struct sn_tls_pair *pair = calloc(1, sizeof *pair);

	if (!pair)
		return NULL;
	atomic_init(&pair->references, 1);
	X509_up_ref(from->certificate);
	pair->certificate = from->certificate;
	EVP_PKEY_up_ref(from->key);
	pair->key = from->key;
	pair->chain = X509_chain_up_ref(from->chain);
	pair->response = malloc(size);
	pair->response_size = size;
	pair->response_end = end ? ASN1_STRING_dup(end) : NULL;
	if (!pair->chain || !pair->response || (end && !pair->response_end)) {
		sn_tls_pair_release(pair);
		return NULL;
	}
	memcpy(pair->response, der, size);
	return pair;
}

static int by_certificate(const void *a, const void *b)
{
	const struct sn_tls_pair *const *x = a, *const *y = b;

	return X509_cmp((*x)->certificate, (*y)->certificate);
}

/* Sorted, because a server may have very many certificates. */
int sn_tls_staples_keep(struct sn_tls_set *set, const struct sn_tls_set *former)
{
	struct sn_tls_pair **with = calloc(former->n, sizeof(struct sn_tls_pair *));
	size_t n = 0;
	int err = with ? 0 : sn_tls_say(-ENOMEM, "no memory");

	for (size_t i = 0; with && i < former->n; i++)
		if (former->pairs[i]->response)
			with[n++] = former->pairs[i];
	if (n > 1)
		qsort(with, n, sizeof(struct sn_tls_pair *), by_certificate);
	for (size_t i = 0; err == 0 && n > 0 && i < set->n; i++) {
		struct sn_tls_pair **old = bsearch(&set->pairs[i], with, n,
						   sizeof(struct sn_tls_pair *), by_certificate),
				   *pair;

		if (!old)
			continue;
		pair = with_response(set->pairs[i], (*old)->response, (*old)->response_size,
				     (*old)->response_end);
		if (!pair) {
			err = sn_tls_say(-ENOMEM, "no memory");
			break;
		}
		sn_tls_pair_release(set->pairs[i]);
		set->pairs[i] = pair;
	}
	free(with);
	return err;
}

/* Whether the entry is about this certificate. Compares the issuer's name and the serial number. */
static bool is_for(OCSP_SINGLERESP *single, const X509 *certificate)
{
	const OCSP_CERTID *id = OCSP_SINGLERESP_get0_id(single);
	unsigned char digest[EVP_MAX_MD_SIZE];
	ASN1_OCTET_STRING *issuer;
	ASN1_INTEGER *serial;
	ASN1_OBJECT *algorithm;
	const EVP_MD *md;
	unsigned size;

	OCSP_id_get0_info(&issuer, &algorithm, NULL, &serial, (OCSP_CERTID *)id);
	md = EVP_get_digestbyobj(algorithm);
	return md && ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(certificate)) == 0 &&
	       X509_NAME_digest(X509_get_issuer_name(certificate), md, digest, &size) == 1 &&
	       (int)size == ASN1_STRING_length(issuer) &&
	       memcmp(ASN1_STRING_get0_data(issuer), digest, size) == 0;
}

static OCSP_SINGLERESP *about(OCSP_BASICRESP *basic, const X509 *certificate)
{
	for (int i = 0; i < OCSP_resp_count(basic); i++)
		if (is_for(OCSP_resp_get0(basic, i), certificate))
			return OCSP_resp_get0(basic, i);
	return NULL;
}

/* Makes a copy of a set, in which the certificates that the response is about have the response. */
static int copy_with(struct sn_tls_set **out, const struct sn_tls_set *from, OCSP_BASICRESP *basic,
		     const void *der, size_t size)
{
	struct sn_tls_set *set = sn_tls_set_new(from->n);
	ASN1_GENERALIZEDTIME *end;
	size_t fitting = 0;
	int err = set ? 0 : -ENOMEM;

	for (size_t i = 0; err == 0 && i < from->n; i++) {
		OCSP_SINGLERESP *single = about(basic, from->pairs[i]->certificate);
		struct sn_tls_pair *pair = NULL;

		if (!single) {
			pair = sn_tls_pair_ref(from->pairs[i]);
		} else {
			fitting++;
			OCSP_single_get0_status(single, NULL, NULL, NULL, &end);
			if (end && X509_cmp_current_time(end) < 0)
				err = -ESTALE;
			else if (!(pair = with_response(from->pairs[i], der, size, end)))
				err = -ENOMEM;
		}
		if (pair)
			set->pairs[set->n++] = pair;
	}
	if (err == 0 && fitting == 0)
		err = -ENOENT;
	if (err == 0)
		set->names = sn_tls_names_ref(from->names);
	if (err == 0)
		*out = set;
	else
		sn_tls_set_release(set);
	return err;
}

/* Returns 0, or an error, which sn_tls_say() has explained. */
static int parse(OCSP_BASICRESP **basic, const void *der, size_t size)
{
	const unsigned char *at = der;
	OCSP_RESPONSE *response;
	int err = 0, status;

	ERR_clear_error();
	response = d2i_OCSP_RESPONSE(NULL, &at, (long)size);
	if (!response || at != (const unsigned char *)der + size) {
		OCSP_RESPONSE_free(response);
		ERR_clear_error();
		return sn_tls_say(-EBADMSG, "not an OCSP response in DER");
	}
	status = OCSP_response_status(response);
	if (status != OCSP_RESPONSE_STATUS_SUCCESSFUL)
		err = sn_tls_say(-EBADMSG, "the OCSP responder has answered with an error: %s",
				 OCSP_response_status_str(status));
	else if (!(*basic = OCSP_response_get1_basic(response)))
		err = sn_tls_say_openssl(-EBADMSG, "the OCSP response cannot be read");
	OCSP_RESPONSE_free(response);
	return err;
}

static int explain(int err)
{
	switch (err) {
	case 0:
		return 0;
	case -ENOENT:
		return sn_tls_say(err, "the OCSP response is for none of the certificates");
	case -ESTALE:
		return sn_tls_say(err, "the OCSP response has expired");
	default:
		return sn_tls_say(err, "no memory");
	}
}

int sn_tls_config_set_ocsp_response(sn_tls_config *config, const void *der, size_t size)
{
	struct sn_tls_set *set, *former = NULL;
	OCSP_BASICRESP *basic;
	int err;

	if (!config || config->role != SN_TLS_SERVER || !der || size == 0 || size > MOST_RESPONSE)
		return sn_tls_say(-EINVAL, "not a server's configuration, or no response");
	err = parse(&basic, der, size);
	if (err < 0)
		return err;
	sn_mutex_lock_uncancelled(&config->lock);
	err = config->set ? copy_with(&set, config->set, basic, der, size) : -ENOENT;
	if (err == 0) {
		former = config->set;
		config->set = set;
	}
	sn_mutex_unlock(&config->lock);
	sn_tls_set_release(former);
	OCSP_BASICRESP_free(basic);
	ERR_clear_error();
	return explain(err);
}

/* ---- sending ---- */

/* OpenSSL's callback; OpenSSL frees the bytes. An expired response is not sent, because clients
 * would then refuse a certificate that they accept without a response. */
int sn_tls_staple(SSL *ssl, void *arg)
{
	const struct sn_tls_pair *pair = sn_tls_of(ssl)->chosen;
	unsigned char *bytes;

	(void)arg;
	if (!pair || !pair->response ||
	    (pair->response_end && X509_cmp_current_time(pair->response_end) < 0))
		return SSL_TLSEXT_ERR_NOACK;
	bytes = OPENSSL_memdup(pair->response, pair->response_size);
	if (!bytes)
		return SSL_TLSEXT_ERR_NOACK;
	SSL_set_tlsext_status_ocsp_resp(ssl, bytes, (long)pair->response_size);
	return SSL_TLSEXT_ERR_OK;
}
