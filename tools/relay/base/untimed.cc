/* SPDX-License-Identifier: MIT */
#include "base/untimed.hpp"

#include "base/spell.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace relay
{
namespace
{

/* How often the task that keeps the time looks at what it waits for itself. */
constexpr std::chrono::milliseconds own_look{10};

struct all_untimed {
	std::mutex lock; /* guards the next three, and the list */
	untimed_wait *first = nullptr;
	bool is_time_kept = false;
	spell lack;
	std::atomic<std::uint64_t> spells{0};
};

constinit all_untimed untimed;

} // namespace

std::uint64_t untimed_wait::spells() noexcept
{
	return untimed.spells.load(std::memory_order_relaxed);
}

void untimed_wait::wait(sn::deadline until) noexcept
{
	std::unique_lock guard(untimed.lock);
	if (untimed.lack.begins(sn_now()))
		untimed.spells.fetch_add(1, std::memory_order_relaxed);
	if (!std::exchange(untimed.is_time_kept, true)) {
		guard.unlock();
		return keep_time(until);
	}
	next_ = untimed.first;
	if (next_)
		next_->previous_ = this;
	untimed.first = this;
	is_listed_ = true;
	guard.unlock();
	park();
	/* wake() is called under the lock, so it has returned, and this may be destroyed. */
	guard.lock();
	if (!is_listed_)
		return;
	(previous_ ? previous_->next_ : untimed.first) = next_;
	if (next_)
		next_->previous_ = previous_;
	previous_ = nullptr;
	is_listed_ = false;
}

void untimed_wait::keep_time(sn::deadline until) noexcept
{
	const sn::deadline end = std::min(until, sn::after(tick));
	while (sn::now() < end && !is_over() && !sn::cancelled())
		sn_sleep_until(std::min(end, sn::after(own_look)).time_since_epoch().count());

	const std::lock_guard guard(untimed.lock);
	untimed.is_time_kept = false;
	while (untimed.first) {
		untimed_wait &each = *untimed.first;
		untimed.first = each.next_;
		each.previous_ = nullptr;
		each.is_listed_ = false;
		each.wake();
	}
}

} // namespace relay
