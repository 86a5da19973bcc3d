// SPDX-License-Identifier: MIT
//
// Peers that send messages of TLS's own without end: new keys, tickets, requests for a handshake.
// These block no call, take no memory, and end the connection; the few messages of ordinary peers
// do not.
#include "peer.h"

#include <malloc.h>
#include <thread>

namespace
{

using namespace test;

// So many of them in a row end the connection.
constexpr int most = 32;

void expect_data(Peer &peer)
{
	char c = 0;

	EXPECT_EQ(1, sn_stream_read(peer.stream, &c, 1)) << sn_tls_error(peer.stream);
	EXPECT_EQ('d', c);
}

void expect_flooded(Peer &peer)
{
	char c;

	sn_stream_set_read_deadline(peer.stream, sn_now() + test::patience);
	EXPECT_EQ(-EPROTO, sn_stream_read(peer.stream, &c, 1));
	EXPECT_STREQ("the peer has sent too many messages without data", sn_tls_error(peer.stream));
	EXPECT_EQ(-EPROTO, sn_stream_write(peer.stream, &c, 1));
}

TEST(TlsFlood, NewKeysWithoutDataEndTheConnection)
{
	run_tls({2}, [] {
		for (const int how : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
			Usual usual;
			Peer peer(usual, false, SN_TLS_1_3);

			peer.handshake();
			for (int i = 0; i < 4; i++) {
				peer.update_keys(most - 1, how);
				peer.data();
				peer.send();
				expect_data(peer);
			}
			peer.update_keys(most, how);
			peer.send();
			expect_flooded(peer);
		}
	});
}

// Written data ends a row as well, because a peer that only receives answers each change of keys.
TEST(TlsFlood, NewKeysOfAPeerThatOnlyReceivesAreTaken)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, false, SN_TLS_1_3);

		peer.handshake();
		for (int i = 0; i < 3 * most; i++) {
			char c;

			peer.update_keys(1, SSL_KEY_UPDATE_NOT_REQUESTED);
			peer.send();
			sn_stream_set_read_deadline(peer.stream, sn_now() + test::ms);
			EXPECT_EQ(-ETIMEDOUT, sn_stream_read(peer.stream, &c, 1));
			EXPECT_EQ(1, sn_stream_write(peer.stream, "w", 1));
		}
		sn_stream_set_read_deadline(peer.stream, SN_NO_DEADLINE);
		peer.data();
		peer.send();
		expect_data(peer);
	});
}

TEST(TlsFlood, TicketsWithoutDataEndTheConnection)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, true, SN_TLS_1_3);

		peer.handshake(); // brings two tickets
		peer.give_tickets(most - 3);
		peer.data();
		peer.send();
		expect_data(peer);
		peer.give_tickets(most);
		peer.send();
		expect_flooded(peer);
	});
}

TEST(TlsFlood, RequestsForAHandshakeEndTheConnection)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, true, SN_TLS_1_2);

		peer.handshake();
		peer.request_handshakes(most - 1);
		peer.data();
		peer.send();
		expect_data(peer);
		peer.request_handshakes(most);
		peer.send();
		expect_flooded(peer);
	});
}

// A peer may send these before the client knows anything about it.
TEST(TlsFlood, RequestsForAHandshakeEndTheHandshake)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, true, SN_TLS_1_2);
		const char request[] = {22, 3, 3, 0, 4, 0, 0, 0, 0};

		for (int i = 0; i < most; i++)
			peer.send_all(request, sizeof request);
		EXPECT_EQ(-EPROTO, sn_tls_handshake(peer.stream, sn_now() + test::patience));
		EXPECT_STREQ("the peer has sent too many messages without data",
			     sn_tls_error(peer.stream));
	});
}

size_t memory()
{
	const struct mallinfo2 all = mallinfo2();

	return all.uordblks + all.hblkhd;
}

// The answers to new keys never reach the socket completely, and each data byte ends a row of
// messages.
TEST(TlsFlood, AnswersToNewKeysTakeNoMemory)
{
	run_tls({2}, [] {
		Usual usual;
		Peer peer(usual, false, SN_TLS_1_3);
		// The sanitizers' malloc() is another one than that whose use memory() tells.
		const int rounds = TEST_ASAN || TEST_TSAN ? 200 : 2000, small = 4096;
		size_t least, largest = 0;

		setsockopt(sn_stream_fd(peer.stream), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
		peer.handshake();
		for (int i = 0; i < rounds; i++) {
			peer.update_keys(most - 1, SSL_KEY_UPDATE_REQUESTED);
			peer.data();
		}
		std::thread other([&] { peer.send_and_hardly_read(); });
		least = memory();
		for (int i = 0; i < rounds; i++) {
			expect_data(peer);
			largest = std::max(largest, memory());
		}
		EXPECT_LT(largest, least + (512 << 10));
		EXPECT_EQ(0, sn_stream_shutdown(peer.stream, SN_SHUT_WRITE));
		other.join();
	});
}

} // namespace
