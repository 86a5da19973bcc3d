/* SPDX-License-Identifier: MIT */
/* Labels: long machine core */
/*
 * A client, the relay and a backend: bytes, ends and resets leave the relay as they came.
 */
#include "harness.hpp"
#include "support/packets.h"

#include <algorithm>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <optional>
#include <system_error>

using namespace harness;

namespace
{

/* A relay with one backend, and connections through it. */
class Session : public testing::Test
{
protected:
	void start(std::vector<std::string> options = {})
	{
		options.insert(options.end(), {"127.0.0.1:0", backend_.address()});
		relay_.emplace(options);
	}

	void open(peer &client, peer &backend)
	{
		client = peer::connect(relay_->address());
		backend = backend_.accept();
	}

	/* Called when all connections are over: no session may be left, and no descriptor. */
	void finish()
	{
		EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
		const ended end = relay_->stop();
		EXPECT_EQ(end.status, 0) << end.errors;
		EXPECT_EQ(end.errors.find("ERROR"), std::string::npos) << end.errors;
	}

	listener backend_;
	std::optional<relay_process> relay_;
};

/* Sends all bytes in chunks of random sizes, with a pause now and then. */
void send_in_chunks(peer &to, const std::string &bytes, std::uint64_t with_seed)
{
	std::mt19937_64 random(with_seed);
	for (std::size_t at = 0; at < bytes.size();) {
		/* Up to 2^16; each power of two about equally likely. */
		const std::size_t size = (random() & 0xffff) >> (random() % 16);
		const auto chunk = std::string_view(bytes).substr(at, size + 1);
		to.send(chunk);
		at += chunk.size();
		if (random() % 256 == 0)
			std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
	}
}

/* Reads that many bytes in chunks of random sizes. */
std::string receive_in_chunks(peer &from, std::size_t size, std::uint64_t with_seed)
{
	std::mt19937_64 random(with_seed);
	std::string bytes;
	while (bytes.size() < size) {
		const std::size_t some = ((random() & 0x3ffff) >> (random() % 18)) + 1;
		bytes += from.receive(std::min(some, size - bytes.size()));
	}
	return bytes;
}

TEST_F(Session, BytesAreExactInBothDirections)
{
	SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed()));
	std::mt19937_64 random(seed());
	const std::string up = random_bytes(random, scaled(24'000'000));
	const std::string down = random_bytes(random, scaled(24'000'000));
	start();
	peer client;
	peer backend;
	open(client, backend);

	auto client_sends =
		std::async(std::launch::async, [&] { send_in_chunks(client, up, seed() + 1); });
	auto backend_sends =
		std::async(std::launch::async, [&] { send_in_chunks(backend, down, seed() + 2); });
	auto client_got = std::async(std::launch::async, [&] {
		return receive_in_chunks(client, down.size(), seed() + 3);
	});
	const std::string backend_got = receive_in_chunks(backend, up.size(), seed() + 4);
	client_sends.get();
	backend_sends.get();
	EXPECT_TRUE(backend_got == up);
	EXPECT_TRUE(client_got.get() == down);

	client.shutdown_write();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	/* Bytes can arrive before the relay has counted them, but not after it has ended. */
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	EXPECT_EQ(relay_->counter("bytes_to_backend"), up.size());
	EXPECT_EQ(relay_->counter("bytes_to_client"), down.size());
	finish();
}

TEST_F(Session, CarriesTheClientsHalfClose)
{
	start();
	peer client;
	peer backend;
	open(client, backend);

	client.send("the question");
	client.shutdown_write();
	EXPECT_EQ(backend.receive_rest(), std::pair(std::string("the question"), ending::fin));

	/* The other direction continues without a limit. */
	const std::string answer(scaled(4'000'000), 'a');
	auto sent = std::async(std::launch::async, [&] { backend.send(answer); });
	EXPECT_TRUE(client.receive(answer.size()) == answer);
	sent.get();
	EXPECT_EQ(relay_->counter("active"), 1U);
	backend.send("more");
	EXPECT_EQ(client.receive(4), "more");

	backend.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	EXPECT_EQ(relay_->counter("resets"), 0U);
	finish();
}

TEST_F(Session, CarriesTheBackendsHalfClose)
{
	start();
	peer client;
	peer backend;
	open(client, backend);

	backend.send("220 hello");
	backend.shutdown_write();
	EXPECT_EQ(client.receive_rest(), std::pair(std::string("220 hello"), ending::fin));

	const std::string upload(scaled(4'000'000), 'u');
	auto sent = std::async(std::launch::async, [&] { client.send(upload); });
	EXPECT_TRUE(backend.receive(upload.size()) == upload);
	sent.get();
	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	EXPECT_EQ(relay_->counter("resets"), 0U);
	finish();
}

TEST_F(Session, AHalfCloseInTheMiddleOfDataLosesNone)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	const std::string up(scaled(8'000'000), 'u');
	const std::string down(scaled(8'000'000), 'd');

	auto backend_sends = std::async(std::launch::async, [&] {
		backend.send(down);
		backend.shutdown_write();
	});
	auto client_sends = std::async(std::launch::async, [&] {
		client.send(up);
		client.shutdown_write();
	});
	auto client_got = std::async(std::launch::async, [&] { return client.receive_rest(); });
	const auto backend_got = backend.receive_rest();
	backend_sends.get();
	client_sends.get();
	EXPECT_TRUE(backend_got == std::pair(up, ending::fin));
	EXPECT_TRUE(client_got.get() == std::pair(down, ending::fin));
	finish();
}

/* If a client has sent bytes before the relay connects, they go out with the last packet of the
 * handshake with the backend. If the relay is stalled for 200 ms before it sends them, the kernel
 * completes the handshake without them, and the test tries another client. */
TEST_F(Session, EarlyBytesGoWithTheHandshake)
{
	start();
	const std::string door = relay_->address();
	bool is_counted = true;
	EXPECT_TRUE(eventually([&] {
		relay_->signal(SIGSTOP);
		peer client = peer::sending("hello", door);
		relay_->signal(SIGCONT);
		peer backend = backend_.accept();
		EXPECT_EQ(backend.receive(5), "hello");
		const int packets = test::packets_in(backend.fd());
		is_counted = packets >= 0;
		/* The backend may still send first, and its bytes arrive immediately. */
		backend.send("welcome");
		EXPECT_EQ(client.receive(7), "welcome");
		client.shutdown_write();
		EXPECT_EQ(backend.receive_end(), ending::fin);
		backend.close();
		EXPECT_EQ(client.receive_end(), ending::fin);
		return packets <= 2; /* the SYN, and the bytes */
	}));
	finish();
	if (!is_counted)
		GTEST_SKIP() << "packets are not counted here";
}

TEST_F(Session, AResetOfTheClientReachesTheBackend)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	client.send("half a que");
	EXPECT_EQ(backend.receive(10), "half a que");
	client.reset();
	EXPECT_EQ(backend.receive_end(), ending::reset);
	EXPECT_EQ(relay_->counter("resets"), 1U);
	finish();
}

TEST_F(Session, AResetOfTheBackendReachesTheClient)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	backend.send("half an ans");
	EXPECT_EQ(client.receive(11), "half an ans");
	backend.reset();
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(relay_->counter("resets"), 1U);
	finish();
}

TEST_F(Session, AResetAfterTheClientsHalfCloseReachesTheBackend)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	client.shutdown_write();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	client.reset();
	/* The backend has read to the end, so reading does not report the reset. */
	EXPECT_NO_THROW(backend.await_reset());
	EXPECT_EQ(relay_->counter("resets"), 1U);
	finish();
}

TEST_F(Session, AResetAfterTheBackendsHalfCloseReachesTheClient)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	backend.shutdown_write();
	EXPECT_EQ(client.receive_end(), ending::fin);
	backend.reset();
	EXPECT_NO_THROW(client.await_reset());
	EXPECT_EQ(relay_->counter("resets"), 1U);
	finish();
}

TEST_F(Session, AResetByAStuckReceiverReachesTheSender)
{
	start();
	peer client;
	peer backend;
	open(client, backend);
	/* The relay is stuck writing to a backend that does not read. Then the backend resets. */
	EXPECT_GT(client.send_until_stuck(), 0U);
	backend.reset();
	EXPECT_NO_THROW(client.await_reset());
	finish();
}

TEST_F(Session, ABackendThatIsDownFailsOneClientOnly)
{
	listener down("127.0.0.1", -1);
	relay_.emplace(std::vector<std::string>{"--retries", "0", "127.0.0.1:0", down.address()});

	for (unsigned i = 1; i <= 3; i++) {
		auto client = peer::connect(relay_->address());
		EXPECT_EQ(client.receive_end(), ending::fin);
		EXPECT_EQ(relay_->counter("connect_failed"), i);
	}

	down.listen();
	auto client = peer::connect(relay_->address());
	auto backend = down.accept();
	backend.send("up");
	EXPECT_EQ(client.receive(2), "up");
	EXPECT_EQ(relay_->counter("connect_failed"), 3U);
	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	finish();
}

TEST_F(Session, ABackendThatDoesNotResolveFailsOneClientOnly)
{
	relay_.emplace(std::vector<std::string>{"127.0.0.1:0", "no-such-host.invalid:80",
						"127.0.0.1:0", backend_.address()});
	auto client = peer::connect(relay_->address(0));
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(relay_->counter("connect_failed"), 1U);

	auto other = peer::connect(relay_->address(1));
	auto backend = backend_.accept();
	backend.send("up");
	EXPECT_EQ(other.receive(2), "up");
	other.close();
	backend.close();
	finish();
}

TEST_F(Session, ABackendByNameIsFound)
{
	const std::string port = backend_.address().substr(backend_.address().rfind(':'));
	relay_.emplace(std::vector<std::string>{"localhost:0", "localhost" + port});
	auto client = peer::connect(relay_->address());
	auto backend = backend_.accept();
	client.send("hello");
	EXPECT_EQ(backend.receive(5), "hello");
	client.close();
	backend.close();
	finish();
}

TEST_F(Session, GivesUpOnABackendThatDoesNotAnswer)
{
	const silent_backend silent;
	relay_.emplace(std::vector<std::string>{"--connect-timeout", "500ms", "127.0.0.1:0",
						silent.address()});
	const auto start = std::chrono::steady_clock::now();
	auto client = peer::connect(relay_->address());
	EXPECT_EQ(client.receive_end(), ending::fin);
	const auto took = std::chrono::steady_clock::now() - start;
	EXPECT_GE(took, 450ms);
	EXPECT_LT(took, patience) << "the system's own limit is some minutes";
	EXPECT_EQ(relay_->counter("connect_failed"), 1U);
	finish();
}

TEST_F(Session, ClosesIdleConnections)
{
	start({"--idle-timeout", "400ms"});
	peer client;
	peer backend;
	const auto start = std::chrono::steady_clock::now(); /* taken before the relay's timeout
	                                                      * starts */
	open(client, backend);
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(backend.receive_end(), ending::fin);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 350ms);
	EXPECT_EQ(relay_->counter("idle_timeouts"), 1U);
	EXPECT_EQ(relay_->counter("resets"), 0U);
	finish();
}

TEST_F(Session, OneBusyDirectionIsNotIdle)
{
	start({"--idle-timeout", "2s"});
	relay_->address(); /* wait until it has started and can be asked for its counters */
	using clock = std::chrono::steady_clock;
	auto longest = clock::duration::max();
	/* Lasts for three times the limit, in steps that leave a slow machine much room. If one of
	 * the steps takes nearly as long as the limit, the outcome says nothing about the relay,
	 * and the test tries again. */
	for (int tries = 0; tries < 10 && longest > 1500ms; tries++) {
		const auto before = relay_->counter("idle_timeouts");
		auto last = clock::now();
		longest = {};
		const auto step = [&] {
			longest = std::max(longest, clock::now() - last);
			last = clock::now();
			return longest <= 1500ms;
		};
		try {
			peer client;
			peer backend;
			open(client, backend);
			for (int i = 0; i < 60 && step(); i++) {
				backend.send(".");
				EXPECT_EQ(client.receive(1), ".");
				std::this_thread::sleep_for(100ms);
			}
			if (!step())
				continue;
			const auto idle = relay_->counter("idle_timeouts");
			/* The silent direction has been kept alive, too. */
			client.send("still here");
			EXPECT_EQ(backend.receive(10), "still here");
			if (step()) {
				EXPECT_EQ(idle, before);
			}
			EXPECT_EQ(client.receive_end(), ending::fin);
			EXPECT_EQ(relay_->counter("idle_timeouts"), before + 1);
		} catch (const std::exception &error) {
			EXPECT_FALSE(step()) << error.what();
		}
	}
	EXPECT_LE(longest, 1500ms) << "this machine keeps stalling";
	finish();
}

TEST_F(Session, AHalfClosedConnectionThatGoesSilentIsIdle)
{
	start({"--idle-timeout", "400ms"});
	peer client;
	peer backend;
	open(client, backend);
	client.shutdown_write();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	EXPECT_EQ(client.receive_end(), ending::fin);
	EXPECT_EQ(relay_->counter("idle_timeouts"), 1U);
	backend.close();
	finish();
}

TEST_F(Session, PeersThatBothStopReadingAreIdle)
{
	start({"--idle-timeout", "2s"});
	peer client;
	peer backend;
	open(client, backend);
	/* If the machine stalls the test for as long as the timeout, the reset may come during a
	 * send. */
	const auto is_reset = [](peer &of) {
		try {
			of.send_until_stuck();
		} catch (const std::system_error &error) {
			return error.code() == std::errc::connection_reset ||
			       error.code() == std::errc::broken_pipe;
		}
		of.await_reset();
		return true;
	};
	auto other = std::async(std::launch::async, [&] { return is_reset(backend); });
	/* Bytes were lost, so the stream must not look complete. */
	EXPECT_TRUE(is_reset(client));
	EXPECT_TRUE(other.get());
	/* Both are reset where bytes were lost, and that is counted afterwards. */
	EXPECT_TRUE(eventually([&] { return relay_->counter("idle_timeouts") == 1; }));
	finish();
}

TEST_F(Session, SeveralPairsAreIndependent)
{
	listener other;
	relay_.emplace(std::vector<std::string>{"127.0.0.1:0", backend_.address(), "127.0.0.1:0",
						other.address()});
	auto one = peer::connect(relay_->address(0));
	auto two = peer::connect(relay_->address(1));
	auto behind_one = backend_.accept();
	auto behind_two = other.accept();
	one.send("one");
	two.send("two");
	EXPECT_EQ(behind_one.receive(3), "one");
	EXPECT_EQ(behind_two.receive(3), "two");
	one.close();
	two.close();
	behind_one.close();
	behind_two.close();
	finish();
}

TEST_F(Session, IPv6OnBothSides)
{
	std::optional<listener> six;
	try {
		six.emplace("[::1]");
	} catch (const std::system_error &) {
		GTEST_SKIP() << "this machine has no IPv6";
	}
	relay_.emplace(std::vector<std::string>{"[::1]:0", six->address()});
	EXPECT_EQ(relay_->address().substr(0, 6), "[::1]:");
	auto client = peer::connect(relay_->address());
	auto backend = six->accept();
	client.send("sechs");
	EXPECT_EQ(backend.receive(5), "sechs");
	client.close();
	backend.close();
	finish();
}

TEST_F(Session, ManyShortConnectionsAreCountedExactly)
{
	constexpr std::size_t threads = 8;
	const std::size_t each = scaled(300);
	start();
	const std::string address = relay_->address();

	auto served = std::async(std::launch::async, [&] {
		for (std::size_t i = 0; i < threads * each; i++) {
			auto backend = backend_.accept();
			backend.send(backend.receive(16));
			EXPECT_EQ(backend.receive_end(), ending::fin);
		}
	});
	std::vector<std::future<void>> clients;
	for (std::size_t t = 0; t < threads; t++)
		clients.push_back(std::async(std::launch::async, [&, t] {
			std::mt19937_64 random(seed() + t);
			for (std::size_t i = 0; i < each; i++) {
				auto client = peer::connect(address);
				const std::string bytes = random_bytes(random, 16);
				client.send(bytes);
				ASSERT_EQ(client.receive(16), bytes);
				client.shutdown_write();
				ASSERT_EQ(client.receive_end(), ending::fin);
			}
		}));
	for (auto &client : clients)
		client.get();
	served.get();

	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	const auto counts = relay_->counters();
	EXPECT_EQ(counts.at("accepted"), threads * each);
	EXPECT_EQ(counts.at("bytes_to_backend"), threads * each * 16);
	EXPECT_EQ(counts.at("bytes_to_client"), threads * each * 16);
	EXPECT_EQ(counts.at("resets"), 0U);
	EXPECT_EQ(counts.at("connect_failed"), 0U);
	finish();
}

} // namespace
