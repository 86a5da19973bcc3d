// SPDX-License-Identifier: MIT
//
// Connections, some with small socket buffers, with a reader and a writer at each end, random sizes
// and deadlines, new keys at any time, and ends of every kind. What is read is always a beginning
// of what was written, and all of it if the connection was not broken.
#include "pairs.h"

// For the thread sanitizer: connections share a session, and when one of them gets a ticket,
// OpenSSL copies the session's list of certificates. The last connection that closes frees the
// list. OpenSSL counts who uses a session with atomic instructions, which the sanitizer does not
// see, because libcrypto is not instrumented; but it sees the memcpy() and the free().
extern "C" const char *__tsan_default_suppressions();
extern "C" const char *__tsan_default_suppressions()
{
	return "race:OPENSSL_sk_dup\n";
}

namespace
{

using namespace test;

constexpr size_t most_bytes = 400000;

// The byte at this place of a flow.
char byte_at(uint64_t seed, size_t place)
{
	return char((seed + place) * 0x9e3779b97f4a7c15 >> 56);
}

struct Flow {
	sn_stream *from, *to;
	uint64_t seed;
	size_t size;
	bool may_break;
};

// Sets a deadline now and then; says whether an error is caused by one, so that the call can be
// repeated.
class Deadlines
{
public:
	Deadlines(test::Random &random, sn_stream *stream, int (*set)(sn_stream *, int64_t))
	    : random_(random), stream_(stream), set_(set)
	{
	}
	void maybe()
	{
		if (random_.below(6) == 0)
			set_(stream_, sn_now() + int64_t(random_.below(300)) * test::us);
	}
	bool passed(ssize_t n)
	{
		if (n == -ETIMEDOUT)
			set_(stream_, SN_NO_DEADLINE);
		return n == -ETIMEDOUT;
	}

private:
	test::Random &random_;
	sn_stream *stream_;
	int (*set_)(sn_stream *, int64_t);
};

ssize_t write_piece(test::Random &random, sn_stream *to, const char *data, size_t size)
{
	const size_t head = random.below(size + 1);
	const iovec pieces[] = {{const_cast<char *>(data), head},
				{const_cast<char *>(data) + head, size - head}};

	return random.below(2) ? sn_stream_write(to, data, size) : sn_stream_writev(to, pieces, 2);
}

void write_flow(const Flow &flow)
{
	test::Random random(flow.seed);
	Deadlines deadlines(random, flow.from, sn_stream_set_write_deadline);
	std::string buf(100000, 0);
	size_t done = 0;

	while (done < flow.size) {
		const size_t size = std::min<size_t>(
			1 + random.below(random.below(3) ? 2000 : buf.size()), flow.size - done);

		for (size_t i = 0; i < size; i++)
			buf[i] = byte_at(flow.seed, done + i);
		deadlines.maybe();
		if (random.below(20) == 0)
			sn_tls_update_keys(flow.from); // refused before the handshake
		const ssize_t n = write_piece(random, flow.from, buf.data(), size);
		if (deadlines.passed(n))
			continue;
		if (n < 0) {
			EXPECT_TRUE(flow.may_break) << n << " " << sn_tls_error(flow.from);
			return;
		}
		done += size_t(n);
	}
	for (;;) {
		const int err = sn_stream_shutdown(flow.from, SN_SHUT_WRITE);

		if (deadlines.passed(err))
			continue;
		EXPECT_TRUE(err == 0 || flow.may_break) << err << " " << sn_tls_error(flow.from);
		return;
	}
}

void read_flow(const Flow &flow)
{
	test::Random random(~flow.seed);
	Deadlines deadlines(random, flow.to, sn_stream_set_read_deadline);
	std::string buf(50000, 0);
	size_t done = 0;

	for (;;) {
		deadlines.maybe();
		const ssize_t n = sn_stream_read(flow.to, buf.data(),
						 1 + random.below(random.below(3) ? 3000 : 50000));
		if (deadlines.passed(n))
			continue;
		if (n <= 0) {
			EXPECT_TRUE(flow.may_break || (n == 0 && done == flow.size))
				<< n << " " << done << " of " << flow.size << " "
				<< sn_tls_error(flow.to);
			return;
		}
		ASSERT_LE(done + size_t(n), flow.size);
		for (size_t i = 0; i < size_t(n); i++, done++)
			ASSERT_EQ(byte_at(flow.seed, done), buf[i]) << done;
		if (random.below(50) == 0)
			sn_yield();
	}
}

// Shrinks only the sender's buffer, because with a small window TCP itself would wait for its
// timers.
void shrink(sn_stream *stream)
{
	const int size = 4096;

	setsockopt(sn_stream_fd(stream), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

// Breaks one end, in one of three ways. Closing an end more than once is an error without effect.
void break_one(test::Random &random, sn_stream *stream)
{
	sn_sleep(int64_t(random.below(4000)) * test::us);
	switch (random.below(3)) {
	case 0:
		sn_stream_cancel(stream);
		break;
	case 1:
		sn_stream_abort(stream);
		break;
	default:
		sn_stream_close(stream);
		break;
	}
}

void one_connection(const Usual &usual, uint64_t seed)
{
	test::Random random(seed);
	const bool breaks = random.below(3) == 0;
	TlsPair pair(usual.client, usual.server);
	sn_stream *const a = std::exchange(pair.client, nullptr);
	sn_stream *const b = std::exchange(pair.server, nullptr);
	const Flow there = {a, b, random.next(), 1 + random.below(most_bytes), breaks};
	const Flow back = {b, a, random.next(), 1 + random.below(most_bytes), breaks};

	if (random.below(2)) {
		shrink(a);
		shrink(b);
	}
	test::Task a_writes([&] { write_flow(there); }), a_reads([&] { read_flow(back); });
	test::Task b_writes([&] { write_flow(back); }), b_reads([&] { read_flow(there); });
	test::Task asks([&] {
		struct sn_tls_info info;

		for (int i = 0; i < 5; i++) {
			sn_tls_info(a, &info);
			sn_sleep(300 * test::us);
		}
	});
	if (breaks)
		break_one(random, a);
	a_writes.join();
	a_reads.join();
	asks.join();
	sn_stream_close(a); // so that a peer that waits for bytes learns of the end
	b_writes.join();
	b_reads.join();
	sn_stream_close(b);
}

TEST(TlsStress, WhatIsReadIsWhatWasWritten)
{
	test::Random random;
	const uint64_t seed = random.seed();

	run_tls([seed] {
		Usual usual;
		std::vector<test::Task> tasks;
		const int each = test::scaled(20);

		for (uint64_t i = 0; i < 6; i++)
			tasks.emplace_back([&usual, seed, i, each] {
				for (int k = 0; k < each; k++)
					one_connection(usual,
						       seed * 1000003 + i * 1009 + uint64_t(k));
			});
		join_all(tasks);
	});
}

} // namespace
