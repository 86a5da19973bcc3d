/* SPDX-License-Identifier: MIT */
/* What a pool records of the checks of its endpoints. */
#include "backends/balance.hpp"

#include <mutex>

namespace relay
{
namespace
{

/* Whether a check that began when the endpoint had returned so often does not count any more. Call
 * it with the endpoint's `results`. */
bool is_stale(const endpoint &at, std::optional<std::uint64_t> returns) noexcept
{
	return !at.is_checked ||
	       (returns && *returns != at.returns.load(std::memory_order_relaxed));
}

} // namespace

check_effect pool::checked(endpoint &at, const std::error_code &answer,
			   std::optional<std::uint64_t> returns) noexcept
{
	using relay::checked;

	auto &its = at.counts;
	std::unique_lock lock(at.results);
	if (is_stale(at, returns))
		return {};
	its.checks.add();
	if (answer)
		its.check_failures.add();
	its.last_error.store(answer.value(), std::memory_order_relaxed);
	its.last_check.store(sn_walltime(), std::memory_order_relaxed);

	const checked was = its.check.load(std::memory_order_relaxed);
	const bool speaks_against = (was == checked::down) == !answer;
	if (!speaks_against) {
		its.answers_in_a_row.store(0, std::memory_order_relaxed);
		if (!answer && was != checked::up) {
			its.check.store(checked::up, std::memory_order_relaxed);
			lock.unlock();
			line().changed(); /* waiters may wait for this */
		}
		return {.is_recorded = true};
	}
	const std::uint32_t row = its.answers_in_a_row.load(std::memory_order_relaxed) + 1;
	/* Nothing else is known of an endpoint before its first check. */
	const std::uint32_t most = !answer                   ? settings_.check.rise
				   : was == checked::unknown ? 1
							     : settings_.check.fall;
	if (row < most) {
		its.answers_in_a_row.store(row, std::memory_order_relaxed);
		return {.is_recorded = true};
	}
	its.answers_in_a_row.store(0, std::memory_order_relaxed);
	if (!answer) {
		/* The checks have connected too, so the endpoint is not ejected any more, and
		 * returns slowly. */
		const std::int64_t now = sn_now();
		its.failures_in_a_row.store(0, std::memory_order_relaxed);
		its.ejected_until.store(now, std::memory_order_relaxed);
		its.slow_until.store(now + settings_.slow_return.count(),
				     std::memory_order_relaxed);
	}
	its.down_since.store(sn_now(), std::memory_order_relaxed);
	its.check.store(answer ? checked::down : checked::up, std::memory_order_relaxed);
	lock.unlock();
	/* Also when it goes down: waiters may now use a backup, or wait in vain. */
	was == checked::unknown ? line().ended() : line().changed();
	return {.is_recorded = true, .is_change = true};
}

bool pool::not_checked(endpoint &at, const std::error_code &why,
		       std::optional<std::uint64_t> returns) noexcept
{
	{
		const std::lock_guard lock(at.results);
		if (is_stale(at, returns) ||
		    at.counts.last_error.exchange(why.value(), std::memory_order_relaxed) ==
			    why.value())
			return false;
	}
	line().changed(); /* waiters may now use a backup */
	return true;
}

void pool::unchecked() noexcept
{
	is_unchecked_.store(true);
	/* Before it leads, its endpoints belong to another pool, which may stay. */
	if (leads())
		forget_checks();
	line().changed();
}

void pool::forget_checks() noexcept
{
	for (const backend &each : backends_) {
		each.endpoints.use_checks(false);
		each.endpoints.start_down(false);
	}
}

void pool::end_watching() noexcept
{
	is_unwatched_.store(true);
	line().ended();
}

} // namespace relay
