/* SPDX-License-Identifier: MIT */
/*
 * A door: a listener and the task that accepts at it. Each connection becomes a
 * session with a task of its own; accepting waits for sessions only while there are as many as
 * there may be. It holds one client then; the others wait in the system's queue. A limit of the
 * listener's own is another thing: who comes when it is reached is closed at once, which a client
 * notices and can answer by trying elsewhere.
 */
#ifndef RELAY_DOOR_HPP
#define RELAY_DOOR_HPP

#include "session.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace relay
{

/*
 * The pools of the configuration's groups, made when the first door that leads to one opens, as a
 * group without a name has that door's.
 */
class pools
{
public:
	pools(const std::vector<group_config> &groups, book &counts)
	    : groups_(groups), made_(groups.size()), counts_(counts)
	{
	}

	pool &get(std::size_t group, const std::string &name_of_door)
	{
		const auto &settings = groups_[group];
		if (!made_[group])
			made_[group] = std::make_unique<pool>(
				settings, settings.name.empty() ? name_of_door : settings.name,
				counts_);
		return *made_[group];
	}

private:
	const std::vector<group_config> &groups_;
	std::vector<std::unique_ptr<pool>> made_;
	book &counts_;
};

class door
{
public:
	/* Listens; clients queue, nothing is accepted yet. On failure explains it in why. May park.
	 */
	static std::unique_ptr<door> open(shared &all, const listener_config &settings, pools &to,
					  std::string &why);

	/* Where it listens, with the port that the system chose. */
	const std::string &address() const noexcept { return address_; }

	/* Accepts until told to stop, in a task of its own. Once. */
	void start();

	/* Tells the task to stop. Does not wait. */
	void stop() noexcept;

	/* Waits until the task has stopped and closes the listener. May park. */
	void close();

private:
	door(shared &all, const listener_config &settings, pools &to, sn::tcp_listener listener,
	     std::string address);
	void serve();
	bool wait_for_room();
	bool is_full() const noexcept;
	void admit(sn::tcp client);
	bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }

	shared &all_;
	sn::tcp_listener listener_;
	const std::string address_;
	const std::string name_;
	lane via_;
	const std::string task_name_;
	std::atomic<bool> stopping_{false};
	sn::task<void> accepting_;
};

} // namespace relay

#endif
