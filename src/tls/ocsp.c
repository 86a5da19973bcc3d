/* SPDX-License-Identifier: MIT */
/*
 * How a client judges the OCSP response that a server has stapled to its certificate, or the
 * absence of one. OpenSSL calls this after it has verified the certificate itself.
 *
 * The response must be signed by the certificate's issuer, or by a responder to which that issuer
 * has given a certificate for this purpose. No other signer is accepted, whatever the store has.
 */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>

#include "tls/tls.h"

#define LEEWAY 300           /* seconds by which clocks may differ */
#define MOST_AGE (24 * 3600) /* of a response without an end of its validity */
#define STATUS_REQUEST 5     /* the TLS feature of RFC 7633, "must staple" */

static int refuse(SSL *ssl, long code, const char *why)
{
	sn_tls_of(ssl)->refusal = why;
	SSL_set_verify_result(ssl, code);
	return 0;
}

static bool must_staple(const X509 *certificate)
{
	TLS_FEATURE *features;
	bool found = false;

	if (!certificate) /* the cipher uses none */
		return false;
	features = X509_get_ext_d2i(certificate, NID_tlsfeature, NULL, NULL);
	for (int i = 0; i < sk_ASN1_INTEGER_num(features); i++)
		if (ASN1_INTEGER_get(sk_ASN1_INTEGER_value(features, i)) == STATUS_REQUEST)
			found = true;
	TLS_FEATURE_free(features);
	return found;
}

/* Whether the issuer has signed the response, or has delegated that. OpenSSL looks for the signer
 * by name. It may look only at the issuer and at certificates in the response, because others of
 * the chain may have the same name. */
static bool is_signed(OCSP_BASICRESP *basic, X509 *issuer)
{
	X509_STORE *store = X509_STORE_new();
	STACK_OF(X509) *known = sk_X509_new_null();
	bool good = false;

	/* The issuer has been verified, so it need not be a root. */
	if (store && known && sk_X509_push(known, issuer) > 0 &&
	    X509_STORE_add_cert(store, issuer) == 1 &&
	    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) == 1)
		good = OCSP_basic_verify(basic, known, store, 0) == 1;
	sk_X509_free(known);
	X509_STORE_free(store);
	return good;
}

/* The response's entry for the certificate, or NULL. The responder chooses the hash of each entry,
 * so the certificate's identity is computed with that hash. */
static OCSP_SINGLERESP *about(OCSP_BASICRESP *basic, X509 *certificate, X509 *issuer)
{
	for (int i = 0; i < OCSP_resp_count(basic); i++) {
		OCSP_SINGLERESP *single = OCSP_resp_get0(basic, i);
		const OCSP_CERTID *id = OCSP_SINGLERESP_get0_id(single);
		ASN1_OBJECT *algorithm;
		OCSP_CERTID *wanted;
		const EVP_MD *md;
		bool same;

		OCSP_id_get0_info(NULL, &algorithm, NULL, NULL, (OCSP_CERTID *)id);
		md = EVP_get_digestbyobj(algorithm);
		wanted = md ? OCSP_cert_to_id(md, certificate, issuer) : NULL;
		same = wanted && OCSP_id_cmp(wanted, id) == 0;
		OCSP_CERTID_free(wanted);
		if (same)
			return single;
	}
	return NULL;
}

static int judge_single(SSL *ssl, OCSP_SINGLERESP *single)
{
	ASN1_GENERALIZEDTIME *from, *until;

	switch (OCSP_single_get0_status(single, NULL, NULL, &from, &until)) {
	case V_OCSP_CERTSTATUS_GOOD:
		break;
	case V_OCSP_CERTSTATUS_REVOKED: /* final, so the age of the response does not matter */
		return refuse(ssl, X509_V_ERR_CERT_REVOKED,
			      "certificate revoked, according to its OCSP response");
	default:
		return refuse(ssl, X509_V_ERR_OCSP_CERT_UNKNOWN,
			      "certificate unknown to the OCSP responder");
	}
	if (OCSP_check_validity(from, until, LEEWAY, until ? -1 : MOST_AGE) != 1)
		return refuse(ssl, X509_V_ERR_OCSP_VERIFY_FAILED,
			      "the OCSP response has expired, or is not valid yet");
	return 1;
}

static int judge_basic(SSL *ssl, OCSP_BASICRESP *basic)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	X509 *certificate = sk_X509_value(chain, 0);
	/* A certificate that is trusted by itself is its own issuer. */
	X509 *issuer = sk_X509_value(chain, sk_X509_num(chain) > 1 ? 1 : 0);
	OCSP_SINGLERESP *single;

	if (!issuer || !is_signed(basic, issuer))
		return refuse(ssl, X509_V_ERR_OCSP_VERIFY_FAILED,
			      "the OCSP response is not signed for the certificate's issuer");
	single = about(basic, certificate, issuer);
	if (!single)
		return refuse(ssl, X509_V_ERR_OCSP_VERIFY_FAILED,
			      "the OCSP response is for another certificate");
	return judge_single(ssl, single);
}

static int judge(SSL *ssl, const unsigned char *der, long size)
{
	OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &der, size);
	OCSP_BASICRESP *basic = NULL;
	int good;

	if (response && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
		basic = OCSP_response_get1_basic(response);
	good = basic ? judge_basic(ssl, basic)
		     : refuse(ssl, X509_V_ERR_OCSP_VERIFY_FAILED,
			      "the server has stapled no usable OCSP response");
	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(response);
	return good;
}

/* Returns 1 to continue, or 0 to make the handshake fail for the reason that refuse() has noted. */
int sn_tls_check_staple(SSL *ssl, void *arg)
{
	const struct sn_tls *tls = sn_tls_of(ssl);
	const unsigned char *der;
	long size;
	int good = 1;

	(void)arg;
	/* When a session is resumed, the server sends neither a certificate nor a response. */
	if (SSL_session_reused(ssl))
		return 1;
	size = SSL_get_tlsext_status_ocsp_resp(ssl, &der);
	if (der && size > 0)
		good = judge(ssl, der, size);
	else if (tls->config->stapling == SN_TLS_STAPLING_REQUIRE ||
		 must_staple(SSL_get0_peer_certificate(ssl)))
		good = refuse(ssl, X509_V_ERR_OCSP_VERIFY_NEEDED,
			      "the server has stapled no OCSP response");
	ERR_clear_error();
	return good;
}
