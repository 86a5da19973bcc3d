// SPDX-License-Identifier: MIT
//
// Helpers for the tests of TLS: configurations, and connections with both ends in the test.
#ifndef SENNIT_TESTS_TLS_PAIRS_H
#define SENNIT_TESTS_TLS_PAIRS_H

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <sennit/tls.h>

#include "authority.h"
#include "support/streams.h"

namespace test
{

class Config
{
public:
	explicit Config(sn_tls_role role)
	{
		EXPECT_EQ(0, sn_tls_config_new(&config_, role));
		need(config_);
	}
	~Config() { sn_tls_config_unref(config_); }
	Config(const Config &) = delete;
	Config &operator=(const Config &) = delete;

	operator sn_tls_config *() const { return config_; }

	Config &trust(const std::string &pem)
	{
		EXPECT_EQ(0, sn_tls_config_add_ca(config_, pem.c_str())) << sn_tls_last_error();
		return *this;
	}
	Config &show(const std::vector<const Identity *> &identities)
	{
		std::vector<std::string> texts;
		std::vector<sn_tls_certificate> list;

		for (const Identity *each : identities) {
			texts.push_back(each->chain());
			texts.push_back(each->secret());
		}
		for (size_t i = 0; i < texts.size(); i += 2)
			list.push_back({texts[i].c_str(), texts[i + 1].c_str()});
		EXPECT_EQ(0, sn_tls_config_set_certificates(config_, list.data(), list.size()))
			<< sn_tls_last_error();
		return *this;
	}

private:
	sn_tls_config *config_ = nullptr;
};

// An authority, a server with a certificate for localhost, and a client that trusts the authority.
struct Usual {
	Usual()
	{
		server.show({&identity});
		client.trust(authority.pem());
	}

	Authority authority;
	Identity identity = authority.sign({});
	Config server{SN_TLS_SERVER}, client{SN_TLS_CLIENT};
};

// Runs the body as the first task of a test of TLS, with a deep stack.
inline void run_tls(std::initializer_list<int> processors, const std::function<void()> &body)
{
	Environment stack("SENNIT_STACK_SIZE", std::to_string(SN_TLS_STACK));

	run(processors, body);
}
inline void run_tls(const std::function<void()> &body)
{
	run_tls({1, 2, 4}, body);
}

// Both ends of a connection, as streams that close themselves.
class TlsPair
{
public:
	TlsPair(sn_tls_config *at_client, sn_tls_config *at_server, const char *name = "localhost")
	{
		Listener listener;
		Pair pair(listener);

		client = sn_tcp_stream(pair.release_client());
		server = sn_tcp_stream(pair.release_server());
		EXPECT_EQ(0, sn_tls_client(client, at_client, name)) << sn_tls_last_error();
		EXPECT_EQ(0, sn_tls_server(server, at_server)) << sn_tls_last_error();
	}
	~TlsPair()
	{
		sn_stream_close(client);
		sn_stream_close(server);
	}
	TlsPair(const TlsPair &) = delete;
	TlsPair &operator=(const TlsPair &) = delete;

	// Makes both handshakes; returns the results of the client and of the server.
	std::pair<int, int> try_handshake()
	{
		std::pair<int, int> results;
		Task other([&] {
			results.second = sn_tls_handshake(server, sn_now() + patience);
			// Otherwise a peer that is still sending would see a reset instead of the
			// alert.
			if (results.second < 0)
				sn_stream_shutdown(server, SN_SHUT_WRITE);
		});

		results.first = sn_tls_handshake(client, sn_now() + patience);
		if (results.first < 0)
			shutdown(sn_stream_fd(client), SHUT_WR);
		other.join();
		return results;
	}
	void handshake()
	{
		const std::pair<int, int> results = try_handshake();

		EXPECT_EQ(0, results.first) << sn_tls_error(client);
		EXPECT_EQ(0, results.second) << sn_tls_error(server);
	}
	void close_client() { EXPECT_EQ(0, sn_stream_close(std::exchange(client, nullptr))); }
	void close_server() { EXPECT_EQ(0, sn_stream_close(std::exchange(server, nullptr))); }

	// One byte each way, which also brings the client the server's tickets.
	void ping()
	{
		char c = 0;

		EXPECT_EQ(1, sn_stream_write(client, "p", 1));
		EXPECT_EQ(1, sn_stream_read(server, &c, 1));
		EXPECT_EQ('p', c);
		EXPECT_EQ(1, sn_stream_write(server, "q", 1));
		EXPECT_EQ(1, sn_stream_read(client, &c, 1));
		EXPECT_EQ('q', c);
	}

	sn_stream *client = nullptr, *server = nullptr;
};

inline struct sn_tls_info info_of(sn_stream *stream)
{
	struct sn_tls_info info = {};

	EXPECT_EQ(0, sn_tls_info(stream, &info));
	return info;
}

} // namespace test

#endif
