// SPDX-License-Identifier: MIT
//
// Which certificates are refused, on either side, and what the reason says.
#include "pairs.h"

#include <cstring>

#include <openssl/x509_vfy.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/tls.hpp>

namespace
{

using namespace test;

// A client that trusts the authority refuses the server's certificate for this reason.
void expect_refused(const Authority &trusted, const Identity &shown, const char *name,
		    const char *reason, long code, const std::string &crl = "")
{
	Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

	server.show({&shown});
	client.trust(trusted.pem());
	if (!crl.empty()) {
		ASSERT_EQ(0, sn_tls_config_add_crl(client, crl.c_str())) << sn_tls_last_error();
	}
	TlsPair pair(client, server, name);
	const std::pair<int, int> results = pair.try_handshake();
	EXPECT_EQ(-EKEYREJECTED, results.first) << reason;
	EXPECT_EQ(std::string("the peer's certificate is refused: ") + reason,
		  sn_tls_error(pair.client));
	EXPECT_STREQ(sn_tls_error(pair.client), sn_tls_last_error());
	EXPECT_EQ(code, test::info_of(pair.client).verify_result);
	EXPECT_EQ(0, test::info_of(pair.client).finished);
	// The server gets an alert.
	EXPECT_EQ(-EPROTO, results.second);
	EXPECT_EQ(
		0u,
		std::string(sn_tls_error(pair.server)).find("the peer has refused with an alert: "))
		<< sn_tls_error(pair.server);
	EXPECT_EQ(-EKEYREJECTED, sn_stream_write(pair.client, "x", 1));
}

TEST(TlsVerify, BadCertificatesOfServersAreRefused)
{
	run_tls({2}, [] {
		Authority authority, stranger("a stranger");
		const Identity good = authority.sign({});
		const Identity self_signed = test::certify({}, nullptr);

		expect_refused(authority, authority.sign({.from = -7200, .until = -3600}),
			       "localhost", "certificate has expired", X509_V_ERR_CERT_HAS_EXPIRED);
		expect_refused(authority, authority.sign({.from = 3600, .until = 7200}),
			       "localhost", "certificate is not yet valid",
			       X509_V_ERR_CERT_NOT_YET_VALID);
		expect_refused(authority, good, "example.org", "hostname mismatch",
			       X509_V_ERR_HOSTNAME_MISMATCH);
		expect_refused(authority, good, "127.0.0.2", "IP address mismatch",
			       X509_V_ERR_IP_ADDRESS_MISMATCH);
		expect_refused(authority, self_signed, "localhost", "self-signed certificate",
			       X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
		expect_refused(authority, stranger.sign({}), "localhost",
			       "unable to get local issuer certificate",
			       X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
		expect_refused(authority, authority.sign({.usage = "clientAuth"}), "localhost",
			       "unsuitable certificate purpose", X509_V_ERR_INVALID_PURPOSE);
		expect_refused(authority, good, "localhost", "certificate revoked",
			       X509_V_ERR_CERT_REVOKED, authority.revoke({&good}));
		expect_refused(authority, good, "localhost", "unable to get certificate CRL",
			       X509_V_ERR_UNABLE_TO_GET_CRL, stranger.revoke({}));
	});
}

TEST(TlsVerify, GoodCertificatesOfServersAreTaken)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity good = authority.sign({}), other = authority.sign({});
		const Identity wild = authority.sign({.names = "DNS:*.example.org"});
		auto take = [&](const Identity &shown, const char *name, const std::string &crl) {
			Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

			server.show({&shown});
			client.trust(authority.pem());
			if (!crl.empty()) {
				EXPECT_EQ(0, sn_tls_config_add_crl(client, crl.c_str()));
			}
			TlsPair pair(client, server, name);
			pair.handshake();
			pair.ping();
			EXPECT_EQ(X509_V_OK, test::info_of(pair.client).verify_result);
			EXPECT_STRNE("localhost.", test::info_of(pair.server).server_name);
		};

		take(good, "localhost", "");
		take(good, "localhost.", ""); // as for a lookup that tries no suffixes
		take(good, "127.0.0.1", "");
		take(good, "localhost", authority.revoke({&other}));
		take(wild, "www.example.org", "");
	});
}

TEST(TlsVerify, NamesThatAreNoneAreRefused)
{
	run_tls({2}, [] {
		Authority authority;
		Config client(SN_TLS_CLIENT);
		auto ends = test::Ends::tcp();
		sn_stream *made;

		client.trust(authority.pem());
		for (const char *bad : {".", ".com", ".localhost", "..", "localhost..", ".com."}) {
			EXPECT_EQ(-EINVAL, sn_tls_client(ends->from(), client, bad)) << bad;
			EXPECT_STREQ("a server's name cannot begin with a dot or end with two",
				     sn_tls_last_error());
		}
		for (const char *bad : {"localhost", ":443", "[]:443", "[::1]443", "::1:443",
					"unix:/run/none.sock", "unix:@none", "unix:./none"})
			EXPECT_EQ(-EINVAL, sn_tls_connect(&made, bad, client, SN_NO_DEADLINE))
				<< bad;
		EXPECT_STREQ("the address is a path, so there is no name to verify the server by",
			     sn_tls_last_error());
		EXPECT_EQ(0, sn_tls_client(ends->from(), client, "localhost"));
	});
}

TEST(TlsVerify, StringsOfCxxAreNotCut)
{
	run_tls({2}, [] {
		Authority authority;
		sn::tls_config client(SN_TLS_CLIENT);
		test::Pair pair;
		sn::stream stream(sn_tcp_stream(pair.release_client()));
		const std::string cut("localhost\0.example.org", 22), zero(1, '\0');
		const auto refused = std::errc::invalid_argument;

		EXPECT_EQ(refused, client.add_ca(authority.pem() + zero).error());
		EXPECT_EQ(refused, client.add_crl(authority.revoke({}) + zero).error());
		EXPECT_EQ(refused, client.alpn("h2" + zero).error());
		EXPECT_EQ(refused, client.certificate(authority.pem() + zero, "").error());
		EXPECT_EQ(refused, sn::tls_connect(cut + ":1", client).error());
		EXPECT_EQ(refused, sn::tls_client(stream, client, cut).error());
		EXPECT_TRUE(sn::tls_client(stream, client, "localhost"));
	});
}

// Forms of an address that a connection accepts, but that certificates do not use.
TEST(TlsVerify, AddressesAreComparedAsNumbers)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity good = authority.sign({.names = "IP:127.0.0.1,IP:fe80::1"});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

		server.show({&good});
		client.trust(authority.pem());
		for (const char *name :
		     {"127.0.0.1", "127.1", "fe80::1", "fe80:0::1", "fe80::1%lo"}) {
			TlsPair pair(client, server, name);
			pair.handshake();
			EXPECT_STREQ("", test::info_of(pair.server).server_name) << name;
		}
		TlsPair pair(client, server, "127.2");
		EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
	});
}

// Mistakes that implementations of TLS have made.
TEST(TlsVerify, NamesOfCertificatesMeanNoMoreThanTheySay)
{
	run_tls({2}, [] {
		Authority authority;
		auto refuse = [&](const Terms &terms, const char *name) {
			expect_refused(authority, authority.sign(terms), name,
				       strchr("0123456789", *name) ? "IP address mismatch"
								   : "hostname mismatch",
				       strchr("0123456789", *name) ? X509_V_ERR_IP_ADDRESS_MISMATCH
								   : X509_V_ERR_HOSTNAME_MISMATCH);
		};

		// A wildcard stands for one whole label, the first.
		refuse({.names = "DNS:*.example.org"}, "example.org");
		refuse({.names = "DNS:*.example.org"}, "a.b.example.org");
		refuse({.names = "DNS:w*.example.org"}, "www.example.org");
		refuse({.names = "DNS:www.*.org"}, "www.example.org");
		refuse({.names = "DNS:*.org"}, "example.org");
		refuse({.names = "DNS:*"}, "localhost");
		refuse({.names = "DNS:.example.org"}, "www.example.org");
		refuse({.names = "DNS:*.0.0.1"}, "127.0.0.1");
		// A DNS name is not an address, and the subject does not count if there are other
		// names.
		refuse({.names = "DNS:127.0.0.1"}, "127.0.0.1");
		refuse({.names = "DNS:localhost", .common_name = "example.org"}, "example.org");
		refuse({.names = "DNS:localhost", .common_name = "127.0.0.1"}, "127.0.0.1");
		refuse({.names = "email:a@example.org,URI:https://example.org"}, "example.org");
		// A zero byte does not end a name (CVE-2009-2408).
		refuse({.names = "", .raw_name = std::string("localhost\0.example.org", 22)},
		       "localhost");
	});
}

// A certificate that does not belong to an authority signs another one (CVE-2015-1793,
// CVE-2021-3450).
TEST(TlsVerify, OnlyAuthoritiesSign)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity leaf = authority.sign({.common_name = "no authority"});
		const Identity made = test::certify({}, &leaf);
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);
		const std::string chain = made.chain() + leaf.chain(), key = made.secret();
		const sn_tls_certificate one = {chain.c_str(), key.c_str()};

		client.trust(authority.pem());
		ASSERT_EQ(0, sn_tls_config_set_certificates(server, &one, 1));
		TlsPair pair(client, server);
		EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
		EXPECT_STREQ("the peer's certificate is refused: invalid CA certificate",
			     sn_tls_error(pair.client));
	});
}

// The chain has an authority that the client does not know, between the certificate and the root
// that it does know.
TEST(TlsVerify, ChainsAreShown)
{
	run_tls({2}, [] {
		Authority root("the root"), between("in between", &root);
		const Identity leaf = between.sign({});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);
		const std::string chain = leaf.chain() + between.pem(), key = leaf.secret();
		const sn_tls_certificate one = {chain.c_str(), key.c_str()};

		client.trust(root.pem());
		ASSERT_EQ(0, sn_tls_config_set_certificates(server, &one, 1));
		TlsPair pair(client, server);
		pair.handshake();
		server.show({&leaf}); // without the intermediate certificate
		TlsPair second(client, server);
		EXPECT_EQ(-EKEYREJECTED, second.try_handshake().first);
	});
}

TEST(TlsVerify, WithoutVerificationAnyoneIsTaken)
{
	run_tls({2}, [] {
		const Identity self_signed = test::certify({}, nullptr);
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

		server.show({&self_signed});
		EXPECT_EQ(0, sn_tls_config_set_verify(client, SN_TLS_VERIFY_NONE));
		TlsPair pair(client, server, nullptr);
		pair.handshake();
		pair.ping();
		EXPECT_NE(X509_V_OK, test::info_of(pair.client).verify_result);
	});
}

// The system's authorities do not include the test's.
TEST(TlsVerify, SystemIsTrustedOnlyWithoutAuthoritiesOfOnesOwn)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity good = authority.sign({});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT), both(SN_TLS_CLIENT);

		server.show({&good});
		{
			TlsPair pair(client, server);
			EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
		}
		both.trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_add_system_ca(both));
		TlsPair pair(both, server);
		pair.handshake();
	});
}

// ---- clients' certificates ----

struct Mutual {
	explicit Mutual(sn_tls_verify verify)
	{
		server.show({&identity}).trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_verify(server, verify));
		client.trust(authority.pem());
	}

	Authority authority;
	Identity identity = authority.sign({});
	Config server{SN_TLS_SERVER}, client{SN_TLS_CLIENT};
};

TEST(TlsVerify, ServerRequiresAClientsCertificate)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Mutual mutual(SN_TLS_VERIFY_REQUIRE);
			char c;

			EXPECT_EQ(0, sn_tls_config_set_versions(mutual.server, version, version));
			TlsPair none(mutual.client, mutual.server);
			const std::pair<int, int> results = none.try_handshake();
			EXPECT_EQ(-EPROTO, results.second);
			EXPECT_STREQ("peer did not return a certificate",
				     sn_tls_error(none.server));
			// In TLS 1.3 the client learns of the refusal by its first read.
			EXPECT_EQ(version == SN_TLS_1_3 ? 0 : -EPROTO, results.first);
			EXPECT_EQ(-EPROTO, sn_stream_read(none.client, &c, 1));
			EXPECT_EQ(0u, std::string(sn_tls_error(none.client))
					      .find("the peer has refused with an alert: "));

			mutual.client.show({&mutual.identity});
			TlsPair pair(mutual.client, mutual.server);
			pair.handshake();
			pair.ping();
			char der[4096];
			const ssize_t size = sn_tls_peer_certificate(pair.server, der, sizeof der);
			EXPECT_EQ(i2d_X509(mutual.identity.certificate.get(), nullptr), size);
			EXPECT_EQ(-ENOSPC, sn_tls_peer_certificate(pair.server, der, 10));
		}
	});
}

// A server refuses the client's certificate for this reason, and the client learns the alert.
void expect_client_refused(Mutual &mutual, const Identity &shown, const char *reason, long code,
			   const char *alert)
{
	char c;

	mutual.client.show({&shown});
	TlsPair pair(mutual.client, mutual.server);
	EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().second) << reason;
	EXPECT_EQ(std::string("the peer's certificate is refused: ") + reason,
		  sn_tls_error(pair.server));
	EXPECT_EQ(code, test::info_of(pair.server).verify_result);
	EXPECT_EQ(-EKEYREJECTED, sn_stream_read(pair.server, &c, 1));
	EXPECT_EQ(-EPROTO, sn_stream_read(pair.client, &c, 1));
	EXPECT_EQ(std::string("the peer has refused with an alert: ") + alert,
		  sn_tls_error(pair.client));
}

TEST(TlsVerify, BadCertificatesOfClientsAreRefused)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Mutual mutual(SN_TLS_VERIFY_REQUIRE), lists(SN_TLS_VERIFY_REQUIRE);
			const Authority stranger("a stranger");
			const auto sign = [&](const Terms &terms) {
				return mutual.authority.sign(terms);
			};

			EXPECT_EQ(0, sn_tls_config_set_versions(mutual.server, version, version));
			EXPECT_EQ(0, sn_tls_config_set_versions(lists.server, version, version));
			expect_client_refused(mutual, sign({.from = -7200, .until = -3600}),
					      "certificate has expired",
					      X509_V_ERR_CERT_HAS_EXPIRED, "certificate expired");
			expect_client_refused(mutual, sign({.from = 3600, .until = 7200}),
					      "certificate is not yet valid",
					      X509_V_ERR_CERT_NOT_YET_VALID, "bad certificate");
			expect_client_refused(mutual, test::certify({}, nullptr),
					      "self-signed certificate",
					      X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "unknown CA");
			expect_client_refused(
				mutual, stranger.sign({}), "unable to get local issuer certificate",
				X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "unknown CA");
			expect_client_refused(mutual, sign({.usage = "serverAuth"}),
					      "unsuitable certificate purpose",
					      X509_V_ERR_INVALID_PURPOSE,
					      "unsupported certificate");

			const Identity revoked = lists.authority.sign({});
			const std::string list = lists.authority.revoke({&revoked});
			EXPECT_EQ(0, sn_tls_config_add_crl(lists.server, list.c_str()));
			expect_client_refused(lists, revoked, "certificate revoked",
					      X509_V_ERR_CERT_REVOKED, "certificate revoked");
			lists.client.show({&lists.identity});
			TlsPair good(lists.client, lists.server);
			good.handshake();
			good.ping();
		}
	});
}

TEST(TlsVerify, RequestedCertificateMayBeMissingButNotBad)
{
	run_tls({2}, [] {
		Mutual mutual(SN_TLS_VERIFY_REQUEST);
		const Identity self_signed = test::certify({}, nullptr);
		const Identity wrong_use = mutual.authority.sign({.usage = "serverAuth"});

		{
			TlsPair none(mutual.client, mutual.server);
			none.handshake();
			EXPECT_EQ(-ENOENT, sn_tls_peer_certificate(none.server, nullptr, 0));
		}
		for (const Identity *bad : {&self_signed, &wrong_use}) {
			mutual.client.show({bad});
			TlsPair pair(mutual.client, mutual.server);
			EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().second);
		}
	});
}

// The system's authorities certify anyone, so they cannot verify clients.
TEST(TlsVerify, AServerThatVerifiesNeedsAuthorities)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity identity = authority.sign({});

		for (const sn_tls_verify how : {SN_TLS_VERIFY_REQUEST, SN_TLS_VERIFY_REQUIRE}) {
			Config none(SN_TLS_SERVER), system(SN_TLS_SERVER);
			auto ends = test::Ends::tcp();

			none.show({&identity});
			system.show({&identity});
			EXPECT_EQ(0, sn_tls_config_set_verify(none, how));
			EXPECT_EQ(-EINVAL, sn_tls_server(ends->from(), none));
			EXPECT_STREQ("clients are verified, but no authority is trusted",
				     sn_tls_last_error());
			none.trust(authority.pem()); // the configuration has not been used yet
			EXPECT_EQ(0, sn_tls_server(ends->from(), none));
			EXPECT_EQ(0, sn_tls_config_set_verify(system, how));
			EXPECT_EQ(0, sn_tls_config_add_system_ca(system));
			EXPECT_EQ(0, sn_tls_server(ends->to(), system));
		}
	});
}

// ---- revocation lists ----

// Otherwise the list would be accepted and have no effect.
TEST(TlsVerify, TheFirstRevocationListComesBeforeTheFirstConnection)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity good = authority.sign({}), other = authority.sign({});
		const std::string list = authority.revoke({&other}),

				  newer = authority.revoke({&good}, -30);
		Config server(SN_TLS_SERVER), late(SN_TLS_CLIENT), early(SN_TLS_CLIENT);

		server.show({&good});
		late.trust(authority.pem());
		{
			TlsPair pair(late, server);
			pair.handshake();
		}
		EXPECT_EQ(-EBUSY, sn_tls_config_add_crl(late, list.c_str()));
		EXPECT_STREQ("the configuration is in use, without revocation lists",
			     sn_tls_last_error());

		early.trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_resumption(early, 0));
		EXPECT_EQ(0, sn_tls_config_add_crl(early, list.c_str()));
		{
			TlsPair pair(early, server);
			pair.handshake();
		}
		EXPECT_EQ(0, sn_tls_config_add_crl(early, newer.c_str()));
		TlsPair pair(early, server);
		EXPECT_EQ(-EKEYREJECTED, pair.try_handshake().first);
	});
}

// Either may come first: a list that was accepted takes effect.
TEST(TlsVerify, TheFirstRevocationListRacesTheFirstConnection)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity good = authority.sign({});
		const std::string list = authority.revoke({&good});
		Config server(SN_TLS_SERVER);

		server.show({&good});
		for (int i = 0; i < test::scaled(40); i++) {
			Config client(SN_TLS_CLIENT);
			auto first = test::Ends::tcp();
			std::atomic<int> ready{0};
			int added = 1;
			auto together = [&] {
				ready++;
				while (ready < 2)
					sn_yield();
			};

			client.trust(authority.pem());
			test::Task adder([&] {
				together();
				added = sn_tls_config_add_crl(client, list.c_str());
			});
			together();
			EXPECT_EQ(0, sn_tls_client(first->from(), client, "localhost"));
			adder.join();
			EXPECT_TRUE(added == 0 || added == -EBUSY) << added;
			TlsPair pair(client, server);
			EXPECT_EQ(added == 0 ? -EKEYREJECTED : 0, pair.try_handshake().first);
		}
	});
}

// ---- what is no certificate ----

TEST(TlsVerify, UnusableFilesAreRefusedWithAReason)
{
	const Identity one = test::certify({}, nullptr), other = test::certify({}, nullptr);
	Config config(SN_TLS_SERVER);
	const std::string chain = one.chain(), key = one.secret(), wrong = other.secret();
	auto set = [&](const char *a, const char *b) {
		const sn_tls_certificate list = {a, b};

		return sn_tls_config_set_certificates(config, &list, 1);
	};

	EXPECT_EQ(-ENOENT, set("/nonexistent/cert.pem", key.c_str()));
	EXPECT_STREQ("/nonexistent/cert.pem: No such file or directory", sn_tls_last_error());
	EXPECT_EQ(-EBADMSG, set("/dev/null", key.c_str()));
	EXPECT_EQ(-EBADMSG, set(key.c_str(), key.c_str()));
	EXPECT_EQ(-EBADMSG, set(chain.c_str(), wrong.c_str()));
	EXPECT_EQ(0u, std::string(sn_tls_last_error())
			      .find("the key does not belong to the certificate"));
	EXPECT_EQ(-EBADMSG, set(chain.c_str(), chain.c_str()));
	EXPECT_EQ(-EINVAL, set(nullptr, nullptr));
	EXPECT_EQ(-EINVAL, sn_tls_config_set_certificates(config, nullptr, 0));
	EXPECT_EQ(0, set(chain.c_str(), key.c_str()));
	EXPECT_EQ(-ENOENT, sn_tls_config_add_ca(config, "/nonexistent/ca.pem"));
	EXPECT_EQ(-EBADMSG, sn_tls_config_add_ca(config, "/dev/null"));
	EXPECT_EQ(-EBADMSG, sn_tls_config_add_crl(config, chain.c_str()));
	EXPECT_EQ(0, sn_tls_config_add_ca(config, "/"));
}

} // namespace
