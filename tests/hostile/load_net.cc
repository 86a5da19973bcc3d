// SPDX-License-Identifier: MIT
//
// Network loads: connections over loopback that are echoed, and streams through sn_relay(). The
// bytes that come back or arrive are compared with those that were sent, including the ends of
// streams.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "hostile/loads.hpp"

namespace hostile
{
namespace
{

// Generates the bytes to send from the random numbers.
void fill(Random &random, char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		const uint64_t word = random.next();

		memcpy(bytes + i, &word, std::min<size_t>(8, size - i));
	}
}

// Reads exactly so many bytes. Returns false if the stream ends or fails before that.
bool read_exactly(sn_tcp *conn, void *to, size_t size)
{
	size_t had = 0;

	while (had < size) {
		const ssize_t n = sn_tcp_read(conn, static_cast<char *>(to) + had, size - had);

		if (n <= 0)
			return false;
		had += (size_t)n;
	}
	return true;
}

/*
 * A listener that serves each connection in a task, until all clients are gone. The load that
 * starts the clients counts them.
 */
class Server
{
public:
	void begin(Phase &phase, Load load, std::function<void(sn_tcp *)> serve)
	{
		uint64_t mark;
		int error;

		load_ = load;
		serve_ = std::move(serve);
		while (mark = limits_mark(),
		       (error = sn_tcp_listen(&listener_, "127.0.0.1:0")) < 0) {
			refused(load, "listening", error, mark);
			sn_sleep(5 * ms);
		}
		sn_tcp_listener_address(listener_, address, sizeof address);
		phase.go_surely(load, [this, &phase] { accept(phase); });
	}

	// Returns a connection, or NULL if the phase has to end.
	sn_tcp *connect(Phase &phase)
	{
		sn_tcp *conn;

		while (!phase.stopping()) {
			const uint64_t mark = limits_mark();
			const int error = sn_tcp_connect(&conn, address, sn_now() + 30 * second);

			if (error == 0)
				return conn;
			refused(load_, "connecting", error, mark);
			sn_sleep(5 * ms);
		}
		return nullptr;
	}

	char address[SN_ADDRESS_MAX] = "";
	std::atomic<int> clients{0};

private:
	void accept(Phase &phase)
	{
		while (!phase.stopping() || clients > 0) {
			sn_tcp *conn;

			sn_tcp_listener_set_deadline(listener_, sn_now() + 20 * ms);
			const uint64_t mark = limits_mark();
			const int error = sn_tcp_accept(listener_, &conn);
			if (error == 0)
				phase.go_surely(load_, [this, conn] { serve_(conn); });
			else if (error != -ETIMEDOUT)
				refused(load_, "accepting", error, mark);
		}
		sn_tcp_listener_close(listener_);
	}

	Load load_ = LOAD_ECHO;
	std::function<void(sn_tcp *)> serve_;
	sn_tcp_listener *listener_ = nullptr;
};

// ---- echo ----

class Echo : public Work
{
public:
	void begin(Phase &phase) override
	{
		const int n = scaled(40);

		server_.clients = n;
		server_.begin(phase, LOAD_ECHO, serve);
		for (int i = 0; i < n; i++)
			phase.go_surely(LOAD_ECHO, [this, &phase, seed = phase.random.next()] {
				converse(phase, Random(seed));
				server_.clients--;
			});
	}
	int64_t queue() const override { return scaled(40) * 2 * (piece + 20 * us); }

private:
	static void serve(sn_tcp *conn)
	{
		char bytes[8192];
		ssize_t n;

		while ((n = sn_tcp_read(conn, bytes, sizeof bytes)) > 0)
			if (sn_tcp_write_all(conn, bytes, (size_t)n, nullptr) != n)
				fail("echo: writing failed");
		if (n < 0)
			fail("echo: reading failed: %s", strerror((int)-n));
		sn_tcp_close(conn);
	}

	void converse(Phase &phase, Random random)
	{
		char sent[6000], got[6000];

		while (sn_tcp *conn = server_.connect(phase)) {
			for (int i = 0; i < 50 && !phase.stopping(); i++) {
				const size_t size = (size_t)random.between(1, sizeof sent);

				fill(random, sent, size);
				if (sn_tcp_write_all(conn, sent, size, nullptr) != (ssize_t)size)
					fail("echo: a client's writing failed");
				if (!read_exactly(conn, got, size) || memcmp(sent, got, size) != 0)
					fail("echo: the bytes that came back differ");
				done(LOAD_ECHO);
				if (random.one_in(4))
					sn_sleep(random.between(0, 5 * ms));
			}
			sn_tcp_shutdown(conn, SN_SHUT_WRITE);
			if (sn_tcp_read(conn, got, 1) != 0)
				fail("echo: the end of a stream did not come back");
			sn_tcp_close(conn);
		}
	}

	Server server_;
};

// ---- relay ----

// The beginning of each stream. The answer is the number of bytes that arrived.
struct Head {
	uint64_t seed;
	uint64_t bytes; // bytes that follow; UINT64_MAX: the stream is broken off
};

class Relay : public Work
{
public:
	void begin(Phase &phase) override
	{
		const int n = scaled(20);

		front_.clients = n;
		back_.clients = n;
		back_.begin(phase, LOAD_RELAY, sink);
		front_.begin(phase, LOAD_RELAY,
			     [this, &phase](sn_tcp *conn) { relay(phase, conn); });
		for (int i = 0; i < n; i++)
			phase.go_surely(LOAD_RELAY, [this, &phase, seed = phase.random.next()] {
				source(phase, Random(seed));
				front_.clients--;
				back_.clients--;
			});
	}
	int64_t queue() const override { return scaled(20) * 6 * (piece + 50 * us); }

private:
	void relay(Phase &phase, sn_tcp *from)
	{
		struct sn_relay_options options = {};
		struct sn_relay_result result;
		sn_tcp *to;
		int error;
		uint64_t mark;

		while (mark = limits_mark(),
		       (error = sn_tcp_connect(&to, back_.address, sn_now() + 30 * second)) < 0) {
			refused(LOAD_RELAY, "connecting", error, mark);
			sn_sleep(5 * ms);
		}
		options.idle_timeout = 60 * second;
		error = sn_relay(sn_tcp_stream(from), sn_tcp_stream(to), &result, &options);
		if (error < 0 || result.lost) {
			// The client sees the reset, and checks whether the limits were the reason.
			sn_tcp_abort(from);
			sn_tcp_abort(to);
			return;
		}
		sn_tcp_close(from);
		sn_tcp_close(to);
		(void)phase;
	}

	static void sink(sn_tcp *conn)
	{
		char want[16384], got[16384];
		Head head;
		uint64_t had = 0;

		if (!read_exactly(conn, &head, sizeof head)) {
			sn_tcp_abort(conn);
			return;
		}
		Random random(head.seed);
		while (had < head.bytes) {
			// Compares in the same pieces in which the bytes were generated, so that
			// they are the same.
			const size_t size =
				(size_t)std::min<uint64_t>(sizeof got, head.bytes - had);

			if (!read_exactly(conn, got, size))
				break;
			fill(random, want, size);
			if (memcmp(want, got, size) != 0)
				fail("relay: a byte between %llu and %llu is not what was sent",
				     (unsigned long long)had, (unsigned long long)(had + size));
			had += size;
		}
		if (had < head.bytes || sn_tcp_read(conn, got, 1) != 0 ||
		    sn_tcp_write_all(conn, &had, sizeof had, nullptr) != (ssize_t)sizeof had) {
			sn_tcp_abort(conn);
			return;
		}
		sn_tcp_close(conn);
	}

	void source(Phase &phase, Random random)
	{
		char bytes[16384];

		while (sn_tcp *conn = front_.connect(phase)) {
			const bool breaks_off = random.one_in(8);
			const uint64_t mark = limits_mark();
			const Head head = {random.next(),
					   random.below(random.one_in(4) ? 2000000 : 20000)};
			const char *failed = nullptr;
			Random content(head.seed);
			uint64_t sent = 0, arrived = 0;

			if (sn_tcp_write_all(conn, &head, sizeof head, nullptr) < 0)
				failed = "writing";
			while (!failed && sent < head.bytes) {
				const size_t size =
					(size_t)std::min<uint64_t>(sizeof bytes, head.bytes - sent);

				fill(content, bytes, size);
				if (!write_in_pieces(conn, bytes, size, random))
					failed = "writing";
				sent += size;
				if (breaks_off && random.one_in(4))
					break;
			}
			if (breaks_off) {
				sn_tcp_abort(conn);
				continue;
			}
			if (!failed) {
				sn_tcp_shutdown(conn, SN_SHUT_WRITE);
				if (!read_exactly(conn, &arrived, sizeof arrived))
					failed = "reading the answer";
				else if (arrived != sent || sn_tcp_read(conn, bytes, 1) != 0)
					fail("relay: of %llu bytes, %llu arrived",
					     (unsigned long long)sent, (unsigned long long)arrived);
			}
			sn_tcp_close(conn);
			if (failed)
				refused(LOAD_RELAY, failed, -ECONNRESET, mark);
			done(LOAD_RELAY);
		}
	}

	static bool write_in_pieces(sn_tcp *conn, const char *bytes, size_t size, Random &random)
	{
		size_t most = random.one_in(4) ? 700 : size;

		for (size_t at = 0; at < size;) {
			const size_t n = std::min(most, size - at);

			if (sn_tcp_write_all(conn, bytes + at, n, nullptr) != (ssize_t)n)
				return false;
			at += n;
			if (random.one_in(20))
				sn_sleep(random.between(0, ms));
		}
		return true;
	}

	Server front_, back_;
};

} // namespace

std::unique_ptr<Work> make_echo()
{
	return std::make_unique<Echo>();
}
std::unique_ptr<Work> make_relay()
{
	return std::make_unique<Relay>();
}

} // namespace hostile
