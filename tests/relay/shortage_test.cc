/* SPDX-License-Identifier: MIT */
/*
 * The relay with few descriptors: accepting pauses and resumes by itself, open sessions are not
 * disturbed, and waiting uses no processor time.
 */
#include "harness.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace harness;

namespace
{

bool is_readable(const peer &at)
{
	pollfd entry{at.fd(), POLLIN, 0};
	return poll(&entry, 1, 0) > 0;
}

/* Room for a few connections; the number of descriptors is even in one case and odd in the
 * other. */
class Shortage : public testing::TestWithParam<unsigned>
{
};

/* The lowest free descriptor number of the process, which the next descriptor gets. */
rlim_t lowest_free_now(pid_t pid)
{
	for (rlim_t fd = 0;; fd++) {
		const std::string link =
			"/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
		char target[64];
		if (readlink(link.c_str(), target, sizeof target) < 0)
			return fd;
	}
}

/* The lowest number that several looks find, because the relay's monitor opens a file for a moment
 * now and then. */
rlim_t lowest_free(pid_t pid)
{
	rlim_t lowest = lowest_free_now(pid);
	for (int i = 0; i < 10; i++) {
		std::this_thread::sleep_for(2ms);
		lowest = std::min(lowest, lowest_free_now(pid));
	}
	return lowest;
}

/* Sets the soft limit of a running process. Its open descriptors stay open. */
void limit_descriptors(pid_t pid, rlim_t most)
{
	rlimit limit{};
	ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &limit), 0);
	limit.rlim_cur = std::min(most, limit.rlim_max);
	ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0);
}

/*
 * The limit is lowered while the relay runs, without its knowledge: first so far that accepting
 * fails, and then so that a client is accepted but there is no descriptor for its backend.
 */
TEST(SuddenShortage, PausesUntilItIsOver)
{
	listener backends;
	relay_process relay({"--connect-timeout", "1h", "127.0.0.1:0", backends.address()});
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto backend = backends.accept();

	for (const rlim_t room : {0, 1}) {
		const auto pauses_before = relay.counter("accept_pauses");
		ASSERT_NO_FATAL_FAILURE(
			limit_descriptors(relay.pid(), lowest_free(relay.pid()) + room));
		auto late_client = peer::connect(address);
		if (room == 0) {
			ASSERT_TRUE(eventually(
				[&] { return relay.counter("accept_pauses") > pauses_before; }));
		} else {
			ASSERT_TRUE(eventually([&] { return relay.counter("active") == 2; }));
		}

		EXPECT_TRUE(relay.rests(250ms));
		client.send("up");
		EXPECT_EQ(backend.receive(2), "up");
		backend.send("down");
		EXPECT_EQ(client.receive(4), "down");

		ASSERT_NO_FATAL_FAILURE(limit_descriptors(relay.pid(), RLIM_INFINITY));
		auto late_backend = backends.accept();
		late_backend.send("welcome");
		EXPECT_EQ(late_client.receive(7), "welcome");
		late_client.close();
		EXPECT_EQ(late_backend.receive_end(), ending::fin);
		late_backend.close();
		ASSERT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	}
	EXPECT_EQ(relay.counter("connect_failed"), 0U);
	EXPECT_EQ(relay.counter("resets"), 0U);
	client.close();
	backend.close();
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(TooLowALimit, IsSaidAtTheStart)
{
	/* From a limit with which the program cannot even be loaded up to one that is enough. */
	listener backends;
	std::size_t told = 0;
	for (unsigned limit = 4; limit < 64; limit++) {
		relay_process relay({"127.0.0.1:0", backends.address()}, limit);
		ASSERT_TRUE(
			eventually([&] { return !relay.output().empty() || relay.has_ended(); }));
		if (relay.output().empty()) {
			const ended end = relay.wait();
			EXPECT_NE(end.status, 0) << limit;
			told += end.errors.find("the limit of open files is " +
						std::to_string(limit)) != end.errors.npos;
			continue;
		}
		/* The relay has reported that it listens, so it must serve. */
		auto client = peer::connect(relay.address());
		auto backend = backends.accept();
		client.send("x");
		EXPECT_EQ(backend.receive(1), "x") << limit;
		client.close();
		backend.close();
		EXPECT_EQ(relay.stop().status, 0);
		EXPECT_GT(told, 0U) << "no limit was too low for a clear message";
		return;
	}
	FAIL() << "it serves with no limit below 64";
}

/* Reading what the process uses blocks, and one of the two threads may already do that. */
TEST(ThreadShortage, IsInTheMetrics)
{
	listener backends;
	setenv("SENNIT_MAX_THREADS", "2", 1);
	relay_process relay({"--admin", "127.0.0.1:0", "127.0.0.1:0", backends.address()});
	unsetenv("SENNIT_MAX_THREADS");
	EXPECT_TRUE(eventually([&] { return relay.metric("thread_limit_hits_total") > 0; }));
	EXPECT_GE(relay.metric("processors"), 1U);
	EXPECT_LE(relay.metric("threads_blocking"), 2U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_P(Shortage, AcceptingPausesAndResumes)
{
	constexpr std::size_t clients_count = 40;
	listener backends;
	relay_process relay({"--connect-timeout", "1h", "127.0.0.1:0", backends.address()},
			    GetParam());
	const std::string address = relay.address();

	/* All clients connect: the kernel takes them into the relay's backlog. */
	std::deque<peer> waiting;
	for (std::size_t i = 0; i < clients_count; i++) {
		waiting.push_back(peer::connect(address));
		waiting.back().send("hello");
	}

	/* Some clients are served, in any order. Then the relay pauses. */
	struct ends {
		peer client;
		peer backend;
	};
	std::deque<ends> served;
	const auto serve_one = [&] {
		ends both;
		both.backend = backends.accept();
		ASSERT_EQ(both.backend.receive(5), "hello");
		both.backend.send("welcome");
		ASSERT_TRUE(eventually([&] {
			for (auto it = waiting.begin(); it != waiting.end(); ++it) {
				if (!is_readable(*it))
					continue;
				both.client = std::move(*it);
				waiting.erase(it);
				return true;
			}
			return false;
		}));
		ASSERT_EQ(both.client.receive(7), "welcome");
		served.push_back(std::move(both));
	};
	const auto backend_waits = [&] {
		pollfd entry{backends.fd(), POLLIN, 0};
		return poll(&entry, 1, 0) > 0;
	};
	const auto pauses = [&] {
		const auto counts = relay.counters();
		/* It may also pause while it starts, when it has more files open than later. */
		return counts.at("accept_pauses") > 0 && counts.at("active") == served.size() &&
		       served.size() > 1;
	};
	for (;;) {
		ASSERT_TRUE(eventually([&] { return backend_waits() || pauses(); }));
		if (!backend_waits())
			break;
		ASSERT_NO_FATAL_FAILURE(serve_one());
	}
	ASSERT_GT(served.size(), 1U);
	ASSERT_LT(served.size(), clients_count);

	/* During the pause the sessions continue, and the relay uses hardly any processor time. */
	EXPECT_TRUE(relay.rests(250ms));
	for (auto &both : served) {
		both.client.send("up");
		EXPECT_EQ(both.backend.receive(2), "up");
		both.backend.send("down");
		EXPECT_EQ(both.client.receive(4), "down");
	}
	EXPECT_FALSE(backend_waits());

	/* Each session that ends makes room for another, until all have been served. */
	while (!served.empty()) {
		served.front().client.close();
		EXPECT_EQ(served.front().backend.receive_end(), ending::fin);
		served.pop_front();
		if (!waiting.empty()) {
			ASSERT_NO_FATAL_FAILURE(serve_one());
		}
	}
	EXPECT_TRUE(waiting.empty());
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	const auto counts = relay.counters();
	EXPECT_EQ(counts.at("accepted"), clients_count);
	EXPECT_EQ(counts.at("connect_failed"), 0U);
	EXPECT_EQ(counts.at("resets"), 0U);
	EXPECT_GT(counts.at("accept_pauses"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST_P(Shortage, StopsGracefullyWhileItPauses)
{
	listener backends;
	relay_process relay({"--drain", "300ms", "127.0.0.1:0", backends.address()}, GetParam());
	const std::string address = relay.address();
	std::vector<peer> clients;
	while (clients.size() < 40)
		clients.push_back(peer::connect(address));
	ASSERT_TRUE(eventually([&] { return relay.counter("accept_pauses") > 0; }));
	EXPECT_EQ(relay.stop().status, 0);
}

/* While clients come and go at the limit, there is room for one now and then. */
TEST_P(Shortage, IsToldOnce)
{
	constexpr std::size_t clients_count = 60;
	listener backends;
	const auto begin = std::chrono::steady_clock::now();
	relay_process relay({"127.0.0.1:0", backends.address()}, GetParam());
	std::vector<std::jthread> clients;
	while (clients.size() < clients_count)
		clients.emplace_back([client = peer::connect(relay.address())]() mutable {
			EXPECT_EQ(client.receive_end(), ending::fin);
			client.close();
		});
	for (std::size_t i = 0; i < clients_count; i++)
		backends.accept().close();
	clients.clear();
	const auto end = relay.stop();
	EXPECT_EQ(end.status, 0);
	/* If the machine stands still for ten seconds, another spell begins. */
	const auto spells = 1 + (std::chrono::steady_clock::now() - begin) / 10s;
	const auto told = count_of("error no_room", end.errors);
	EXPECT_GE(told, 1U);
	EXPECT_LE(told, static_cast<std::size_t>(spells)) << end.errors;
}

INSTANTIATE_TEST_SUITE_P(Descriptors, Shortage, testing::Values(40U, 41U),
			 testing::PrintToStringParamName());

} // namespace
