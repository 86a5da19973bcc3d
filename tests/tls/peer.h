// SPDX-License-Identifier: MIT
//
// A peer that does what the library never does: OpenSSL itself, in a thread, and records with any
// content, sealed here with the keys of OpenSSL's handshake.
#ifndef SENNIT_TESTS_TLS_PEER_H
#define SENNIT_TESTS_TLS_PEER_H

#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <sennit/unix.h>

#include "pairs.h"

namespace test
{

class Peer
{
public:
	// tickets: how many a server of TLS 1.3 gives with its handshake.
	Peer(const Usual &usual, bool is_server, int version, size_t tickets = 2)
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
		SSL_CTX_set_cipher_list(context_.get(), "ECDHE-ECDSA-AES128-GCM-SHA256:"
							"ECDHE-RSA-AES128-GCM-SHA256");
		SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256");
		SSL_CTX_set_num_tickets(context_.get(), tickets);
		SSL_CTX_set_keylog_callback(context_.get(), note_secret);
		ssl_.reset(SSL_new(context_.get()));
		SSL_set_app_data(ssl_.get(), this);
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
		if (stream)
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

	// ---- records of any content ----
	//
	// After the handshake, and instead of what OpenSSL would send. A server of TLS 1.3 must
	// have given no tickets, because the records are counted from the handshake on.

	static std::string header(int type, size_t size)
	{
		return {char(type), 3, 3, char(size >> 8), char(size)};
	}
	// padding: how many zeros follow the content, in TLS 1.3.
	std::string record(int type, const std::string &content, size_t padding = 0)
	{
		std::string sealed;

		if (!has_keys_)
			take_keys();
		const std::string number = big_endian(number_++);
		if (SSL_version(ssl_.get()) == TLS1_3_VERSION) {
			std::string nonce = iv_;
			const std::string inner = content + char(type) + std::string(padding, '\0');
			const std::string start = header(23, inner.size() + 16);

			for (size_t i = 0; i < 8; i++)
				nonce[4 + i] = char(nonce[4 + i] ^ number[i]);
			return start + seal(nonce, start, inner);
		}
		return header(type, 8 + content.size() + 16) + number +
		       seal(iv_ + number, number + header(type, content.size()), content);
	}
	// Several, in this order.
	std::string records(std::initializer_list<std::pair<int, std::string>> list)
	{
		std::string all;

		for (const auto &[type, content] : list)
			all += record(type, content);
		return all;
	}
	// Further records have the next keys of TLS 1.3.
	void change_keys()
	{
		secret_ = expand("traffic upd", 32);
		derive();
	}
	void send_bytes(const std::string &bytes) { send_all(bytes.data(), bytes.size()); }
	void end_socket() { EXPECT_EQ(0, shutdown(fd_, SHUT_WR)); }

	// Reads so many bytes of data.
	void receive(int size)
	{
		char buf[16384];

		while (size > 0) {
			const int n = SSL_read(ssl_.get(), buf, size);

			if (n > 0) {
				size -= n;
				continue;
			}
			const ssize_t more = read(fd_, buf, sizeof buf);
			ASSERT_GT(more, 0);
			BIO_write(in_, buf, int(more));
		}
	}

	SSL *ssl() const { return ssl_.get(); }
	int fd() const { return fd_; }
	std::string taken()
	{
		char *bytes;
		const size_t size = prepared(&bytes);
		std::string all(bytes, size);

		BIO_reset(out_);
		return all;
	}

	sn_stream *stream = nullptr;

private:
	static std::string big_endian(uint64_t number)
	{
		std::string bytes;

		for (int shift = 56; shift >= 0; shift -= 8)
			bytes += char(number >> shift);
		return bytes;
	}
	static std::string hmac(const std::string &key, const std::string &text)
	{
		unsigned char digest[EVP_MAX_MD_SIZE];
		unsigned size = 0;

		HMAC(EVP_sha256(), key.data(), int(key.size()),
		     reinterpret_cast<const unsigned char *>(text.data()), text.size(), digest,
		     &size);
		return {reinterpret_cast<char *>(digest), size};
	}
	// HKDF-Expand-Label of RFC 8446, 7.1, for up to 32 bytes.
	std::string expand(const std::string &label, size_t size) const
	{
		const std::string full = "tls13 " + label;

		return hmac(secret_, std::string{0, char(size), char(full.size())} + full +
					     std::string{0, 1})
			.substr(0, size);
	}
	void derive()
	{
		key_ = expand("key", 16);
		iv_ = expand("iv", 12);
		number_ = 0;
	}
	void take_keys()
	{
		has_keys_ = true;
		if (SSL_version(ssl_.get()) == TLS1_3_VERSION) {
			derive();
			return;
		}
		// The key block of RFC 5246, 6.3: two keys, and the fixed parts of the nonces.
		unsigned char server[32], client[32], master[48];
		std::string block, seed = "key expansion", at;
		const bool is_server = SSL_is_server(ssl_.get());

		SSL_get_server_random(ssl_.get(), server, sizeof server);
		SSL_get_client_random(ssl_.get(), client, sizeof client);
		SSL_SESSION_get_master_key(SSL_get_session(ssl_.get()), master, sizeof master);
		seed.append(reinterpret_cast<char *>(server), 32);
		seed.append(reinterpret_cast<char *>(client), 32);
		const std::string secret(reinterpret_cast<char *>(master), sizeof master);
		at = seed;
		while (block.size() < 40) {
			at = hmac(secret, at);
			block += hmac(secret, at + seed);
		}
		key_ = block.substr(is_server ? 16 : 0, 16);
		iv_ = block.substr(is_server ? 36 : 32, 4);
		number_ = 1; // the handshake's last message was the first record
	}
	std::string seal(const std::string &nonce, const std::string &bound,
			 const std::string &text) const
	{
		using Bytes = const unsigned char *;
		std::unique_ptr<EVP_CIPHER_CTX, Freer<EVP_CIPHER_CTX_free>> made(
			EVP_CIPHER_CTX_new());
		std::string sealed(text.size() + 16, '\0');
		auto *const out = reinterpret_cast<unsigned char *>(sealed.data());
		int size = 0;

		EXPECT_EQ(12u, nonce.size());
		EVP_EncryptInit_ex(made.get(), EVP_aes_128_gcm(), nullptr, Bytes(key_.data()),
				   Bytes(nonce.data()));
		EVP_EncryptUpdate(made.get(), nullptr, &size, Bytes(bound.data()),
				  int(bound.size()));
		EVP_EncryptUpdate(made.get(), out, &size, Bytes(text.data()), int(text.size()));
		EVP_EncryptFinal_ex(made.get(), out + size, &size);
		EXPECT_EQ(1, EVP_CIPHER_CTX_ctrl(made.get(), EVP_CTRL_GCM_GET_TAG, 16,
						 out + text.size()));
		return sealed;
	}
	// OpenSSL's callback: a line for each secret, "LABEL RANDOM SECRET".
	static void note_secret(const SSL *ssl, const char *line)
	{
		auto *const self = static_cast<Peer *>(SSL_get_app_data(ssl));
		const std::string_view text = line;
		std::string secret;

		if (!text.starts_with(SSL_is_server(ssl) ? "SERVER_TRAFFIC_SECRET_0 "
							 : "CLIENT_TRAFFIC_SECRET_0 "))
			return;
		for (size_t at = text.rfind(' ') + 1; at + 1 < text.size(); at += 2)
			secret += char(std::stoi(std::string(text.substr(at, 2)), nullptr, 16));
		self->secret_ = secret;
	}

	std::unique_ptr<SSL_CTX, test::Freer<SSL_CTX_free>> context_;
	std::unique_ptr<SSL, test::Freer<SSL_free>> ssl_;
	BIO *in_ = nullptr, *out_ = nullptr;
	int fd_ = -1;
	bool has_keys_ = false;
	std::string secret_, key_, iv_;
	uint64_t number_ = 0; // of the next record
};

} // namespace test

#endif
