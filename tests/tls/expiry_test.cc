// SPDX-License-Identifier: MIT
//
// Sessions whose certificates expire before they are resumed. The test controls the clock: OpenSSL
// and the library call time(), which is defined here.
#include "pairs.h"

#include <atomic>
#include <ctime>

namespace
{

std::atomic<time_t> ahead{0};

} // namespace

extern "C" time_t time(time_t *into) noexcept
{
	timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += ahead.load();
	if (into)
		*into = now.tv_sec;
	return now.tv_sec;
}

namespace
{

using namespace test;

constexpr long ends = 600; // when the certificate ends, long before its session

// Returns whether a new connection was resumed; the client has a new ticket then.
bool is_resumed(sn_tls_config *client, sn_tls_config *server)
{
	TlsPair pair(client, server);

	pair.handshake();
	pair.ping();
	return test::info_of(pair.server).resumed;
}

TEST(TlsExpiry, AClientsSessionEndsWithItsCertificate)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			const Identity me = usual.authority.sign({.until = ends});

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, version, version));
			EXPECT_EQ(0, sn_tls_config_set_verify(usual.server, SN_TLS_VERIFY_REQUIRE));
			usual.server.trust(usual.authority.pem());
			usual.client.show({&me});
			ahead = 0;
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
			ahead = ends / 2;
			EXPECT_TRUE(is_resumed(usual.client, usual.server)) << "a new ticket";
			ahead = 2 * ends;
			TlsPair late(usual.client, usual.server);
			EXPECT_EQ(-EKEYREJECTED, late.try_handshake().second) << version;
			EXPECT_STREQ("the peer's certificate is refused: certificate has expired",
				     sn_tls_error(late.server));

			// A full handshake shows a new certificate.
			const Identity newer = usual.authority.sign({});
			usual.client.show({&newer});
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
			ahead = 0;
		}
	});
}

TEST(TlsExpiry, AServersSessionEndsWithItsCertificate)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			const Identity old = usual.authority.sign({.until = ends});

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, version, version));
			usual.server.show({&old});
			ahead = 0;
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
			ahead = 2 * ends;
			TlsPair late(usual.client, usual.server);
			EXPECT_EQ(-EKEYREJECTED, late.try_handshake().first) << version;
			usual.server.show({&usual.identity});
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			ahead = 0;
		}
	});
}

} // namespace
