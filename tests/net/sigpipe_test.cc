// SPDX-License-Identifier: MIT
//
// SIGPIPE never reaches a program because of sennit's own system calls, whatever they return. A
// SIGPIPE from another source is never lost.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/net.h"

namespace
{

using test::Task;

constexpr size_t MiB = size_t(1) << 20;

std::atomic<int> delivered;

void note(int)
{
	delivered++;
}

// As long as it exists, counts the SIGPIPEs that get through.
class Counter
{
public:
	Counter()
	{
		struct sigaction action = {};

		delivered = 0;
		action.sa_handler = note;
		action.sa_flags = SA_RESTART;
		EXPECT_EQ(0, sigaction(SIGPIPE, &action, &former_));
	}
	~Counter() { sigaction(SIGPIPE, &former_, nullptr); }
	Counter(const Counter &) = delete;
	Counter &operator=(const Counter &) = delete;

private:
	struct sigaction former_;
};

int readable(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) == 0 ? n : -1;
}

bool sleeps(pid_t thread)
{
	const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
	FILE *file = fopen(path.c_str(), "re");
	char state = 0;

	if (!file)
		return false;
	const int n = fscanf(file, "%*d (%*[^)]) %c", &state);
	fclose(file);
	return n == 1 && state == 'S';
}

void make_blocking(int fd)
{
	ASSERT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
}

// Acts once the thread sleeps in a call that has already written bytes, which can be read from fd.
template <class F>
std::thread when_stuck(int fd, const std::atomic<pid_t> &thread, F act)
{
	return std::thread([fd, &thread, act] {
		EXPECT_TRUE(test::eventually_in_thread(
			[&] { return thread != 0 && readable(fd) > 0 && sleeps(thread); }));
		act();
	});
}

pid_t this_thread()
{
	return pid_t(syscall(SYS_gettid));
}

// write() sleeps in the kernel for lack of room, and the reader closes its end: the kernel raises
// the signal and returns the number of bytes that it had written. A pipe of a task can block if
// another process has changed the flag of the open file.
TEST(Sigpipe, OfAPartialWriteIsHidden)
{
	Counter counter;

	test::run({1, 2}, [] {
		const std::string bytes(MiB, 'w');
		std::atomic<pid_t> thread = 0;
		sn_stream *out;
		int ends[2];

		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		ASSERT_EQ(0, sn_stream_adopt(&out, ends[1]));
		make_blocking(ends[1]);
		std::thread reader = when_stuck(ends[0], thread, [&] { close(ends[0]); });
		thread = this_thread();
		const ssize_t n = sn_stream_write(out, bytes.data(), bytes.size());
		EXPECT_GT(n, 0);
		EXPECT_LT(n, ssize_t(MiB));
		reader.join();
		EXPECT_EQ(-EPIPE, sn_stream_write(out, "x", 1));
		EXPECT_EQ(0, sn_stream_close(out));
	});
	EXPECT_EQ(0, delivered);
}

// The same with sendfile(), which continues after a part of a file.
TEST(Sigpipe, OfAPartialSendfileIsHidden)
{
	Counter counter;

	test::run({1, 2}, [] {
		char name[] = "/tmp/sennit-sigpipe-XXXXXX";
		const int file = mkostemp(name, O_CLOEXEC);
		struct sn_copy_result result = {};
		std::atomic<pid_t> thread = 0;
		sn_stream *in, *out;
		int ends[2];

		ASSERT_GE(file, 0);
		unlink(name);
		ASSERT_EQ(0, ftruncate(file, 64 * MiB));
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
		ASSERT_EQ(0, sn_stream_adopt(&in, file));
		ASSERT_EQ(0, sn_stream_adopt(&out, ends[1]));
		make_blocking(ends[1]);
		std::thread reader = when_stuck(ends[0], thread,
						[&] { EXPECT_EQ(0, shutdown(ends[0], SHUT_RD)); });
		thread = this_thread();
		EXPECT_EQ(-EPIPE, sn_copy(out, in, -1, nullptr, nullptr, &result));
		EXPECT_EQ(SN_COPY_WRITE, result.failed);
		reader.join();
		close(ends[0]);
		EXPECT_EQ(0, sn_stream_close(in));
		EXPECT_EQ(0, sn_stream_close(out));
	});
	EXPECT_EQ(0, delivered);
}

// The same with splice(), which does not sleep: the peer has to close during the call, which
// happens in some of many rounds.
TEST(Sigpipe, OfAPartialSpliceIsHidden)
{
	Counter counter;

	test::run({2}, [] {
		for (int round = 0; round < test::scaled(400); round++) {
			const std::string bytes(MiB, 's');
			std::atomic<bool> go = false;
			sn_stream *in, *out;
			int source[2], sink[2], size = 4 << 20;

			ASSERT_EQ(0, pipe2(source, O_CLOEXEC | O_NONBLOCK));
			fcntl(source[1], F_SETPIPE_SZ, int(MiB));
			while (write(source[1], bytes.data(), 4096) > 0)
				continue;
			close(source[1]);
			ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sink));
			setsockopt(sink[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
			ASSERT_EQ(0, sn_stream_adopt(&in, source[0]));
			ASSERT_EQ(0, sn_stream_adopt(&out, sink[1]));
			std::thread reader([&] {
				while (!go)
					continue;
				while (readable(sink[0]) == 0)
					continue;
				close(sink[0]);
			});
			go = true;
			const int err = sn_copy(out, in, -1, nullptr, nullptr, nullptr);
			EXPECT_TRUE(err == 0 || err == -EPIPE || err == -ECONNRESET) << err;
			reader.join();
			EXPECT_EQ(0, sn_stream_close(in));
			EXPECT_EQ(0, sn_stream_close(out));
		}
	});
	EXPECT_EQ(0, delivered);
}

// A SIGPIPE that the program sends to the thread during the call is delivered to the program, once,
// whether the call raises another one or not.
TEST(Sigpipe, OfTheProgramIsDelivered)
{
	for (const bool reader_goes : {true, false}) {
		Counter counter;

		test::run(1, [&] {
			const std::string bytes(MiB, 'w');
			std::atomic<pid_t> thread = 0;
			const pthread_t self = pthread_self();
			sn_stream *out;
			int ends[2];

			ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
			ASSERT_EQ(0, sn_stream_adopt(&out, ends[1]));
			make_blocking(ends[1]);
			std::thread reader = when_stuck(ends[0], thread, [&] {
				std::string all(MiB, 0);
				size_t done = 0;

				EXPECT_EQ(0, pthread_kill(self, SIGPIPE));
				while (!reader_goes && done < MiB) {
					const ssize_t n = read(ends[0], all.data(), all.size());

					if (n <= 0)
						break;
					done += size_t(n);
				}
				close(ends[0]);
			});
			thread = this_thread();
			const ssize_t n = sn_stream_write(out, bytes.data(), bytes.size());
			EXPECT_GT(n, 0);
			EXPECT_EQ(!reader_goes, n == ssize_t(MiB));
			reader.join();
			EXPECT_TRUE(test::eventually([] { return delivered == 1; }))
				<< "reader_goes " << reader_goes;
			EXPECT_EQ(0, sn_stream_close(out));
		});
		EXPECT_EQ(1, delivered);
	}
}

} // namespace
