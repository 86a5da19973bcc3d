/* SPDX-License-Identifier: MIT */
/*
 * What listeners of all kinds have in common (listener.hpp, udp_listener.hpp): how they are opened,
 * started, reconfigured and ended. Only the task that changes the configuration calls.
 */
#ifndef RELAY_LISTENING_HPP
#define RELAY_LISTENING_HPP

#include "handover/inherited.hpp"

#include <memory>
#include <string>

namespace relay
{

struct listener_config;
struct route;

class listening
{
public:
	listening() = default;
	listening(const listening &) = delete;
	listening &operator=(const listening &) = delete;
	virtual ~listening() = default;

	/* The bound address, with the port that the system chose. */
	virtual const std::string &address() const noexcept = 0;

	/* What another process needs to take the listener over. The socket remains this one's. */
	virtual handed_listener to_hand_over() const = 0;

	/* Whether this is the listener that the settings ask for, so that it can stay. */
	virtual bool serves(const listener_config &settings) const = 0;

	/* Sets the route of clients that come from now on. Before start(), and at any time
	 * later. */
	virtual void use(std::shared_ptr<route> via) noexcept = 0;

	/* Uses the lists of these settings from the next client on. The settings are the route's,
	 * except for what has been read again from files. While a route is set. */
	virtual void use_lists(std::shared_ptr<const listener_config> read) noexcept = 0;

	/* Serves until stop(), retire() or give_up(), in a task of its own. Once. */
	virtual void start() = 0;

	/* The relay stops: accepts no more clients. Does not wait. */
	virtual void stop() noexcept = 0;

	/* Accepts the clients that have already connected, closes the socket and ends. Does not
	 * wait. */
	virtual void retire() noexcept = 0;

	/* The same if another listener has the same socket. */
	virtual void give_up() noexcept = 0;

	/* The same if another process has the socket: open sessions are not hurried, even if stop()
	 * follows. */
	virtual void hand_over() noexcept = 0;

	/* Whether retiring is done. */
	virtual bool retired() const noexcept = 0;

	/* Whether it has sessions, so that retiring takes as long as they do. */
	virtual bool lingers() const noexcept = 0;

	/* After one of these four calls: waits until no more clients are accepted. May park. */
	virtual void close() = 0;
};

} // namespace relay

#endif
