// SPDX-License-Identifier: MIT
//
// Which of its certificates a server shows, and how much time the choice takes.
#include "pairs.h"

#include <algorithm>
#include <ctime>

namespace
{

using namespace test;

std::string shown_to(sn_stream *client)
{
	unsigned char der[4096];
	const unsigned char *at = der;
	const ssize_t size = sn_tls_peer_certificate(client, der, sizeof der);
	test::Certificate certificate(size > 0 ? d2i_X509(nullptr, &at, size) : nullptr);

	return certificate ? test::pem_of(certificate.get()) : "";
}

// The rule: the first certificate with exactly this name, otherwise the first one that fits it,
// otherwise the first.
std::string expected(const std::vector<Identity> &all, const std::string &name)
{
	for (const unsigned flags : {unsigned(X509_CHECK_FLAG_NO_WILDCARDS), 0u})
		for (const Identity &each : all)
			if (X509_check_host(each.certificate.get(), name.data(), name.size(), flags,
					    nullptr) == 1)
				return each.chain();
	return all[0].chain();
}

TEST(TlsCertificates, TheFirstThatFitsIsShown)
{
	run_tls({2}, [] {
		Authority authority;
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);
		std::vector<Identity> all;
		std::vector<const Identity *> list;

		for (const char *names :
		     {"DNS:first.test", "DNS:a.test,DNS:b.test", "DNS:*.c.test", "DNS:d.c.test",
		      "DNS:MiXed.Test", "DNS:f*o.g.test", "DNS:*.g.test", "DNS:a.test",
		      "DNS:*.test", "IP:127.0.0.1",
		      "DNS:xn--bcher-kva.test,DNS:*.xn--bcher-kva.test", "DNS:*.d.c.test",
		      "DNS:*.*.h.test", "DNS:h.*.test", "DNS:*,DNS:*.,DNS:."})
			all.push_back(authority.sign({.names = names}));
		for (const char *common : {"common.test", "*.common.test", "d.c.test"})
			all.push_back(authority.sign({.names = "", .common_name = common}));
		all.push_back(authority.sign({.names = "DNS:j.test", .common_name = "k.test"}));
		all.push_back(authority.sign(
			{.names = "", .raw_name = std::string("l.test\0m.test", 13)}));
		for (const Identity &each : all)
			list.push_back(&each);
		server.show(list);
		EXPECT_EQ(0, sn_tls_config_set_verify(client, SN_TLS_VERIFY_NONE));
		for (const std::string name : {"a.test",
					       "A.TEST",
					       "b.test",
					       "c.test",
					       "d.c.test",
					       "D.c.test",
					       "e.c.test",
					       "e.d.c.test",
					       "f.e.d.c.test",
					       "mixed.test",
					       "foo.g.test",
					       "fo.g.test",
					       "bar.g.test",
					       "n.test",
					       "xn--bcher-kva.test",
					       "x.xn--bcher-kva.test",
					       "xn--x.c.test",
					       "h.x.test",
					       "x.h.test",
					       "x.y.h.test",
					       "common.test",
					       "x.common.test",
					       "k.test",
					       "j.test",
					       "l.test",
					       "m.test",
					       "one"}) {
			TlsPair pair(client, server, name.c_str());

			pair.handshake();
			EXPECT_EQ(expected(all, name), shown_to(pair.client)) << name;
		}
	});
}

// The CPU time of both ends; the least of several, because other work may come in between.
int64_t handshake_time(const Config &client, const Config &server)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		TlsPair pair(client, server, "unknown.test");
		const int64_t before = cpu_ns();

		pair.handshake();
		least = std::min(least, cpu_ns() - before);
	}
	return least;
}

// Any client may send a name that fits no certificate.
TEST(TlsCertificates, ANameThatFitsNoneCostsTheSameAmongMany)
{
	run_tls({1}, [] {
		Authority authority;
		const Identity one = authority.sign({.names = "DNS:a.test,DNS:*.b.test"});
		const std::string chain = one.chain(), secret = one.secret();
		const std::vector<sn_tls_certificate> list(size_t(test::scaled(2000)),
							   {chain.c_str(), secret.c_str()});
		Config few(SN_TLS_SERVER), many(SN_TLS_SERVER), client(SN_TLS_CLIENT);

		EXPECT_EQ(0, sn_tls_config_set_verify(client, SN_TLS_VERIFY_NONE));
		few.show({&one, &one});
		ASSERT_EQ(0, sn_tls_config_set_certificates(many, list.data(), list.size()));
		const int64_t least = handshake_time(client, few);
		EXPECT_LT(handshake_time(client, many), 3 * least);
	});
}

} // namespace
