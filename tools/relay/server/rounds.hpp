/* SPDX-License-Identifier: MIT */
/*
 * What the relay does every two seconds (keepalive_round), in one task so that an idle process
 * wakes once: it switches on the probing of connections that have lasted (sessions.hpp), and emits
 * the events of what was only counted when it happened, because it happens in the runtime or by
 * thousands: pauses of accepting, dropped lines of the access log, suppressed events. It also adds
 * a sample to the history (history.hpp), and looks at the files of certificates and lists.
 */
#ifndef RELAY_ROUNDS_HPP
#define RELAY_ROUNDS_HPP

#include "server/live_config.hpp"
#include "sessions/session.hpp"

#include <sennit/sennit.hpp>

namespace relay
{

/* Runs until it is destroyed, with a last round then. `all` and `live` outlive it. */
class rounds
{
public:
	rounds(shared &all, live_config &live);
	rounds(const rounds &) = delete;
	rounds &operator=(const rounds &) = delete;
	/* May park. */
	~rounds();

private:
	bool wait();
	void run(shared &all, live_config &live);

	sn::semaphore end_;
	sn::task<void> running_;
};

} // namespace relay

#endif
