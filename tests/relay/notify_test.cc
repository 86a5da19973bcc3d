/* SPDX-License-Identifier: MIT */
/*
 * What the relay tells a service manager. The test has the manager's end of the socket.
 */
#include "base/notify.hpp"

#include "harness.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <set>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace harness;

namespace
{

class manager
{
public:
	/* `name`: the value of NOTIFY_SOCKET. */
	explicit manager(const std::string &name) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0))
	{
		sockaddr_un to{};
		to.sun_family = AF_UNIX;
		name.copy(to.sun_path, sizeof to.sun_path - 1);
		if (name[0] == '@')
			to.sun_path[0] = '\0';
		EXPECT_EQ(
			bind(fd_, reinterpret_cast<const sockaddr *>(&to),
			     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
			0);
		setenv("NOTIFY_SOCKET", name.c_str(), 1);
		name_ = name;
	}
	~manager()
	{
		unsetenv("NOTIFY_SOCKET");
		close(fd_);
		if (name_[0] == '/')
			unlink(name_.c_str());
	}

	/* Sends itself messages until there is no room for more. */
	void fill() const
	{
		const int from = socket(AF_UNIX, SOCK_DGRAM, 0);
		sockaddr_un to{};
		socklen_t size = sizeof to;
		EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr *>(&to), &size), 0);
		while (sendto(from, "fill", 4, MSG_DONTWAIT, reinterpret_cast<sockaddr *>(&to),
			      size) == 4)
			continue;
		close(from);
	}

	/* The next message that fill() has not sent. */
	std::string heard_after_fill()
	{
		std::string text;
		do
			text = heard();
		while (text == "fill");
		return text;
	}

	/* Returns "" if nothing comes in time. */
	std::string heard(std::chrono::milliseconds within = patience)
	{
		pollfd in{fd_, POLLIN, 0};
		if (poll(&in, 1, static_cast<int>(within.count())) <= 0)
			return "";
		char text[4096];
		const auto n = recv(fd_, text, sizeof text, 0);
		return std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0);
	}

private:
	int fd_;
	std::string name_;
};

std::string somewhere(char first)
{
	const auto name = "relay-notify." + std::to_string(getpid());
	return first == '@' ? "@" + name : "/tmp/" + name;
}

TEST(Notify, ReportsReadyAndStopping)
{
	manager systemd(somewhere('@'));
	listener backends;
	relay_process relay({"--drain", "1h", "127.0.0.1:0", backends.address()});
	EXPECT_EQ(systemd.heard(), "READY=1");
	/* When the relay reports that it is ready, it listens. Units that are ordered after it rely
	 * on that. */
	auto client = peer::connect(relay.address());
	auto backend = backends.accept();
	EXPECT_EQ(systemd.heard(0ms), "");
	relay.signal(SIGTERM);
	EXPECT_EQ(systemd.heard(), "STOPPING=1");
	client.close();
	EXPECT_EQ(backend.receive_end(), ending::fin);
	backend.close();
	EXPECT_EQ(relay.wait().status, 0);
	EXPECT_EQ(systemd.heard(0ms), "");
}

TEST(Notify, SpeaksTheProtocol)
{
	manager systemd(somewhere('/'));
	relay::notify_reloading();
	const auto reloading = systemd.heard();
	EXPECT_EQ(reloading.substr(0, 27), "RELOADING=1\nMONOTONIC_USEC=");
	EXPECT_GT(std::stoull(reloading.substr(27)), 0U);
	relay::notify_main_pid(4711);
	EXPECT_EQ(systemd.heard(), "MAINPID=4711");
	relay::notify_status("two\nlines");
	EXPECT_EQ(systemd.heard(), "STATUS=two lines");
}

/* A manager that is busy for a while learns of everything, and neither serving nor a handover waits
 * for it. */
TEST(Notify, WaitsForABusyManager)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	manager systemd(somewhere('@'));
	systemd.fill();
	listener backends;
	relay_process relay({"--drain", "0", "127.0.0.1:0", backends.address()});
	relay.address();
	EXPECT_EQ(relay.counter("accepted"), 0U); /* it answers signals after it is ready */
	EXPECT_EQ(systemd.heard_after_fill(), "READY=1");

	systemd.fill();
	relay.signal(SIGUSR2);
	const std::string pid = relay.next_error("handed over to process ");
	auto client = peer::connect(relay.address());
	client.close();
	backends.accept().close();
	std::set<std::string> told{systemd.heard_after_fill(), systemd.heard_after_fill()};
	EXPECT_EQ(told, (std::set<std::string>{"READY=1", "MAINPID=" + pid}));
	kill(std::stoi(pid), SIGTERM);
	EXPECT_EQ(relay.wait().status, 0);
	int status = -1;
	EXPECT_EQ(waitpid(std::stoi(pid), &status, 0), std::stoi(pid));
	EXPECT_EQ(status, 0);
}

TEST(Notify, SaysOnceWhatAManagerThatDoesNotReadHasMissed)
{
	manager unread(somewhere('@'));
	unread.fill();
	listener backends;
	relay_process relay({"127.0.0.1:0", backends.address()});
	relay.await_error("warning not_notified state=");
	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_EQ(count_of("not_notified", end.errors), 1U) << end.errors;
	EXPECT_NE(end.errors.find("not notified of READY=1: its socket stayed full"),
		  end.errors.npos)
		<< end.errors;
}

/* A lack of descriptors passes, too. */
TEST(Notify, WaitsForADescriptor)
{
	manager systemd(somewhere('@'));
	rlimit all{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
	const int status = sn::run([&] {
		const rlimit none{0, all.rlim_max};
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
		relay::notify_ready();
		EXPECT_FALSE(relay::is_notified());
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
		EXPECT_TRUE(eventually([] { return relay::is_notified(); }));
		return 0;
	});
	EXPECT_EQ(status, 0);
	EXPECT_EQ(systemd.heard(1ms), "READY=1");
}

TEST(Notify, SaysWhyAMessageIsLost)
{
	manager unread(somewhere('@'));
	unread.fill();
	static int why;
	why = 0;
	relay::notify_lost = [](std::string_view first, int error) noexcept {
		EXPECT_EQ(first, "READY=1");
		why = error;
	};
	relay::notify_ready();
	relay::notify_lost = nullptr;
	EXPECT_EQ(why, ESRCH) << "there is no runtime for a task";
}

TEST(Notify, IsSilentWithoutAManager)
{
	unsetenv("NOTIFY_SOCKET");
	relay::notify_ready();
	for (const auto &odd : {std::string(), std::string("x"), std::string("@"),
				std::string("/nonexistent/socket"), "/" + std::string(500, 'x')}) {
		setenv("NOTIFY_SOCKET", odd.c_str(), 1);
		relay::notify_ready();
	}
	unsetenv("NOTIFY_SOCKET");
	/* A manager that does not read must not block the relay. */
	manager unread(somewhere('@'));
	for (int i = 0; i < 10000; i++)
		relay::notify_ready();
	EXPECT_EQ(unread.heard(), "READY=1");
}

} // namespace
