// SPDX-License-Identifier: MIT
//
// Certificates for tests, made when the test runs: an authority, the certificates that it signs,
// and its revocation lists. All are in PEM.
#ifndef SENNIT_TESTS_TLS_AUTHORITY_H
#define SENNIT_TESTS_TLS_AUTHORITY_H

#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace test
{

template <auto Free>
struct Freer {
	template <class T>
	void operator()(T *object) const
	{
		Free(object);
	}
};

using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;

// Without these objects no test would make sense, so a failure ends the program.
inline void need(bool condition)
{
	if (!condition)
		abort();
}

template <class Write>
std::string pem(Write write)
{
	std::unique_ptr<BIO, Freer<BIO_free>> bio(BIO_new(BIO_s_mem()));
	char *data;

	need(bio && write(bio.get()) == 1);
	const long size = BIO_get_mem_data(bio.get(), &data);
	return std::string(data, size_t(size));
}

inline std::string pem_of(X509 *certificate)
{
	return pem([&](BIO *bio) { return PEM_write_bio_X509(bio, certificate); });
}
inline std::string pem_of(EVP_PKEY *key)
{
	return pem([&](BIO *bio) {
		return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
	});
}

// The contents of a certificate. Times are seconds from now.
struct Terms {
	std::string names = "DNS:localhost,IP:127.0.0.1"; // subjectAltName; "": none
	std::string usage = "serverAuth,clientAuth";      // extendedKeyUsage
	long from = -3600, until = 3600;
	bool is_authority = false;
	bool must_staple = false;
	std::string common_name = "a test";
	std::string raw_name = {}; // one name of any bytes, instead of `names`; "": none
};

struct Identity {
	Key key;
	Certificate certificate;

	std::string chain() const { return pem_of(certificate.get()); }
	std::string secret() const { return pem_of(key.get()); }
};

inline void extend(X509 *certificate, X509 *issuer, int which, const std::string &value)
{
	X509V3_CTX context;

	if (value.empty())
		return;
	X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
	X509_EXTENSION *made = X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str());
	need(made && X509_add_ext(certificate, made, -1) == 1);
	X509_EXTENSION_free(made);
}

inline void add_raw_name(X509 *certificate, const std::string &name)
{
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *one = GENERAL_NAME_new();
	ASN1_IA5STRING *text = ASN1_IA5STRING_new();

	ASN1_STRING_set(text, name.data(), int(name.size()));
	GENERAL_NAME_set0_value(one, GEN_DNS, text);
	sk_GENERAL_NAME_push(names, one);
	need(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1);
	GENERAL_NAMES_free(names);
}

// A certificate that is signed by the issuer, or by itself if there is none.
inline Identity certify(const Terms &terms, const Identity *issuer)
{
	static long serial = 1000;
	Identity made;

	made.key.reset(EVP_EC_gen("P-256"));
	made.certificate.reset(X509_new());
	X509 *x = made.certificate.get();
	X509 *by = issuer ? issuer->certificate.get() : x;
	need(made.key && x);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), terms.from);
	X509_gmtime_adj(X509_getm_notAfter(x), terms.until);
	X509_set_pubkey(x, made.key.get());
	X509_NAME_add_entry_by_txt(
		X509_get_subject_name(x), "CN", MBSTRING_ASC,
		reinterpret_cast<const unsigned char *>(terms.common_name.c_str()), -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(by));
	extend(x, by, NID_basic_constraints,
	       terms.is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
	if (terms.is_authority)
		extend(x, by, NID_key_usage, "critical,keyCertSign,cRLSign");
	else
		extend(x, by, NID_ext_key_usage, terms.usage);
	extend(x, by, NID_tlsfeature, terms.must_staple ? "status_request" : "");
	extend(x, by, NID_subject_alt_name, terms.is_authority ? "" : terms.names);
	if (!terms.raw_name.empty())
		add_raw_name(x, terms.raw_name);
	need(X509_sign(x, issuer ? issuer->key.get() : made.key.get(), EVP_sha256()) > 0);
	return made;
}

class Authority
{
public:
	explicit Authority(const std::string &name = "a test's authority",
			   const Authority *above = nullptr)
	    : self_(certify({.is_authority = true, .common_name = name},
			    above ? &above->self_ : nullptr))
	{
	}

	std::string pem() const { return self_.chain(); }
	const Identity &self() const { return self_; }
	Identity sign(const Terms &terms) const { return certify(terms, &self_); }

	// A list that revokes these certificates, issued and renewed so many seconds from now.
	std::string revoke(const std::vector<const Identity *> &revoked, long issued = -60,
			   long next = 3600) const
	{
		std::unique_ptr<X509_CRL, Freer<X509_CRL_free>> list(X509_CRL_new());
		std::unique_ptr<ASN1_TIME, Freer<ASN1_TIME_free>> time(ASN1_TIME_new());
		X509_CRL *crl = list.get();

		X509_CRL_set_version(crl, 1);
		X509_CRL_set_issuer_name(crl, X509_get_subject_name(self_.certificate.get()));
		X509_gmtime_adj(time.get(), issued);
		X509_CRL_set1_lastUpdate(crl, time.get());
		for (const Identity *each : revoked) {
			X509_REVOKED *entry = X509_REVOKED_new();

			X509_REVOKED_set_serialNumber(
				entry, X509_get_serialNumber(each->certificate.get()));
			X509_REVOKED_set_revocationDate(entry, time.get());
			X509_CRL_add0_revoked(crl, entry);
		}
		X509_gmtime_adj(time.get(), next);
		X509_CRL_set1_nextUpdate(crl, time.get());
		X509_CRL_sort(crl);
		need(X509_CRL_sign(crl, self_.key.get(), EVP_sha256()) > 0);
		return test::pem([&](BIO *bio) { return PEM_write_bio_X509_CRL(bio, crl); });
	}

private:
	Identity self_;
};

} // namespace test

#endif
