/* SPDX-License-Identifier: MIT */
/*
 * The open connections of an endpoint that is down, by its checks or by its agent: whether and when
 * they end (when_down).
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
	/* drain: how long they may take to finish. All of these outlive it. */
	down_sessions(const pool &of, sessions &of_all, when_down how,
		      std::chrono::nanoseconds drain)
	    : pool_(of), sessions_(of_all), how_(how), drain_(drain)
	{
	}

	/*
	 * Ends those of that endpoint if it is time before `until`, or leaves it to a later call.
	 * Call it each time that the endpoint was found to be down, because a connection may have
	 * been under way the last time. since(): since when it is down, as of sn_now(); nothing: it
	 * is up, or it is not to be looked at any more. Called again after a wait. May park.
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
