/* SPDX-License-Identifier: MIT */
/*
 * Draining the backlog of a listener that a reload has given up. The clients in the backlog are
 * already connected, and closing the socket would reset them, so they are accepted first.
 *
 * As many clients are accepted as the backlog can hold, however long that takes; clients that
 * arrive while this happens are accepted for one second. Clients that use the new configuration's
 * address do not come here, so the backlog is soon empty, and a client that keeps connecting cannot
 * keep the socket open. poll() reports whether a client waits. Rejected: accepting with a deadline
 * that is almost now, until it passes. The thread may lose its CPU for longer than that, and then
 * nothing has checked the backlog.
 */
#ifndef RELAY_BACKLOG_HPP
#define RELAY_BACKLOG_HPP

#include "base/sleep.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace relay
{

/* Calls take(sn::tcp) for each client, while goes_on(). Parks; changes the listener's deadline. */
template <class GoesOn, class Take>
void drain_backlog(sn::tcp_listener &listener, GoesOn goes_on, Take take)
{
	const auto waits = [&] {
		pollfd queue{listener.native_handle(), POLLIN, 0};
		return ::poll(&queue, 1, 0) == 1;
	};
	const auto until = sn::after(std::chrono::seconds(1));
	int taken = 0;
	while (goes_on() && (taken < SOMAXCONN || sn::now() < until) && waits()) {
		listener.set_deadline(sn::after(std::chrono::seconds(1)));
		if (auto client = listener.accept()) {
			take(*std::move(client));
			taken++;
		} else if (sn::now() >= until) {
			break; /* such as when no descriptor is left */
		} else {
			/* There is no memory for the pause that accept() makes. */
			sleep_fully(std::chrono::milliseconds(10));
		}
	}
}

} // namespace relay

#endif
