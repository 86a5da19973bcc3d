// SPDX-License-Identifier: MIT
/* Labels: core long */
/*
 * Idle limits that pass while the relay is stopped, as on a machine that is paused or migrated. The
 * relay saw nothing, but that does not prove that the peers were silent: bytes that wait in the
 * sockets count.
 */
#include "harness.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

using namespace harness;

namespace
{

std::vector<std::string> arguments(const listener &backend, const std::string &limit)
{
	return {"--idle-timeout", limit,         "--access-log",
		"stderr",         "127.0.0.1:0", backend.address()};
}

/* from_client: which end does something. */
struct session {
	session(relay_process &relay, listener &at, bool from_client)
	    : from(peer::connect(relay.address()))
	{
		from.send("x");
		to = at.accept();
		EXPECT_EQ(to.receive(1), "x");
		if (!from_client)
			std::swap(from, to);
	}
	peer from, to;
};

/* Stops the relay for longer than the limit. `meanwhile` is called while it is stopped. */
template <class Meanwhile>
void stop_for(relay_process &relay, std::chrono::milliseconds time, Meanwhile meanwhile)
{
	siginfo_t info{};
	relay.signal(SIGSTOP);
	ASSERT_EQ(waitid(P_PID, id_t(relay.pid()), &info, WSTOPPED), 0);
	meanwhile();
	std::this_thread::sleep_for(time);
	relay.signal(SIGCONT);
}

/* Reads until no bytes have come for a while; returns how many it read. */
std::size_t read_all_there_is(const peer &from)
{
	static std::string buffer(1 << 20, 0);
	std::size_t total = 0;
	for (int pauses = 0; pauses < 10;) {
		const auto n = ::recv(from.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
		if (n > 0) {
			total += std::size_t(n);
			pauses = 0;
		} else {
			std::this_thread::sleep_for(20ms);
			pauses++;
		}
	}
	return total;
}

/* The limit is long enough for a loaded machine, and all cases share one stop. */
TEST(Stopped, NoSessionInWhichSomethingWaitsIsIdle)
{
	listener at;
	relay_process relay(arguments(at, "4s"));
	std::vector<session> messages, flows, halves, ends;
	for (const bool from_client : {true, false}) {
		flows.emplace_back(relay, at, from_client);
		for (int i = 0; i < 10; i++)
			messages.emplace_back(relay, at, from_client);
		halves.emplace_back(relay, at, from_client);
		ends.emplace_back(relay, at, from_client);
	}
	std::vector<std::size_t> sizes;
	for (auto &each : flows)
		sizes.push_back(each.from.send_until_stuck());
	for (auto &each : halves) {
		each.to.shutdown_write();
		EXPECT_EQ(each.from.receive_end(), ending::fin);
	}
	stop_for(relay, 5s, [&] {
		/* Makes room for directions that wait with bytes in the relay. */
		for (std::size_t i = 0; i < flows.size(); i++)
			sizes[i] -= read_all_there_is(flows[i].to);
		for (auto &each : messages)
			each.from.send("ping");
		for (auto &each : halves)
			each.from.send("ping");
		for (auto &each : ends)
			each.from.shutdown_write();
	});
	for (auto &each : messages)
		EXPECT_EQ(each.to.receive(4), "ping");
	for (auto &each : halves)
		EXPECT_EQ(each.to.receive(4), "ping");
	for (auto &each : ends) {
		EXPECT_EQ(each.to.receive_end(), ending::fin);
		each.to.shutdown_write();
		EXPECT_EQ(each.from.receive_end(), ending::fin);
	}
	for (std::size_t i = 0; i < flows.size(); i++) {
		EXPECT_GT(sizes[i], 0U) << "the relay held no bytes";
		flows[i].to.receive(sizes[i]);
	}
	EXPECT_EQ(relay.errors().find("cause=idle_timeout"), std::string::npos) << relay.errors();
	for (auto *all : {&messages, &flows, &halves, &ends})
		all->clear();
	EXPECT_EQ(relay.stop().status, 0);
}

/* Urgent data is skipped and never delivered, so it does not count. */
TEST(Stopped, ASessionInWhichNothingOrOnlyUrgentDataWaitsIsIdle)
{
	listener at;
	relay_process relay(arguments(at, "300ms"));
	session silent(relay, at, true), urgent(relay, at, true);
	stop_for(relay, 1s, [&] { (void)!::send(urgent.from.fd(), "!", 1, MSG_OOB); });
	silent.to.receive_rest();
	urgent.to.receive_rest();
	stop(relay);
}

} // namespace
