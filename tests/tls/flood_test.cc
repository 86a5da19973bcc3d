// SPDX-License-Identifier: MIT
//
// Peers that send messages of TLS's own without end: new keys, tickets, requests for a handshake.
// These block no call, take no memory, and end the connection; the few messages of ordinary peers
// do not. The peer is OpenSSL itself, in a thread, so that it can do what the library never does.
#include "pairs.h"

#include <malloc.h>
#include <poll.h>
#include <thread>

#include <openssl/ssl.h>

#include <sennit/unix.h>

namespace
{

using test::run_tls;
using test::Usual;

// So many of them in a row end the connection.
constexpr int most = 32;

class Peer
{
public:
	Peer(const Usual &usual, bool is_server, int version)
	    : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()))
	{
		int fds[2];

		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
		sn_unix *ours = nullptr;
		EXPECT_EQ(0, sn_unix_adopt(&ours, fds[0]));
		stream = sn_unix_stream(ours);
		fd_ = fds[1];
		SSL_CTX_set_min_proto_version(context_.get(), version);
		SSL_CTX_set_max_proto_version(context_.get(), version);
		SSL_CTX_use_certificate(context_.get(), usual.identity.certificate.get());
		SSL_CTX_use_PrivateKey(context_.get(), usual.identity.key.get());
		ssl_.reset(SSL_new(context_.get()));
		in_ = BIO_new(BIO_s_mem());
		out_ = BIO_new(BIO_s_mem());
		SSL_set_bio(ssl_.get(), in_, out_);
		if (is_server) {
			SSL_set_accept_state(ssl_.get());
			EXPECT_EQ(0, sn_tls_client(stream, usual.client, "localhost"));
		} else {
			SSL_set_connect_state(ssl_.get());
			EXPECT_EQ(0, sn_tls_server(stream, usual.server));
		}
	}
	~Peer()
	{
		sn_stream_close(stream);
		close(fd_);
	}
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;

	void handshake()
	{
		std::thread other([&] {
			char buf[16384];

			while (SSL_do_handshake(ssl_.get()) != 1) {
				send();
				const ssize_t n = read(fd_, buf, sizeof buf);
				if (n <= 0)
					return;
				BIO_write(in_, buf, int(n));
			}
			send();
		});
		EXPECT_EQ(0, sn_tls_handshake(stream, sn_now() + test::patience))
			<< sn_tls_error(stream);
		other.join();
	}

	// Queues changes of keys, which send() sends.
	void update_keys(int count, int how)
	{
		for (int i = 0; i < count; i++) {
			SSL_key_update(ssl_.get(), how);
			SSL_do_handshake(ssl_.get());
		}
	}
	void give_tickets(int count)
	{
		for (int i = 0; i < count; i++) {
			EXPECT_EQ(1, SSL_new_session_ticket(ssl_.get()));
			SSL_do_handshake(ssl_.get());
		}
	}
	void request_handshakes(int count)
	{
		for (int i = 0; i < count; i++) {
			EXPECT_EQ(1, SSL_renegotiate(ssl_.get()));
			SSL_do_handshake(ssl_.get());
		}
	}
	void data() { EXPECT_EQ(1, SSL_write(ssl_.get(), "d", 1)); }
	void send()
	{
		char *bytes;
		const size_t size = prepared(&bytes);

		send_all(bytes, size);
		BIO_reset(out_);
	}
	size_t prepared(char **bytes) { return size_t(BIO_get_mem_data(out_, bytes)); }
	void send_all(const char *bytes, size_t size)
	{
		EXPECT_EQ(ssize_t(size), write(fd_, bytes, size));
	}
	// Sends, and reads only when the socket has no room otherwise.
	void send_and_hardly_read()
	{
		char *bytes, buf[4096];
		size_t size = prepared(&bytes);

		while (size) {
			const ssize_t n = ::send(fd_, bytes, std::min<size_t>(size, 65536),
						 MSG_DONTWAIT | MSG_NOSIGNAL);
			pollfd room = {fd_, POLLOUT, 0};

			if (n > 0) {
				bytes += n;
				size -= size_t(n);
			} else if (n < 0 && errno != EAGAIN) {
				return;
			} else if (poll(&room, 1, 1) == 0) {
				if (read(fd_, buf, sizeof buf) <= 0)
					return;
			}
		}
		while (read(fd_, buf, sizeof buf) > 0)
			continue;
	}

	sn_stream *stream = nullptr;

private:
	std::unique_ptr<SSL_CTX, test::Freer<SSL_CTX_free>> context_;
	std::unique_ptr<SSL, test::Freer<SSL_free>> ssl_;
	BIO *in_ = nullptr, *out_ = nullptr;
	int fd_ = -1;
};

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
		const int rounds = 2000, small = 4096;
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
