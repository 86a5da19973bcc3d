/* SPDX-License-Identifier: MIT */
/*
 * A door: a listener and the task that accepts at it. Each connection becomes a
 * session with a task of its own; accepting waits for sessions only while there are as many as
 * there may be. It holds one client then; the others wait in the system's queue. A limit of the
 * listener's own is another thing: who comes when it is reached is closed at once, which a client
 * notices and can answer by trying elsewhere.
 *
 * A reload gives a door that stays another lane, which counts from the next client on; its socket
 * and its queue do not notice. A door that goes is retired: before its socket is closed, those who
 * have connected by then are let in, as closing resets who is in the queue.
 */
#ifndef RELAY_DOOR_HPP
#define RELAY_DOOR_HPP

#include "session.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace relay
{

/*
 * The pools of a configuration's groups, made when the first door that leads to one is given its
 * lane, as a group without a name has that door's.
 */
class pools
{
public:
	pools(std::shared_ptr<const config> of, book::edition &counts)
	    : whole_(std::move(of)), made_(whole_->groups.size()), counts_(counts)
	{
	}

	std::shared_ptr<lane> make_lane(const listener_config &settings, const std::string &address)
	{
		const std::string name = settings.name.empty() ? address : settings.name;
		std::shared_ptr<pool> others;
		if (settings.group != listener_config::no_group)
			others = make(settings.group, name);
		std::vector<std::shared_ptr<pool>> by_name;
		for (const sni_route &each : settings.sni)
			by_name.push_back(make(each.group, name));
		return std::make_shared<lane>(whole_, settings, std::move(others),
					      std::move(by_name),
					      counts_.open_listener(name, address, settings));
	}

	/* Those that were made. */
	const std::vector<std::shared_ptr<pool>> &made() const noexcept { return made_; }

private:
	const std::shared_ptr<pool> &make(std::size_t index, const std::string &listener)
	{
		const auto &group = whole_->groups[index];
		auto &to = made_[index];
		if (!to) {
			const auto &name = group.name.empty() ? listener : group.name;
			const auto both = std::make_shared<kept>(whole_, group, name, counts_);
			to = std::shared_ptr<pool>(both, &both->made);
		}
		return to;
	}

	/* A pool with what its settings are a part of: who watches its backends may have it for longer
	 * than anybody has the configuration. */
	struct kept {
		kept(std::shared_ptr<const config> of, const group_config &group,
		     const std::string &name, book::edition &counts)
		    : whole(std::move(of)), made(group, name, counts)
		{
		}
		const std::shared_ptr<const config> whole;
		pool made;
	};

	const std::shared_ptr<const config> whole_;
	std::vector<std::shared_ptr<pool>> made_;
	book::edition &counts_;
};

class door
{
public:
	/* Listens; clients queue, nothing is accepted yet. On failure explains it in why. May park.
	 */
	static std::unique_ptr<door> open(shared &all, const listener_config &settings,
					  std::string &why);

	/* Where it listens, with the port that the system chose. */
	const std::string &address() const noexcept { return address_; }

	/* What another process needs to listen there; the descriptor stays the door's. */
	handed_listener to_hand_over() const
	{
		return {sn_tcp_listener_fd(listener_.get()), asked_name_, asked_address_};
	}

	/* Whether it is what the settings ask for, so that it can stay. */
	bool serves(const listener_config &settings) const;

	/* Before start(), and at any time later: what clients are served by from now on. */
	void use(std::shared_ptr<lane> via) noexcept;

	/* Accepts until told to stop, in a task of its own. Once. */
	void start();

	/* Tells the task to stop. Does not wait. */
	void stop() noexcept;

	/* Tells the task to let in who is in the queue, close the listener and stop. Does not wait. */
	void retire() noexcept;

	/* Whether the task has closed the listener, after retire(). */
	bool retired() const noexcept { return closed_.load(std::memory_order_acquire); }

	/* Waits until the task has stopped and closes the listener. May park. */
	void close();

private:
	enum class phase : unsigned char { open, retiring, stopping };

	door(shared &all, const listener_config &settings, sn::tcp_listener listener,
	     std::string address);
	std::shared_ptr<lane> via(bool &is_told);
	void settle_keepalive() noexcept;
	void serve();
	void serve_queue();
	void take(sn::tcp client);
	bool wait_for_room();
	static bool enter(const lane &via) noexcept;
	void turn_away(const lane &via, sn::tcp client, termination why);
	void admit(std::shared_ptr<lane> via, sn::tcp client, source_ticket counted);
	bool is(phase one) const noexcept { return phase_.load(std::memory_order_relaxed) == one; }

	shared &all_;
	sn::tcp_listener listener_;
	const std::string address_;
	const std::string asked_name_;
	const std::string asked_address_;
	const std::string task_name_;
	std::mutex lock_; /* of the three below, and of the listener's end while it retires */
	std::shared_ptr<lane> via_;
	bool is_started_ = false;
	std::uint64_t untold_ = UINT64_MAX; /* accepted next without their keepalive, at most */
	std::atomic<phase> phase_{phase::open};
	std::atomic<bool> closed_{false};
	sn::task<void> accepting_;
};

} // namespace relay

#endif
