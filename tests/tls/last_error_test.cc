// SPDX-License-Identifier: MIT
//
// sn_tls_last_error() is about the last call that has failed, whatever the reason.
#include "pairs.h"

#include <sennit/scope.h>

namespace
{

using namespace test;

// What a call before has left.
const char *const Stale = "not a list of protocols";

// Makes a call that fails with this error, and expects that its text is not that of another one.
template <class F>
void expect_said(int64_t expected, F call)
{
	Config config(SN_TLS_CLIENT);

	EXPECT_EQ(-EINVAL, sn_tls_config_set_alpn(config, ","));
	ASSERT_STREQ(Stale, sn_tls_last_error());
	EXPECT_EQ(expected, call());
	EXPECT_STRNE(Stale, sn_tls_last_error()) << expected;
	EXPECT_STRNE("", sn_tls_last_error()) << expected;
}

TEST(TlsLastError, IsOfTheLastCall)
{
	run_tls({1}, [] {
		Usual usual;
		Listener listener;
		Pair plain(listener);
		sn_stream *stream = sn_tcp_stream(plain.client);
		TlsPair pair(usual.client, usual.server);
		char der[1];

		const auto handshake = [&](sn_stream *of) {
			return sn_tls_handshake(of, sn_now() + patience);
		};

		expect_said(-EPROTOTYPE, [&] { return handshake(stream); });
		expect_said(-EPROTOTYPE, [&] { return sn_tls_update_keys(stream); });
		expect_said(-EINVAL, [&] { return sn_tls_info(pair.client, nullptr); });
		expect_said(-ENOTCONN, [&] { return sn_tls_update_keys(pair.client); });
		{
			sn_scope *scope;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			sn_scope_cancel(scope);
			expect_said(-ECANCELED, [&] { return handshake(pair.client); });
			sn_scope_close(scope);
		}
		pair.handshake();
		expect_said(-ENOENT,
			    [&] { return sn_tls_peer_certificate(pair.server, der, sizeof der); });
		expect_said(-ENOSPC,
			    [&] { return sn_tls_peer_certificate(pair.client, der, sizeof der); });
		sn_tcp_close(plain.release_client());
		expect_said(-EBADF, [&] { return handshake(stream); });
		expect_said(-EBADF, [&] { return sn_tls_client(stream, usual.client, "a"); });
	});
}

TEST(TlsLastError, SaysThatTls12HasNoNewKeys)
{
	run_tls({1}, [] {
		Usual usual;

		ASSERT_EQ(0, sn_tls_config_set_versions(usual.client, SN_TLS_1_2, SN_TLS_1_2));
		TlsPair pair(usual.client, usual.server);
		pair.handshake();
		expect_said(-EOPNOTSUPP, [&] { return sn_tls_update_keys(pair.client); });
	});
}

TEST(TlsLastError, SaysThatTheCallerIsNoTask)
{
	expect_said(-ENOTSUP, [] { return sn_tls_handshake(nullptr, 0); });
	expect_said(-ENOTSUP, [] { return sn_tls_update_keys(nullptr); });
}

} // namespace
