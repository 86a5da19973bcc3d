/* SPDX-License-Identifier: MIT */
/*
 * A listener: a listening socket and the task that accepts on it. Each connection becomes a session
 * with a task of its own. While the process has as many sessions as it may have, accepting waits:
 * one accepted client waits here, and the others wait in the kernel's backlog. The listener's own
 * limits work differently: a client that arrives when one of them is reached is closed immediately,
 * so that it can try elsewhere.
 *
 * A reload gives a listener that stays another route, which applies from the next client on; the
 * socket and its backlog are not affected. A listener that is removed is retired: before its socket
 * is closed, the clients in the backlog are accepted, because closing would reset their
 * connections.
 */
#ifndef RELAY_LISTENER_HPP
#define RELAY_LISTENER_HPP

#include "base/spell.hpp"
#include "sessions/listening.hpp"
#include "sessions/session.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

namespace relay
{

/*
 * The pools of a configuration's groups. A pool is made when the first listener that leads to it
 * gets its route, because a group without a name takes that listener's name.
 */
class pools
{
public:
	pools(std::shared_ptr<const config> of, registry::generation &counts)
	    : whole_(std::move(of)), made_(whole_->groups.size()), counts_(counts)
	{
	}

	/* Sets the TLS contexts of this configuration. Call it before the first make_route(). */
	void use_tls(tls_set tls) { tls_ = std::move(tls); }

	/* settings: an element of the configuration's own list. */
	std::shared_ptr<route> make_route(const listener_config &settings,
					  const std::string &address)
	{
		const std::string name = settings.name.empty() ? address : settings.name;
		std::shared_ptr<pool> others;
		if (settings.group != listener_config::no_group)
			others = make(settings.group, name);
		std::vector<std::shared_ptr<pool>> by_group(made_.size());
		for (const sni_route &each : settings.sni)
			if (!by_group[each.group])
				by_group[each.group] = make(each.group, name);
		std::vector<std::shared_ptr<pool>> by_protocol;
		for (const alpn_route &each : settings.alpn)
			by_protocol.push_back(make(each.group, name));
		const auto index = static_cast<std::size_t>(&settings - whole_->listeners.data());
		return std::make_shared<route>(whole_, settings, std::move(others),
					       std::move(by_group), std::move(by_protocol),
					       tls_.listeners.at(index),
					       counts_.open_listener(name, address, settings));
	}

	/* The pools, by the configuration's groups; null where none was made. */
	const std::vector<std::shared_ptr<pool>> &made() const noexcept { return made_; }

private:
	const std::shared_ptr<pool> &make(std::size_t index, const std::string &listener)
	{
		const auto &group = whole_->groups[index];
		auto &to = made_[index];
		if (!to) {
			const auto &name = group.name.empty() ? listener : group.name;
			const auto both = std::make_shared<kept>(whole_, group, name, counts_);
			both->made.use_tls(tls_.groups.at(index));
			to = std::shared_ptr<pool>(both, &both->made);
		}
		return to;
	}

	/* A pool, and the configuration to which its settings belong. The tasks that watch its
	 * backends may use the pool for longer than any other user of the configuration. */
	struct kept {
		kept(std::shared_ptr<const config> of, const group_config &group,
		     const std::string &name, registry::generation &counts)
		    : whole(std::move(of)), made(group, name, counts)
		{
		}
		const std::shared_ptr<const config> whole;
		pool made;
	};

	const std::shared_ptr<const config> whole_;
	tls_set tls_;
	std::vector<std::shared_ptr<pool>> made_;
	registry::generation &counts_;
};

/*
 * Opens the socket of a listener or of the admin server. A name is looked up for ten seconds at
 * most, because a reload and the end of the relay wait for that. mode: of a Unix socket's file; 0:
 * as the umask allows. May park.
 */
sn::result<sn::tcp_listener> listen_at(const std::string &address, int mode = 0);

/* Why listening has failed, and what is expected. */
std::string explain_listening(const std::string &address, const std::error_code &error);

/* The same for an inherited descriptor. address: the listener's. */
std::string explain_adopting(const std::string &address, int fd, const std::error_code &error);

/* Reserves one of the listener's places for connections or sessions; false if none is free. The
 * limit is compared and the place counted in one atomic step, because two listeners can share
 * the counters for a moment, when a reload swaps their names. */
bool enter(const route &via) noexcept;

class listener final : public listening
{
public:
	/* Listens. Clients queue in the backlog, because nothing is accepted before let_in().
	 * On failure, why has the reason. May park. */
	static std::unique_ptr<listener> open(shared &all, const listener_config &settings,
					      std::string &why);

	const std::string &address() const noexcept override { return address_; }
	handed_listener to_hand_over() const override
	{
		return {.socket = socket_.get(), .name = asked_name_, .address = asked_address_};
	}
	bool serves(const listener_config &settings) const override;
	void use(std::shared_ptr<route> via) noexcept override;
	void use_lists(std::shared_ptr<const listener_config> read) noexcept override;
	void start() override;
	void let_in() noexcept override;
	void stop() noexcept override;

	/* Accepts the clients in the backlog before it ends. */
	void retire() noexcept override;
	void give_up() noexcept override { retire(); }
	void hand_over() noexcept override { retire(); }
	bool retired() const noexcept override { return closed_.load(std::memory_order_acquire); }
	bool lingers() const noexcept override { return false; }

	/* Closes the socket. */
	void close() override;

private:
	enum class phase : unsigned char { open, retiring, stopping };

	listener(shared &all, const listener_config &settings, sn::tcp_listener socket,
		 std::string address);
	std::shared_ptr<route> via(bool &has_keepalive);
	void apply_keepalive() noexcept;
	void serve();
	void serve_backlog();
	void take(sn::tcp client);
	bool wait_for_room();
	void turn_away(const route &via, sn::tcp client, termination why);
	void admit(std::shared_ptr<route> via, sn::tcp client, source_ticket counted);
	bool is(phase one) const noexcept { return phase_.load(std::memory_order_relaxed) == one; }

	shared &all_;
	sn::tcp_listener socket_;
	const std::string address_;
	const std::string asked_name_;
	const std::string asked_address_;
	const bool is_local_; /* a Unix socket */
	const std::string task_name_;
	std::mutex lock_; /* guards the next three, and closing while retiring */
	std::shared_ptr<route> via_;
	bool is_let_in_ = false;
	/* How many of the next accepted clients may lack their keepalive settings. */
	std::uint64_t without_keepalive_ = UINT64_MAX;
	std::atomic<phase> phase_{phase::open};
	std::atomic<bool> closed_{false};
	entrance entrance_;
	spell no_room_; /* only the listener's task uses it */
	sn::task<void> accepting_;
};

} // namespace relay

#endif
