// SPDX-License-Identifier: MIT
//
// Which of the ciphers and groups that a client offers a server chooses.
#include "pairs.h"

#include <openssl/ssl.h>

namespace
{

using namespace test;

SSL_CTX *context_of(sn_tls_config *config)
{
	return (SSL_CTX *)sn_tls_config_ssl_ctx(config);
}

TEST(TlsChoice, TheOrderOfCiphersIsTheServers)
{
	run_tls({2}, [] {
		for (const auto &[offered, chosen] :
		     {std::pair("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"
				"TLS_AES_128_GCM_SHA256",
				"TLS_AES_128_GCM_SHA256"),
		      std::pair("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256",
				"TLS_AES_256_GCM_SHA384"),
		      // The preference of a machine without instructions for AES.
		      std::pair("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
				"TLS_CHACHA20_POLY1305_SHA256")}) {
			Usual usual; // new each time, so that no session is resumed
			SSL_CTX *client = context_of(usual.client);

			ASSERT_EQ(1, SSL_CTX_set_ciphersuites(client, offered));
			TlsPair pair(usual.client, usual.server);
			pair.handshake();
			EXPECT_STREQ(chosen, test::info_of(pair.server).cipher) << offered;
		}
	});
}

TEST(TlsChoice, TheOrderOfCiphersIsTheServersInTls12)
{
	run_tls({2}, [] {
		for (const auto &[offered, chosen] :
		     {std::pair("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
				"ECDHE-ECDSA-AES128-GCM-SHA256"),
		      std::pair("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
				"ECDHE-ECDSA-CHACHA20-POLY1305")}) {
			Usual usual; // new each time, so that no session is resumed
			SSL_CTX *client = context_of(usual.client);

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, SN_TLS_DEFAULT,
								SN_TLS_1_2));
			ASSERT_EQ(1, SSL_CTX_set_cipher_list(client, offered));
			TlsPair pair(usual.client, usual.server);
			pair.handshake();
			EXPECT_STREQ(chosen, test::info_of(pair.server).cipher) << offered;
		}
	});
}

TEST(TlsChoice, GroupsAreThreeCurves)
{
	run_tls({2}, [] {
		for (const char *good : {"X25519", "P-256", "P-384", "P-521:P-384"}) {
			Usual usual;
			SSL_CTX *client = context_of(usual.client);

			ASSERT_EQ(1, SSL_CTX_set1_groups_list(client, good));
			TlsPair pair(usual.client, usual.server);
			pair.handshake();
			pair.ping();
		}
		for (const char *bad : {"P-521", "X448", "ffdhe2048", "ffdhe8192"}) {
			Usual usual;
			SSL_CTX *client = context_of(usual.client);

			ASSERT_EQ(1, SSL_CTX_set1_groups_list(client, bad));
			TlsPair pair(usual.client, usual.server);
			EXPECT_EQ(std::pair(-EPROTO, -EPROTO), pair.try_handshake()) << bad;
			EXPECT_STREQ("no suitable key share", sn_tls_error(pair.server)) << bad;
		}
	});
}

} // namespace
