/* SPDX-License-Identifier: MIT */
/*
 * Ten thousand connections through one relay: they are idle at first, and then each exchanges a
 * message of its own. The relay needs a few more than 20,000 descriptors for that. Where the
 * system's hard limit is lower and cannot be raised, the test opens as many connections as there is
 * room for, and ends as skipped with a line that says so.
 */
#include "harness.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <iostream>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace harness;

namespace
{

/* Descriptors that a process needs besides those of the connections. */
constexpr std::size_t spare = 64;
constexpr std::size_t message_size = 64;

/* Allows this process and its children to open so many descriptors. Returns the limit that it
 * got. */
std::size_t raise_limit(std::size_t wanted)
{
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	const rlimit higher{std::max<rlim_t>(wanted, limit.rlim_cur),
			    std::max<rlim_t>(wanted, limit.rlim_max)};
	if (setrlimit(RLIMIT_NOFILE, &higher) < 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	return static_cast<std::size_t>(limit.rlim_cur);
}

/* Echoes what it receives, on every connection, until the process is killed. Never returns. */
[[noreturn]] void echo(int door)
{
	const int poller = epoll_create1(0);
	epoll_event event{.events = EPOLLIN, .data = {.fd = door}};
	epoll_ctl(poller, EPOLL_CTL_ADD, door, &event);
	for (;;) {
		epoll_event ready[64];
		const int n = epoll_wait(poller, ready, 64, -1);
		for (int i = 0; i < n; i++) {
			const int fd = ready[i].data.fd;
			if (fd == door) {
				event.data.fd = accept(door, nullptr, nullptr);
				if (event.data.fd >= 0)
					epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
				continue;
			}
			char message[message_size];
			const ssize_t got = recv(fd, message, sizeof message, 0);
			if (got <= 0 ||
			    send(fd, message, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
				close(fd);
		}
	}
}

/* The backend, in a process of its own, because this one holds the clients' descriptors. */
class echo_backend
{
public:
	echo_backend()
	{
		const pid_t parent = getpid();
		pid_ = fork();
		if (pid_ == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			echo(door_.fd());
		}
	}
	~echo_backend()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}
	const std::string &address() const { return door_.address(); }

private:
	listener door_;
	pid_t pid_;
};

TEST(Crowd, IdlesThenAllExchangeAMessage)
{
	const std::size_t wanted = scaled(10'000);
	const std::size_t limit = raise_limit(2 * wanted + spare);
	const std::size_t count = std::min(wanted, (limit - spare) / 2);

	/* Its constructor forks, so it must run before this process has threads. */
	const echo_backend backend;
	relay_process relay({"127.0.0.1:0", backend.address()});
	const std::string address = relay.address();

	std::vector<peer> clients;
	while (clients.size() < count)
		clients.push_back(peer::connect(address));
	ASSERT_TRUE(eventually([&] { return relay.counter("active") == count; }));
	EXPECT_EQ(relay.counter("connect_failed"), 0U);

	/* An idle relay does not poll, and has no useless timers. */
	EXPECT_TRUE(relay.rests(200ms));

	SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed()));
	std::mt19937_64 random(seed());
	std::vector<std::string> messages;
	for (std::size_t i = 0; i < count; i++)
		messages.push_back(random_bytes(random, message_size));
	for (std::size_t i = 0; i < count; i++)
		clients[i].send(messages[i]);
	std::size_t wrong = 0;
	for (std::size_t i = 0; i < count; i++)
		wrong += clients[i].receive(message_size) != messages[i];
	EXPECT_EQ(wrong, 0U);

	/* An echo can arrive before the relay has counted it. */
	EXPECT_TRUE(eventually([&] {
		const auto now = relay.counters();
		return now.at("bytes_to_backend") == count * message_size &&
		       now.at("bytes_to_client") == count * message_size;
	}));
	const auto counts = relay.counters();
	EXPECT_EQ(counts.at("accepted"), count);
	EXPECT_EQ(counts.at("active"), count);
	EXPECT_EQ(counts.at("accept_pauses"), 0U);

	clients.clear();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("resets"), 0U);
	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0) << end.errors;

	std::cout << count << " connections at once\n";
	if (count < wanted && !HasFailure())
		GTEST_SKIP() << count << " connections were fine, but " << wanted
			     << " were wanted: they need " << 2 * wanted + spare
			     << " descriptors, and the hard limit here is " << limit
			     << " (ulimit -Hn)";
}

} // namespace
