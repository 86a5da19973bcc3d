// SPDX-License-Identifier: MIT
//
// OCSP responses: how a server sends and replaces them, and how a client judges them.
#include "pairs.h"

#include <ctime>

#include <openssl/ocsp.h>
#include <openssl/ssl.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/tls.hpp>

namespace
{
int comparisons;
}

// The library's calls of X509_cmp(), which are these, are counted.
extern "C" {
int __real_X509_cmp(const X509 *a, const X509 *b);
int __wrap_X509_cmp(const X509 *a, const X509 *b);
int __wrap_X509_cmp(const X509 *a, const X509 *b)
{
	comparisons++;
	return __real_X509_cmp(a, b);
}
}

namespace
{

using namespace test;

struct Answer {
	int status = V_OCSP_CERTSTATUS_GOOD;
	long from = -60, until = 3600; // seconds from now; until = 0: without an end
	const EVP_MD *hash = EVP_sha1();
	const Identity *signer = nullptr; // nullptr: the issuer
};

template <class T, auto Free>
using Owned = std::unique_ptr<T, test::Freer<Free>>;

std::string der_of(OCSP_RESPONSE *response)
{
	unsigned char *data = nullptr;
	const int size = i2d_OCSP_RESPONSE(response, &data);

	test::need(size > 0);
	std::string der(reinterpret_cast<char *>(data), size_t(size));
	OPENSSL_free(data);
	return der;
}

// The response of the authority's responder about a certificate.
std::string answer(const Authority &authority, const Identity &about, const Answer &with = {})
{
	Owned<OCSP_BASICRESP, OCSP_BASICRESP_free> basic(OCSP_BASICRESP_new());
	Owned<ASN1_TIME, ASN1_TIME_free> from(X509_gmtime_adj(nullptr, with.from));
	Owned<ASN1_TIME, ASN1_TIME_free> until(with.until ? X509_gmtime_adj(nullptr, with.until)
							  : nullptr);
	const Identity &signer = with.signer ? *with.signer : authority.self();
	OCSP_CERTID *id = OCSP_cert_to_id(with.hash, about.certificate.get(),
					  authority.self().certificate.get());

	test::need(OCSP_basic_add1_status(basic.get(), id, with.status, 0, from.get(), from.get(),
					  until.get()));
	OCSP_CERTID_free(id);
	test::need(OCSP_basic_sign(basic.get(), signer.certificate.get(), signer.key.get(),
				   EVP_sha256(), nullptr, 0) == 1);
	Owned<OCSP_RESPONSE, OCSP_RESPONSE_free> response(
		OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic.get()));
	return der_of(response.get());
}

std::string try_later()
{
	Owned<OCSP_RESPONSE, OCSP_RESPONSE_free> response(
		OCSP_response_create(OCSP_RESPONSE_STATUS_TRYLATER, nullptr));
	return der_of(response.get());
}

int set_response(sn_tls_config *server, const std::string &der)
{
	return sn_tls_config_set_ocsp_response(server, der.data(), der.size());
}

// Sends any bytes, including those that sn_tls_config_set_ocsp_response() would refuse.
int send_these(SSL *ssl, void *arg)
{
	const auto &der = *static_cast<const std::string *>(arg);

	if (der.empty())
		return SSL_TLSEXT_ERR_NOACK;
	SSL_set_tlsext_status_ocsp_resp(ssl, OPENSSL_memdup(der.data(), der.size()),
					long(der.size()));
	return SSL_TLSEXT_ERR_OK;
}

void send_always(sn_tls_config *server, const std::string &der)
{
	auto *ctx = static_cast<SSL_CTX *>(sn_tls_config_ssl_ctx(server));

	SSL_CTX_set_tlsext_status_cb(ctx, send_these);
	SSL_CTX_set_tlsext_status_arg(ctx, const_cast<std::string *>(&der));
}

struct Stapled {
	explicit Stapled(sn_tls_stapling how = SN_TLS_STAPLING_REQUIRE, test::Terms terms = {})
	    : identity(authority.sign(terms))
	{
		server.show({&identity});
		client.trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_stapling(client, how));
	}

	void expect_taken()
	{
		TlsPair pair(client, server);

		pair.handshake();
		pair.ping();
		EXPECT_EQ(X509_V_OK, test::info_of(pair.client).verify_result);
	}
	void expect_refused(const char *reason, long code)
	{
		TlsPair pair(client, server);
		const std::pair<int, int> results = pair.try_handshake();
		char c;

		EXPECT_EQ(-EKEYREJECTED, results.first) << reason;
		EXPECT_EQ(std::string("the peer's certificate is refused: ") + reason,
			  sn_tls_error(pair.client));
		EXPECT_STREQ(sn_tls_error(pair.client), sn_tls_last_error());
		EXPECT_EQ(code, test::info_of(pair.client).verify_result) << reason;
		EXPECT_EQ(0, test::info_of(pair.client).finished);
		EXPECT_EQ(-EKEYREJECTED, sn_stream_write(pair.client, "x", 1));
		EXPECT_EQ(-EKEYREJECTED, sn_stream_read(pair.client, &c, 1));
		// The server gets an alert.
		EXPECT_EQ(-EPROTO, results.second);
		EXPECT_STREQ("the peer has refused with an alert: bad certificate status response",
			     sn_tls_error(pair.server));
	}

	Authority authority;
	Identity identity;
	Config server{SN_TLS_SERVER}, client{SN_TLS_CLIENT};
};

TEST(TlsStaple, GoodResponsesAreTaken)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Stapled stapled;
			// The responder has the same name as the server.
			const Identity responder = stapled.authority.sign({.usage = "OCSPSigning"});

			EXPECT_EQ(0, sn_tls_config_set_versions(stapled.server, version, version));
			for (const Answer &with :
			     {Answer{}, Answer{.hash = EVP_sha256()}, Answer{.signer = &responder},
			      Answer{.until = 0}}) {
				ASSERT_EQ(0, set_response(stapled.server,
							  answer(stapled.authority,
								 stapled.identity, with)))
					<< sn_tls_last_error();
				// No session is resumed, so that each response is checked.
				Config client(SN_TLS_CLIENT);

				client.trust(stapled.authority.pem());
				EXPECT_EQ(0, sn_tls_config_set_stapling(client,
									SN_TLS_STAPLING_REQUIRE));
				TlsPair pair(client, stapled.server);
				pair.handshake();
				pair.ping();
				EXPECT_EQ(0, test::info_of(pair.client).resumed);
			}
		}
	});
}

TEST(TlsStaple, BadResponsesAreRefused)
{
	static const char signature[] =
		"the OCSP response is not signed for the certificate's issuer";
	static const char late[] = "the OCSP response has expired, or is not valid yet";
	static const char unusable[] = "the server has stapled no usable OCSP response";

	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			for (const sn_tls_stapling how :
			     {SN_TLS_STAPLING_REQUEST, SN_TLS_STAPLING_REQUIRE}) {
				Stapled stapled(how);
				Authority stranger("a stranger"), &authority = stapled.authority;
				const Identity &mine = stapled.identity;
				const Identity other = authority.sign({});
				const Identity false_responder =
					stranger.sign({.usage = "OCSPSigning"});
				std::string der;

				EXPECT_EQ(0, sn_tls_config_set_versions(stapled.server, version,
									version));
				send_always(stapled.server, der);
				auto refused = [&](std::string response, const char *reason,
						   long code = X509_V_ERR_OCSP_VERIFY_FAILED) {
					der = std::move(response);
					stapled.expect_refused(reason, code);
				};
				refused(answer(authority, mine,
					       {.status = V_OCSP_CERTSTATUS_REVOKED}),
					"certificate revoked, according to its OCSP response",
					X509_V_ERR_CERT_REVOKED);
				refused(answer(authority, mine,
					       {.status = V_OCSP_CERTSTATUS_UNKNOWN}),
					"certificate unknown to the OCSP responder",
					X509_V_ERR_OCSP_CERT_UNKNOWN);
				refused(answer(authority, mine, {.from = -7200, .until = -3600}),
					late);
				refused(answer(authority, mine, {.from = 3600, .until = 7200}),
					late);
				refused(answer(authority, mine, {.from = -49 * 3600, .until = 0}),
					late);
				refused(answer(authority, other),
					"the OCSP response is for another certificate");
				refused(answer(stranger, mine), signature);
				refused(answer(authority, mine, {.signer = &stranger.self()}),
					signature);
				refused(answer(authority, mine, {.signer = &false_responder}),
					signature);
				// Neither this certificate may sign responses, nor the server's
				// own.
				refused(answer(authority, mine, {.signer = &other}), signature);
				refused(answer(authority, mine, {.signer = &mine}), signature);
				refused(try_later(), unusable);
				refused("garbage", unusable);
				// The last byte of a response belongs to the signature, or to the
				// certificate in it.
				std::string forged = answer(authority, mine);
				forged[forged.find("\x18\x0f") + 2 + 3] ^= 1; // changes a time
				refused(forged, signature);
			}
		}
	});
}

TEST(TlsStaple, MissingResponses)
{
	static const char missing[] = "the server has stapled no OCSP response";

	run_tls({2}, [] {
		Stapled{SN_TLS_STAPLING_NONE}.expect_taken();
		Stapled{SN_TLS_STAPLING_REQUEST}.expect_taken();
		Stapled{SN_TLS_STAPLING_REQUIRE}.expect_refused(missing,
								X509_V_ERR_OCSP_VERIFY_NEEDED);
		// The certificate says that a response comes with it.
		Stapled{SN_TLS_STAPLING_NONE, {.must_staple = true}}.expect_taken();
		Stapled must(SN_TLS_STAPLING_REQUEST, {.must_staple = true});
		must.expect_refused(missing, X509_V_ERR_OCSP_VERIFY_NEEDED);
		ASSERT_EQ(0, set_response(must.server, answer(must.authority, must.identity)));
		must.expect_taken();
	});
}

TEST(TlsStaple, ClientThatDoesNotAskGetsNone)
{
	run_tls({2}, [] {
		Stapled stapled(SN_TLS_STAPLING_NONE);

		ASSERT_EQ(0, set_response(stapled.server,
					  answer(stapled.authority, stapled.identity,
						 {.status = V_OCSP_CERTSTATUS_REVOKED})));
		stapled.expect_taken();
	});
}

// An intermediate authority has issued the certificate and signs the response, and the client knows
// only the root.
TEST(TlsStaple, AuthoritiesInBetweenSign)
{
	run_tls({2}, [] {
		Authority root("the root"), between("in between", &root);
		const Identity leaf = between.sign({});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT), same(SN_TLS_CLIENT);
		const std::string chain = leaf.chain() + between.pem(), key = leaf.secret();
		const sn_tls_certificate one = {chain.c_str(), key.c_str()};

		for (sn_tls_config *each : {(sn_tls_config *)client, (sn_tls_config *)same}) {
			EXPECT_EQ(0, sn_tls_config_add_ca(each, root.pem().c_str()));
			EXPECT_EQ(0, sn_tls_config_set_stapling(each, SN_TLS_STAPLING_REQUIRE));
		}
		ASSERT_EQ(0, sn_tls_config_set_certificates(server, &one, 1));
		ASSERT_EQ(0, set_response(server, answer(between, leaf)));
		{
			TlsPair pair(client, server);
			pair.handshake();
		}
		// Not the root, because it has not issued the certificate.
		ASSERT_EQ(0, set_response(server, answer(between, leaf, {.signer = &root.self()})));
		TlsPair pair(same, server);
		EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
	});
}

TEST(TlsStaple, ResponsesAreReplacedAtAnyTime)
{
	run_tls({2}, [] {
		Stapled stapled;
		const std::string good = answer(stapled.authority, stapled.identity);
		const std::string revoked = answer(stapled.authority, stapled.identity,
						   {.status = V_OCSP_CERTSTATUS_REVOKED});
		const Identity next = stapled.authority.sign({});

		// With tickets, all connections after the first would be resumed.
		EXPECT_EQ(0, sn_tls_config_set_resumption(stapled.client, 0));
		ASSERT_EQ(0, set_response(stapled.server, good));
		TlsPair before(stapled.client, stapled.server);
		before.handshake();
		TlsPair begun(stapled.client, stapled.server); // ends with the first response
		ASSERT_EQ(0, set_response(stapled.server, revoked));
		begun.handshake();
		before.ping();
		stapled.expect_refused("certificate revoked, according to its OCSP response",
				       X509_V_ERR_CERT_REVOKED);
		ASSERT_EQ(0, set_response(stapled.server, good));
		stapled.expect_taken();
		// First the same certificate is loaded again, and then another one.
		stapled.server.show({&next, &stapled.identity});
		stapled.server.show({&stapled.identity});
		stapled.expect_taken();
		stapled.server.show({&next});
		stapled.expect_refused("the server has stapled no OCSP response",
				       X509_V_ERR_OCSP_VERIFY_NEEDED);
	});
}

TEST(TlsStaple, EachCertificateHasItsOwn)
{
	run_tls({2}, [] {
		Stapled stapled;
		const Identity second = stapled.authority.sign({.names = "DNS:second.test"});

		EXPECT_EQ(0, sn_tls_config_set_resumption(stapled.client, 0));
		stapled.server.show({&stapled.identity, &second});
		ASSERT_EQ(0, set_response(stapled.server, answer(stapled.authority, second)));
		{
			TlsPair pair(stapled.client, stapled.server, "second.test");
			pair.handshake();
		}
		stapled.expect_refused("the server has stapled no OCSP response",
				       X509_V_ERR_OCSP_VERIFY_NEEDED);
		ASSERT_EQ(0, set_response(stapled.server,
					  answer(stapled.authority, stapled.identity)));
		stapled.expect_taken();
		TlsPair pair(stapled.client, stapled.server, "second.test");
		pair.handshake();
	});
}

TEST(TlsStaple, ResumedSessionsAreNotCheckedAgain)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Stapled stapled;

			EXPECT_EQ(0, sn_tls_config_set_versions(stapled.server, version, version));
			ASSERT_EQ(0, set_response(stapled.server,
						  answer(stapled.authority, stapled.identity)));
			stapled.expect_taken();
			TlsPair again(stapled.client, stapled.server);
			again.handshake();
			EXPECT_EQ(1, test::info_of(again.client).resumed);
		}
	});
}

TEST(TlsStaple, ExpiredResponsesAreNotSent)
{
	run_tls({2}, [] {
		Stapled request(SN_TLS_STAPLING_REQUEST);
		time_t end;
		int err;

		do { // repeated, because a slow machine may be too late
			end = time(nullptr) + 2;
			err = set_response(request.server, answer(request.authority,
								  request.identity, {.until = 2}));
		} while (err == -ESTALE);
		ASSERT_EQ(0, err);
		// the response may have been made up to that much later
		while (time(nullptr) <= end + 2)
			sn_sleep(100000000);
		request.expect_taken();
		Config strict(SN_TLS_CLIENT);
		strict.trust(request.authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_stapling(strict, SN_TLS_STAPLING_REQUIRE));
		TlsPair pair(strict, request.server);
		EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
		EXPECT_STREQ("the peer's certificate is refused: the server has stapled no OCSP "
			     "response",
			     sn_tls_error(pair.client));
	});
}

TEST(TlsStaple, UnusableResponsesAreNotSet)
{
	run_tls({2}, [] {
		Stapled stapled;
		const std::string good = answer(stapled.authority, stapled.identity);
		const Identity other = stapled.authority.sign({});
		Config empty(SN_TLS_SERVER);

		ASSERT_EQ(0, set_response(stapled.server, good));
		EXPECT_EQ(-EBADMSG, set_response(stapled.server, "garbage"));
		EXPECT_STREQ("not an OCSP response in DER", sn_tls_last_error());
		EXPECT_EQ(-EBADMSG, set_response(stapled.server, good + "x"));
		EXPECT_EQ(-EBADMSG, set_response(stapled.server, good.substr(0, good.size() - 1)));
		EXPECT_EQ(-EBADMSG, set_response(stapled.server, try_later()));
		EXPECT_STREQ("the OCSP responder has answered with an error: trylater",
			     sn_tls_last_error());
		EXPECT_EQ(-ENOENT, set_response(stapled.server, answer(stapled.authority, other)));
		EXPECT_STREQ("the OCSP response is for none of the certificates",
			     sn_tls_last_error());
		EXPECT_EQ(-ENOENT, set_response(empty, good));
		EXPECT_EQ(-ESTALE,
			  set_response(stapled.server, answer(stapled.authority, stapled.identity,
							      {.from = -7200, .until = -3600})));
		EXPECT_STREQ("the OCSP response has expired", sn_tls_last_error());
		EXPECT_EQ(-EINVAL, set_response(stapled.client, good));
		EXPECT_EQ(-EINVAL, set_response(nullptr, good));
		EXPECT_EQ(-EINVAL, set_response(stapled.server, ""));
		EXPECT_EQ(-EINVAL, set_response(stapled.server, std::string(100000, 'x')));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_ocsp_response(stapled.server, nullptr, 1));
		stapled.expect_taken(); // with the first response
	});
}

TEST(TlsStaple, StaplingIsSetForClientsThatVerify)
{
	run_tls({2}, [] {
		Stapled used;
		Config careless(SN_TLS_CLIENT);
		const auto wrong = static_cast<sn_tls_stapling>(3);

		EXPECT_EQ(-EINVAL, sn_tls_config_set_stapling(nullptr, SN_TLS_STAPLING_REQUIRE));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_stapling(careless, wrong));
		EXPECT_EQ(-EINVAL,
			  sn_tls_config_set_stapling(used.server, SN_TLS_STAPLING_REQUIRE));
		EXPECT_EQ(0, sn_tls_config_set_stapling(careless, SN_TLS_STAPLING_REQUIRE));
		EXPECT_EQ(0, sn_tls_config_set_verify(careless, SN_TLS_VERIFY_NONE));
		test::Pair pair;
		EXPECT_EQ(-EINVAL,
			  sn_tls_client(sn_tcp_stream(pair.client.load()), careless, "localhost"));
		ASSERT_EQ(0, set_response(used.server, answer(used.authority, used.identity)));
		used.expect_taken();
		EXPECT_EQ(-EBUSY, sn_tls_config_set_stapling(used.client, SN_TLS_STAPLING_NONE));
	});
}

TEST(TlsStaple, Cpp)
{
	run_tls({1}, [] {
		Authority authority;
		const Identity identity = authority.sign({});
		const std::string der = answer(authority, identity);
		sn::tls_config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

		EXPECT_TRUE(server.certificate(identity.chain(), identity.secret()));
		EXPECT_TRUE(server.ocsp_response(std::as_bytes(std::span(der))));
		EXPECT_EQ(std::errc::invalid_argument, server.ocsp_response({}).error());
		EXPECT_TRUE(client.stapling(SN_TLS_STAPLING_REQUIRE));
		EXPECT_EQ(std::errc::invalid_argument,
			  server.stapling(SN_TLS_STAPLING_REQUIRE).error());
		EXPECT_TRUE(client.add_ca(authority.pem()));
		TlsPair pair(client.get(), server.get());
		pair.handshake();
	});
}

// Twice as many certificates take little more than twice the time.
TEST(TlsStaple, KeepingManyTakesFewComparisons)
{
	constexpr int Many = 100;
	Authority authority;
	Config server(SN_TLS_SERVER);
	std::vector<Identity> all;
	std::vector<const Identity *> list;

	for (int i = 0; i < Many; i++)
		all.push_back(authority.sign({}));
	for (const Identity &each : all)
		list.push_back(&each);
	server.show(list);
	for (const Identity &each : all)
		EXPECT_EQ(0, set_response(server, answer(authority, each)));
	comparisons = 0;
	server.show(list);
	EXPECT_GT(Many * 20, comparisons) << "100 * 101 / 2, if each is compared with each";
}

} // namespace
