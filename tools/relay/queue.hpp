/* SPDX-License-Identifier: MIT */
/*
 * The end of a listener that a reload has given up: those in its queue have been told by the kernel
 * that they are connected, and closing it would reset them. So they are let in first.
 *
 * That is everybody whom the queue can hold, however long it takes, and who comes meanwhile, for a
 * second: who has the new configuration's address does not come here, so the queue is over soon, and
 * who comes for ever cannot keep it open. Whether somebody waits is asked of the kernel. Rejected: to
 * accept with a deadline that is almost now, until it passes: the thread may lose its processor for
 * longer than that, and then nobody has looked.
 */
#ifndef RELAY_QUEUE_HPP
#define RELAY_QUEUE_HPP

#include <sennit/sennit.hpp>

#include <chrono>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace relay
{

/* take(sn::tcp) for each, as long as goes_on(). Parks; the listener's deadline is another then. */
template <class GoesOn, class Take>
void take_queue(sn::tcp_listener &listener, GoesOn goes_on, Take take)
{
	const auto waits = [&] {
		pollfd queue{sn_tcp_listener_fd(listener.get()), POLLIN, 0};
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
			break; /* such as for want of descriptors */
		}
	}
}

} // namespace relay

#endif
