/* SPDX-License-Identifier: MIT */
/*
 * The interface of listeners of all kinds (listener.hpp, udp_listener.hpp): how they are started,
 * reconfigured and ended. Only the task that changes the configuration calls it.
 */
#ifndef RELAY_LISTENING_HPP
#define RELAY_LISTENING_HPP

#include "handover/inherited.hpp"

#include <sennit/sennit.h>

#include <memory>
#include <string>
#include <utility>

namespace relay
{

struct listener_config;
struct route;

/* Where the task of a listener waits until it may serve or must end. */
class entrance
{
public:
	/* Only the first call changes anything. */
	void open() noexcept
	{
		if (!std::exchange(is_open_, true))
			sn_semaphore_release(&opened_, 1);
	}
	/* Once, in a task without a scope. Parks until open() is called. */
	void pass() noexcept { static_cast<void>(sn_semaphore_acquire(&opened_) < 0); }

private:
	bool is_open_ = false;
	sn_semaphore opened_ = SN_SEMAPHORE_INIT(0);
};

class listening
{
public:
	listening() = default;
	listening(const listening &) = delete;
	listening &operator=(const listening &) = delete;
	virtual ~listening() = default;

	/* The bound address, with the port that the system chose. */
	virtual const std::string &address() const noexcept = 0;

	/* Describes the listener for a process that takes it over. This listener keeps the
	 * socket. */
	virtual handed_listener to_hand_over() const = 0;

	/* Whether the listener has the address that the settings ask for, so that it can stay. */
	virtual bool serves(const listener_config &settings) const = 0;

	/* Sets the route of clients that come from now on. Call it before start(), and at any
	 * time after that. */
	virtual void use(std::shared_ptr<route> via) noexcept = 0;

	/* Uses the lists of these settings from the next client on. The settings must equal the
	 * route's, except for the lists that were read again from files. Call it while a route
	 * is set. */
	virtual void use_lists(std::shared_ptr<const listener_config> read) noexcept = 0;

	/* Starts the task that serves. It takes no client before let_in(), and leaves the socket
	 * as it is until then. Once. */
	virtual void start() = 0;

	/* Serves until stop(), retire() or give_up(). Further calls change nothing. */
	virtual void let_in() noexcept = 0;

	/* Accepts no more clients, because the relay stops. Does not wait. */
	virtual void stop() noexcept = 0;

	/* Accepts the clients that have already connected, closes the socket and ends. Does not
	 * wait. */
	virtual void retire() noexcept = 0;

	/* The same as retire(), if another listener has the same socket. */
	virtual void give_up() noexcept = 0;

	/* The same if another process has the socket: open sessions may take their time, even if
	 * stop() follows. */
	virtual void hand_over() noexcept = 0;

	/* Whether retiring is done. */
	virtual bool retired() const noexcept = 0;

	/* Whether it has sessions, so that retiring takes as long as they do. */
	virtual bool lingers() const noexcept = 0;

	/* Waits until no more clients are accepted; call it after one of the four calls above.
	 * May park. */
	virtual void close() = 0;
};

} // namespace relay

#endif
