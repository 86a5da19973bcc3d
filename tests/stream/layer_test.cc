// SPDX-License-Identifier: MIT
//
// Streams with a layer of the program's own (sennit/layer.h): all calls on streams go through the
// layer, no matter what it waits for, and it learns how the stream ends.
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/layer.h>

#include "support/streams.h"

namespace
{

using test::eventually;
using test::patience;

// What happened to a layer's state when its stream was closed.
struct Fate {
	std::atomic<int> closed{0}, orderly{0};
};

// A layer that inverts all bytes, and ends its writing with a zero byte, because a protocol like
// TLS has an end of its own. What the socket does not take stays in `out`.
struct Inverter {
	Inverter(int fd, Fate *fate) : fd(fd), fate(fate) {}

	int fd;
	Fate *fate;
	sn_mutex lock = SN_MUTEX_INIT;
	std::string out;
	size_t owed = 0;
	bool ended = false, read_ended = false;
	bool reads_must_send = false; // a read sends a byte of value 1, which is not data, first
	bool writes_must_receive = false; // a write waits for such a byte first
	std::string received;
};

ssize_t flush(Inverter *inverter)
{
	while (!inverter->out.empty()) {
		ssize_t n = send(inverter->fd, inverter->out.data(), inverter->out.size(),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return -errno;
		inverter->out.erase(0, size_t(n));
	}
	return 0;
}

// Receives bytes of the socket, and removes bytes of value 1.
ssize_t receive(Inverter *inverter)
{
	char buf[4096];
	ssize_t n = recv(inverter->fd, buf, sizeof buf, MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == 1)
			inverter->writes_must_receive = false;
		else
			inverter->received += buf[i];
	}
	return n;
}

class Locked
{
public:
	explicit Locked(Inverter *inverter) : inverter_(inverter)
	{
		sn_mutex_lock_uncancelled(&inverter->lock);
	}
	~Locked() { sn_mutex_unlock(&inverter_->lock); }

private:
	Inverter *inverter_;
};

ssize_t inverter_read(void *state, void *buf, size_t size)
{
	auto *inverter = static_cast<Inverter *>(state);
	Locked locked(inverter);
	ssize_t n;

	if (inverter->reads_must_send) {
		inverter->out += '\1';
		inverter->reads_must_send = false;
	}
	n = flush(inverter);
	if (n < 0)
		return n;
	while (inverter->received.empty()) {
		n = receive(inverter);
		if (n == 0)
			return inverter->read_ended ? 0 : -ECONNABORTED;
		if (n < 0)
			return n;
	}
	if (inverter->received[0] == 0)
		return 0;
	const size_t most =
		std::min({size, inverter->received.size(), inverter->received.find('\0')});
	for (size_t i = 0; i < most; i++)
		static_cast<char *>(buf)[i] = char(~inverter->received[i]);
	inverter->received.erase(0, most);
	return ssize_t(most);
}

ssize_t inverter_write(void *state, const void *buf, size_t size)
{
	auto *inverter = static_cast<Inverter *>(state);
	Locked locked(inverter);
	ssize_t n = flush(inverter);

	if (n < 0)
		return n;
	if (inverter->ended)
		return -EPIPE;
	if (inverter->writes_must_receive && (n = receive(inverter)) < 0)
		return n;
	if (inverter->owed == 0) {
		inverter->owed = std::min(size, size_t(10000));
		for (size_t i = 0; i < inverter->owed; i++)
			inverter->out += char(~static_cast<const char *>(buf)[i]);
	}
	n = flush(inverter);
	return n < 0 ? n : ssize_t(std::exchange(inverter->owed, 0));
}

size_t inverter_settle(void *state)
{
	auto *inverter = static_cast<Inverter *>(state);
	Locked locked(inverter);

	return std::exchange(inverter->owed, 0);
}

int inverter_shutdown(void *state, sn_stream_half half)
{
	auto *inverter = static_cast<Inverter *>(state);
	Locked locked(inverter);

	if (half == SN_SHUT_READ) {
		inverter->read_ended = true;
		return 0;
	}
	if (!inverter->ended)
		inverter->out += '\0';
	inverter->ended = true;
	return int(flush(inverter));
}

void inverter_close(void *state, int orderly)
{
	auto *inverter = static_cast<Inverter *>(state);

	inverter->fate->orderly = orderly;
	inverter->fate->closed++;
	if (orderly && !inverter->ended) {
		inverter->out += '\0';
		flush(inverter);
	}
	delete inverter;
}

constexpr sn_layer inverting = {inverter_read,  inverter_write, inverter_settle, inverter_shutdown,
				inverter_close, nullptr,        nullptr};

Inverter *invert(sn_stream *stream, Fate *fate)
{
	auto *inverter = new Inverter(sn_stream_fd(stream), fate);

	EXPECT_EQ(0, sn_layer_push(stream, &inverting, inverter));
	return inverter;
}

// Two ends of a connection, each with a layer.
struct Pair {
	Pair()
	{
		test::Pair pair;

		a = sn_tcp_stream(pair.release_client());
		b = sn_tcp_stream(pair.release_server());
		at_a = invert(a, &fate_a);
		at_b = invert(b, &fate_b);
	}
	~Pair()
	{
		sn_stream_close(a);
		sn_stream_close(b);
	}

	Fate fate_a, fate_b;
	sn_stream *a, *b;
	Inverter *at_a, *at_b;
};

std::string read_all(sn_stream *stream)
{
	std::string all;
	char buf[20000];
	ssize_t n;

	while ((n = sn_stream_read(stream, buf, sizeof buf)) > 0)
		all.append(buf, size_t(n));
	EXPECT_EQ(0, n);
	return all;
}

TASK_TEST(Layer, EveryCallOfStreamsGoesThroughIt)
{
	Pair pair;
	char buf[64], c[2];
	size_t done = 0;
	const iovec out[] = {{(void *)"ab", 2}, {nullptr, 0}, {(void *)"cde", 3}};
	const iovec in[] = {{c, 2}, {buf, sizeof buf}};

	EXPECT_EQ(4, sn_stream_write_all(pair.a, "data", 4, nullptr));
	EXPECT_EQ(4, sn_stream_read_full(pair.b, buf, 4, &done));
	EXPECT_EQ("data", std::string(buf, 4));
	EXPECT_EQ(5, sn_stream_writev(pair.a, out, 3));
	EXPECT_EQ(5, sn_stream_readv(pair.b, in, 2));
	EXPECT_EQ("abcde", std::string(c, 2) + std::string(buf, 3));
	EXPECT_EQ(0, sn_stream_read(pair.b, buf, 0));
	EXPECT_EQ(0, sn_stream_write(pair.b, buf, 0));
	done = 0;
	EXPECT_EQ(5, sn_stream_writev_all(pair.b, out, 3, &done));
	EXPECT_EQ(0, sn_stream_shutdown(pair.b, SN_SHUT_WRITE));
	EXPECT_EQ(-EPIPE, sn_stream_write(pair.b, "x", 1));
	EXPECT_EQ("abcde", read_all(pair.a));
	EXPECT_EQ(1, sn_stream_write(pair.a, "y", 1)); // the other half
	EXPECT_EQ(1, sn_stream_read(pair.b, buf, sizeof buf));
}

TASK_TEST(Layer, ConnectionThatIsCutOffIsNoEnd)
{
	Pair pair;
	char c;

	shutdown(sn_stream_fd(pair.a), SHUT_WR);
	EXPECT_EQ(-ECONNABORTED, sn_stream_read(pair.b, &c, 1));
}

TASK_TEST(Layer, LargeAmountsInBothDirections)
{
	Pair pair;
	test::Random random;
	const std::string there = test::random_bytes(random, test::scaled(4 << 20));
	const std::string back = test::random_bytes(random, test::scaled(3 << 20));
	std::string want_there = there, want_back = back;
	auto writer = [](sn_stream *to, const std::string &what) {
		return test::Task([to, &what] {
			EXPECT_EQ(ssize_t(what.size()),
				  sn_stream_write_all(to, what.data(), what.size(), nullptr));
			EXPECT_EQ(0, sn_stream_shutdown(to, SN_SHUT_WRITE));
		});
	};
	// The zero byte is the layer's end, so neither its inverse nor that of 1 may be
	// data.
	for (std::string *bytes : {&want_there, &want_back})
		for (char &c : *bytes)
			if (c == char(~0) || c == char(~1))
				c = 'x';
	test::Task a = writer(pair.a, want_there), b = writer(pair.b, want_back);
	test::Task reader([&] { EXPECT_TRUE(read_all(pair.b) == want_there); });

	EXPECT_TRUE(read_all(pair.a) == want_back);
	reader.join();
	a.join();
	b.join();
}

// One end with a layer, whose Unix socket is full until the peer reads.
struct Full {
	Full()
	{
		while (send(sn_stream_fd(a), "noise", 5, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			continue;
		at_a = invert(a, &fate);
		sn_stream_set_read_deadline(b, sn_now() + patience);
	}

	// Reads at the peer until this byte comes.
	void drain_to(char wanted)
	{
		char buf[1000];
		ssize_t n;

		while ((n = sn_stream_read(b, buf, sizeof buf)) > 0)
			if (memchr(buf, wanted, size_t(n)))
				return;
		ADD_FAILURE() << "the byte did not come: " << n;
		sn_stream_cancel(a);
	}

	Fate fate;
	std::unique_ptr<test::Ends> ends = test::Ends::unix_sockets();
	sn_stream *const a = ends->from(), *const b = ends->to();
	Inverter *at_a;
};

TASK_TEST(Layer, ReaderMayWaitForRoomWhileThereIsNothingToRead)
{
	Full full;
	char c = 0;
	const char z = char(~'z');

	full.at_a->reads_must_send = true;
	test::Task reader([&] { EXPECT_EQ(1, sn_stream_read(full.a, &c, 1)); });
	EXPECT_TRUE(test::someone_reads(full.a));
	full.drain_to('\1');
	EXPECT_EQ(1, sn_stream_write(full.b, &z, 1));
	reader.join();
	EXPECT_EQ('z', c);
}

TASK_TEST(Layer, WriterMayWaitForBytesWhileThereIsNoRoom)
{
	Full full;

	full.at_a->writes_must_receive = true;
	test::Task writer([&] { EXPECT_EQ(1, sn_stream_write(full.a, "w", 1)); });
	EXPECT_TRUE(test::someone_writes(full.a));
	EXPECT_EQ(1, sn_stream_write(full.b, "\1", 1));
	EXPECT_TRUE(
		eventually([&] { return test::unread(reinterpret_cast<sn_tcp *>(full.a)) == 0; }));
	full.drain_to(char(~'w'));
	writer.join();
}

TASK_TEST(Layer, WriteThatRunsOutOfTimeSaysWhatWasTaken)
{
	Pair pair;
	const std::string bytes(1 << 20, 'b');
	size_t total = 0;
	ssize_t n;

	sn_stream_set_write_deadline(pair.a, sn_now() + 50 * test::ms);
	while ((n = sn_stream_write(pair.a, bytes.data(), bytes.size())) > 0)
		total += size_t(n);
	EXPECT_EQ(-ETIMEDOUT, n);
	sn_stream_set_write_deadline(pair.a, SN_NO_DEADLINE);
	test::Task ender([&] { EXPECT_EQ(0, sn_stream_shutdown(pair.a, SN_SHUT_WRITE)); });
	EXPECT_EQ(total, read_all(pair.b).size());
	ender.join();
}

TASK_TEST(Layer, DeadlineCancelAndCloseEndWaits)
{
	Pair pair;
	char c;

	sn_stream_set_read_deadline(pair.a, sn_now() + test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_stream_read(pair.a, &c, 1));
	test::Task canceled([&] { EXPECT_EQ(-ECANCELED, sn_stream_read(pair.b, &c, 1)); });
	EXPECT_TRUE(test::someone_reads(pair.b));
	EXPECT_EQ(0, sn_stream_cancel(pair.b));
	canceled.join();
	sn_stream_set_read_deadline(pair.a, SN_NO_DEADLINE);
	test::Task closed([&] { EXPECT_EQ(-EBADF, sn_stream_read(pair.a, &c, 1)); });
	EXPECT_TRUE(test::someone_reads(pair.a));
	EXPECT_EQ(0, sn_stream_close(pair.a));
	closed.join();
	EXPECT_TRUE(eventually([&] { return pair.fate_a.closed == 1; }));
	EXPECT_EQ(-EBADF, sn_stream_close(pair.a));
}

TASK_TEST(Layer, LearnsHowTheStreamWasClosed)
{
	Pair pair;

	EXPECT_EQ(0, sn_stream_close(pair.a));
	EXPECT_EQ(1, pair.fate_a.closed);
	EXPECT_EQ(1, pair.fate_a.orderly);
	EXPECT_EQ("", read_all(pair.b));
	EXPECT_EQ(0, sn_stream_abort(pair.b));
	EXPECT_EQ(1, pair.fate_b.closed);
	EXPECT_EQ(0, pair.fate_b.orderly);
}

// The parent still has the stream, so the child does not notify the peer.
TASK_TEST(Layer, ChildOfForkTellsThePeerNothing, 1)
{
	Pair pair;
	const pid_t child = fork();
	int status = -1;
	char c;

	if (child == 0) {
		CHILD_CHECK(sn_stream_close(pair.a) == 0);
		CHILD_CHECK(pair.fate_a.closed == 1 && pair.fate_a.orderly == 0);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, sn_stream_write(pair.a, "p", 1));
	EXPECT_EQ(1, sn_stream_read(pair.b, &c, 1));
	EXPECT_EQ('p', c);
}

TASK_TEST(Layer, PushingRefusesWhatCannotCarryOne, 1)
{
	Pair pair;
	Fate fate;
	Inverter unused(-1, &fate);
	auto pipe = test::Ends::pipe();
	auto socket = test::Ends::unix_sockets();
	void *state;
	char c;

	EXPECT_EQ(-EEXIST, sn_layer_push(pair.a, &inverting, &unused));
	EXPECT_EQ(-ENOTSOCK, sn_layer_push(pipe->from(), &inverting, &unused));
	EXPECT_EQ(-EINVAL, sn_layer_push(nullptr, &inverting, &unused));
	EXPECT_EQ(-EINVAL, sn_layer_push(socket->from(), nullptr, &unused));
	EXPECT_EQ(-EPROTOTYPE, sn_layer_use(socket->from(), &inverting, &state));
	test::Task reader([&] { EXPECT_EQ(-EBADF, sn_stream_read(socket->from(), &c, 1)); });
	EXPECT_TRUE(test::someone_reads(socket->from()));
	EXPECT_EQ(-EBUSY, sn_layer_push(socket->from(), &inverting, &unused));
	socket->close_from();
	reader.join();
	ASSERT_EQ(0, sn_layer_use(pair.a, &inverting, &state));
	EXPECT_EQ(pair.at_a, state);
	sn_layer_unuse(pair.a);
}

TASK_TEST(Layer, MessagesDoNotPassItBy, 1)
{
	Fate fate;
	auto ends = test::Ends::unix_sockets();
	auto *const conn = reinterpret_cast<sn_unix *>(ends->from());
	char text[] = "past the layer";
	sn_unix_message message = {};

	message.data = text;
	message.size = sizeof text;
	EXPECT_EQ(ssize_t(sizeof text), sn_unix_send(conn, &message));
	invert(ends->from(), &fate);
	EXPECT_EQ(-EPROTOTYPE, sn_unix_send(conn, &message));
	EXPECT_EQ(-EPROTOTYPE, sn_unix_recv(conn, &message));
}

TASK_TEST(Layer, AttemptsOfItsOwnExcludeReadsAndWrites)
{
	Pair pair;
	char c;
	auto again = [](void *, void *) { return -EAGAIN; };
	auto once = [](void *, void *arg) { return ++*static_cast<int *>(arg); };
	auto receives = [](void *state, void *) {
		return recv(static_cast<Inverter *>(state)->fd, &state, 1, MSG_DONTWAIT) < 0
			       ? -errno
			       : 7;
	};
	int calls = 0;

	EXPECT_EQ(1, sn_layer_run(pair.a, &inverting, once, &calls, SN_NO_DEADLINE));
	EXPECT_EQ(-ETIMEDOUT,
		  sn_layer_run(pair.a, &inverting, again, nullptr, sn_now() + test::ms));
	test::Task runs([&] {
		EXPECT_EQ(7,
			  sn_layer_run(pair.a, &inverting, receives, nullptr, sn_now() + patience));
	});
	EXPECT_TRUE(test::someone_reads(pair.a));
	EXPECT_EQ(-EBUSY, sn_stream_read(pair.a, &c, 1));
	EXPECT_EQ(-EBUSY, sn_stream_write(pair.a, &c, 1));
	EXPECT_EQ(1, sn_stream_write(pair.b, "x", 1));
	runs.join();
}

// Such an attempt waits on one side only.
TASK_TEST(Layer, DeadlinesOfBothSidesEndAttemptsThatWait)
{
	Pair pair;
	auto again = [](void *, void *) { return -EAGAIN; };

	for (const auto set : {sn_stream_set_read_deadline, sn_stream_set_write_deadline})
		for (const int64_t ahead : {INT64_C(0), 5 * test::ms}) {
			const int64_t given_up = sn_now() + patience;

			test::Task runs([&] {
				EXPECT_EQ(-ETIMEDOUT, sn_layer_run(pair.a, &inverting, again,
								   nullptr, given_up));
			});
			EXPECT_TRUE(test::someone_reads(pair.a));
			EXPECT_EQ(0, set(pair.a, sn_now() + ahead));
			runs.join();
			EXPECT_LT(sn_now(), given_up);
			EXPECT_EQ(0, set(pair.a, SN_NO_DEADLINE));
		}
}

// A close gives the layer its time, whatever the stream's deadlines were: one that has passed does
// not end it, and one that passes later does not make the task ask the layer without a pause.
TASK_TEST(Layer, DeadlinesOfTheStreamAreNotThoseOfItsLinger)
{
	static std::atomic<int> calls;
	static std::atomic<int64_t> until;
	static const struct sn_layer layer = [] {
		struct sn_layer made = inverting;

		made.linger = [](void *) {
			calls++;
			return sn_now() < until ? -EAGAIN : 0;
		};
		return made;
	}();

	for (const auto set : {sn_stream_set_read_deadline, sn_stream_set_write_deadline})
		for (const int64_t ahead : {-test::ms, 10 * test::ms}) {
			auto ends = test::Ends::tcp();
			Fate fate;

			ASSERT_EQ(0, sn_layer_push(ends->to(), &layer,
						   new Inverter(sn_stream_fd(ends->to()), &fate)));
			EXPECT_EQ(0, set(ends->to(), sn_now() + ahead));
			calls = 0;
			until = sn_now() + 50 * test::ms;
			ends->close_to();
			EXPECT_GE(calls, 2);
			EXPECT_LE(calls, 50);
			EXPECT_EQ(1, fate.closed);
		}
}

// ---- copies ----

TASK_TEST(Layer, CopiesGoThroughItInUserspace)
{
	Pair first, second;
	const std::string bytes(test::scaled(2 << 20), 'c');
	sn_copy_result result;

	test::Task writer([&] {
		(void)!sn_stream_write_all(first.a, bytes.data(), bytes.size(), nullptr);
		EXPECT_EQ(0, sn_stream_shutdown(first.a, SN_SHUT_WRITE));
	});
	test::Task copier([&] {
		EXPECT_EQ(0, sn_copy(second.a, first.b, -1, nullptr, nullptr, &result));
		EXPECT_EQ(0, sn_stream_shutdown(second.a, SN_SHUT_WRITE));
	});
	EXPECT_TRUE(read_all(second.b) == bytes);
	copier.join();
	writer.join();
	EXPECT_EQ(bytes.size(), result.bytes_userspace);
	EXPECT_EQ(0u, result.bytes_spliced);
}

TASK_TEST(Layer, CopyThatRunsOutOfTimeLosesNothingThatTheLayerTook)
{
	Pair pair;
	auto source = test::Ends::tcp();
	const std::string bytes(1 << 18, 'd');
	sn_copy_result result;

	// More than any socket holds, so that the writer waits until the stream is closed.
	test::Task writer([&] {
		while (sn_stream_write(source->to(), bytes.data(), bytes.size()) > 0)
			continue;
	});
	sn_stream_set_write_deadline(pair.a, sn_now() + 100 * test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_copy(pair.a, source->from(), -1, nullptr, nullptr, &result));
	EXPECT_EQ(SN_COPY_WRITE, result.failed);
	source->close_from();
	writer.join();
	sn_stream_set_write_deadline(pair.a, SN_NO_DEADLINE);
	test::Task ender([&] { EXPECT_EQ(0, sn_stream_shutdown(pair.a, SN_SHUT_WRITE)); });
	EXPECT_EQ(result.bytes_written, read_all(pair.b).size());
	ender.join();
}

// A client and a server on both sides of a relay, of which one side or both have layers.
void relay_messages(bool front, bool back)
{
	Fate fates[4];
	auto left = test::Ends::tcp(), right = test::Ends::tcp();
	sn_stream *const client = left->from(), *const server = right->to();
	sn_relay_result result;
	std::string got;
	char buf[8];

	if (front) {
		invert(client, &fates[0]);
		invert(left->to(), &fates[1]);
	}
	if (back) {
		invert(right->from(), &fates[2]);
		invert(server, &fates[3]);
	}
	test::Task relay(
		[&] { EXPECT_EQ(0, sn_relay(left->to(), right->from(), &result, nullptr)); });
	test::Task answers([&] {
		char c;

		while (sn_stream_read(server, &c, 1) == 1)
			EXPECT_EQ(2, sn_stream_write_all(server, "ok", 2, nullptr));
		EXPECT_EQ(4, sn_stream_write_all(server, "last", 4, nullptr));
		EXPECT_EQ(0, sn_stream_shutdown(server, SN_SHUT_WRITE));
	});
	for (int i = 0; i < 50; i++) {
		EXPECT_EQ(1, sn_stream_write(client, "q", 1));
		EXPECT_EQ(2, sn_stream_read_full(client, buf, 2, nullptr));
	}
	EXPECT_EQ(0, sn_stream_shutdown(client, SN_SHUT_WRITE));
	EXPECT_EQ("last", read_all(client));
	answers.join();
	relay.join();
	EXPECT_EQ(SN_RELAY_FINISHED, result.end);
	EXPECT_EQ(0, result.lost);
	EXPECT_EQ(50u, result.directions[SN_RELAY_A_TO_B].bytes_written);
	EXPECT_EQ(104u, result.directions[SN_RELAY_B_TO_A].bytes_written);
}

TASK_TEST(Layer, RelaysWithIt)
{
	relay_messages(true, false);
	relay_messages(false, true);
	relay_messages(true, true);
}

TASK_TEST(Layer, RelayEndsWithAnErrorWhereTheStreamWasCutOff)
{
	Fate fate;
	auto left = test::Ends::tcp(), right = test::Ends::tcp();
	sn_relay_result result;

	invert(left->to(), &fate);
	test::Task relay([&] {
		EXPECT_EQ(-ECONNABORTED, sn_relay(left->to(), right->from(), &result, nullptr));
	});
	left->close_from();
	relay.join();
	EXPECT_EQ(SN_RELAY_FAILED, result.end);
	EXPECT_EQ(0, result.side);
}

} // namespace
