// SPDX-License-Identifier: MIT
//
// Peers that do not keep to the protocol, in the ways of which the lists of cases of tlsfuzzer and
// of BoringSSL's BoGo speak. Here are those that concern the library's own code around OpenSSL: how
// a stream ends, what a call returns, what OpenSSL is asked to allow, and what is limited. Each one
// comes with a bound: the read that follows returns before the test's patience is over.
//
// | kind                                  | TLS  | where                                         |
// | ------------------------------------- | ---- | --------------------------------------------- |
// | half-close, data after close_notify   | both | CloseNotifyEndsReadingOnly                    |
// | truncated close, cut records          | both | AnEndWithoutCloseNotifyIsNoEnd, stream_test   |
// | fatal and malformed alerts            | both | Refused                                       |
// | warning alerts, a few and many        | both | Harmless, Refused                             |
// | records without content, few and many | both | Harmless, Refused                             |
// | empty alerts and handshake records    | both | Refused                                       |
// | padded records; padding alone         | 1.3  | Harmless, Refused                             |
// | oversized records, claimed and real   | both | Harmless (the largest), Refused               |
// | unknown types of records, heartbeats  | both | Refused                                       |
// | forged and unprotected records        | both | Refused                                       |
// | ChangeCipherSpec after the handshake  | both | Refused                                       |
// | ChangeCipherSpec without end          | 1.3  | ChangeCipherSpecsEndTheHandshake              |
// | messages split into single bytes      | both | Harmless, AHelloInSingleBytesIsTaken          |
// | a hello in too many records           | 1.3  | AHelloInTooManyRecordsIsRefused               |
// | messages mixed with data              | 1.3  | Refused                                       |
// | messages of the handshake after it    | both | Refused                                       |
// | enormous messages                     | both | Refused                                       |
// | KeyUpdate: malformed, unaligned       | 1.3  | Refused                                       |
// | KeyUpdate and tickets without end     | 1.3  | flood_test                                    |
// | tickets from clients; post-handshake  | 1.3  | Refused                                       |
// |   authentication that was not offered |      |                                               |
// | renegotiation by clients              | 1.2  | Harmless, RenegotiationWithoutEndIsRefused    |
// | renegotiation by servers              | 1.2  | flood_test                                    |
// | early data that was not offered       | 1.3  | EarlyDataIsSkipped, TooMuchEarlyDataIsRefused |
// | plain text, a peer that leaves        | both | agree_test                                    |
//
// Left to OpenSSL's own tests: the grammar of hellos and certificates, versions and downgrades,
// groups and signatures, padding oracles, and compression, which OpenSSL is asked not to offer.
#include "peer.h"

#include <functional>

namespace
{

using namespace test;

constexpr int alert = 21, handshake = 22, data = 23;

struct Way {
	bool is_server; // the peer is
	int version;

	bool is_13() const { return version == SN_TLS_1_3; }
};

constexpr Way ways[] = {
	{false, SN_TLS_1_2}, {true, SN_TLS_1_2}, {false, SN_TLS_1_3}, {true, SN_TLS_1_3}};

std::string bytes(std::initializer_list<int> list)
{
	std::string made;

	for (const int each : list)
		made += char(each);
	return made;
}

std::string zeros(size_t size)
{
	return std::string(size, '\0');
}

// A message of a handshake.
std::string message(int type, const std::string &body)
{
	return bytes({type, int(body.size() >> 16), int(body.size() >> 8), int(body.size())}) +
	       body;
}

const std::string key_update = message(24, zeros(1));
// Of a day, without a nonce, and with a ticket of two bytes.
const std::string ticket = message(4, bytes({0, 1, 81, 128, 1, 2, 3, 4, 0, 0, 2, 7, 7, 0, 0}));
const std::string hello = message(1, bytes({3, 3}) + zeros(32) + bytes({0, 0, 2, 0, 47, 1, 0}));

std::string in_single_bytes(Peer &peer, int type, const std::string &content)
{
	std::string all;

	for (const char each : content)
		all += peer.record(type, std::string(1, each));
	return all;
}

std::string many(int count, const std::function<std::string()> &one)
{
	std::string all;

	for (int i = 0; i < count; i++)
		all += one();
	return all;
}

struct Case {
	const char *name;
	std::function<std::string(Peer &)> made;
	// Whether it is a case of this way; NULL: of all.
	bool (*fits)(const Way &) = nullptr;
};

bool in_13(const Way &way)
{
	return way.is_13();
}
bool in_12(const Way &way)
{
	return !way.is_13();
}
bool from_client_12(const Way &way)
{
	return !way.is_13() && !way.is_server;
}
bool from_client_13(const Way &way)
{
	return way.is_13() && !way.is_server;
}
bool from_server_13(const Way &way)
{
	return way.is_13() && way.is_server;
}

// After these the connection continues: a byte of data follows, and arrives.
const Case harmless[] = {
	{"nothing", [](Peer &) { return std::string(); }},
	{"four warnings",
	 [](Peer &p) { return many(4, [&] {
			       return p.record(alert, bytes({1, 90}));
		       }); }},
	{"records without content",
	 [](Peer &p) { return many(20, [&] { return p.record(data, ""); }); }},
	{"records without content, but with padding",
	 [](Peer &p) { return many(20, [&] { return p.record(data, "", 1000); }); }, in_13},
	{"new keys in single bytes",
	 [](Peer &p) {
		 const std::string made = in_single_bytes(p, handshake, key_update);
		 p.change_keys();
		 return made;
	 },
	 in_13},
	{"a ticket", [](Peer &p) { return p.record(handshake, ticket); }, from_server_13},
	{"a ticket in single bytes", [](Peer &p) { return in_single_bytes(p, handshake, ticket); },
	 from_server_13},
	{"three tickets in a record",
	 [](Peer &p) { return p.record(handshake, ticket + ticket + ticket); }, from_server_13},
	{"a request for renegotiation", [](Peer &p) { return p.record(handshake, hello); },
	 from_client_12},
};

// These end the connection.
const Case refused[] = {
	{"a fatal alert",
	 [](Peer &p) {
		 return p.record(alert, bytes({2, 80}));
	 }},
	{"half an alert",
	 [](Peer &p) {
		 return p.records({{alert, bytes({1})}, {data, "d"}});
	 }},
	{"an alert that is too long",
	 [](Peer &p) {
		 return p.record(alert, bytes({1, 90, 0}));
	 }},
	{"an alert of no level",
	 [](Peer &p) {
		 return p.record(alert, bytes({3, 80}));
	 }},
	{"an empty alert", [](Peer &p) { return p.record(alert, ""); }, in_13},
	{"many warnings",
	 [](Peer &p) { return many(100, [&] {
			       return p.record(alert, bytes({1, 90}));
		       }); }},
	{"many records without content",
	 [](Peer &p) { return many(1000, [&] { return p.record(data, ""); }); }},
	{"many records of padding",
	 [](Peer &p) { return many(1000, [&] { return p.record(data, "", 100); }); }, in_13},
	{"a record that has no type", [](Peer &p) { return p.record(0, "", 100); }, in_13},
	{"a record of a byte too much", [](Peer &p) { return p.record(data, zeros(16385)); }},
	{"a record with too much padding", [](Peer &p) { return p.record(data, "d", 17000); },
	 in_13},
	{"a record that claims 64 KiB",
	 [](Peer &) { return Peer::header(data, 65535) + zeros(99); }},
	{"a record of a type that there is not", [](Peer &p) { return p.record(99, "d"); }},
	{"a heartbeat",
	 [](Peer &p) {
		 return p.record(24, bytes({1, 255, 255}) + zeros(16));
	 }},
	{"a forged record",
	 [](Peer &p) {
		 std::string made = p.record(data, "d");
		 made.back() = char(made.back() ^ 1);
		 return made;
	 }},
	{"a record out of turn",
	 [](Peer &p) {
		 p.record(data, "c");
		 return p.record(data, "d");
	 }},
	{"unprotected data", [](Peer &) { return Peer::header(data, 1) + "d"; }},
	{"an unprotected end",
	 [](Peer &) {
		 return Peer::header(alert, 2) + bytes({1, 0});
	 }},
	{"plain text",
	 [](Peer &) { return std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); }},
	{"a ChangeCipherSpec", [](Peer &p) { return p.record(20, bytes({1})); }},
	{"an unprotected ChangeCipherSpec", [](Peer &) { return Peer::header(20, 1) + bytes({1}); },
	 in_13},
	{"an empty message", [](Peer &p) { return p.record(handshake, ""); }, in_13},
	{"another Finished", [](Peer &p) { return p.record(handshake, message(20, zeros(32))); }},
	{"a message that there is not",
	 [](Peer &p) { return p.record(handshake, message(99, "")); }},
	{"a message of 16 MiB",
	 [](Peer &p) {
		 return p.record(handshake, bytes({11, 255, 255, 255}) + zeros(9000));
	 }},
	{"a hello", [](Peer &p) { return p.record(handshake, hello); }, from_client_13},
	{"a hello of a server", [](Peer &p) { return p.record(handshake, message(2, zeros(38))); }},
	{"a request for a hello", [](Peer &p) { return p.record(handshake, message(0, "")); },
	 in_13},
	{"the end of early data", [](Peer &p) { return p.record(handshake, message(5, "")); },
	 in_13},
	{"a request for a certificate",
	 [](Peer &p) {
		 return p.record(handshake,
				 message(13, bytes({1, 7, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3})));
	 },
	 from_server_13},
	{"a ticket from a client", [](Peer &p) { return p.record(handshake, ticket); },
	 from_client_13},
	{"a ticket that is cut off",
	 [](Peer &p) {
		 return p.record(handshake, message(4, bytes({0, 1, 81, 128, 1})));
	 },
	 from_server_13},
	{"new keys in TLS 1.2", [](Peer &p) { return p.record(handshake, key_update); }, in_12},
	{"new keys of no kind",
	 [](Peer &p) { return p.record(handshake, message(24, bytes({2}))); }, in_13},
	{"new keys of no size", [](Peer &p) { return p.record(handshake, message(24, "")); },
	 in_13},
	{"new keys of two bytes",
	 [](Peer &p) { return p.record(handshake, message(24, zeros(2))); }, in_13},
	{"new keys twice in a record",
	 [](Peer &p) { return p.record(handshake, key_update + key_update); }, in_13},
	{"old keys after new ones",
	 [](Peer &p) {
		 return p.records({{handshake, key_update}, {data, "d"}});
	 },
	 in_13},
	{"data within a message",
	 [](Peer &p) {
		 return p.records({{handshake, key_update.substr(0, 4)},
				   {data, "d"},
				   {handshake, key_update.substr(4)}});
	 },
	 in_13},
};

void for_each_way(const Case &each, const std::function<void(Peer &, const Way &)> &body)
{
	for (const Way &way : ways) {
		if (testing::Test::HasFailure() || (each.fits && !each.fits(way)))
			continue;
		Usual usual;
		Peer peer(usual, way.is_server, way.version, 0);

		peer.handshake();
		sn_stream_set_read_deadline(peer.stream, sn_now() + test::patience);
		body(peer, way);
		// No SCOPED_TRACE(), which belongs to the thread.
		if (testing::Test::HasFailure())
			ADD_FAILURE()
				<< each.name << " from a " << (way.is_server ? "server" : "client")
				<< (way.is_13() ? " of TLS 1.3" : " of TLS 1.2");
	}
}

void expect_data(Peer &peer)
{
	char c = 0;

	EXPECT_EQ(1, sn_stream_read(peer.stream, &c, 1)) << sn_tls_error(peer.stream);
	EXPECT_EQ('d', c);
}

TEST(TlsPeers, Harmless)
{
	run_tls({2}, [] {
		for (const Case &each : harmless)
			for_each_way(each, [&](Peer &peer, const Way &) {
				const std::string first = each.made(peer);

				peer.send_bytes(first + peer.record(data, "d"));
				expect_data(peer);
				EXPECT_EQ(1, sn_stream_write(peer.stream, "w", 1));
				// The largest record that there may be.
				peer.send_bytes(peer.record(data, std::string(16384, 'd')));
				for (int i = 0; i < 16384 && !testing::Test::HasFailure(); i++)
					expect_data(peer);
			});
	});
}

TEST(TlsPeers, Refused)
{
	run_tls({2}, [] {
		for (const Case &each : refused)
			for_each_way(each, [&](Peer &peer, const Way &) {
				const std::string made = each.made(peer);
				char c;

				peer.send_bytes(made);
				EXPECT_EQ(-EPROTO, sn_stream_read(peer.stream, &c, 1));
				EXPECT_STRNE("", sn_tls_error(peer.stream));
				// And stays so.
				EXPECT_EQ(-EPROTO, sn_stream_write(peer.stream, "w", 1));
				EXPECT_EQ(-EPROTO, sn_stream_read(peer.stream, &c, 1));
			});
	});
}

TEST(TlsPeers, AnAlertIsNamedAlsoAfterTheEndOfTheSocket)
{
	const Case each = {"an alert", nullptr};

	run_tls({2}, [&] {
		for_each_way(each, [](Peer &peer, const Way &) {
			char c;

			peer.send_bytes(peer.record(alert, bytes({2, 80})));
			peer.end_socket();
			EXPECT_EQ(-EPROTO, sn_stream_read(peer.stream, &c, 1));
			EXPECT_STREQ("the peer has refused with an alert: internal error",
				     sn_tls_error(peer.stream));
		});
	});
}

TEST(TlsPeers, CloseNotifyEndsReadingOnly)
{
	const Case each = {"close_notify", nullptr};

	run_tls({2}, [&] {
		for_each_way(each, [](Peer &peer, const Way &) {
			char c;

			// What comes after it is not read.
			peer.send_bytes(
				peer.records({{data, "d"}, {alert, bytes({1, 0})}, {data, "e"}}) +
				"garbage");
			expect_data(peer);
			for (int i = 0; i < 3; i++) {
				EXPECT_EQ(0, sn_stream_read(peer.stream, &c, 1));
				EXPECT_EQ(1, sn_stream_write(peer.stream, "w", 1));
			}
			EXPECT_EQ(0, sn_stream_shutdown(peer.stream, SN_SHUT_WRITE));
		});
	});
}

TEST(TlsPeers, AnEndWithoutCloseNotifyIsNoEnd)
{
	const Case each = {"an end", nullptr};

	run_tls({2}, [&] {
		// How much of the next record is there: nothing, a part of its header, the header,
		// and all but a byte.
		for (const size_t more : {0, 3, 5, -1})
			for_each_way(each, [more](Peer &peer, const Way &) {
				const std::string first = peer.record(data, "d");
				const std::string cut = peer.record(data, "e");
				char c;

				peer.send_bytes(first +
						cut.substr(0, std::min(more, cut.size() - 1)));
				peer.end_socket();
				expect_data(peer);
				EXPECT_EQ(-ECONNABORTED, sn_stream_read(peer.stream, &c, 1));
				EXPECT_EQ(-ECONNABORTED, sn_stream_read(peer.stream, &c, 1));
			});
	});
}

// Each is answered with a warning, which this peer does not read.
TEST(TlsPeers, RenegotiationWithoutEndIsRefused)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, false, SN_TLS_1_2);
		char c;

		peer.handshake();
		sn_stream_set_read_deadline(peer.stream, sn_now() + test::patience);
		std::thread other([&] {
			for (int i = 0; i < 20; i++) {
				const std::string some =
					many(100, [&] { return peer.record(handshake, hello); });

				if (send(peer.fd(), some.data(), some.size(), MSG_NOSIGNAL) < 0)
					return;
			}
		});
		EXPECT_EQ(-EPROTO, sn_stream_read(peer.stream, &c, 1));
		EXPECT_STREQ("the peer has sent too many messages without data",
			     sn_tls_error(peer.stream));
		sn_stream_abort(std::exchange(peer.stream, nullptr));
		other.join();
	});
}

// ---- during the handshake ----

// The client's first flight, in records of single bytes.
std::string first_flight_in_bytes(Peer &peer)
{
	SSL_do_handshake(peer.ssl());
	const std::string whole = peer.taken();
	std::string made;

	EXPECT_EQ(size_t(5) + uint8_t(whole[3]) * 256 + uint8_t(whole[4]), whole.size());
	for (const char each : whole.substr(5))
		made += Peer::header(handshake, 1) + each;
	return made;
}

TEST(TlsPeers, AHelloInSingleBytesIsTaken)
{
	run_tls({2}, [] {
		for (const int version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			Peer peer(usual, false, version, 0);

			peer.send_bytes(first_flight_in_bytes(peer));
			peer.handshake();
			peer.send_bytes(peer.record(data, "d"));
			expect_data(peer);
		}
	});
}

TEST(TlsPeers, AHelloInTooManyRecordsIsRefused)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, false, SN_TLS_1_3, 0);
		const std::string offers(2000, 'a');
		std::string protocols;

		for (size_t at = 0; at + 100 <= offers.size(); at += 100)
			protocols += char(100) + offers.substr(at, 100);
		SSL_set_alpn_protos(peer.ssl(),
				    reinterpret_cast<const unsigned char *>(protocols.data()),
				    unsigned(protocols.size()));
		peer.send_bytes(first_flight_in_bytes(peer));
		EXPECT_EQ(-EPROTO, sn_tls_handshake(peer.stream, sn_now() + test::patience));
		EXPECT_STREQ("the peer has sent too many messages without data",
			     sn_tls_error(peer.stream));
	});
}

TEST(TlsPeers, ChangeCipherSpecsEndTheHandshake)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, false, SN_TLS_1_3, 0);

		SSL_do_handshake(peer.ssl());
		peer.send_bytes(peer.taken() +
				many(2000, [] { return Peer::header(20, 1) + bytes({1}); }));
		EXPECT_EQ(-EPROTO, sn_tls_handshake(peer.stream, sn_now() + test::patience));
		EXPECT_STRNE("", sn_tls_error(peer.stream));
	});
}

// ---- early data ----

// A client that has a ticket, and believes that early data is allowed.
class EagerPeer
{
public:
	explicit EagerPeer(const Usual &usual) : peer(usual, false, SN_TLS_1_3, 0)
	{
		Peer before(usual, false, SN_TLS_1_3, 0);

		before.handshake();
		EXPECT_EQ(1, sn_stream_write(before.stream, "w", 1)); // the ticket comes with it
		before.receive(1);
		SSL_SESSION *session = SSL_get1_session(before.ssl());

		EXPECT_EQ(1, SSL_SESSION_is_resumable(session));
		// Otherwise OpenSSL would take the session for a bad one.
		SSL_set_shutdown(before.ssl(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_SESSION_set_max_early_data(session, 1u << 20);
		SSL_set_session(peer.ssl(), session);
		SSL_SESSION_free(session);
	}
	void write_early(size_t size)
	{
		const std::string some(size, 'e');
		size_t written = 0;

		EXPECT_EQ(1, SSL_write_early_data(peer.ssl(), some.data(), some.size(), &written));
		EXPECT_EQ(size, written);
	}

	Peer peer;
};

TEST(TlsPeers, EarlyDataIsSkipped)
{
	run_tls({2}, [] {
		Usual usual;
		EagerPeer eager(usual);

		eager.write_early(1000);
		eager.peer.send();
		eager.peer.handshake();
		EXPECT_EQ(SSL_EARLY_DATA_REJECTED, SSL_get_early_data_status(eager.peer.ssl()));
		eager.peer.data();
		eager.peer.send();
		expect_data(eager.peer);
	});
}

TEST(TlsPeers, TooMuchEarlyDataIsRefused)
{
	run_tls({2}, [] {
		Usual usual;
		EagerPeer eager(usual);

		for (int i = 0; i < 40; i++)
			eager.write_early(4000);
		eager.peer.send();
		EXPECT_EQ(-EPROTO, sn_tls_handshake(eager.peer.stream, sn_now() + test::patience));
		EXPECT_STRNE("", sn_tls_error(eager.peer.stream));
	});
}

} // namespace
