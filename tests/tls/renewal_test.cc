// SPDX-License-Identifier: MIT
//
// A configuration that lives long: revocation lists that are renewed again and again.
#include <openssl/ssl.h>

#include "pairs.h"

namespace
{

using namespace test;

// How many lists of the issuer a verification looks at.
int lists_of(const Config &config, const Authority &issuer)
{
	X509_STORE *store =
		SSL_CTX_get_cert_store(static_cast<SSL_CTX *>(sn_tls_config_ssl_ctx(config)));
	X509_STORE_CTX *verification = X509_STORE_CTX_new();
	X509 *certificate = issuer.self().certificate.get();

	EXPECT_EQ(1, X509_STORE_CTX_init(verification, store, certificate, nullptr));
	STACK_OF(X509_CRL) *lists = X509_STORE_CTX_get_lookup_crls(verification)(
		verification, X509_get_subject_name(certificate));
	const int n = sk_X509_CRL_num(lists);
	sk_X509_CRL_pop_free(lists, X509_CRL_free);
	X509_STORE_CTX_free(verification);
	return n;
}

void add(const Config &config, const std::string &lists)
{
	EXPECT_EQ(0, sn_tls_config_add_crl(config, lists.c_str())) << sn_tls_last_error();
}

TEST(TlsRenewal, KeepsTheNewestListOfEachIssuer)
{
	run_tls({1}, [] {
		Authority authority, other("another authority");
		const Identity good = authority.sign({}), revoked = authority.sign({});
		Config client(SN_TLS_CLIENT), server(SN_TLS_SERVER);
		const auto shake_hands = [&](const Identity &shown) {
			server.show({&shown});
			TlsPair pair(client, server);
			return pair.try_handshake().first;
		};

		client.trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_resumption(client, 0));
		add(client, other.revoke({}) + authority.revoke({&good}, -1000));
		EXPECT_EQ(-EKEYREJECTED, shake_hands(good));
		// The one from before the first connection stays, and another one beside it.
		for (int i = 0; i < 200; i++)
			add(client, authority.revoke({&revoked}, -500 + i) + other.revoke({}));
		EXPECT_EQ(2, lists_of(client, authority));
		EXPECT_EQ(2, lists_of(client, other));
		EXPECT_EQ(0, shake_hands(good));
		EXPECT_EQ(-EKEYREJECTED, shake_hands(revoked));
		// One that is older than what is there changes nothing, unless it expires later.
		add(client, authority.revoke({&good}, -800, 3000));
		EXPECT_EQ(2, lists_of(client, authority));
		EXPECT_EQ(0, shake_hands(good));
		add(client, authority.revoke({&good}, -800, 7200));
		EXPECT_EQ(3, lists_of(client, authority));
		EXPECT_EQ(0, shake_hands(good));
		// Nor does one whose time has not come, and none is dropped for it.
		add(client, authority.revoke({&good}, 1000, 7200));
		EXPECT_EQ(4, lists_of(client, authority));
		EXPECT_EQ(0, shake_hands(good));
		EXPECT_EQ(-EKEYREJECTED, shake_hands(revoked));
		// The newest replaces those before, but not the one whose time will come.
		add(client, authority.revoke({&good}, -10, 7200));
		EXPECT_EQ(3, lists_of(client, authority));
		EXPECT_EQ(-EKEYREJECTED, shake_hands(good));
		EXPECT_EQ(0, shake_hands(revoked));
	});
}

} // namespace
