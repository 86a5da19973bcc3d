/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Lines for a pipe that nobody reads. The linker redirects calls of poll() to this file (--wrap),
 * where another writer takes the room that the call has found, and calls of syscall(), of which
 * pwritev2() may be refused.
 */
#include "base/write_line.hpp"

#include "base/report.hpp"
#include "harness.hpp"
#include "stats/events.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace harness;
using relay::line_end;

namespace
{

/* Called before and after a call of poll() for room. */
std::function<void(bool is_after)> around_poll;

/* How many of these calls a signal interrupts. */
int interruptions = 0;

/* The error of pwritev2(); 0: it works. */
std::atomic<int> refusal{0};

} // namespace

extern "C" {

/* Names of the linker. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_poll(pollfd *which, nfds_t n, int wait);
int __wrap_poll(pollfd *which, nfds_t n, int wait);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

int __wrap_poll(pollfd *which, nfds_t n, int wait)
{
	const bool for_room = around_poll && n == 1 && which->events == POLLOUT;
	if (for_room && interruptions > 0) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	if (for_room)
		around_poll(false);
	const int found = __real_poll(which, n, wait);
	if (for_room)
		around_poll(true);
	return found;
}

/* Reads as many arguments as a system call can have, whatever is there. */
__attribute__((no_sanitize("address", "thread"))) long __wrap_syscall(long number, ...)
{
	if (number == SYS_pwritev2 && refusal) {
		errno = refusal;
		return -1;
	}
	va_list rest;
	va_start(rest, number);
	long with[6];
	for (long &each : with)
		each = va_arg(rest, long);
	va_end(rest);
	return __real_syscall(number, with[0], with[1], with[2], with[3], with[4], with[5]);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
}

namespace
{

/* A pipe, or a FIFO with a name, whose write end blocks, and that is full. */
class full_pipe
{
public:
	explicit full_pipe(bool is_named = false)
	{
		if (is_named) {
			const folder in;
			const std::string name = in / "fifo";
			EXPECT_EQ(mkfifo(name.c_str(), 0600), 0);
			ends_[0] = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
			ends_[1] = open(name.c_str(), O_WRONLY | O_CLOEXEC);
			EXPECT_GE(ends_[1], 0);
		} else {
			EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
		}
		EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 1), 0);
		EXPECT_EQ(fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
		/* Another open file description of the same pipe. */
		other_ = open(("/proc/self/fd/" + std::to_string(ends_[1])).c_str(),
			      O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		EXPECT_GE(other_, 0);
		fill();
	}
	full_pipe(const full_pipe &) = delete;
	full_pipe &operator=(const full_pipe &) = delete;
	~full_pipe()
	{
		for (const int each : {ends_[0], ends_[1], other_})
			close(each);
	}

	int fd() const { return ends_[1]; }
	void fill() const
	{
		while (write(other_, "f", 1) == 1)
			continue;
	}
	/* What was in it, without what fill() has written. */
	std::string drain() const
	{
		std::string all;
		char text[65536];
		for (ssize_t n; (n = read(ends_[0], text, sizeof text)) > 0;)
			all.append(text, static_cast<std::size_t>(n));
		std::erase(all, 'f');
		return all;
	}

private:
	int ends_[2] = {-1, -1};
	int other_ = -1;
};

/* Expects that the call returns although another writer takes the room whenever there is some. */
void expect_returns(const full_pipe &pipe, const std::function<void()> &call)
{
	std::atomic<bool> is_over{false};
	around_poll = [&](bool is_after) {
		is_after ? pipe.fill() : static_cast<void>(pipe.drain());
	};
	std::thread writes([&] {
		call();
		is_over = true;
	});
	EXPECT_TRUE(eventually([&] { return is_over.load(); }));
	while (!is_over)
		pipe.drain();
	writes.join();
	around_poll = nullptr;
}

/* Makes the pipe the process's stderr. */
class as_stderr
{
public:
	explicit as_stderr(const full_pipe &pipe) : former_(dup(STDERR_FILENO))
	{
		EXPECT_EQ(dup2(pipe.fd(), STDERR_FILENO), STDERR_FILENO);
	}
	as_stderr(const as_stderr &) = delete;
	as_stderr &operator=(const as_stderr &) = delete;
	~as_stderr()
	{
		dup2(former_, STDERR_FILENO);
		close(former_);
	}

private:
	const int former_;
};

/* Also where the kernel, or a filter of system calls, has no pwritev2() for it. */
TEST(WriteLine, DoesNotWaitWhereAnotherWriterTakesTheRoom)
{
	for (const bool is_named : {false, true})
		for (const int error : {0, EOPNOTSUPP, EPERM, EACCES}) {
			const full_pipe pipe(is_named);
			const as_stderr there(pipe);
			const auto lost = relay::lost_events();
			refusal = error;
			expect_returns(pipe, [] { relay::report("a line"); });
			expect_returns(pipe, [] {
				relay::emit(relay::event_kind::config_error, "a line");
			});
			refusal = 0;
			EXPECT_EQ(relay::lost_events(), lost + 1);
		}
}

TEST(WriteLine, WaitsForRoomAfterASignal)
{
	const full_pipe pipe;
	interruptions = 1;
	around_poll = [&](bool is_after) {
		if (!is_after)
			pipe.drain();
	};
	EXPECT_EQ(relay::write_line(pipe.fd(), "a line", patience), line_end::written);
	around_poll = nullptr;
	EXPECT_EQ(interruptions, 0);
	EXPECT_EQ(pipe.drain(), "a line");
}

TEST(WriteLine, WaitsForRoomForAWhile)
{
	const full_pipe pipe;
	EXPECT_EQ(relay::write_line(pipe.fd(), "never", 0ms), line_end::no_room);
	EXPECT_EQ(relay::write_line(pipe.fd(), "never", 20ms), line_end::no_room);
	std::string text;
	std::thread reads([&] {
		std::this_thread::sleep_for(20ms);
		text = pipe.drain();
	});
	EXPECT_EQ(relay::write_line(pipe.fd(), "a line", patience), line_end::written);
	reads.join();
	EXPECT_EQ(text + pipe.drain(), "a line");
}

TEST(WriteLine, ALineAfterAPartOfOneIsALineOfItsOwn)
{
	const full_pipe pipe;
	pipe.drain();
	const auto room = static_cast<std::size_t>(fcntl(pipe.fd(), F_GETPIPE_SZ));
	const as_stderr there(pipe);
	const auto write = [](const std::string &line) {
		return relay::write_line(STDERR_FILENO, line, 0ms);
	};
	EXPECT_EQ(write(std::string(room + 1000, 'x') + '\n'), line_end::no_room);
	EXPECT_EQ(write("never\n"), line_end::no_room);
	EXPECT_EQ(pipe.drain(), std::string(room, 'x'));
	EXPECT_EQ(write("next\n"), line_end::written);
	EXPECT_EQ(write("last\n"), line_end::written);
	EXPECT_EQ(pipe.drain(), "\nnext\nlast\n");
}

TEST(WriteLine, WritesToWhateverIsOpen)
{
	const folder in;
	const int disk = open((in / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int ends[2];
	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	for (const int fd : {disk, ends[0]})
		for (const char *each : {"one", "two"})
			EXPECT_EQ(relay::write_line(fd, each, 0ms), line_end::written);
	char text[7] = "";
	EXPECT_EQ(pread(disk, text, 6, 0), 6);
	EXPECT_STREQ(text, "onetwo");
	EXPECT_EQ(recv(ends[1], text, 6, MSG_WAITALL), 6);
	EXPECT_STREQ(text, "onetwo");
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	EXPECT_EQ(relay::write_line(null, "x", 0ms), line_end::written);
	close(ends[1]);
	EXPECT_EQ(relay::write_line(ends[0], "x", 0ms), line_end::failed);
	EXPECT_EQ(relay::write_line(-1, "x", 0ms), line_end::failed);
	for (const int each : {disk, null, ends[0]})
		close(each);
}

} // namespace
