/* SPDX-License-Identifier: MIT */
/*
 * Ends the open connections of an endpoint that its checks or its agent have found to be down, if
 * and when the settings say so (when_down).
 *
 * It keeps no state of an endpoint: each call decides by the time since which the endpoint has been
 * down. A call that the end of its task interrupts therefore loses nothing; the next one decides
 * again. Any task may call, also several for one endpoint.
 */
#ifndef RELAY_DOWN_SESSIONS_HPP
#define RELAY_DOWN_SESSIONS_HPP

#include "backends/balance.hpp"
#include "config/config.hpp"
#include "stats/sessions.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace relay
{

class down_sessions
{
public:
	/* drain: how long connections may take to finish. The pool and the sessions must outlive
	 * this. */
	down_sessions(const pool &of, sessions &of_all, when_down how,
		      std::chrono::nanoseconds drain)
	    : pool_(of), sessions_(of_all), how_(how), drain_(drain)
	{
	}

	/*
	 * Ends the endpoint's connections if they are due before `until`, and otherwise leaves them
	 * to a later call. Call it each time that the endpoint is found to be down, because a
	 * connection may have been under way the last time. since() returns since when the endpoint
	 * has been down, as of sn_now(), or nothing if it is up or no longer looked after; it is
	 * called again after a wait. May park.
	 */
	void end(const endpoint &at, sn::clock::time_point until,
		 const std::function<std::optional<std::int64_t>()> &since) const;

private:
	std::optional<sn::deadline> due(const std::optional<std::int64_t> &since) const noexcept;

	const pool &pool_;
	sessions &sessions_;
	const when_down how_;
	const std::chrono::nanoseconds drain_;
};

} // namespace relay

#endif
