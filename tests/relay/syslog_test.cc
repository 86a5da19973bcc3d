/* SPDX-License-Identifier: MIT */
/*
 * The access log in syslog: its messages, and what becomes of lines that the daemon or the socket
 * does not take.
 */
#include "stats/access_log.hpp"

#include "harness.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>
#include <regex>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using relay::access_entry;
using relay::access_log;
using relay::log_format;

namespace
{

/* What the next calls of sendto() fail with, and how many. */
std::atomic<int> send_error{0};
std::atomic<int> send_errors{0};

void fail_sending(int error, int times)
{
	send_error = error;
	send_errors = times;
}

} // namespace

/* Instead of the C library's. */
ssize_t sendto(int fd, const void *data, std::size_t size, int flags, const sockaddr *to,
	       socklen_t length)
{
	if (send_errors > 0) {
		send_errors--;
		errno = send_error;
		return -1;
	}
	return syscall(SYS_sendto, fd, data, size, flags, to, length);
}

namespace
{

access_entry example()
{
	access_entry entry;
	entry.time = 1700000000s + 7ms;
	entry.cause = relay::termination::server_end;
	entry.listener = "web";
	entry.client = "192.0.2.1:4711";
	entry.duration = 1234567us;
	return entry;
}

std::unique_ptr<access_log> opened(const std::string &target)
{
	std::string why;
	auto log = access_log::open(target, log_format::logfmt, why);
	EXPECT_TRUE(log) << why;
	return log;
}

/* Gets datagrams at a Unix socket, as a syslog daemon does. */
class syslog_daemon
{
public:
	explicit syslog_daemon(const std::string &path) : path_(path)
	{
		sockaddr_un at{};
		at.sun_family = AF_UNIX;
		std::strncpy(at.sun_path, path.c_str(), sizeof at.sun_path - 1);
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof at), 0);
	}
	syslog_daemon(const syslog_daemon &) = delete;
	syslog_daemon &operator=(const syslog_daemon &) = delete;
	~syslog_daemon()
	{
		close(fd_);
		unlink(path_.c_str());
	}

	/* Returns an empty string if no datagram comes. */
	std::string receive(std::chrono::milliseconds most = harness::patience) const
	{
		return sn::blocking([this, most]() -> std::string {
			pollfd in{fd_, POLLIN, 0};
			if (poll(&in, 1, static_cast<int>(most.count())) <= 0)
				return "";
			char text[8192];
			const auto n = recv(fd_, text, sizeof text, 0);
			return n < 0 ? "" : std::string(text, static_cast<std::size_t>(n));
		});
	}

private:
	const std::string path_;
	const int fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(Syslog, GetsEachLine)
{
	const harness::folder in;
	const auto line = to_log_line(example(), log_format::logfmt);
	sn::run([&] {
		const auto path = in / "syslog";
		auto log = opened("syslog:" + path);
		{
			const syslog_daemon daemon(path);
			log->start();
			log->write(example());
			const auto got = daemon.receive();
			EXPECT_TRUE(std::regex_search(
				got, std::regex("^<30>1 [0-9]{4}-[0-9T:.-]+Z [^ ]+ sennit-relay " +
						std::to_string(getpid()) + " access - time=")))
				<< got;
			EXPECT_TRUE((got + '\n').ends_with(" - " + line)) << got;
			/* More lines than a socket holds wait for a daemon that is slow. */
			for (int i = 0; i < 2000; i++)
				log->write(example());
			int more = 0;
			while (more < 2000 && daemon.receive().size() == got.size())
				more++;
			EXPECT_EQ(more, 2000);
			EXPECT_EQ(log->dropped(), 0U);
		}
		log->write(example());
		const auto until = sn::after(harness::patience);
		while (log->dropped() == 0 && sn::now() < until)
			sn::sleep(1ms);
		EXPECT_EQ(log->dropped(), 1U) << "no daemon is there";
		/* Another daemon, at the same path. */
		const syslog_daemon daemon(path);
		log->write(example());
		EXPECT_TRUE(daemon.receive().ends_with(" event=lines_dropped lines=1"));
		EXPECT_TRUE((daemon.receive() + '\n').ends_with(" - " + line));
		log->close();
	});
}

/* A daemon that always has room soon, but not for all lines in the time that closing has. */
TEST(Syslog, CountsWhatASlowDaemonDoesNotGetWhenItCloses)
{
	constexpr int written = 1000;
	const harness::folder in;
	const auto path = in / "syslog";
	const syslog_daemon daemon(path);
	std::atomic<bool> is_closed{false};
	int lines = 0;
	const auto take = [&](std::chrono::milliseconds most) {
		const auto got = daemon.receive(most);
		lines += got.find(" access - time=2023-") != got.npos ? 1 : 0;
		return !got.empty();
	};
	sn::run([&] {
		auto log = opened("syslog:" + path);
		std::thread reader([&] {
			while (!is_closed) {
				take(10ms);
				std::this_thread::sleep_for(30ms);
			}
		});
		log->start();
		for (int i = 0; i < written; i++)
			log->write(example());
		EXPECT_TRUE(log->close()) << "it still writes";
		is_closed = true;
		reader.join();
		while (take(0ms))
			;
		EXPECT_GT(lines, 0);
		EXPECT_EQ(static_cast<std::uint64_t>(lines) + log->dropped(), written);
	});
}

/* Lines wait for memory that the system does not have now, without using the processor for that. */
TEST(Syslog, WaitsForMemory)
{
	const harness::folder in;
	const syslog_daemon daemon(in / "syslog");
	sn::run([&] {
		auto log = opened("syslog:" + in / "syslog");
		log->start();
		for (const int error : {ENOBUFS, ENOMEM}) {
			constexpr int times = 20;
			const auto start = sn::now();
			fail_sending(error, times);
			log->write(example());
			EXPECT_FALSE(daemon.receive().empty());
			EXPECT_GE(sn::now() - start, times * 1ms) << strerror(error);
			EXPECT_EQ(log->dropped(), 0U) << strerror(error);
		}
		log->close();
	});
}

TEST(Syslog, DropsOnlyTheLineThatIsTooLarge)
{
	const harness::folder in;
	const syslog_daemon daemon(in / "syslog");
	sn::run([&] {
		auto log = opened("syslog:" + in / "syslog");
		/* The lines are in the queue when the task begins, so they are one batch. */
		for (int i = 0; i < 3; i++)
			log->write(example());
		fail_sending(EMSGSIZE, 1);
		log->start();
		EXPECT_NE(daemon.receive().find("client=192.0.2.1:4711"), std::string::npos);
		EXPECT_NE(daemon.receive().find("client=192.0.2.1:4711"), std::string::npos);
		EXPECT_EQ(log->dropped(), 1U);
		log->write(example());
		EXPECT_NE(daemon.receive().find("event=lines_dropped lines=1"), std::string::npos);
		log->close();
	});
}

} // namespace
