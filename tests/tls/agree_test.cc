// SPDX-License-Identifier: MIT
//
// What two ends agree on: versions, protocols, the certificate for a name, sessions to resume; and
// the replacement of certificates while connections are made.
#include "peer.h"

#include <array>
#include <fstream>
#include <memory>
#include <sstream>

#include <openssl/ssl.h>

namespace
{

using namespace test;

TEST(TlsAgree, Versions)
{
	run_tls({2}, [] {
		Usual usual;

		EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, SN_TLS_1_2, SN_TLS_1_2));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_versions(usual.client, sn_tls_version(0x0301),
							      SN_TLS_DEFAULT));
		EXPECT_EQ(-EINVAL,
			  sn_tls_config_set_versions(usual.client, SN_TLS_1_3, SN_TLS_1_2));
		{
			TlsPair pair(usual.client, usual.server);
			pair.handshake();
			pair.ping();
			EXPECT_EQ(SN_TLS_1_2, test::info_of(pair.client).version);
			EXPECT_EQ(-EOPNOTSUPP, sn_tls_update_keys(pair.client));
		}
		Config newest(SN_TLS_CLIENT);
		newest.trust(usual.authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_versions(newest, SN_TLS_1_3, SN_TLS_DEFAULT));
		TlsPair pair(newest, usual.server);
		EXPECT_EQ(std::pair(-EPROTO, -EPROTO), pair.try_handshake());
		EXPECT_STREQ("unsupported protocol", sn_tls_error(pair.server));
		EXPECT_STREQ("the peer has refused with an alert: protocol version",
			     sn_tls_error(pair.client));
	});
}

TEST(TlsAgree, WithoutACipherInCommonThereIsNoConnection)
{
	run_tls({2}, [] {
		Usual usual;

		for (sn_tls_config *config :
		     {(sn_tls_config *)usual.server, (sn_tls_config *)usual.client})
			EXPECT_EQ(0,
				  sn_tls_config_set_versions(config, SN_TLS_DEFAULT, SN_TLS_1_2));
		SSL_CTX_set_cipher_list((SSL_CTX *)sn_tls_config_ssl_ctx(usual.server),
					"ECDHE-ECDSA-AES128-GCM-SHA256");
		SSL_CTX_set_cipher_list((SSL_CTX *)sn_tls_config_ssl_ctx(usual.client),
					"ECDHE-ECDSA-AES256-GCM-SHA384");
		TlsPair pair(usual.client, usual.server);
		EXPECT_EQ(std::pair(-EPROTO, -EPROTO), pair.try_handshake());
		EXPECT_STREQ("no shared cipher", sn_tls_error(pair.server));
	});
}

TEST(TlsAgree, ServersTakeNoCiphersOfTheOldKinds)
{
	run_tls({2}, [] {
		for (const char *ciphers : {"ECDHE+AES+SHA1", "ECDHE+SHA256"}) {
			Usual usual;
			auto *client = (SSL_CTX *)sn_tls_config_ssl_ctx(usual.client);

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, SN_TLS_DEFAULT,
								SN_TLS_1_2));
			EXPECT_EQ(1, SSL_CTX_set_cipher_list(client, ciphers));
			TlsPair pair(usual.client, usual.server);
			EXPECT_EQ(std::pair(-EPROTO, -EPROTO), pair.try_handshake()) << ciphers;
		}
	});
}

TEST(TlsAgree, Protocols)
{
	run_tls({2}, [] {
		Usual usual;
		Config http(SN_TLS_CLIENT), other(SN_TLS_CLIENT);

		for (const char *bad : {"", ",", "a,", "a,,b"})
			EXPECT_EQ(-EINVAL, sn_tls_config_set_alpn(usual.server, bad)) << bad;
		EXPECT_EQ(0, sn_tls_config_set_alpn(usual.server, "h2,http/1.1"));
		http.trust(usual.authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_alpn(http, "http/1.1,h2"));
		other.trust(usual.authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_alpn(other, "imap"));
		{
			TlsPair pair(http, usual.server);
			pair.handshake();
			EXPECT_STREQ("h2", test::info_of(pair.client).alpn); // the server's choice
			EXPECT_STREQ("h2", test::info_of(pair.server).alpn);
		}
		{
			TlsPair pair(usual.client, usual.server);
			pair.handshake();
			EXPECT_STREQ("", test::info_of(pair.client).alpn);
		}
		TlsPair pair(other, usual.server);
		EXPECT_EQ(std::pair(-EPROTO, -EPROTO), pair.try_handshake());
		EXPECT_STREQ("no application protocol", sn_tls_error(pair.server));
		EXPECT_STREQ("the peer has refused with an alert: no application protocol",
			     sn_tls_error(pair.client));
	});
}

TEST(TlsAgree, PlainTextIsNoTls)
{
	run_tls({2}, [] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

		EXPECT_EQ(ssize_t(request.size()), send(sn_stream_fd(pair.client), request.data(),
							request.size(), MSG_NOSIGNAL));
		EXPECT_EQ(-EPROTO, sn_tls_handshake(pair.server, sn_now() + test::patience));
		EXPECT_STREQ("http request", sn_tls_error(pair.server));
	});
}

TEST(TlsAgree, PeerThatLeavesDuringTheHandshake)
{
	run_tls({2}, [] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);

		pair.close_client();
		EXPECT_EQ(-ECONNABORTED, sn_tls_handshake(pair.server, sn_now() + test::patience));
		EXPECT_STREQ("the peer has closed the connection during the handshake",
			     sn_tls_last_error());
	});
}

// ---- names ----

std::string common_name(sn_stream *stream)
{
	unsigned char der[4096];
	const unsigned char *at = der;
	char name[64] = "";
	const ssize_t size = sn_tls_peer_certificate(stream, der, sizeof der);
	test::Certificate certificate(size > 0 ? d2i_X509(nullptr, &at, size) : nullptr);

	if (certificate)
		X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
					  name, sizeof name);
	return name;
}

TEST(TlsAgree, ServerShowsTheCertificateForTheName)
{
	run_tls({2}, [] {
		Authority authority;
		const Identity first =
			authority.sign({.names = "DNS:a.test", .common_name = "first"});
		const Identity second =
			authority.sign({.names = "DNS:b.test,DNS:c.test", .common_name = "second"});
		const Identity wild =
			authority.sign({.names = "DNS:*.d.test", .common_name = "wild"});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT), any(SN_TLS_CLIENT);
		auto shown = [&](sn_tls_config *config, const char *name) {
			TlsPair pair(config, server, name);

			pair.handshake();
			if (name) {
				EXPECT_STREQ(name, test::info_of(pair.server).server_name);
			}
			return common_name(pair.client);
		};

		const Identity exact =
			authority.sign({.names = "DNS:e.d.test", .common_name = "exact"});

		server.show({&first, &second, &wild, &exact});
		client.trust(authority.pem());
		EXPECT_EQ("first", shown(client, "a.test"));
		EXPECT_EQ("second", shown(client, "b.test"));
		EXPECT_EQ("second", shown(client, "c.test"));
		EXPECT_EQ("wild", shown(client, "www.d.test"));
		EXPECT_EQ("exact", shown(client, "e.d.test"))
			<< "although it comes after the other one";
		EXPECT_EQ(0, sn_tls_config_set_verify(any, SN_TLS_VERIFY_NONE));
		EXPECT_EQ("first", shown(any, "unknown.test"));
		EXPECT_EQ("first", shown(any, nullptr));
	});
}

TEST(TlsAgree, CertificatesAreReplacedUnderLoad)
{
	run_tls([] {
		Authority authority;
		const Identity old = authority.sign({.common_name = "old"});
		const Identity fresh = authority.sign({.common_name = "new"});
		Config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);
		std::atomic<bool> replaced{false};
		std::atomic<int> made{0};
		std::vector<test::Task> tasks;

		server.show({&old});
		client.trust(authority.pem());
		EXPECT_EQ(0, sn_tls_config_set_resumption(client, 0));
		TlsPair stays(client, server);
		stays.handshake();
		for (int i = 0; i < 4; i++)
			tasks.emplace_back([&] {
				for (int k = 0; k < test::scaled(20); k++) {
					const bool after = replaced;
					TlsPair pair(client, server);

					pair.handshake();
					pair.ping();
					const std::string name = common_name(pair.client);
					EXPECT_TRUE(name == "new" || (name == "old" && !after));
					made++;
				}
			});
		EXPECT_TRUE(test::eventually([&] { return made > 1; }));
		server.show({&fresh});
		replaced = true;
		join_all(tasks);
		stays.ping();
		EXPECT_EQ("old", common_name(stays.client));
	});
}

// ---- sessions ----

TEST(TlsAgree, SessionsAreResumed)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			auto resumed = [&](const char *name) {
				TlsPair pair(usual.client, usual.server, name);

				pair.handshake();
				pair.ping();
				const int by_server = test::info_of(pair.server).resumed;
				EXPECT_EQ(by_server, test::info_of(pair.client).resumed);
				EXPECT_GT(test::info_of(pair.client).peer_size, 0u);
				return by_server;
			};

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, version, version));
			EXPECT_EQ(0, resumed("localhost"));
			EXPECT_EQ(1, resumed("localhost"));
			EXPECT_EQ(1, resumed("localhost"));
			// a session for another name is not resumed
			EXPECT_EQ(0, resumed("127.0.0.1"));
		}
	});
}

// OpenSSL itself keeps no name in a session of TLS 1.2, and does not compare it.
TEST(TlsAgree, AResumedSessionHasTheNameInTheHello)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, version, version));
			for (const int resumed : {0, 1, 1}) {
				TlsPair pair(usual.client, usual.server);

				pair.handshake();
				pair.ping();
				EXPECT_EQ(resumed, test::info_of(pair.server).resumed);
				EXPECT_STREQ("localhost", test::info_of(pair.server).server_name);
				EXPECT_STREQ("localhost", test::info_of(pair.client).server_name);
			}
		}
	});
}

TEST(TlsAgree, ASessionOfTls12IsNotResumedForAnotherName)
{
	run_tls({2}, [] {
		for (const char *first : {"a.test", ""}) {
			Usual usual;
			std::unique_ptr<SSL_SESSION, Freer<SSL_SESSION_free>> session;
			auto shake = [&](const std::string &name, int resumed) {
				Peer peer(usual, false, SN_TLS_1_2);

				if (!name.empty())
					SSL_set_tlsext_host_name(peer.ssl(), name.c_str());
				if (session)
					SSL_set_session(peer.ssl(), session.get());
				peer.handshake();
				EXPECT_EQ(resumed, test::info_of(peer.stream).resumed) << name;
				EXPECT_EQ(name, test::info_of(peer.stream).server_name);
				if (!session)
					session.reset(SSL_get1_session(peer.ssl()));
				// Otherwise OpenSSL would not resume it after this connection.
				SSL_set_shutdown(peer.ssl(), SSL_SENT_SHUTDOWN);
			};

			shake(first, 0);
			shake(first, 1);
			shake("b.test", 0);
			shake("a.test.", 0);
			shake(first[0] ? "" : "a.test", 0);
			shake(first, 1);
		}
	});
}

// Each connection of that server brings four tickets, and has none to use when it begins.
TEST(TlsAgree, AServersManyTicketsDoNotDisplaceThoseOfOthers)
{
	run_tls({2}, [] {
		Usual usual;
		std::vector<std::unique_ptr<TlsPair>> pairs;
		auto resumed = [&](const char *name) {
			TlsPair pair(usual.client, usual.server, name);

			pair.handshake();
			pair.ping();
			return test::info_of(pair.client).resumed;
		};

		EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, SN_TLS_1_3, SN_TLS_1_3));
		EXPECT_EQ(0, resumed("127.0.0.1"));
		SSL_CTX_set_num_tickets((SSL_CTX *)sn_tls_config_ssl_ctx(usual.server), 4);
		for (int i = 0; i < 70; i++) {
			pairs.push_back(std::make_unique<TlsPair>(usual.client, usual.server));
			pairs.back()->handshake();
		}
		for (auto &each : pairs)
			each->ping();
		EXPECT_EQ(1, resumed("127.0.0.1"));
		EXPECT_EQ(1, resumed("localhost"));
	});
}

// The server may hold the ticket back until an answer with which it can send the ticket.
TEST(TlsAgree, ATicketComesWithoutAnAnswer)
{
	run_tls({2}, [] {
		Usual usual;

		for (int i = 0; i < 20; i++) {
			TlsPair pair(usual.client, usual.server);
			test::Task server([&] {
				char c;

				EXPECT_EQ(1, sn_stream_read(pair.server, &c, 1));
				pair.close_server();
			});
			char c;

			EXPECT_EQ(1, sn_stream_write(pair.client, "p", 1));
			EXPECT_EQ(0, sn_stream_read(pair.client, &c, 1));
			EXPECT_EQ(i > 0, test::info_of(pair.client).resumed);
			server.join();
		}
	});
}

TEST(TlsAgree, SessionsAreNotResumedWhereThatIsOff)
{
	run_tls({2}, [] {
		for (const bool at_client : {true, false}) {
			Usual usual;

			EXPECT_EQ(0, sn_tls_config_set_resumption(
					     at_client ? usual.client : usual.server, 0));
			for (int i = 0; i < 3; i++) {
				TlsPair pair(usual.client, usual.server);

				pair.handshake();
				pair.ping();
				EXPECT_EQ(0, test::info_of(pair.client).resumed);
			}
		}
	});
}

// If the session were resumed, the server would still see the owner of the old certificate.
TEST(TlsAgree, AClientsNewCertificateIsShown)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			const Identity old = usual.authority.sign({.common_name = "old"});
			const Identity fresh = usual.authority.sign({.common_name = "new"});
			auto seen = [&] {
				TlsPair pair(usual.client, usual.server);

				pair.handshake();
				pair.ping();
				return common_name(pair.server);
			};

			usual.server.trust(usual.authority.pem());
			EXPECT_EQ(0, sn_tls_config_set_verify(usual.server, SN_TLS_VERIFY_REQUIRE));
			EXPECT_EQ(0, sn_tls_config_set_versions(usual.server, version, version));
			usual.client.show({&old});
			EXPECT_EQ("old", seen());
			EXPECT_EQ("old", seen());
			// A connection that begins before the change, and gets its ticket after it.
			TlsPair before(usual.client, usual.server);
			usual.client.show({&fresh});
			before.handshake();
			before.ping();
			EXPECT_EQ("old", common_name(before.server));
			EXPECT_EQ("new", seen()) << version;
			EXPECT_EQ("new", seen());
			EXPECT_TRUE([&] {
				TlsPair pair(usual.client, usual.server);
				pair.handshake();
				return test::info_of(pair.client).resumed;
			}());
		}
	});
}

using TicketKey = std::array<unsigned char, SN_TLS_TICKET_KEY>;

TicketKey ticket_key(int seed)
{
	TicketKey key;

	for (size_t i = 0; i < key.size(); i++)
		key[i] = (unsigned char)(seed + 7 * int(i));
	return key;
}

void set_keys(sn_tls_config *server, const std::vector<TicketKey> &keys)
{
	EXPECT_EQ(0, sn_tls_config_set_ticket_keys(server, keys.data(), keys.size()))
		<< sn_tls_last_error();
}

// Returns whether a new connection was resumed. In both cases the client then has a new ticket.
bool is_resumed(sn_tls_config *client, sn_tls_config *server)
{
	TlsPair pair(client, server);

	pair.handshake();
	pair.ping();
	EXPECT_EQ(test::info_of(pair.server).resumed, test::info_of(pair.client).resumed);
	return test::info_of(pair.client).resumed;
}

TEST(TlsAgree, ServersWithTheSameKeysResumeEachOthersSessions)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual one;
			Config other(SN_TLS_SERVER), stranger(SN_TLS_SERVER);

			other.show({&one.identity});
			stranger.show({&one.identity});
			EXPECT_EQ(0, sn_tls_config_set_versions(one.client, version, version));
			set_keys(one.server, {ticket_key(1)});
			set_keys(other, {ticket_key(1)});
			set_keys(stranger, {ticket_key(2)});
			EXPECT_FALSE(is_resumed(one.client, one.server));
			EXPECT_TRUE(is_resumed(one.client, other));
			EXPECT_TRUE(is_resumed(one.client, one.server)) << version;
			EXPECT_FALSE(is_resumed(one.client, stranger));
			EXPECT_FALSE(is_resumed(one.client, other));
		}
	});
}

// A server that verifies clients. All such servers of this test share their keys.
class Verifies : public Config
{
public:
	Verifies(const Usual &usual, sn_tls_verify verify,
		 std::initializer_list<const Authority *> trusted)
	    : Config(SN_TLS_SERVER)
	{
		show({&usual.identity});
		EXPECT_EQ(0, sn_tls_config_set_verify(*this, verify));
		for (const Authority *each : trusted)
			trust(each->pem());
		set_keys(*this, {ticket_key(1)});
	}
};

// Returns the results of the server to which the client comes with a ticket of another one.
void expect_not_taken(sn_tls_config *client, sn_tls_config *first, sn_tls_config *second,
		      int result, const char *reason)
{
	is_resumed(client, first);
	EXPECT_TRUE(is_resumed(client, first)) << "there are tickets";
	TlsPair pair(client, second);
	EXPECT_EQ(result, pair.try_handshake().second);
	EXPECT_STREQ(reason, sn_tls_error(pair.server));
	EXPECT_EQ(0, test::info_of(pair.server).resumed);
}

// A session that is resumed verifies no certificate. A ticket must therefore not stand for a
// certificate that the issuing server has not asked for, or that this server would not trust.
TEST(TlsAgree, ATicketDoesNotStandForACertificateThatAnotherServerRequires)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			Authority other("another authority");
			Verifies open(usual, SN_TLS_VERIFY_NONE, {});
			Verifies asks(usual, SN_TLS_VERIFY_REQUEST, {&usual.authority});
			Verifies strict(usual, SN_TLS_VERIFY_REQUIRE, {&usual.authority});
			Verifies others(usual, SN_TLS_VERIFY_REQUIRE, {&other});
			Verifies checks(usual, SN_TLS_VERIFY_REQUIRE, {&usual.authority});
			const Identity me = usual.authority.sign({});
			const std::string list = usual.authority.revoke({&me});

			EXPECT_EQ(0, sn_tls_config_add_crl(checks, list.c_str()));
			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, version, version));
			for (sn_tls_config *first : {(sn_tls_config *)open, (sn_tls_config *)asks})
				expect_not_taken(usual.client, first, strict, -EPROTO,
						 "peer did not return a certificate");
			usual.client.show({&me});
			expect_not_taken(usual.client, strict, others, -EKEYREJECTED,
					 "the peer's certificate is refused: "
					 "unable to get local issuer certificate");
			expect_not_taken(usual.client, strict, checks, -EKEYREJECTED,
					 "the peer's certificate is refused: certificate revoked");
		}
	});
}

TEST(TlsAgree, ServersThatVerifyInTheSameWayResumeEachOthersSessions)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			Authority other("another authority");
			Verifies one(usual, SN_TLS_VERIFY_REQUIRE, {&usual.authority, &other});
			Verifies two(usual, SN_TLS_VERIFY_REQUIRE, {&other, &usual.authority});
			// Verifies no client, whatever it trusts.
			Verifies open(usual, SN_TLS_VERIFY_NONE, {});
			Verifies also(usual, SN_TLS_VERIFY_NONE, {&other});
			const Identity me = usual.authority.sign({});

			usual.client.show({&me});
			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, version, version));
			EXPECT_FALSE(is_resumed(usual.client, one));
			EXPECT_TRUE(is_resumed(usual.client, two));
			EXPECT_TRUE(is_resumed(usual.client, one)) << version;
			EXPECT_FALSE(is_resumed(usual.client, open));
			EXPECT_TRUE(is_resumed(usual.client, also));
		}
	});
}

TEST(TlsAgree, KeysOfTicketsAreReplaced)
{
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, version, version));
			set_keys(usual.server, {ticket_key(1)});
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			// The ticket with the older key is accepted, and replaced by one with the
			// newer key.
			set_keys(usual.server, {ticket_key(2), ticket_key(1)});
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
			set_keys(usual.server, {ticket_key(3), ticket_key(2)});
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
			set_keys(usual.server, {ticket_key(5), ticket_key(4)});
			EXPECT_FALSE(is_resumed(usual.client, usual.server));
			EXPECT_TRUE(is_resumed(usual.client, usual.server));
		}
	});
}

TEST(TlsAgree, KeysOfTicketsThatAreNone)
{
	run_tls({2}, [] {
		Usual usual;
		const TicketKey key = ticket_key(1);

		EXPECT_EQ(-EINVAL, sn_tls_config_set_ticket_keys(nullptr, key.data(), 1));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_ticket_keys(usual.client, key.data(), 1));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_ticket_keys(usual.server, nullptr, 1));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_ticket_keys(usual.server, key.data(), 0));
		EXPECT_EQ(-EINVAL, sn_tls_config_set_ticket_keys(usual.server, key.data(), 65));
		// Keys cannot be set for the first time once there are connections.
		EXPECT_FALSE(is_resumed(usual.client, usual.server));
		EXPECT_EQ(-EBUSY, sn_tls_config_set_ticket_keys(usual.server, key.data(), 1));
		EXPECT_TRUE(is_resumed(usual.client, usual.server));
	});
}

// A ticket that was changed on the way, or was made up, is not accepted; the connection makes a new
// session.
TEST(TlsAgree, ForgedTicketsAreNotTaken)
{
	run_tls({2}, [] {
		Usual usual;
		TicketKey key = ticket_key(1);

		set_keys(usual.server, {key});
		EXPECT_FALSE(is_resumed(usual.client, usual.server));
		// A key with the same name, but other secrets.
		key[20] ^= 1;
		key[50] ^= 1;
		set_keys(usual.server, {key});
		EXPECT_FALSE(is_resumed(usual.client, usual.server));
		EXPECT_TRUE(is_resumed(usual.client, usual.server));
	});
}

// ---- the key log ----

TEST(TlsAgree, KeyLogIsWrittenOnlyWhenAskedFor)
{
	char path[] = "/tmp/sennit-keys-XXXXXX";
	const int fd = mkstemp(path);
	test::Environment environment("SSLKEYLOGFILE", path);
	auto logged = [&] {
		std::ifstream file(path);
		std::stringstream text;

		text << file.rdbuf();
		return text.str();
	};

	ASSERT_GE(fd, 0);
	close(fd);
	run_tls({2}, [&] {
		Usual silent, talks;

		TlsPair first(silent.client, silent.server);
		first.handshake();
		EXPECT_EQ("", logged());
		EXPECT_EQ(0, sn_tls_config_set_key_log(talks.client, nullptr));
		TlsPair second(talks.client, talks.server);
		second.handshake();
		EXPECT_NE(std::string::npos, logged().find("CLIENT_TRAFFIC_SECRET_0 "));
		Config other(SN_TLS_CLIENT);
		EXPECT_EQ(-ENOENT, sn_tls_config_set_key_log(other, "/nonexistent/keys"));
	});
	unlink(path);
}

// ---- many ----

TEST(TlsAgree, ManyConnectionsOnFewThreads)
{
	run_tls({2}, [] {
		Usual usual;
		test::Listener listener;
		const int count = test::scaled(1000);
		std::vector<test::Task> clients;
		std::atomic<int> open{0};

		test::Task server([&] {
			std::vector<test::Task> each;

			for (int i = 0; i < count; i++)
				each.emplace_back([&, conn = sn_tcp_stream(listener.accept())] {
					char buf[4];

					EXPECT_EQ(0, sn_tls_server(conn, usual.server));
					while (sn_stream_read_full(conn, buf, 4, nullptr) == 4)
						EXPECT_EQ(4, sn_stream_write_all(conn, buf, 4,
										 nullptr));
					EXPECT_EQ(0, sn_stream_close(conn));
				});
			join_all(each);
		});
		for (int i = 0; i < count; i++)
			clients.emplace_back([&, address = listener.address()] {
				sn_stream *conn = nullptr;
				char buf[4];

				ASSERT_EQ(0, sn_tls_connect(&conn, address.c_str(), usual.client,
							    SN_NO_DEADLINE))
					<< sn_tls_last_error();
				open++;
				EXPECT_TRUE(test::eventually([&] { return open == count; },
							     4 * test::patience));
				EXPECT_EQ(4, sn_stream_write_all(conn, "ping", 4, nullptr));
				EXPECT_EQ(4, sn_stream_read_full(conn, buf, 4, nullptr));
				EXPECT_EQ(0, sn_stream_close(conn));
			});
		join_all(clients);
		server.join();
		if (count == 1000) {
			EXPECT_LT(test::process_status("Threads"), count / 4);
		}
	});
}

} // namespace
