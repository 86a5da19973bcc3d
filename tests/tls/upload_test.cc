// SPDX-License-Identifier: MIT
//
// Uploads: one end writes and closes, without reading what the other one has sent, such as tickets.
// A kernel that closes a socket with unread bytes resets the connection, and the bytes that are
// still to be sent are lost. The other end is OpenSSL on a blocking socket, in a thread.
#include "pairs.h"

#include <csignal>
#include <fcntl.h>
#include <netinet/in.h>
#include <thread>

#include <openssl/ssl.h>

namespace
{

using test::run_tls;
using test::Usual;

const int uploads = test::scaled(200);
constexpr size_t bytes = 1 << 20;

class OpenSsl
{
public:
	OpenSsl(const Usual &usual, bool is_server)
	    : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()))
	{
		SSL_CTX_use_certificate(context_.get(), usual.identity.certificate.get());
		SSL_CTX_use_PrivateKey(context_.get(), usual.identity.key.get());
	}
	std::unique_ptr<SSL, test::Freer<SSL_free>> on(int fd)
	{
		std::unique_ptr<SSL, test::Freer<SSL_free>> ssl(SSL_new(context_.get()));

		SSL_set_fd(ssl.get(), fd);
		return ssl;
	}

private:
	std::unique_ptr<SSL_CTX, test::Freer<SSL_CTX_free>> context_;
};

int connect_to(const std::string &address)
{
	sockaddr_in to = {};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_family = AF_INET;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
	EXPECT_EQ(0, connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to));
	return fd;
}

TEST(TlsUpload, AServerGetsAllOfAClientThatNeverReads)
{
	run_tls({2}, [] {
		Usual usual;
		OpenSsl client(usual, false);
		test::Listener listener;
		const std::string address = listener.address();

		for (const bool makes_handshake : {false, true})
			for (int i = 0; i < uploads / 2; i++) {
				std::thread uploader([&] {
					const int fd = connect_to(address);
					const std::string all(bytes, 'u');
					auto ssl = client.on(fd);

					EXPECT_EQ(1, SSL_connect(ssl.get()));
					EXPECT_EQ(int(bytes),
						  SSL_write(ssl.get(), all.data(), bytes));
					SSL_shutdown(ssl.get());
					close(fd);
				});
				sn_stream *stream = sn_tcp_stream(listener.accept());

				EXPECT_EQ(0, sn_tls_server(stream, usual.server));
				if (makes_handshake) {
					EXPECT_EQ(0, sn_tls_handshake(stream, SN_NO_DEADLINE));
				}
				EXPECT_EQ(bytes, test::read_to_end(stream).size()) << i;
				EXPECT_STREQ("", sn_tls_error(stream)) << i;
				sn_stream_close(stream);
				uploader.join();
			}
	});
}

TEST(TlsUpload, AClientThatNeverReadsLosesNothingByClosing)
{
	run_tls({2}, [] {
		Usual usual;
		OpenSsl server(usual, true);
		test::Listener listener;
		const std::string all(bytes, 'u');

		for (const bool shuts_down : {false, true})
			for (int i = 0; i < uploads / 2; i++) {
				sn_stream *stream =
					sn_tcp_stream(test::connect(listener.address()));
				sn_stream *accepted = sn_tcp_stream(listener.accept());
				const int fd = dup(sn_stream_fd(accepted));
				size_t got = 0;
				bool ended = false;
				// the thread has a copy of the descriptor
				sn_stream_close(accepted);
				std::thread receiver([&] {
					std::string buf(16384, 0);
					sigset_t pipe;

					sigemptyset(&pipe);
					sigaddset(&pipe, SIGPIPE);
					pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
					auto ssl = server.on(fd);
					int n;

					fcntl(fd, F_SETFL, 0);
					EXPECT_EQ(1, SSL_accept(ssl.get()));
					while ((n = SSL_read(ssl.get(), buf.data(),
							     int(buf.size()))) > 0)
						got += size_t(n);
					ended = SSL_get_shutdown(ssl.get()) & SSL_RECEIVED_SHUTDOWN;
					close(fd);
				});

				EXPECT_EQ(0, sn_tls_client(stream, usual.client, "localhost"));
				EXPECT_EQ(ssize_t(bytes),
					  sn_stream_write_all(stream, all.data(), bytes, nullptr));
				if (shuts_down) {
					EXPECT_EQ(0, sn_stream_shutdown(stream, SN_SHUT_WRITE));
				}
				EXPECT_EQ(0, sn_stream_close(stream));
				receiver.join();
				EXPECT_EQ(bytes, got) << i;
				EXPECT_TRUE(ended) << i;
			}
	});
}

} // namespace
