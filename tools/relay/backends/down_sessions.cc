/* SPDX-License-Identifier: MIT */
#include "backends/down_sessions.hpp"

#include "backends/backend_events.hpp"
#include "base/sleep.hpp"

#include <atomic>
#include <cstddef>

namespace relay
{

/* When the connections end; nothing if they stay. */
std::optional<sn::deadline>
down_sessions::due(const std::optional<std::int64_t> &since) const noexcept
{
	if (how_ == when_down::keep || !since)
		return std::nullopt;
	const sn::deadline then{std::chrono::nanoseconds(*since)};
	return how_ == when_down::cut ? then : then + drain_;
}

void down_sessions::end(const endpoint &at, sn::clock::time_point until,
			const std::function<std::optional<std::int64_t>()> &since) const
{
	const auto then = due(since());
	if (!then || *then > until)
		return;
	sleep_fully_until(*then);
	/* The endpoint may have come up during the wait. */
	if (sn::cancelled() || due(since()) != then)
		return;
	/* Looking at all sessions takes their lock, and an endpoint may be down for days. Each
	 * session has a place at its endpoint for as long as it is in the list. */
	if (at.counts.active.load(std::memory_order_relaxed) == 0)
		return;
	if (const std::size_t n = sessions_.lose_backend(at))
		tell_cut(pool_, at, n);
}

} // namespace relay
