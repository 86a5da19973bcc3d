// SPDX-License-Identifier: MIT
//
// A connection with TLS is a stream: reading, writing, ends of streams, deadlines, cancellation,
// closing, copies and relays.
#include "pairs.h"
#include "support/sized.h"

#include <array>
#include <ios>

#include <openssl/ssl.h>

#include <sys/wait.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/tls.hpp>

namespace
{

using namespace test;

TEST(TlsStream, BytesGoBothWays)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		const iovec pieces[] = {{(void *)"ab", 2}, {nullptr, 0}, {(void *)"cde", 3}};
		char buf[16], c[2];
		const iovec places[] = {{c, 2}, {buf, sizeof buf}};
		size_t done = 0;

		pair.handshake();
		pair.ping();
		EXPECT_EQ(5, sn_stream_writev(pair.client, pieces, 3));
		EXPECT_EQ(5, sn_stream_readv(pair.server, places, 2));
		EXPECT_EQ("abcde", std::string(c, 2) + std::string(buf, 3));
		EXPECT_EQ(5, sn_stream_writev_all(pair.server, pieces, 3, &done));
		EXPECT_EQ(5, sn_stream_read_full(pair.client, buf, 5, nullptr));
		const struct sn_tls_info info = test::info_of(pair.client);
		EXPECT_EQ(1, info.finished);
		EXPECT_EQ(SN_TLS_1_3, info.version);
		EXPECT_EQ(0, info.resumed);
		EXPECT_STREQ("TLS_AES_128_GCM_SHA256", info.cipher);
		EXPECT_STREQ("localhost", test::info_of(pair.server).server_name);
		EXPECT_STREQ("", sn_tls_error(pair.client));
	});
}

// The structure in a program that was compiled with an older header.
struct OldInfo {
	size_t size;
	int finished;
	enum sn_tls_version version;
	int resumed;
};

TEST(TlsStream, InformationOfAnOlderHeaderIsFilled)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);

		pair.handshake();
		test::expect_gives<struct sn_tls_info, OldInfo>(
			[&](struct sn_tls_info *each) { return sn_tls_info(pair.client, each); },
			[](const OldInfo &info) {
				EXPECT_EQ(1, info.finished);
				EXPECT_EQ(SN_TLS_1_3, info.version);
				EXPECT_EQ(0, info.resumed);
			});
	});
}

TEST(TlsStream, FirstReadAndWriteMakeTheHandshake)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char c;

		test::Task server([&] {
			EXPECT_EQ(1, sn_stream_read(pair.server, &c, 1));
			EXPECT_EQ(1, sn_stream_write(pair.server, &c, 1));
		});
		test::Task reader([&] {
			char d = 0;

			EXPECT_EQ(1, sn_stream_read(pair.client, &d, 1));
			EXPECT_EQ('f', d);
		});
		EXPECT_EQ(1, sn_stream_write(pair.client, "f", 1)) << sn_tls_error(pair.client);
		reader.join();
		server.join();
	});
}

// The tasks of a server that begin when a request comes. Several records may come in one packet, so
// OpenSSL may have read the second one when the socket is empty.
struct Server {
	sn_stream *stream;
	std::atomic<int> begun{0};
	std::atomic<bool> ended{false};

	static int serve(void *arg)
	{
		auto *self = static_cast<Server *>(arg);
		char c;
		const ssize_t n = sn_stream_read(self->stream, &c, 1);

		self->begun++;
		if (n == 1 && sn_stream_write(self->stream, &c, 1) == 1 &&
		    sn_go_when_readable(self->stream, serve, self) == 0)
			return 0;
		EXPECT_EQ(0, n);
		self->ended = true;
		return 0;
	}
};

TEST(TlsStream, TasksBeginWhenThereIsARequest)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		Server server{pair.server};
		char answer[3];

		// The first task does the handshake.
		ASSERT_EQ(0, sn_go_when_readable(pair.server, Server::serve, &server));
		for (int round = 0; round < 5; round++) {
			EXPECT_EQ(1, sn_stream_write(pair.client, "a", 1));
			EXPECT_EQ(2, sn_stream_write_all(pair.client, "bc", 2, nullptr));
			ASSERT_EQ(3, sn_stream_read_full(pair.client, answer, 3, nullptr));
			EXPECT_EQ("abc", std::string(answer, 3));
		}
		EXPECT_EQ(15, server.begun);
		EXPECT_EQ(0, sn_stream_shutdown(pair.client, SN_SHUT_WRITE));
		EXPECT_TRUE(test::eventually([&] { return server.ended.load(); }));
	});
}

TEST(TlsStream, ReadersAndWritersWithBuffers)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		sn_reader in;
		sn_writer out;
		char *line;
		size_t length = 0;

		pair.handshake();
		(void)!sn_writer_init(&out, pair.client, nullptr, 0);
		(void)!sn_reader_init(&in, pair.server, nullptr, 0);
		for (int i = 0; i < 1000; i++)
			sn_writer_print(&out, "line %d\n", i);
		EXPECT_EQ(0, sn_writer_flush(&out));
		for (int i = 0; i < 1000; i++) {
			ASSERT_GT(sn_reader_line(&in, &line, &length), 0);
			EXPECT_EQ("line " + std::to_string(i), std::string(line, length));
		}
		sn_writer_free(&out);
		sn_reader_free(&in);
	});
}

TEST(TlsStream, LargeAmountsInBothDirectionsWithNewKeys)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		test::Random random;
		const std::string there = test::random_bytes(random, size_t(test::scaled(8 << 20)));
		const std::string back = test::random_bytes(random, size_t(test::scaled(5 << 20)));
		auto writer = [&](sn_stream *to, const std::string &what, uint64_t seed) {
			return test::Task([to, &what, seed] {
				test::Random mine(seed);
				size_t done = 0;

				while (done < what.size()) {
					const size_t most = 1 + mine.below(100000);
					const ssize_t n =
						sn_stream_write(to, what.data() + done,
								std::min(most, what.size() - done));

					ASSERT_GT(n, 0) << sn_tls_error(to);
					done += size_t(n);
					if (mine.below(10) == 0) {
						EXPECT_EQ(0, sn_tls_update_keys(to));
					}
				}
				EXPECT_EQ(0, sn_stream_shutdown(to, SN_SHUT_WRITE));
			});
		};

		pair.handshake();
		test::Task a = writer(pair.client, there, random.next());
		test::Task b = writer(pair.server, back, random.next());
		test::Task reader([&] {
			EXPECT_TRUE(test::read_to_end(pair.server) == there)
				<< sn_tls_error(pair.server);
		});
		EXPECT_TRUE(test::read_to_end(pair.client) == back) << sn_tls_error(pair.client);
		reader.join();
		a.join();
		b.join();
	});
}

// ---- ends ----

TEST(TlsStream, HalfCloseIsAnEndForThePeerOnly)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);

		pair.handshake();
		EXPECT_EQ(3, sn_stream_write_all(pair.client, "ask", 3, nullptr));
		EXPECT_EQ(0, sn_stream_shutdown(pair.client, SN_SHUT_WRITE));
		EXPECT_EQ(-EPIPE, sn_stream_write(pair.client, "x", 1));
		EXPECT_EQ("ask", test::read_to_end(pair.server));
		EXPECT_EQ(6, sn_stream_write_all(pair.server, "answer", 6, nullptr));
		pair.close_server();
		EXPECT_EQ("answer", test::read_to_end(pair.client));
		EXPECT_EQ("", test::read_to_end(pair.client)); // again
		EXPECT_STREQ("", sn_tls_error(pair.client));
	});
}

TEST(TlsStream, ConnectionThatWasCutOffIsNoEnd)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char buf[8];

		pair.handshake();
		EXPECT_EQ(4, sn_stream_write_all(pair.client, "some", 4, nullptr));
		shutdown(sn_stream_fd(pair.client), SHUT_WR);
		EXPECT_EQ(4, sn_stream_read_full(pair.server, buf, 4, nullptr));
		EXPECT_EQ(-ECONNABORTED, sn_stream_read(pair.server, buf, 8));
		EXPECT_EQ(-ECONNABORTED, sn_stream_read(pair.server, buf, 8));
		EXPECT_NE(nullptr, strstr(sn_tls_error(pair.server), "without close_notify"));
	});
}

TEST(TlsStream, AbortIsAReset)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char c;

		pair.handshake();
		pair.ping();
		EXPECT_EQ(0, sn_stream_abort(std::exchange(pair.client, nullptr)));
		EXPECT_EQ(-ECONNRESET, sn_stream_read(pair.server, &c, 1));
		EXPECT_STREQ("the connection has failed: Connection reset by peer",
			     sn_tls_error(pair.server));
	});
}

TEST(TlsStream, ReadHalfCanBeEndedAndWritingContinues)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char c;

		pair.handshake();
		pair.ping();
		test::Task reader([&] { EXPECT_EQ(0, sn_stream_read(pair.client, &c, 1)); });
		EXPECT_TRUE(test::someone_reads(pair.client));
		EXPECT_EQ(0, sn_stream_shutdown(pair.client, SN_SHUT_READ));
		reader.join();
		EXPECT_EQ(1, sn_stream_write(pair.client, "w", 1));
		EXPECT_EQ(1, sn_stream_read(pair.server, &c, 1));
	});
}

int leave_alone(void *inherited)
{
	auto *stream = static_cast<sn_stream *>(inherited);
	struct sn_tls_info info;

	CHILD_CHECK(sn_stream_shutdown(stream, SN_SHUT_READ) == -EBADF);
	CHILD_CHECK(sn_stream_shutdown(stream, SN_SHUT_WRITE) == -EBADF);
	CHILD_CHECK(sn_tls_info(stream, &info) == -EBADF);
	return 0;
}

TEST(TlsStream, ChildOfForkLeavesTheConnectionToTheParent)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "no threads after a fork";
	run_tls({1}, [] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		int status = -1;

		pair.handshake();
		const pid_t child = fork();
		if (child == 0) {
			// The child closes it in a run of its own. The parent's tasks may have held
			// the connection's lock.
			CHILD_CHECK(sn_run(leave_alone, pair.client) == 0);
			CHILD_CHECK(sn_stream_close(pair.client) == 0);
			CHILD_CHECK(sn_stream_close(pair.server) == 0);
			_exit(0);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
		pair.ping();
	});
}

// ---- the end of a run ----

std::atomic<int> alive{0};

void note_made(void *, void *, CRYPTO_EX_DATA *, int, long, void *)
{
	alive++;
}

void note_freed(void *, void *, CRYPTO_EX_DATA *, int, long, void *)
{
	alive--;
}

// The peer does not see an end of the stream, because no task has ended it.
TEST(TlsStream, AbandonedConnectionsAreFreedWithTheRun)
{
	static const int index = SSL_get_ex_new_index(0, nullptr, note_made, nullptr, note_freed);

	ASSERT_GE(index, 0);
	alive = 0;
	run_tls([] {
		Usual usual;

		for (int i = 0; i < 10; i++) {
			auto *pair = new TlsPair(usual.client, usual.server);
			sn_task *task = nullptr;
			auto read = [](void *stream) {
				char c;

				(void)!sn_stream_read(static_cast<sn_stream *>(stream), &c, 1);
				return 0;
			};

			pair->handshake();
			pair->ping();
			// For some of these a task is in a read; the others are only left open.
			if (i % 2 == 0) {
				ASSERT_EQ(0, sn_spawn(&task, read, pair->client, nullptr));
				EXPECT_EQ(0, sn_detach(task));
				EXPECT_TRUE(test::someone_reads(pair->client));
			}
			// without its destructor, which would close the streams
			operator delete(pair);
		}
		EXPECT_EQ(20, alive);
	});
	EXPECT_EQ(0, alive);
}

// ---- waits ----

TEST(TlsStream, HandshakeHasADeadline)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);

		EXPECT_EQ(-ETIMEDOUT, sn_tls_handshake(pair.client, sn_now() + 10 * test::ms));
		EXPECT_STREQ("the handshake has failed: Connection timed out", sn_tls_last_error());
		sn_stream_set_read_deadline(pair.client, sn_now() + 10 * test::ms);
		EXPECT_EQ(-ETIMEDOUT, sn_tls_handshake(pair.client, SN_NO_DEADLINE));
		sn_stream_set_read_deadline(pair.client, SN_NO_DEADLINE);
		pair.handshake(); // continues the handshake
		pair.ping();
	});
}

TEST(TlsStream, ReadsAndWritesHaveDeadlinesAndContinueAfterThem)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		const std::string bytes(1 << 20, 'b');
		size_t total = 0;
		ssize_t n;
		char c;

		pair.handshake();
		sn_stream_set_read_deadline(pair.client, sn_now() + 10 * test::ms);
		EXPECT_EQ(-ETIMEDOUT, sn_stream_read(pair.client, &c, 1));
		sn_stream_set_read_deadline(pair.client, SN_NO_DEADLINE);
		sn_stream_set_write_deadline(pair.client, sn_now() + 100 * test::ms);
		while ((n = sn_stream_write(pair.client, bytes.data(), bytes.size())) > 0)
			total += size_t(n);
		EXPECT_EQ(-ETIMEDOUT, n);
		sn_stream_set_write_deadline(pair.client, SN_NO_DEADLINE);
		test::Task rest([&] {
			EXPECT_EQ(4, sn_stream_write_all(pair.client, "rest", 4, nullptr));
			EXPECT_EQ(0, sn_stream_shutdown(pair.client, SN_SHUT_WRITE));
		});
		const std::string got = test::read_to_end(pair.server);
		EXPECT_EQ(total + 4, got.size());
		EXPECT_EQ("brest", got.substr(got.size() - 5));
		rest.join();
	});
}

TEST(TlsStream, CancelAndCloseEndWaits)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char c;

		test::Task handshake([&] {
			EXPECT_EQ(-ECANCELED, sn_tls_handshake(pair.client, SN_NO_DEADLINE));
		});
		EXPECT_TRUE(test::someone_reads(pair.client));
		EXPECT_EQ(0, sn_stream_cancel(pair.client));
		handshake.join();

		TlsPair second(usual.client, usual.server);
		second.handshake();
		test::Task reader([&, stream = second.client] {
			EXPECT_EQ(-EBADF, sn_stream_read(stream, &c, 1));
		});
		test::Task writer([&, stream = second.client] {
			const std::string bytes(1 << 20, 'b');
			ssize_t n;

			while ((n = sn_stream_write(stream, bytes.data(), bytes.size())) > 0)
				continue;
			EXPECT_EQ(-EBADF, n);
		});
		EXPECT_TRUE(test::someone_reads(second.client));
		EXPECT_TRUE(test::someone_writes(second.client));
		second.close_client();
		reader.join();
		writer.join();
	});
}

TEST(TlsStream, SecondReaderIsRefused)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		char c;

		pair.handshake();
		test::Task reader([&] { EXPECT_EQ(1, sn_stream_read(pair.client, &c, 1)); });
		EXPECT_TRUE(test::someone_reads(pair.client));
		EXPECT_EQ(-EBUSY, sn_stream_read(pair.client, &c, 1));
		EXPECT_EQ(-EBUSY, sn_tls_handshake(pair.client, SN_NO_DEADLINE));
		EXPECT_EQ(1, sn_stream_write(pair.server, "x", 1));
		reader.join();
	});
}

TEST(TlsStream, ShallowStackIsRefused)
{
	run_tls([] {
		Usual usual;
		TlsPair pair(usual.client, usual.server);
		sn_task_attr attr = {};

		attr.stack_size = 32 << 10;
		test::Task shallow(
			[&] {
				EXPECT_EQ(-ENOBUFS, sn_tls_handshake(pair.client, SN_NO_DEADLINE));
				EXPECT_STREQ("the task's stack is too small for a handshake",
					     sn_tls_last_error());
			},
			&attr);
		shallow.join();
		pair.handshake(); // called from this stack
	});
}

// ---- copies ----

TEST(TlsStream, CopiesAndRelays)
{
	run_tls([] {
		Usual usual;
		TlsPair front(usual.client, usual.server), back(usual.client, usual.server);
		const std::string bytes(size_t(test::scaled(3 << 20)), 'r');
		sn_relay_result result;
		sn_copy_result copied;

		front.handshake();
		back.handshake();
		test::Task relay([&] {
			EXPECT_EQ(0, sn_relay(front.server, back.client, &result, nullptr));
			EXPECT_EQ(0, sn_stream_close(std::exchange(front.server, nullptr)));
			EXPECT_EQ(0, sn_stream_close(std::exchange(back.client, nullptr)));
		});
		test::Task echo([&] {
			EXPECT_EQ(0,
				  sn_copy(back.server, back.server, -1, nullptr, nullptr, &copied));
			EXPECT_EQ(0, sn_stream_shutdown(back.server, SN_SHUT_WRITE));
		});
		for (int i = 0; i < 20; i++) {
			char buf[4];

			EXPECT_EQ(4, sn_stream_write_all(front.client, "ping", 4, nullptr));
			EXPECT_EQ(4, sn_stream_read_full(front.client, buf, 4, nullptr));
		}
		test::Task writer([&] {
			(void)!sn_stream_write_all(front.client, bytes.data(), bytes.size(),
						   nullptr);
			EXPECT_EQ(0, sn_stream_shutdown(front.client, SN_SHUT_WRITE));
		});
		EXPECT_TRUE(test::read_to_end(front.client) == bytes);
		writer.join();
		relay.join();
		echo.join();
		EXPECT_EQ(SN_RELAY_FINISHED, result.end);
		EXPECT_EQ(bytes.size() + 80, copied.bytes_userspace);
	});
}

TEST(TlsStream, RelayReportsAConnectionThatWasCutOff)
{
	run_tls([] {
		Usual usual;
		TlsPair front(usual.client, usual.server);
		auto back = test::Ends::tcp();
		sn_relay_result result;

		front.handshake();
		test::Task relay([&] {
			EXPECT_EQ(-ECONNABORTED,
				  sn_relay(front.server, back->from(), &result, nullptr));
		});
		shutdown(sn_stream_fd(front.client), SHUT_WR);
		relay.join();
		EXPECT_EQ(SN_RELAY_FAILED, result.end);
		EXPECT_EQ(0, result.side);
	});
}

// ---- C++, and misuse ----

TEST(TlsStream, ConnectsFromCxx)
{
	run_tls([] {
		Usual usual;
		test::Listener listener;
		sn::tls_config config(SN_TLS_CLIENT);

		EXPECT_TRUE(config.add_ca(usual.authority.pem()));
		EXPECT_TRUE(config.alpn("h2"));
		test::Task server([&] {
			sn::tcp conn(listener.accept());
			char c;

			EXPECT_EQ(0, sn_tls_server(conn.as_stream(), usual.server));
			EXPECT_TRUE(sn::tls_handshake(conn, sn::no_deadline));
			EXPECT_EQ(1u, *conn.read(&c, 1));
		});
		auto conn = sn::tls_connect(listener.address(), config);
		ASSERT_TRUE(conn) << sn::tls_last_error();
		EXPECT_TRUE(conn->write("c", 1));
		auto der = sn::tls_peer_certificate(*conn);
		ASSERT_TRUE(der);
		EXPECT_GT(der->size(), 100u);
		EXPECT_EQ(SN_TLS_1_3, sn::tls_info(*conn)->version);
		server.join();
	});
}

TEST(TlsStream, ErrorsInCxxSayWhatHasFailed)
{
	run_tls({2}, [] {
		Usual usual;
		test::Authority stranger;
		test::Listener listener;
		sn::tls_config config(SN_TLS_CLIENT);

		EXPECT_TRUE(config.add_ca(stranger.pem()));
		test::Task server([&] {
			sn::tcp conn(listener.accept());
			const auto refused = sn::tls_info(conn).error();

			EXPECT_EQ(refused, sn::tls_errc::not_tls);
			EXPECT_EQ("the stream has no TLS", refused.message());
			EXPECT_EQ(0, sn_tls_server(conn.as_stream(), usual.server));
			EXPECT_EQ(sn::tls_handshake(conn).error(), sn::tls_errc::protocol);
		});
		const std::error_code error = sn::tls_connect(listener.address(), config).error();

		EXPECT_EQ(error, sn::tls_errc::refused);
		EXPECT_NE(error, sn::tls_errc::protocol);
		EXPECT_EQ("the peer's certificate is refused", error.message());
		EXPECT_EQ(-EKEYREJECTED, sn::to_errno(error));
		/* A later call on the stream reports the refusal by its errno value. */
		EXPECT_EQ(sn::from_errno(-EKEYREJECTED), sn::tls_errc::refused);
		server.join();

		/* Errors of the socket are compared as usual. */
		const std::error_code closed =
			sn::tls_connect("127.0.0.1:1", config, std::chrono::minutes(1)).error();
		EXPECT_EQ(closed, std::errc::connection_refused);
		EXPECT_EQ(closed.category(), std::generic_category());
		sn::tls_config another(SN_TLS_CLIENT);
		EXPECT_EQ(another.add_ca("-----BEGIN CERTIFICATE-----\nx").error(),
			  sn::tls_errc::malformed);
	});
}

TEST(TlsStream, EachTlsErrorIsItsErrnoValueToo)
{
	using sn::tls_errc;
	for (const auto each :
	     {tls_errc::refused, tls_errc::protocol, tls_errc::cut_off, tls_errc::no_stack,
	      tls_errc::not_tls, tls_errc::malformed, tls_errc::expired}) {
		const int number = static_cast<int>(each);
		const std::error_code code(number, sn::tls_category());

		EXPECT_EQ(code, each);
		EXPECT_EQ(code, std::errc(number));
		EXPECT_EQ(sn::from_errno(-number), each);
		EXPECT_NE(std::error_code(number, std::iostream_category()), each);
		EXPECT_FALSE(code.message().empty());
		EXPECT_NE(code.message(), std::generic_category().message(number));
	}
}

TEST(TlsStream, CppTakesKeysOfTickets)
{
	run_tls({1}, [] {
		const std::array<unsigned char, SN_TLS_TICKET_KEY> keys[] = {{1}, {2}};
		sn::tls_config server(SN_TLS_SERVER), client(SN_TLS_CLIENT);

		EXPECT_TRUE(server.ticket_keys(keys));
		EXPECT_TRUE(server.ticket_keys({keys, 1}));
		EXPECT_EQ(std::errc::invalid_argument, server.ticket_keys({}).error());
		EXPECT_EQ(std::errc::invalid_argument, client.ticket_keys(keys).error());
	});
}

TEST(TlsStream, MisuseIsAnError)
{
	run_tls({1}, [] {
		Usual usual;
		test::Config bare(SN_TLS_SERVER);
		auto plain = test::Ends::tcp();
		auto pipe = test::Ends::pipe();
		struct sn_tls_info info;
		char c;

		EXPECT_EQ(-EINVAL, sn_tls_client(plain->from(), usual.client, nullptr));
		EXPECT_EQ(-EINVAL, sn_tls_client(plain->from(), usual.server, "localhost"));
		EXPECT_EQ(-EINVAL, sn_tls_server(plain->from(), usual.client));
		EXPECT_EQ(-EINVAL, sn_tls_server(plain->from(), bare));
		EXPECT_STREQ("the server has no certificate", sn_tls_last_error());
		EXPECT_EQ(-ENOTSOCK, sn_tls_client(pipe->from(), usual.client, "localhost"));
		EXPECT_EQ(-EPROTOTYPE, sn_tls_handshake(plain->from(), SN_NO_DEADLINE));
		EXPECT_EQ(-EPROTOTYPE, sn_tls_info(plain->from(), &info));
		EXPECT_EQ(-EPROTOTYPE, sn_tls_update_keys(plain->from()));
		EXPECT_EQ(nullptr, sn_tls_error(plain->from()));
		EXPECT_EQ(0, sn_tls_client(plain->from(), usual.client, "localhost"));
		EXPECT_EQ(-EEXIST, sn_tls_client(plain->from(), usual.client, "localhost"));
		EXPECT_EQ(-ENOTCONN, sn_tls_update_keys(plain->from()));
		EXPECT_EQ(-ENOENT, sn_tls_peer_certificate(plain->from(), &c, 1));
		EXPECT_EQ(-EBUSY, sn_tls_config_set_alpn(usual.client, "h2"));
	});
	EXPECT_EQ(-ENOTSUP, sn_tls_handshake(nullptr, 0));
}

} // namespace
