/* SPDX-License-Identifier: MIT */
/*
 * The relay's work of every two seconds (keepalive_round), in one task so that an idle process
 * wakes once. It enables the probing of older connections (sessions.hpp). It emits events for
 * things that are only counted when they happen, because they happen in the runtime or by the
 * thousand: pauses of accepting, dropped lines of the access log, suppressed events. It also adds a
 * sample to the history (history.hpp), and checks whether files of certificates and lists have
 * changed.
 */
#ifndef RELAY_ROUNDS_HPP
#define RELAY_ROUNDS_HPP

#include "server/live_config.hpp"
#include "sessions/session.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

namespace relay
{

/* Runs until it is destroyed, which makes a last round. `all` and `live` must outlive it. */
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
