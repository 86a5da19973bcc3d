// SPDX-License-Identifier: MIT
//
// Calls that fail immediately on a thread, although the descriptor is not ready and may never be,
// fail immediately in a task with hooks, too, and with the same error.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <linux/if_alg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "hooks/hooks.h"

namespace
{

using namespace test;

struct Descriptor {
	std::string name;
	int fd;
};

// One of each kind. None of them is readable.
class Descriptors
{
public:
	Descriptors()
	{
		sigset_t signals;

		sigemptyset(&signals);
		sigaddset(&signals, SIGUSR2);
		add("no descriptor", -1);
		add("tcp", test::tcp_socket());
		add("connected tcp", test::tcp_socket());
		EXPECT_EQ(0, listener_.connect_to(all_.back().fd));
		add("udp", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
		add("unix stream", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
		add("unix datagrams", socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
		add("connected unix stream", dup(pair_.fd[0]));
		EXPECT_EQ(0, pipe2(pipe_, O_CLOEXEC));
		add("pipe to read", pipe_[0]);
		add("pipe to write", pipe_[1]);
		add("eventfd", eventfd(0, EFD_CLOEXEC));
		add("full eventfd", full_eventfd());
		add("timerfd", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
		add("epoll", epoll_create1(EPOLL_CLOEXEC));
		add("netlink", socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
		add("inotify", inotify_init1(IN_CLOEXEC));
		add("signalfd", signalfd(-1, &signals, SFD_CLOEXEC));
		add("folder", open("/", O_RDONLY | O_CLOEXEC));
		add("/dev/null", open("/dev/null", O_WRONLY | O_CLOEXEC));
		add_terminal();
	}
	~Descriptors()
	{
		for (const Descriptor &each : all_)
			if (each.fd >= 0)
				close(each.fd);
	}
	Descriptors(const Descriptors &) = delete;
	Descriptors &operator=(const Descriptors &) = delete;

	int operator[](const std::string &name) const
	{
		for (const Descriptor &each : all_)
			if (each.name == name)
				return each.fd;
		ADD_FAILURE() << "there is no " << name;
		return -1;
	}
	const std::vector<Descriptor> &all() const { return all_; }

private:
	void add(const std::string &name, int fd) { all_.push_back({name, fd}); }

	static int full_eventfd()
	{
		const uint64_t most = UINT64_MAX - 1;
		const int fd = eventfd(0, EFD_CLOEXEC);

		EXPECT_EQ(ssize_t(sizeof most), write(fd, &most, sizeof most));
		return fd;
	}

	// The terminal's end that programs use, once for each direction, if there are terminals.
	void add_terminal()
	{
		const int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
		char name[64];

		if (fd < 0 || grantpt(fd) < 0 || unlockpt(fd) < 0 ||
		    ptsname_r(fd, name, sizeof name) != 0) {
			if (fd >= 0)
				close(fd);
			return;
		}
		add("terminal", fd);
		add("terminal to write", open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC));
		add("terminal to read", open(name, O_RDONLY | O_NOCTTY | O_CLOEXEC));
	}

	const TcpListener listener_;
	SocketPair pair_;
	int pipe_[2];
	std::vector<Descriptor> all_;
};

// Makes the call on a thread and in a hooked task, where it must not wait.
void expect_same(const std::string &name, const std::function<int64_t()> &call)
{
	const int64_t expected = outcome(call());

	EXPECT_LT(expected, 0) << name;
	test::run([&] {
		hooked([&] {
			const int64_t begun = sn_now();
			sn_scope *scope;

			EXPECT_EQ(0, sn_scope_open(&scope, begun + test::patience / 2));
			EXPECT_EQ(expected, outcome(call())) << name;
			EXPECT_EQ(0, sn_cancelled()) << name << " has waited";
			sn_scope_close(scope);
		}).join();
	});
}

TEST(FailsImmediately, AcceptOfWhatDoesNotListen)
{
	const Descriptors descriptors;

	for (const Descriptor &each : descriptors.all()) {
		expect_same("accept of " + each.name,
			    [&] { return accept(each.fd, nullptr, nullptr); });
		expect_same("accept4 of " + each.name,
			    [&] { return accept4(each.fd, nullptr, nullptr, SOCK_CLOEXEC); });
	}
}

// A socket of the kernel's cryptography does not listen either, but its accept() succeeds.
TEST(SucceedsImmediately, AcceptOfCryptography)
{
	const struct sockaddr_alg hash = {AF_ALG, "hash", 0, 0, "sha256"};
	const int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char digest[32];

	if (fd < 0 || bind(fd, (const struct sockaddr *)&hash, sizeof hash) < 0) {
		close(fd);
		GTEST_SKIP() << "the kernel offers no cryptography";
	}
	test::run([&] {
		hooked([&] {
			sn_scope *scope;

			EXPECT_EQ(0, sn_scope_open(&scope, test::soon()));
			const int call = int(outcome(accept(fd, nullptr, nullptr)));
			EXPECT_GE(call, 0);
			EXPECT_EQ(3, outcome(send(call, "abc", 3, 0)));
			EXPECT_EQ(32, outcome(recv(call, digest, sizeof digest, 0)));
			close(call);
			sn_scope_close(scope);
		}).join();
	});
	EXPECT_EQ(0, memcmp(digest, "\xba\x78\x16\xbf", 4));
	close(fd);
}

// One thread opens and closes a number while a task accepts from it. If accept() were called after
// the number was found closed, it might find a listener, and block its thread without a limit.
TEST(FailsImmediately, AcceptOfANumberThatIsInUseAgain)
{
	const TcpListener listener;
	const int number = fcntl(listener.fd, F_DUPFD_CLOEXEC, 500); // nothing else gets it
	std::atomic<bool> done{false};
	std::atomic<int> rounds{0};
	std::thread changes([&] {
		while (!done) {
			syscall(SYS_close, number);
			dup3(listener.fd, number, O_CLOEXEC);
			sched_yield();
		}
	});

	test::run([&] {
		Task accepting = hooked([&] {
			const int64_t end = sn_now() + 2 * test::second;

			// A slow machine makes fewer rounds.
			while (rounds < test::scaled(20000) && sn_now() < end) {
				sn_scope *scope;

				EXPECT_EQ(0, sn_scope_open(&scope, sn_now() + 20 * test::us));
				const int64_t err = outcome(accept(number, nullptr, nullptr));
				EXPECT_TRUE(err == -EBADF || err == -ETIMEDOUT) << err;
				sn_scope_close(scope);
				rounds++;
			}
			done = true;
		});
		int before = -1;

		while (!done && before != rounds) {
			before = rounds;
			test::eventually([&] { return done || before != rounds; });
		}
		if (!done) {
			ADD_FAILURE() << "accept() waits for a listener that was opened later";
			done = true;
			const int end = test::tcp_socket();
			listener.connect_to(end);
			close(end);
		}
		accepting.join();
	});
	changes.join();
	close(number);
}

TEST(FailsImmediately, ReadingWhatIsNotRead)
{
	const Descriptors descriptors;
	char bytes[64];
	struct iovec pieces[2] = {{bytes, 32}, {bytes + 32, 32}};

	for (const char *name : {"no descriptor", "pipe to write", "epoll", "folder", "/dev/null",
				 "terminal to write", "tcp"}) {
		const int fd = std::string(name) == "terminal to write" &&
					       descriptors.all().back().name != "terminal to read"
				       ? -1
				       : descriptors[name];

		expect_same(std::string("read of ") + name,
			    [&] { return read(fd, bytes, sizeof bytes); });
		expect_same(std::string("readv of ") + name, [&] { return readv(fd, pieces, 2); });
	}
}

TEST(FailsImmediately, WritingWhatIsNotWritten)
{
	const Descriptors descriptors;
	const char bytes[256] = "";
	struct iovec pieces[2] = {{const_cast<char *>(bytes), 8}, {const_cast<char *>(bytes), 8}};

	for (const char *name : {"no descriptor", "pipe to read", "epoll", "folder", "timerfd",
				 "inotify", "signalfd"}) {
		const int fd = descriptors[name];

		expect_same(std::string("write to ") + name,
			    [&] { return write(fd, bytes, sizeof bytes); });
		expect_same(std::string("writev to ") + name,
			    [&] { return writev(fd, pieces, 2); });
	}
}

// Although somebody listens.
TEST(FailsImmediately, AcceptWithUnknownFlags)
{
	const TcpListener listener;

	expect_same("accept4", [&] { return accept4(listener.fd, nullptr, nullptr, 1); });
}

// A size that is negative as a signed number.
TEST(FailsImmediately, ImpossibleSizes)
{
	const Descriptors descriptors;
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	static char byte;
	volatile size_t size = SIZE_MAX;

	for (const char *name : {"folder", "connected tcp", "connected unix stream", "pipe to read",
				 "pipe to write", "eventfd", "timerfd"}) {
		const int fd = descriptors[name];
		struct iovec one = {&byte, size};

		expect_same(std::string("readv of ") + name, [&] { return readv(fd, &one, 1); });
		expect_same(std::string("writev to ") + name, [&] { return writev(fd, &one, 1); });
		// A 64-bit kernel takes a 32-bit program's size for a large one, and waits.
		if (sizeof size < 8)
			continue;
		expect_same(std::string("read of ") + name, [&] { return read(fd, &byte, size); });
		expect_same(std::string("write to ") + name,
			    [&] { return write(fd, &byte, size); });
		expect_same(std::string("sendfile to ") + name,
			    [&] { return sendfile(fd, file, nullptr, size); });
	}
	close(file);
}

} // namespace
