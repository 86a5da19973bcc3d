/* SPDX-License-Identifier: MIT */
/*
 * A door: the listener of one route and the task that accepts at it. Each connection becomes a
 * session with a task of its own; accepting waits for sessions only while there are as many as
 * there may be. It holds one client then; the others wait in the system's queue.
 */
#ifndef RELAY_DOOR_HPP
#define RELAY_DOOR_HPP

#include "session.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <memory>
#include <string>

namespace relay
{

class door
{
public:
	/* Listens; clients queue, nothing is accepted yet. On failure explains it in why. May park.
	 */
	static std::unique_ptr<door> open(shared &all, const route &via, std::string &why);

	/* Where it listens, with the port that the system chose. */
	const std::string &address() const noexcept { return address_; }

	/* Accepts until told to stop, in a task of its own. Once. */
	void start();

	/* Tells the task to stop. Does not wait. */
	void stop() noexcept;

	/* Waits until the task has stopped and closes the listener. May park. */
	void close();

private:
	door(shared &all, const route &via, sn::tcp_listener listener, std::string address);
	void serve();
	bool wait_for_room();
	void admit(sn::tcp client);
	bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }

	shared &all_;
	const route &via_;
	route_counters &counts_;
	sn::tcp_listener listener_;
	const std::string address_;
	const std::string task_name_;
	std::atomic<bool> stopping_{false};
	sn::task<void> accepting_;
};

} // namespace relay

#endif
