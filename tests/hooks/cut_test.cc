// SPDX-License-Identifier: MIT
//
// Calls that end after a part of their bytes: by a limit of time, a signal, the end of the peer, or
// a cancellation. Each is made by a thread without a task, which is the oracle, and by a hooked
// task. There is one difference: a signal ends no call of a task (docs/hooks.md), which therefore
// transfers all of its bytes.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <linux/sockios.h>

#include "hooks/hooks.h"
#include "hooks/oracle.h"

namespace
{

using namespace test;
using oracle::close_ends;
using oracle::Ends;
using oracle::Kind;
using oracle::message_of;

// ---- who makes the calls ----

std::atomic<int> signals;

// Counts SIGUSR1, with these flags of its handler.
class Handled
{
public:
	explicit Handled(int flags)
	{
		struct sigaction action = {};

		action.sa_handler = [](int) { signals++; };
		action.sa_flags = flags;
		EXPECT_EQ(0, sigaction(SIGUSR1, &action, &former_));
	}
	~Handled() { sigaction(SIGUSR1, &former_, nullptr); }
	Handled(const Handled &) = delete;
	Handled &operator=(const Handled &) = delete;

private:
	struct sigaction former_;
};

struct Caller {
	pthread_t thread;
	sn_scope *scope; // of the task; null: the caller is a thread

	// Sends a signal to the thread; a parked task has none, so any other will do. Waits for the
	// handler, unless it may run late.
	void signal(bool late = false) const
	{
		const int before = signals;

		EXPECT_EQ(0, pthread_kill(scope ? pthread_self() : thread, SIGUSR1));
		EXPECT_TRUE(late || eventually([&] { return signals > before; }));
	}
	// What ends a thread's call as a cancellation ends that of a task is a signal.
	void cancel() const
	{
		if (scope)
			sn_scope_cancel(scope);
		else
			signal();
	}
};

using Log = std::vector<int64_t>; // results of calls, or -errno

struct Scene {
	std::function<void(Log &)> call;
	// What the other end does during the call. A task has parked once.
	std::function<void(const Caller &)> other;
};

Log play_in_thread(const Scene &scene)
{
	Log log;
	std::thread thread([&] { scene.call(log); });

	scene.other({thread.native_handle(), nullptr});
	thread.join();
	return log;
}

Log play_in_task(const Scene &scene)
{
	struct Closure {
		const Scene &scene;
		Log log;
	} closure{scene, {}};

	test::run(2, [&] {
		const uint64_t before = hooks().parked;
		struct sn_task_attr attr = {};
		sn_scope *scope;

		attr.flags = SN_TASK_HOOKED;
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_spawn(
				     scope,
				     [](void *arg) {
					     auto *const one = static_cast<Closure *>(arg);

					     one->scene.call(one->log);
					     return 0;
				     },
				     &closure, &attr));
		EXPECT_TRUE(eventually([&] { return hooks().parked > before; }));
		// With hooks, so that it does not block the thread of the other one.
		Task other_end = hooked([&] { scene.other({{}, scope}); });
		sn_cancel_mask(); // the scope is this task's, too
		other_end.join();
		sn_cancel_unmask();
		// A cancelled scope reports that.
		(void)sn_scope_close(scope);
	});
	return closure.log;
}

// ---- what they make them on ----

// A connection, with buffers that do not grow.
struct Connection {
	explicit Connection(Kind kind)
	{
		const int bytes = 100000;

		oracle::connect(kind, ends);
		if (kind == Kind::pipes)
			return;
		for (const Ends &each : ends)
			for (const int option : {SO_SNDBUF, SO_RCVBUF})
				EXPECT_EQ(0, setsockopt(each.in, SOL_SOCKET, option, &bytes,
							sizeof bytes));
	}
	~Connection()
	{
		close_ends(ends[0]);
		close_end();
	}
	Connection(const Connection &) = delete;
	Connection &operator=(const Connection &) = delete;

	int near_in() const { return ends[0].in; }
	int near_out() const { return ends[0].out; }
	int far_in() const { return ends[1].in; }
	int far_out() const { return ends[1].out; }
	void close_end()
	{
		if (ends[1].in >= 0)
			close_ends(ends[1]);
		ends[1] = {};
	}

	Ends ends[2];
};

int unread(int fd)
{
	int bytes = -1;

	EXPECT_EQ(0, ioctl(fd, FIONREAD, &bytes));
	return bytes;
}

// The bytes that the far end has written and that have not arrived.
int on_the_way(int fd)
{
	int bytes = 0;

	// Fails for a pipe, which has no way between its ends.
	return ioctl(fd, SIOCOUTQ, &bytes) < 0 ? 0 : bytes;
}

// The caller has taken what was sent, so that it waits for more, or is about to.
void wait_until_taken(const Connection &conn)
{
	EXPECT_TRUE(eventually(
		[&] { return on_the_way(conn.far_out()) == 0 && unread(conn.near_in()) == 0; }));
}

// Reads `size` bytes by the far end.
std::string read_far(const Connection &conn, size_t size)
{
	std::string got(size, 0);
	size_t done = 0;

	while (done < size) {
		const ssize_t n = read(conn.far_in(), &got[done], size - done);

		if (n < 0 && error_now() == EINTR)
			continue;
		if (n <= 0)
			break;
		done += size_t(n);
	}
	got.resize(done);
	return got;
}

// What the far end has got and not read; the near end writes nothing more.
std::string rest_of(Connection &conn)
{
	if (conn.near_in() == conn.near_out()) {
		shutdown(conn.near_out(), SHUT_WR);
	} else {
		close(conn.near_out());
		conn.ends[0].out = conn.near_in();
	}
	return read_far(conn, 8 << 20);
}

void set_timeout(int fd, int option, int64_t ns)
{
	const struct timeval time = {0, suseconds_t(ns / 1000)};

	EXPECT_EQ(0, setsockopt(fd, SOL_SOCKET, option, &time, sizeof time));
}

std::string name_of(const testing::TestParamInfo<Kind> &info)
{
	std::string name = oracle::name_of(info.param);

	std::replace(name.begin(), name.end(), ' ', '_');
	return name;
}

class Sockets : public testing::TestWithParam<Kind>
{
protected:
	void SetUp() override { signal(SIGPIPE, SIG_IGN); }
};

using CutSendfile = Sockets;
using CutWaitall = Sockets;
INSTANTIATE_TEST_SUITE_P(Kinds, CutSendfile, testing::Values(Kind::unix_stream, Kind::tcp),
			 name_of);
INSTANTIATE_TEST_SUITE_P(Kinds, CutWaitall, testing::Values(Kind::unix_stream, Kind::tcp), name_of);

// ---- sendfile ----

constexpr size_t FileSize = 4 << 20;

const std::string &file_bytes()
{
	static const std::string bytes = [] {
		std::string made;

		while (made.size() < FileSize)
			made += message_of(made.size(), oracle::LargestMessage);
		return made.substr(0, FileSize);
	}();

	return bytes;
}

using Play = Log(const Scene &);
constexpr int64_t Skipped = 1001;

// Sends a file, in a position or at an offset, until a call fails. `read_first`: how much of it the
// far end reads. Returns whether the first call was cut, whether the file's position is that of the
// bytes that were sent, whether exactly these have come, and the last error.
Log cut_sendfile(Kind kind, Play *play, bool at_offset, size_t read_first, int64_t limit)
{
	Connection conn(kind);
	const int file = memfd_create("cut", MFD_CLOEXEC);
	int64_t sent = 0, position = 0, first = 0;
	std::string got;

	EXPECT_EQ(ssize_t(FileSize), pwrite(file, file_bytes().data(), FileSize, 0));
	EXPECT_EQ(Skipped, lseek(file, Skipped, SEEK_SET));
	if (limit)
		set_timeout(conn.near_out(), SO_SNDTIMEO, limit);
	const Scene scene = {
		[&](Log &log) {
			off_t offset = Skipped;
			off_t *const at = at_offset ? &offset : nullptr;
			int64_t n = outcome(sendfile(conn.near_out(), file, at, FileSize));

			first = n;
			for (; n > 0 && limit;
			     n = outcome(sendfile(conn.near_out(), file, at, FileSize)))
				sent += n;
			if (!limit) {
				sent = n;
			} else {
				log.push_back(n);
				// The far end may wait for more, if it was slow.
				shutdown(conn.near_out(), SHUT_WR);
			}
			position = at_offset ? offset : lseek(file, 0, SEEK_CUR);
		},
		[&](const Caller &caller) {
			got = read_far(conn, read_first);
			if (limit)
				return;
			// It has sent more than was read, so it is in the call.
			EXPECT_TRUE(eventually([&] { return unread(conn.far_in()) > 0; }));
			caller.cancel();
		},
	};
	Log log = play(scene);

	got += rest_of(conn);
	log.push_back(first > 0 && first < int64_t(FileSize) - Skipped);
	log.push_back(position - Skipped - sent);
	log.push_back(int64_t(got.size()) - sent);
	log.push_back(got == file_bytes().substr(Skipped, got.size()));
	close(file);
	return log;
}

TEST_P(CutSendfile, ByItsTimeLimit)
{
	for (const bool at_offset : {false, true})
		for (const size_t read_first : {size_t(0), FileSize / 2}) {
			const auto cut = [&](Play *play) {
				return cut_sendfile(GetParam(), play, at_offset, read_first,
						    30 * ms);
			};

			EXPECT_EQ((Log{-EAGAIN, 1, 0, 0, 1}), cut(play_in_thread));
			EXPECT_EQ((Log{-EAGAIN, 1, 0, 0, 1}), cut(play_in_task));
		}
}

TEST_P(CutSendfile, ByASignalOrACancellation)
{
	const Handled handled(0);

	for (const bool at_offset : {false, true})
		for (const size_t read_first : {size_t(0), FileSize / 2}) {
			const auto cut = [&](Play *play) {
				return cut_sendfile(GetParam(), play, at_offset, read_first, 0);
			};

			EXPECT_EQ((Log{1, 0, 0, 1}), cut(play_in_thread));
			EXPECT_EQ((Log{1, 0, 0, 1}), cut(play_in_task));
		}
}

// ---- pipes ----

// Whether the kernel knows RWF_NOWAIT for pipes. If not, a task blocks its thread in a large write,
// which a signal ends there.
bool parks_in_writes()
{
	const Connection conn(Kind::pipes);
	const struct iovec one = {const_cast<char *>("x"), 1};

	return pwritev2(conn.near_out(), &one, 1, -1, RWF_NOWAIT) == 1;
}

// Writes the file's bytes, more than a pipe holds, and is interrupted once the pipe is full.
int64_t interrupted_write(Play *play, bool in_pieces)
{
	constexpr size_t Size = 1000001;
	Connection conn(Kind::pipes);
	const int room = fcntl(conn.near_out(), F_GETPIPE_SZ);
	char *const data = const_cast<char *>(file_bytes().data());
	struct iovec pieces[] = {{data, 70001}, {data + 70001, 0}, {data + 70001, Size - 70001}};
	std::string got;
	const Log log = play({
		[&](Log &results) {
			results.push_back(outcome(in_pieces ? writev(conn.near_out(), pieces, 3)
							    : write(conn.near_out(), data, Size)));
			// So that the far end does not wait for more.
			close(conn.near_out());
		},
		[&](const Caller &caller) {
			EXPECT_TRUE(eventually([&] { return unread(conn.far_in()) == room; }));
			caller.signal();
			got = read_far(conn, Size);
		},
	});

	conn.ends[0].out = conn.near_in();
	EXPECT_EQ(1u, log.size());
	EXPECT_EQ(size_t(log[0]), got.size());
	EXPECT_TRUE(got == file_bytes().substr(0, got.size()));
	return log[0] == room ? 0 : log[0];
}

// Even with SA_RESTART a thread's call returns after a part of the bytes.
TEST(CutPipe, WritingIsEndedOnlyInThreads)
{
	for (const int flags : {0, SA_RESTART})
		for (const bool in_pieces : {false, true}) {
			const Handled handled(flags);

			EXPECT_EQ(0, interrupted_write(play_in_thread, in_pieces));
			if (parks_in_writes()) {
				EXPECT_EQ(1000001, interrupted_write(play_in_task, in_pieces));
			}
		}
}

// Reads more than a pipe holds, again and again, with a signal before any byte comes, and between
// two fillings of the pipe. A call takes what is there.
Log interrupted_read(Play *play, bool in_pieces)
{
	constexpr size_t Size = 300000;
	// ThreadSanitizer runs handlers after the call, which the kernel makes again.
	constexpr bool Late = TEST_TSAN;
	Connection conn(Kind::pipes);
	std::string got(Size, 0);
	size_t done = 0;
	Log log = play({
		[&](Log &results) {
			for (int64_t n = 1; n > 0 || n == -EINTR;) {
				const size_t rest = Size - done;
				struct iovec pieces[] = {{&got[done], rest / 2},
							 {&got[done + rest / 2], rest - rest / 2}};

				n = outcome(in_pieces ? readv(conn.near_in(), pieces, 2)
						      : read(conn.near_in(), &got[done], rest));
				done += n > 0 ? size_t(n) : 0;
				results.push_back(n);
			}
		},
		[&](const Caller &caller) {
			caller.signal(Late);
			for (const size_t at : {0, 5}) {
				EXPECT_EQ(5, write(conn.far_out(), file_bytes().data() + at, 5));
				wait_until_taken(conn);
				caller.signal(Late);
			}
			conn.close_end();
		},
	});

	got.resize(done);
	log.push_back(got == file_bytes().substr(0, 10));
	return log;
}

TEST(CutPipe, ReadingContinuesAfterAHandler)
{
	const Handled handled(SA_RESTART);

	for (const bool in_pieces : {false, true}) {
		EXPECT_EQ((Log{5, 5, 0, 1}), interrupted_read(play_in_thread, in_pieces));
		EXPECT_EQ((Log{5, 5, 0, 1}), interrupted_read(play_in_task, in_pieces));
	}
}

// ---- recv(MSG_WAITALL) ----

// Receives 1,000 bytes, of which `parts` of 5 bytes come, and then what `end` does. With a limit of
// time they are there before. Then receives the rest, or the error, until a call returns nothing.
Log cut_waitall(Kind kind, Play *play, int parts, int64_t limit,
		const std::function<void(Connection &, const Caller &)> &end)
{
	Connection conn(kind);
	std::string got(1000, 0), sent;
	size_t done = 0;
	int i = 0;
	const auto send_part = [&](int which) {
		sent += message_of(uint64_t(which), 5);
		EXPECT_EQ(5, write(conn.far_out(), sent.data() + sent.size() - 5, 5));
	};
	const Scene scene = {
		[&](Log &log) {
			for (int64_t n = 1; n > 0;) {
				n = outcome(recv(conn.near_in(), &got[done], got.size() - done,
						 MSG_WAITALL));
				done += n > 0 ? size_t(n) : 0;
				log.push_back(n);
			}
		},
		[&](const Caller &caller) {
			for (; i < parts; i++) {
				send_part(i);
				wait_until_taken(conn);
			}
			end(conn, caller);
		},
	};

	for (; limit && i < parts; i++)
		send_part(i);
	if (limit)
		set_timeout(conn.near_in(), SO_RCVTIMEO, limit);
	Log log = play(scene);

	log.push_back(got.compare(0, sent.size(), sent) == 0);
	return log;
}

void expect_waitall(Kind kind, const Log &expected, int parts, int64_t limit,
		    const std::function<void(Connection &, const Caller &)> &end)
{
	EXPECT_EQ(expected, cut_waitall(kind, play_in_thread, parts, limit, end)) << "a thread";
	EXPECT_EQ(expected, cut_waitall(kind, play_in_task, parts, limit, end)) << "a task";
}

void nothing(Connection &, const Caller &) {}

TEST_P(CutWaitall, ByItsTimeLimit)
{
	expect_waitall(GetParam(), {-EAGAIN, 1}, 0, 30 * ms, nothing);
	expect_waitall(GetParam(), {15, -EAGAIN, 1}, 3, 30 * ms, nothing);
}

TEST_P(CutWaitall, ByTheEndOfTheStream)
{
	for (const int parts : {1, 7})
		expect_waitall(GetParam(), {5 * parts, 0, 1}, parts, 0,
			       [](Connection &conn, const Caller &) { conn.close_end(); });
	expect_waitall(GetParam(), {0, 1}, 0, 0,
		       [](Connection &conn, const Caller &) { conn.close_end(); });
}

// The bytes come first, and the error with the next call.
TEST(CutWaitallTcp, ByAReset)
{
	expect_waitall(Kind::tcp, {15, -ECONNRESET, 1}, 3, 0, [](Connection &conn, const Caller &) {
		const struct linger none = {1, 0};

		EXPECT_EQ(0, setsockopt(conn.far_out(), SOL_SOCKET, SO_LINGER, &none, sizeof none));
		conn.close_end();
	});
}

// A signal ends a thread's call after some bytes, with SA_RESTART, too. A task waits for the rest.
TEST_P(CutWaitall, ByASignalOnlyInThreads)
{
	const auto signal_and_end = [](Connection &conn, const Caller &caller) {
		caller.signal();
		EXPECT_EQ(5, write(conn.far_out(), "after", 5));
		wait_until_taken(conn);
		conn.close_end();
	};

	for (const int flags : {0, SA_RESTART}) {
		const Handled handled(flags);

		EXPECT_EQ((Log{10, 5, 0, 1}),
			  cut_waitall(GetParam(), play_in_thread, 2, 0, signal_and_end));
		EXPECT_EQ((Log{15, 0, 1}),
			  cut_waitall(GetParam(), play_in_task, 2, 0, signal_and_end));
	}
}

// What a thread does after a signal.
TEST_P(CutWaitall, ByACancellation)
{
	const auto cancel = [](Connection &, const Caller &caller) { caller.cancel(); };

	EXPECT_EQ((Log{10, -ECANCELED, 1}), cut_waitall(GetParam(), play_in_task, 2, 0, cancel));
}

} // namespace
