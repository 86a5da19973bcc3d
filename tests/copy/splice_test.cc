// SPDX-License-Identifier: MIT
// Labels: machine
//
// sn_copy() in the kernel: large flows go there and come back; one test for each known trap of
// splice(2); every kind of descriptor on either side.
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <sennit/layer.h>
#include <sennit/when_readable.h>

#include "support/child.h"
#include "support/refused.h"
#include "support/routes.h"
#include "support/streams.h"
#include "support/tcp_state.h"

namespace
{

using namespace test;

constexpr size_t MiB = size_t(1) << 20;

// A flow that is certain to be spliced: more than the sockets of a route and a pipe hold. Where a
// byte costs most, and in the short form, the sockets and the flow are half as large.
const size_t FLOW = (TEST_TSAN || TEST_ASAN || TEST_EMULATED || test::is_short() ? 4 : 8) * MiB;

struct sn_copy_stats pool()
{
	struct sn_copy_stats s;

	EXPECT_EQ(0, sn_copy_stats(&s));
	return s;
}

// As long as it exists, the pool has another number or size of pipes.
class Pipes
{
public:
	Pipes(const char *most, const char *size)
	    : most_("SENNIT_PIPES", most), size_("SENNIT_PIPE_SIZE", size)
	{
		probe_pipes_reset();
	}

private:
	struct Reset {
		~Reset() { probe_pipes_reset(); }
	};

	Reset reset_; // first, because it is destroyed last, when the environment has been restored
	test::Environment most_, size_;
};

std::string pattern(size_t size, uint64_t seed = 1)
{
	test::Random random(seed);

	return test::random_bytes(random, size);
}

// The bytes of most flows. They are kept, because memory that is new costs more than they do, most
// of all under the thread sanitizer, which has four bytes for each.
const std::string &flow()
{
	static const std::string bytes = pattern(FLOW);

	return bytes;
}

const std::string &two_flows()
{
	static const std::string bytes = pattern(2 * FLOW);

	return bytes;
}

struct Route : test::CopyRoute {
	// Limits the bytes that are under way to less than what promote() sends.
	Route()
	{
		for (sn_tcp *conn : {source.client.load(), source.server.load()})
			set_buffers(conn, FLOW / 8);
		for (sn_tcp *conn : {sink.client.load(), sink.server.load()})
			set_buffers(conn, 1 << 16);
	}
	static void set_buffers(sn_tcp *conn, int size)
	{
		for (int option : {SO_SNDBUF, SO_RCVBUF})
			EXPECT_EQ(0, setsockopt(sn_tcp_fd(conn), SOL_SOCKET, option, &size,
						sizeof size));
	}

	void send(const std::string &bytes)
	{
		EXPECT_EQ(ssize_t(bytes.size()),
			  sn_tcp_write_all(source.client, bytes.data(), bytes.size(), nullptr));
	}
	std::string receive(size_t size)
	{
		std::string got(size, 0);
		size_t done = 0;

		while (done < size) {
			const ssize_t n = sn_tcp_read(sink.server, got.data() + done, size - done);

			if (n <= 0) {
				ADD_FAILURE() << "read: " << n << " after " << done;
				break;
			}
			done += size_t(n);
		}
		got.resize(done);
		return got;
	}
	// Whether the bytes from `at` on, at most `size` of them, are what arrives. Keeps none.
	bool receives(const std::string &bytes, size_t at = 0, size_t size = SIZE_MAX)
	{
		const size_t end = at + std::min(size, bytes.size() - at);

		arrived_.resize(1 << 16);
		while (at < end) {
			const ssize_t n = sn_tcp_read(sink.server, arrived_.data(),
						      std::min(arrived_.size(), end - at));

			if (n <= 0 || memcmp(arrived_.data(), bytes.data() + at, size_t(n)) != 0)
				return false;
			at += size_t(n);
		}
		return true;
	}
	// While another task sends, waits until the copy waits for room with bytes in a pipe. If
	// the copy waits with bytes in its buffer, this reads a few, into `early`, so that the copy
	// continues.
	bool stalls_in_a_pipe()
	{
		return test::eventually([&] {
			if (!probe_fd_waiting(sink.client, 1))
				return false;
			if (pool().pipes_borrowed == 1)
				return true;
			if (test::unread(sink.server) > 0)
				early += receive(size_t(test::unread(sink.server)));
			return false;
		});
	}
	std::string early;

	// Sends enough to make the running copy splice: the copy is held up for a while, and then
	// finds more than one read takes.
	void promote()
	{
		Task writer([&] { send(flow()); });

		EXPECT_TRUE(test::someone_writes(source.client));
		EXPECT_TRUE(receives(flow()));
		writer.join();
	}

private:
	std::string arrived_;
};

void expect_exact(const struct sn_copy_result &result)
{
	EXPECT_EQ(result.bytes_read, result.bytes_written);
	EXPECT_EQ(result.bytes_written,
		  result.bytes_userspace + result.bytes_spliced + result.bytes_file);
}

// ---- the policy ----

TASK_TEST(Splice, TakesLargeFlowsAndGivesBackSmallOnes)
{
	probe_pipes_reset();
	Route route;
	Task copy([&] { return route.copy(); });

	// Small pieces go through userspace.
	for (int i = 0; i < 100; i++) {
		route.send("ping");
		EXPECT_EQ("ping", route.receive(4));
	}
	EXPECT_EQ(0u, pool().pipes);
	route.promote();
	// When the copy is idle, it holds no pipe.
	EXPECT_TRUE(test::eventually([] { return pool().pipes_borrowed == 0; }));
	// Small pieces again: after at most eight short spliced passes they go through
	// userspace.
	for (int i = 0; i < 100; i++) {
		route.send("pong");
		EXPECT_EQ("pong", route.receive(4));
	}
	sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
	EXPECT_EQ(0, copy.join());
	EXPECT_EQ(FLOW + 800, route.result.bytes_written);
	EXPECT_GT(route.result.bytes_spliced, MiB);
	EXPECT_GE(route.result.bytes_userspace, 400u + 368u);
	expect_exact(route.result);
}

TEST(Splice, IsNotUsedWhenForbidden)
{
	Pipes none("0", "");

	test::run([] {
		Route route;
		Task copy([&] { return route.copy(); });

		route.promote();
		sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, copy.join());
		EXPECT_EQ(FLOW, route.result.bytes_userspace);
		EXPECT_EQ(0u, pool().pipes);
	});
}

// One copy stalls with bytes in the only pipe. Other copies go through userspace until that pipe is
// free.
TEST(Splice, WithoutAPipeCopiesInUserspace)
{
	Pipes one("1", "");

	test::run([] {
		Route stalled;
		Task first([&] { return stalled.copy(); });
		Task writer([&] { stalled.send(two_flows()); });
		EXPECT_TRUE(stalled.stalls_in_a_pipe());
		const uint64_t missed = pool().pipes_missed;
		Route route;
		Task copy([&] { return route.copy(); });

		route.promote();
		EXPECT_GT(pool().pipes_missed, missed);
		EXPECT_EQ(1u, pool().pipes);
		sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, copy.join());
		EXPECT_EQ(0u, route.result.bytes_spliced);
		expect_exact(route.result);
		EXPECT_TRUE(stalled.receives(two_flows(), stalled.early.size()));
		writer.join();
		sn_tcp_shutdown(stalled.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, first.join());
		expect_exact(stalled.result);
		EXPECT_EQ(0u, pool().pipes_borrowed);
	});
}

// While a copy waits for room, its source is disarmed: epoll does not report bytes that arrive. The
// next wait to read arms it again: a wait of the copy itself or, if the copy has failed, of another
// reader.
TEST(Splice, DisarmsTheSourceWhileItWaitsForRoom)
{
	for (const bool fails : {false, true})
		test::run([fails] {
			Route route;
			const std::string &sent = two_flows();
			Task copy([&] { return route.copy(); });
			Task writer([&] { route.send(sent); });
			const auto disarmed = [&] {
				return probe_fd_disarmed(route.source.server);
			};

			EXPECT_TRUE(route.stalls_in_a_pipe());
			EXPECT_TRUE(test::eventually(disarmed));
			if (!fails) {
				EXPECT_EQ(0, sent.compare(0, route.early.size(), route.early));
				EXPECT_TRUE(route.receives(sent, route.early.size()));
				writer.join();
				EXPECT_TRUE(test::someone_reads(route.source.server));
				EXPECT_FALSE(disarmed());
				route.send("more");
				EXPECT_EQ("more", route.receive(4));
				sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
				EXPECT_EQ(0, copy.join());
				expect_exact(route.result);
			} else {
				sn_tcp_cancel(route.sink.client);
				EXPECT_EQ(-ECANCELED, copy.join());
				EXPECT_TRUE(disarmed());
				const std::string rest = sent.substr(route.result.bytes_read);
				std::string got(rest.size() + 4, 0);
				Task reader([&] {
					size_t done = 0;
					ssize_t n = 1;

					while (done < got.size() && n > 0) {
						n = sn_tcp_read(route.source.server,
								got.data() + done,
								got.size() - done);
						done += n > 0 ? size_t(n) : 0;
					}
					return int(done);
				});

				writer.join();
				route.send("more");
				EXPECT_EQ(int(got.size()), reader.join());
				EXPECT_TRUE(got == rest + "more");
			}
		});
}

// Makes the copy of a new route fail while its source is disarmed, and takes all bytes out of the
// source. Reads without the runtime, because a read that does not wait does not arm the source.
void leave_disarmed(Route &route)
{
	const std::string &sent = two_flows();
	Task copy([&] { return route.copy(); });
	Task writer([&] { route.send(sent); });
	sn_tcp *const source = route.source.server;

	EXPECT_TRUE(route.stalls_in_a_pipe());
	EXPECT_TRUE(test::eventually([&] { return probe_fd_disarmed(source); }));
	sn_tcp_cancel(route.sink.client);
	EXPECT_EQ(-ECANCELED, copy.join());
	std::string rest(sent.size() - route.result.bytes_read, 0);
	for (size_t done = 0; done < rest.size();) {
		const ssize_t n =
			recv(sn_tcp_fd(source), &rest[done], rest.size() - done, MSG_DONTWAIT);

		done += n > 0 ? size_t(n) : 0;
		if (n <= 0)
			sn_sleep(test::ms);
	}
	writer.join();
	EXPECT_TRUE(probe_fd_disarmed(source));
}

// The same for a relay that waits for both of its connections.
TEST(Splice, LeavesASourceThatTheNextRelayArms)
{
	for (const bool first : {false, true})
		test::run([first] {
			Route route;
			sn_tcp *const source = route.source.server;

			leave_disarmed(route);
			test::Pair other;
			sn_tcp *ends[] = {source, other.server};
			struct sn_relay_result result;
			char buf[8];

			if (!first)
				std::swap(ends[0], ends[1]);
			Task relay([&] {
				return sn_relay(sn_tcp_stream(ends[0]), sn_tcp_stream(ends[1]),
						&result, nullptr);
			});
			EXPECT_TRUE(test::eventually([&] {
				return probe_fd_waiting(ends[0], 0) || probe_fd_waiting(ends[1], 0);
			}));
			route.send("more");
			EXPECT_EQ(4, sn_tcp_read(other.client, buf, sizeof buf));
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			sn_tcp_shutdown(other.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, relay.join());
		});
}

// The same for a task that begins when the source can be read.
TEST(Splice, LeavesASourceThatAQuietTaskArms)
{
	test::run([] {
		Route route;
		static std::atomic<bool> begun;

		begun = false;
		leave_disarmed(route);
		ASSERT_EQ(0, sn_go_when_readable(
				     sn_tcp_stream(route.source.server),
				     [](void *) {
					     begun = true;
					     return 0;
				     },
				     nullptr));
		EXPECT_TRUE(test::someone_reads(route.source.server));
		route.send("more");
		EXPECT_TRUE(test::eventually([] { return begun.load(); }));
	});
}

// The same for a layer whose write waits for bytes: a task that writes does not arm the source.
TEST(Splice, LeavesASourceThatALayerArms)
{
	static const struct sn_layer layer = [] {
		struct sn_layer made = {};

		made.read = [](void *, void *, size_t) { return ssize_t(-EAGAIN); };
		made.write = [](void *state, const void *, size_t size) {
			char c;

			return recv(*static_cast<int *>(state), &c, 1, MSG_DONTWAIT) < 0
				       ? ssize_t(-errno)
				       : ssize_t(size);
		};
		made.settle = [](void *) { return size_t(0); };
		made.shutdown = [](void *, enum sn_stream_half) { return 0; };
		made.close = [](void *, int) {};
		return made;
	}();

	test::run([] {
		Route route;
		sn_stream *const source = sn_tcp_stream(route.source.server);
		int fd = sn_stream_fd(source);

		leave_disarmed(route);
		ASSERT_EQ(0, sn_layer_push(source, &layer, &fd));
		sn_stream_set_write_deadline(source, test::soon());
		Task writer([&] { EXPECT_EQ(1, sn_stream_write(source, "x", 1)); });
		EXPECT_TRUE(test::someone_writes(source));
		route.send("1");
		writer.join();
	});
}

// ---- the traps ----

// EAGAIN means "empty" or "full": each piece takes a slot of the pipe, so a pipe with few bytes can
// be full. A copy that then waits for the socket waits forever.
TEST(SpliceTrap, SmallPiecesFillThePipe)
{
	for (const char *size : {"4096", "8192", "65536"}) {
		Pipes small("4", size);

		test::run([] {
			Route route;
			Task copy([&] { return route.copy(); });

			route.promote();
			for (int round = 0; round < 20; round++) {
				std::string sent;

				for (int i = 0; i < 80; i++) {
					const std::string piece = pattern(40, uint64_t(i));

					route.send(piece);
					sent += piece;
				}
				EXPECT_TRUE(route.receive(sent.size()) == sent);
			}
			route.promote();
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, copy.join());
			EXPECT_GT(route.result.bytes_spliced, MiB);
			expect_exact(route.result);
		});
	}
}

// SPLICE_F_NONBLOCK does not make a blocking socket non-blocking: with one processor, a blocked
// thread would hold up the task that is supposed to send.
TASK_TEST(SpliceTrap, BlockingDescriptorsAreMadeNonBlocking, 1)
{
	int in[2], out[2];
	sn_stream *ends[4];
	struct sn_copy_result result;
	const std::string sent = pattern(FLOW / 2);

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, in));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, out));
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, sn_stream_adopt(&ends[i], i < 2 ? in[i] : out[i - 2]));
		EXPECT_TRUE(fcntl(sn_stream_fd(ends[i]), F_GETFL) & O_NONBLOCK);
	}
	Task copy([&] { return sn_copy(ends[2], ends[1], -1, nullptr, nullptr, &result); });
	Task writer([&] {
		EXPECT_EQ(ssize_t(sent.size()),
			  sn_stream_write_all(ends[0], sent.data(), sent.size(), nullptr));
		sn_sleep(20 * test::ms);
		EXPECT_EQ(4, sn_stream_write_all(ends[0], "last", 4, nullptr));
		EXPECT_EQ(0, sn_stream_shutdown(ends[0], SN_SHUT_WRITE));
	});
	std::string got(sent.size() + 4, 0);
	for (size_t done = 0; done < got.size();) {
		const ssize_t n = sn_stream_read(ends[3], got.data() + done, got.size() - done);

		ASSERT_GT(n, 0);
		done += size_t(n);
	}
	EXPECT_TRUE(got == sent + "last");
	EXPECT_EQ(0, copy.join());
	writer.join();
	expect_exact(result);
	for (sn_stream *end : ends)
		EXPECT_EQ(0, sn_stream_close(end));
}

// splice(2) to a socket whose writing half is shut down raises SIGPIPE, which would end this
// program.
TEST(SpliceTrap, RaisesNoSigpipe)
{
	ASSERT_EQ(SIG_DFL, signal(SIGPIPE, SIG_DFL));
	test::run([] {
		Route route;
		Task copy([&] { return route.copy(); });
		Task writer([&] {
			const std::string chunk(MiB, 'x');

			while (sn_tcp_write(route.source.client, chunk.data(), chunk.size()) > 0)
				continue;
		});

		EXPECT_TRUE(route.stalls_in_a_pipe());
		EXPECT_EQ(0, sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE));
		EXPECT_EQ(-EPIPE, copy.join());
		EXPECT_EQ(SN_COPY_WRITE, route.result.failed);
		// The bytes in the pipe are lost, and reported as lost; they may be all that was
		// ever spliced.
		EXPECT_GT(route.result.bytes_read, route.result.bytes_written);
		EXPECT_EQ(0u, pool().pipes_borrowed);
		sn_tcp_cancel(route.source.client);
		writer.join();
		sigset_t pending;
		EXPECT_EQ(0, sigpending(&pending));
		EXPECT_FALSE(sigismember(&pending, SIGPIPE));
	});
}

// A pending SIGPIPE that the program blocks stays pending, because the program owns it.
TASK_TEST(SpliceTrap, LeavesAPendingSigpipe, 1)
{
	sigset_t set, pending;
	int ends[2];
	sn_stream *out;

	sn_pin();
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &set, nullptr));
	ASSERT_EQ(0, raise(SIGPIPE));
	ASSERT_EQ(0, pipe(ends));
	close(ends[0]);
	ASSERT_EQ(0, sn_stream_adopt(&out, ends[1]));
	EXPECT_EQ(-EPIPE, sn_stream_write(out, "x", 1));
	EXPECT_EQ(0, sigpending(&pending));
	EXPECT_TRUE(sigismember(&pending, SIGPIPE));
	const struct timespec now = {};
	EXPECT_EQ(SIGPIPE, sigtimedwait(&set, nullptr, &now));
	// If no SIGPIPE was pending before, none is afterwards.
	EXPECT_EQ(-EPIPE, sn_stream_write(out, "x", 1));
	EXPECT_EQ(0, sigpending(&pending));
	EXPECT_FALSE(sigismember(&pending, SIGPIPE));
	ASSERT_EQ(0, pthread_sigmask(SIG_UNBLOCK, &set, nullptr));
	EXPECT_EQ(0, sn_stream_close(out));
	sn_unpin();
}

// If urgent data is next, splice returns EAGAIN forever while poll reports the socket as readable;
// and, once the FIN is there, splice returns 0 as at the end of the stream.
TEST(SpliceTrap, UrgentDataDoesNotStopTheStream)
{
	for (const bool fin_at_once : {false, true})
		test::run([fin_at_once] {
			Route route;
			Task copy([&] { return route.copy(); });

			route.promote();
			route.send("before");
			ASSERT_EQ(1, ::send(sn_tcp_fd(route.source.client), "!", 1, MSG_OOB));
			route.send("after");
			if (fin_at_once)
				sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			EXPECT_EQ("beforeafter", route.receive(11));
			if (!fin_at_once)
				route.promote();
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, copy.join());
			expect_exact(route.result);
		});
}

// The same without a pipe in between, because dst is one.
TEST(SpliceTrap, UrgentDataDoesNotEndACopyToAPipe)
{
	for (const bool fin_at_once : {false, true})
		test::run([fin_at_once] {
			test::Pair source;
			const std::unique_ptr<test::Ends> sink = test::Ends::pipe();
			const std::string piece(8192, 'p');
			struct sn_copy_result result;
			const auto send = [&](const std::string &bytes) {
				EXPECT_EQ(ssize_t(bytes.size()),
					  sn_tcp_write_all(source.client, bytes.data(),
							   bytes.size(), nullptr));
			};
			std::string got;
			const auto receive = [&](size_t size) {
				size_t done = 0;

				got.assign(size, 0);
				EXPECT_EQ(ssize_t(size),
					  sn_stream_read_full(sink->from(), &got[0], size, &done));
				got.resize(done);
				return got;
			};
			Task copy([&] {
				const int err = sn_copy(sink->to(), sn_tcp_stream(source.server),
							-1, nullptr, nullptr, &result);

				sink->close_to();
				return err;
			});

			sn_stream_set_read_deadline(sink->from(), test::soon());
			// Makes the copy splice.
			for (int i = 0; i < 10; i++) {
				send(piece);
				EXPECT_EQ(piece, receive(piece.size()));
			}
			EXPECT_TRUE(test::someone_reads(source.server));
			send("before");
			ASSERT_EQ(1, ::send(sn_tcp_fd(source.client), "!", 1, MSG_OOB));
			send("after");
			if (fin_at_once)
				sn_tcp_shutdown(source.client, SN_SHUT_WRITE);
			EXPECT_EQ("beforeafter", receive(11));
			sn_tcp_shutdown(source.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, copy.join());
			EXPECT_GT(result.bytes_spliced, 0u);
			expect_exact(result);
		});
}

// A short read is not followed by another one that would only find nothing. The copy must therefore
// not wait for something that came together with its bytes: an end, or urgent data with more after
// it.
TEST(CopyInUserspace, ShortReadsMissNothingThatCameWithThem)
{
	for (int round = 0; round < (test::is_short() ? 20 : 50); round++)
		test::run([round] {
			Route route;
			std::unique_ptr<Task> copy;
			const auto start = [&] {
				if (!copy)
					copy = std::make_unique<Task>([&] { return route.copy(); });
			};

			// The copy finds everything together, or piece by piece.
			if (round % 2)
				start();
			for (int i = 0; i < 4; i++) {
				route.send("before");
				if (round % 4 >= 2) {
					ASSERT_EQ(1, ::send(sn_tcp_fd(route.source.client), "!", 1,
							    MSG_OOB));
				}
				route.send("after");
				if (i == 3)
					sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
				start();
				EXPECT_EQ("beforeafter", route.receive(11));
			}
			EXPECT_EQ(0, copy->join());
			EXPECT_EQ(44u, route.result.bytes_userspace);
			expect_exact(route.result);
		});
}

// Splicing zero bytes returns 0, which does not mean the end of the stream; and no bytes beyond the
// limit are taken.
TASK_TEST(SpliceTrap, LimitsAreExact)
{
	const std::string sent = pattern(FLOW / 4 * 3);

	for (int64_t limit :
	     {int64_t(FLOW / 2), int64_t(FLOW / 2 + 1), int64_t(FLOW / 8 * 5 - 1)}) {
		Route route;
		Task writer([&] {
			route.send(sent);
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		});
		std::string got;
		Task reader([&] { got = test::read_to_end(route.sink.server); });

		EXPECT_EQ(0, route.copy(limit));
		EXPECT_EQ(uint64_t(limit), route.result.bytes_written);
		EXPECT_GT(route.result.bytes_spliced, 0u);
		expect_exact(route.result);
		sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE);
		reader.join();
		EXPECT_TRUE(got == sent.substr(0, size_t(limit)));
		EXPECT_TRUE(test::read_to_end(route.source.server) == sent.substr(size_t(limit)));
		writer.join();
	}
}

// The FIN arrives while the pipe is full and the receiver does not read. Then the same with a
// reset, which discards what the kernel still had, but not what was read.
TEST(SpliceTrap, NoEndBeforeTheBytesInThePipe)
{
	test::run([] {
		Route route;
		Task copy([&] { return route.copy(); });
		const std::string &sent = two_flows();
		Task writer([&] {
			route.send(sent);
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		});

		EXPECT_TRUE(route.stalls_in_a_pipe());
		Task closer([&] {
			EXPECT_EQ(0, copy.join());
			sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE);
		});
		EXPECT_TRUE(route.early + test::read_to_end(route.sink.server) == sent);
		closer.join();
		writer.join();
		EXPECT_GT(route.result.bytes_spliced, MiB);
		expect_exact(route.result);
	});
	test::run([] {
		Route route;
		Task copy([&] { return route.copy(); });
		const std::string chunk = pattern(MiB);
		Task writer([&] {
			while (sn_tcp_write_all(route.source.client, chunk.data(), chunk.size(),
						nullptr) > 0)
				continue;
		});

		EXPECT_TRUE(route.stalls_in_a_pipe());
		sn_tcp_cancel(route.source.client);
		writer.join();
		sn_tcp_abort(route.source.release_client());
		Task closer([&] {
			EXPECT_EQ(-ECONNRESET, copy.join());
			sn_tcp_shutdown(route.sink.client, SN_SHUT_WRITE);
		});
		const std::string got = route.early + test::read_to_end(route.sink.server);
		closer.join();
		EXPECT_EQ(SN_COPY_READ, route.result.failed);
		expect_exact(route.result);
		EXPECT_EQ(route.result.bytes_written, got.size());
		for (size_t i = 0; i < got.size(); i += MiB)
			ASSERT_EQ(0, memcmp(got.data() + i, chunk.data(),
					    std::min(MiB, got.size() - i)));
	});
}

// SPLICE_F_MORE would hold the last segment back for 200 ms each time. One quick round is enough,
// because the machine may be busy.
TASK_TEST(SpliceTrap, TheLastPieceIsNotDelayed)
{
	Route route;
	Task copy([&] { return route.copy(); });
	int64_t best = INT64_MAX;

	for (int i = 0; i < 5 || (best >= 100 * test::ms && i < 50); i++) {
		const std::string bytes = pattern(MiB + 100 + size_t(i));
		Task writer([&] { route.send(bytes); });

		EXPECT_EQ(bytes.size() - 100, route.receive(bytes.size() - 100).size());
		const int64_t began = sn_now();
		route.receive(100);
		best = std::min(best, sn_now() - began);
		writer.join();
	}
	EXPECT_LT(best, 100 * test::ms);
	sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
	EXPECT_EQ(0, copy.join());
	EXPECT_GT(route.result.bytes_spliced, 0u);
}

// After one ECONNRESET the next read finds a clean end. Both peers write all the time, so either
// direction of the relay may get the error. If the relay had passed an end on, the FIN would have
// changed the state of its connection to the other peer, which is read before the close. (The other
// peer cannot show it: it writes, too, and is therefore in the same trap.)
TASK_TEST(SpliceTrap, AResetIsNeverAnEnd)
{
	for (int i = 0; i < test::scaled(200); i++) {
		Route route;
		struct sn_relay_result result;
		int state = -1;
		Task relay([&] {
			const int err =
				sn_relay(sn_tcp_stream(route.source.server),
					 sn_tcp_stream(route.sink.client), &result, nullptr);

			state = test::tcp_state(sn_tcp_fd(route.sink.client));
			sn_tcp_abort(route.source.release_server());
			sn_tcp_abort(route.sink.release_client());
			return err;
		});
		auto write = [&](sn_tcp *conn) {
			const std::string chunk(i % 2 ? 1000 : 100000, 'x');

			while (sn_tcp_write(conn, chunk.data(), chunk.size()) > 0)
				continue;
		};
		auto read = [&](sn_tcp *conn) {
			std::string buf(200000, 0);

			while (sn_tcp_read(conn, buf.data(), buf.size()) > 0)
				continue;
		};
		Task writers[] = {Task([&] { write(route.source.client); }),
				  Task([&] { write(route.sink.server); })};
		Task readers[] = {Task([&] { read(route.source.client); }),
				  Task([&] { read(route.sink.server); })};

		sn_sleep(i % 7 * 300 * test::us);
		// Ends the reader and the writer at this end, without a FIN; the abort
		// below sends the reset.
		sn_tcp_cancel(route.source.client);
		writers[0].join();
		readers[0].join();
		sn_tcp_abort(route.source.release_client());
		EXPECT_GT(0, relay.join());
		EXPECT_EQ(SN_RELAY_FAILED, result.end);
		writers[1].join();
		readers[1].join();
		EXPECT_EQ(TCP_ESTABLISHED, state) << "round " << i;
	}
}

// The relay reports which side ended first, or whose connection failed, because only the relay can
// know.
TASK_TEST(Relay, ReportsWhichSideEndedIt)
{
	for (int i = 0; i < 8; i++) {
		Route route;
		struct sn_relay_result result;
		sn_tcp *const peers[] = {route.source.client, route.sink.server};
		const int side = i % 2;
		char byte;
		Task relay([&] {
			return sn_relay(sn_tcp_stream(route.source.server),
					sn_tcp_stream(route.sink.client), &result, nullptr);
		});

		switch (i / 2) {
		case 0: // this side ends first, the other one when that end has arrived
			EXPECT_EQ(0, sn_tcp_shutdown(peers[side], SN_SHUT_WRITE));
			EXPECT_EQ(0, sn_tcp_read(peers[1 - side], &byte, 1));
			EXPECT_EQ(0, sn_tcp_shutdown(peers[1 - side], SN_SHUT_WRITE));
			EXPECT_EQ(0, relay.join());
			EXPECT_EQ(SN_RELAY_FINISHED, result.end);
			EXPECT_EQ(side, result.side);
			break;
		case 1: // a reset
		case 2: // this side resets after the other's end
			if (i / 2 == 2) {
				EXPECT_EQ(0, sn_tcp_shutdown(peers[1 - side], SN_SHUT_WRITE));
				EXPECT_EQ(0, sn_tcp_read(peers[side], &byte, 1));
			}
			sn_tcp_abort(side ? route.sink.release_server()
					  : route.source.release_client());
			EXPECT_GT(0, relay.join());
			EXPECT_EQ(SN_RELAY_FAILED, result.end);
			EXPECT_EQ(side, result.side);
			break;
		case 3: // neither side
			sn_tcp_cancel(side ? route.sink.client : route.source.server);
			EXPECT_EQ(-ECANCELED, relay.join());
			EXPECT_EQ(-1, result.side);
			break;
		}
	}
}

// ---- shortage ----

TEST(SpliceShortage, OfDescriptors)
{
	probe_pipes_reset();
	test::run([] {
		struct rlimit former, none;
		Route route;
		Task copy([&] { return route.copy(); });
		const uint64_t missed = pool().pipes_missed;

		// once this has arrived, the runtime has opened its own descriptors
		route.send("x");
		route.receive(1);
		ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
		none = former;
		none.rlim_cur = 3; // every lower number is in use
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
		route.promote();
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
		EXPECT_GT(pool().pipes_missed, missed);
		EXPECT_EQ(0u, pool().pipes);
		// The copy gets pipes again, but only after a while, in which it is not kept busy.
		EXPECT_TRUE(test::eventually([&] {
			sn_sleep(100 * test::ms);
			route.promote();
			return pool().pipes > 0;
		}));
		route.promote();
		sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, copy.join());
		expect_exact(route.result);
		EXPECT_GT(route.result.bytes_spliced, 0u);
		probe_pipes_reset();
	});
}

// Runs as an unprivileged user whose quota of pipe pages is used up: new pipes hold two pages or
// one, so splicing would be slower than copying. The child starts threads, so under the thread
// sanitizer this test has to run alone in its process, as it does under ctest.
TEST(SpliceShortage, OfTheQuota)
{
	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (child == 0) {
		int ends[2];

		probe_pipes_reset();
		// A user who has no pipes so far; if the test may not change users, its own will
		// do.
		if (geteuid() == 0)
			CHILD_CHECK(setuid(4711) == 0);
		for (int i = 0; i < 400; i++)
			CHILD_CHECK(pipe(ends) == 0 &&
				    (fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= 0 || errno == EPERM));
		CHILD_CHECK(pipe(ends) == 0 && fcntl(ends[1], F_GETPIPE_SZ) <= 8192);
		test::run([] {
			Route route;
			Task copy([&] { return route.copy(); });

			route.promote();
			sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
			CHILD_CHECK(copy.join() == 0);
			CHILD_CHECK(route.result.bytes_userspace == FLOW);
			CHILD_CHECK(pool().pipes_missed > 0 && pool().pipes == 0);
		});
		_exit(testing::Test::HasFailure());
	}
	int status;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

// Receivers that do not read have at most half of the pipes. The others serve flows that move, and
// no byte of any flow is lost or moved.
TEST(SpliceShortage, ReceiversThatDoNotReadLeaveHalfOfThePipes)
{
	Pipes four("4", "");

	test::run([] {
		constexpr int n = 6;
		const size_t early = 4 * MiB;
		const std::string bytes = pattern(early + FLOW);
		std::vector<std::unique_ptr<Route>> stalled;
		std::vector<Task> tasks;

		for (int i = 0; i < n; i++) {
			stalled.push_back(std::make_unique<Route>());
			Route *route = stalled.back().get();
			tasks.emplace_back([=] { return route->copy(); });
			tasks.emplace_back([=, &bytes] {
				route->send(bytes);
				sn_tcp_shutdown(route->source.client, SN_SHUT_WRITE);
				return 0;
			});
			// Enough for splicing to begin; then nobody reads any more.
			EXPECT_TRUE(route->receives(bytes, 0, early));
		}
		for (auto &route : stalled)
			EXPECT_TRUE(test::eventually(
				[&] { return probe_fd_waiting(route->sink.client, 1); }));
		EXPECT_GE(pool().pipes_borrowed, 1u);
		EXPECT_LE(pool().pipes_borrowed, 2u);

		// Where the sender is slow, a flow may be over before it is worth splicing.
		const uint64_t missed = pool().pipes_missed;
		uint64_t spliced = 0;
		for (int attempt = 0; attempt < 20 && spliced == 0; attempt++) {
			Route moves;
			Task copy([&] { return moves.copy(); });
			moves.promote();
			sn_tcp_shutdown(moves.source.client, SN_SHUT_WRITE);
			EXPECT_EQ(0, copy.join());
			expect_exact(moves.result);
			spliced = moves.result.bytes_spliced;
		}
		EXPECT_GT(spliced, 0u);
		EXPECT_EQ(missed, pool().pipes_missed);

		for (auto &route : stalled)
			EXPECT_TRUE(route->receives(bytes, early));
		for (Task &task : tasks)
			EXPECT_EQ(0, task.join());
		for (auto &route : stalled)
			expect_exact(route->result);
		EXPECT_EQ(0u, pool().pipes_borrowed);
	});
}

int pipes_in(const char *directory)
{
	DIR *dir = opendir(directory);
	int n = 0;

	while (struct dirent *entry = dir ? readdir(dir) : nullptr) {
		char target[64] = {};

		if (readlink((std::string(directory) + "/" + entry->d_name).c_str(), target,
			     sizeof target - 1) > 0 &&
		    strncmp(target, "pipe:", 5) == 0)
			n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

// A child inherits the open pipes of the parent, and must not write into them.
TEST(SpliceFork, ChildHasNoPipesOfTheParent)
{
	probe_pipes_reset();
	const int before = pipes_in("/proc/self/fd");
	test::run([before] {
		Route route;
		Task copy([&] { return route.copy(); });

		route.promote();
		EXPECT_GT(pipes_in("/proc/self/fd"), before);
		const pid_t child = fork();
		if (child == 0) {
			CHILD_CHECK(pipes_in("/proc/self/fd") == before);
			CHILD_CHECK(pool().pipes == 0);
			_exit(0);
		}
		int status;
		EXPECT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
		route.promote();
		sn_tcp_shutdown(route.source.client, SN_SHUT_WRITE);
		EXPECT_EQ(0, copy.join());
	});
	probe_pipes_reset();
	EXPECT_EQ(before, pipes_in("/proc/self/fd"));
}

// ---- every pair of descriptors ----

// A descriptor to copy to or from, and what to do at its other end.
struct End {
	sn_stream *stream = nullptr; // used by the copy
	sn_stream *other = nullptr;  // the test's end; none for files
	int file = -1;

	~End()
	{
		if (stream)
			sn_stream_close(stream);
		if (other)
			sn_stream_close(other);
		if (file >= 0)
			close(file);
	}
	void finish() { sn_stream_close(std::exchange(other, nullptr)); }
};

enum class Kind { tcp, unix_socket, pipe, file };

int scratch_file(int flags)
{
	char name[] = "/tmp/sennit-splice-XXXXXX";
	const int fd = mkstemp(name);

	EXPECT_GE(fd, 0);
	const int again = open(name, O_RDWR | O_CLOEXEC | flags);
	EXPECT_GE(again, 0);
	unlink(name);
	close(fd);
	return again;
}

void adopt(sn_stream **stream, int fd)
{
	ASSERT_EQ(0, sn_stream_adopt(stream, fd));
}

// `reading`: the copy reads from it.
void open_end(End &end, Kind kind, bool reading, int file_flags = 0)
{
	int fds[2];

	switch (kind) {
	case Kind::tcp: {
		Pair pair;

		end.stream = sn_tcp_stream(pair.release_client());
		end.other = sn_tcp_stream(pair.release_server());
		break;
	}
	case Kind::unix_socket:
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
		adopt(&end.stream, fds[0]);
		adopt(&end.other, fds[1]);
		break;
	case Kind::pipe:
		ASSERT_EQ(0, pipe(fds));
		adopt(&end.stream, fds[reading ? 0 : 1]);
		adopt(&end.other, fds[reading ? 1 : 0]);
		break;
	case Kind::file:
		end.file = scratch_file(file_flags);
		adopt(&end.stream, dup(end.file));
		break;
	}
}

std::string file_content(int fd)
{
	std::string all;
	char buf[16384];
	ssize_t n;

	while ((n = pread(fd, buf, sizeof buf, off_t(all.size()))) > 0)
		all.append(buf, size_t(n));
	return all;
}

std::string read_stream(sn_stream *stream, size_t expected)
{
	std::string all;
	all.reserve(expected);
	char buf[16384]; // on 32-bit machines the whole stack of a task has 64 KiB
	ssize_t n;

	while ((n = sn_stream_read(stream, buf, sizeof buf)) > 0)
		all.append(buf, size_t(n));
	EXPECT_EQ(0, n);
	return all;
}

void copy_between(Kind from, Kind to, int file_flags, struct sn_copy_result *result)
{
	static const std::string sent = pattern(FLOW / 8 * 5 + 12345);
	End src, dst;
	Task writer, reader;
	std::string got;

	open_end(src, from, true);
	open_end(dst, to, false, file_flags);
	if (src.other) {
		writer = Task([&] {
			EXPECT_EQ(ssize_t(sent.size()), sn_stream_write_all(src.other, sent.data(),
									    sent.size(), nullptr));
			src.finish();
		});
	} else {
		ASSERT_EQ(ssize_t(sent.size()), pwrite(src.file, sent.data(), sent.size(), 0));
	}
	if (dst.other)
		reader = Task([&] { got = read_stream(dst.other, sent.size()); });
	EXPECT_EQ(0, sn_copy(dst.stream, src.stream, -1, nullptr, nullptr, result));
	sn_stream_close(std::exchange(dst.stream, nullptr));
	if (writer.get())
		writer.join();
	if (reader.get())
		reader.join();
	else
		got = file_content(dst.file);
	EXPECT_TRUE(got == sent) << "from " << int(from) << " to " << int(to);
	EXPECT_EQ(sent.size(), result->bytes_written);
	expect_exact(*result);
}

TASK_TEST(CopyBetween, EveryPairOfKinds, 1, 4)
{
	for (Kind from : {Kind::tcp, Kind::unix_socket, Kind::pipe, Kind::file})
		for (Kind to : {Kind::tcp, Kind::unix_socket, Kind::pipe, Kind::file}) {
			struct sn_copy_result result;

			copy_between(from, to, 0, &result);
			if (from == Kind::file) {
				EXPECT_GT(result.bytes_file, 0u);
			}
		}
}

// Bytes that were spliced into a pipe have to be read from it again if the kernel refuses to splice
// them on, as it does for files that are open for appending.
TASK_TEST(CopyBetween, FilesThatTheKernelRefusesGoThroughUserspace, 1, 4)
{
	for (Kind from : {Kind::tcp, Kind::unix_socket, Kind::pipe, Kind::file}) {
		struct sn_copy_result result;

		copy_between(from, Kind::file, O_APPEND, &result);
		EXPECT_EQ(0u, result.bytes_spliced);
		EXPECT_EQ(0u, result.bytes_file);
	}
}

// On some network file systems copy_file_range() fails in several ways although both files can be
// read and written.
TEST(CopyBetween, FilesOfAFileSystemThatRefusesGoThroughUserspace)
{
	if (TEST_EMULATED || TEST_TSAN)
		GTEST_SKIP() << "there are no filters, or a child can start no threads";
	for (int error : {EIO, EPERM, EXDEV, EOPNOTSUPP, ENOSYS}) {
		const int status = test::in_child([error] {
			CHILD_CHECK(test::refuse({{SYS_copy_file_range, error}}));
			test::run(1, [] {
				struct sn_copy_result result;

				copy_between(Kind::file, Kind::file, 0, &result);
				CHILD_CHECK(result.bytes_userspace > 0);
				CHILD_CHECK(result.bytes_file == 0);
			});
			CHILD_CHECK(!testing::Test::HasFailure());
		});

		ASSERT_EQ(0, status) << strerror(error);
	}
}

TASK_TEST(CopyBetween, DevicesAndFilesThatClaimToBeEmpty, 1, 4)
{
	struct sn_copy_result result;
	sn_stream *zero, *null, *proc;
	End out;

	adopt(&zero, open("/dev/zero", O_RDONLY | O_CLOEXEC));
	adopt(&null, open("/dev/null", O_WRONLY | O_CLOEXEC));
	EXPECT_EQ(0, sn_copy(null, zero, int64_t(3 * MiB), nullptr, nullptr, &result));
	EXPECT_EQ(3 * MiB, result.bytes_written);
	adopt(&proc, open("/proc/self/status", O_RDONLY | O_CLOEXEC));
	open_end(out, Kind::file, false);
	EXPECT_EQ(0, sn_copy(out.stream, proc, -1, nullptr, nullptr, &result));
	EXPECT_EQ(0u, file_content(out.file).rfind("Name:", 0));
	for (sn_stream *stream : {zero, null, proc})
		sn_stream_close(stream);
}

// Writing to a pipe that has lost its reader, and copying a file to a socket that is shut down.
TASK_TEST(CopyBetween, FailuresOfPipesAndFiles, 1, 4)
{
	struct sn_copy_result result;
	{
		End src, dst;

		open_end(src, Kind::unix_socket, true);
		open_end(dst, Kind::pipe, false);
		dst.finish();
		EXPECT_EQ(4, sn_stream_write_all(src.other, "abcd", 4, nullptr));
		EXPECT_EQ(-EPIPE, sn_copy(dst.stream, src.stream, -1, nullptr, nullptr, &result));
		EXPECT_EQ(SN_COPY_WRITE, result.failed);
	}
	{
		End src, dst;

		open_end(src, Kind::file, true);
		open_end(dst, Kind::tcp, false);
		ASSERT_EQ(4, pwrite(src.file, "abcd", 4, 0));
		sn_stream_shutdown(dst.stream, SN_SHUT_WRITE);
		EXPECT_EQ(-EPIPE, sn_copy(dst.stream, src.stream, -1, nullptr, nullptr, &result));
		EXPECT_EQ(SN_COPY_WRITE, result.failed);
		EXPECT_EQ(0u, result.bytes_written);
	}
}

// Deadlines while a copy waits for either side of the caller's own pipes.
TASK_TEST(CopyBetween, DeadlinesOfPipes, 1, 4)
{
	struct sn_copy_result result;
	End src, dst;

	open_end(src, Kind::pipe, true);
	open_end(dst, Kind::pipe, false);
	sn_stream_set_read_deadline(src.stream, sn_now() + 5 * test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_copy(dst.stream, src.stream, -1, nullptr, nullptr, &result));
	EXPECT_EQ(SN_COPY_READ, result.failed);
	sn_stream_set_read_deadline(src.stream, SN_NO_DEADLINE);
	Task writer([&] {
		const std::string chunk(MiB, 'x');

		while (sn_stream_write(src.other, chunk.data(), chunk.size()) > 0)
			continue;
	});
	sn_stream_set_write_deadline(dst.stream, sn_now() + 20 * test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_copy(dst.stream, src.stream, -1, nullptr, nullptr, &result));
	EXPECT_EQ(SN_COPY_WRITE, result.failed);
	sn_stream_cancel(src.other);
	writer.join();
}

TEST(Stream, RefusesDescriptorsWithoutStreams)
{
	test::run({1}, [] {
		sn_stream *stream;
		const int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		const int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		EXPECT_EQ(-EBADF, sn_stream_adopt(&stream, -1));
		EXPECT_EQ(-EPROTOTYPE, sn_stream_adopt(&stream, datagrams));
		EXPECT_EQ(-EISDIR, sn_stream_adopt(&stream, directory));
		EXPECT_EQ(0, close(datagrams)) << "the descriptor still belongs to the caller";
		EXPECT_EQ(0, close(directory));
		End file;
		open_end(file, Kind::file, false);
		EXPECT_EQ(-ENOTSOCK, sn_stream_shutdown(file.stream, SN_SHUT_WRITE));
		EXPECT_EQ(-ENOTSOCK, sn_relay(file.stream, file.stream, nullptr, nullptr));
	});
	sn_stream *stream;
	EXPECT_EQ(-ENOTSUP, sn_stream_adopt(&stream, 0));
	EXPECT_EQ(-ENOTSUP, sn_relay(nullptr, nullptr, nullptr, nullptr));
}

} // namespace
