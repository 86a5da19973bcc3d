/* SPDX-License-Identifier: MIT */
/*
 * What the relay tells a service manager. The test has the manager's end of the socket.
 */
#include "base/notify.hpp"

#include "harness.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
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
