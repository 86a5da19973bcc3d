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
	std::mutex lock; /* guards the next four, and the list */
	untimed_wait *first = nullptr;
	/* By a task in keep_time(), or by one that was taken from the list to go there. */
	bool is_time_kept = false;
	sn::deadline tick_end{};
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
		untimed.tick_end = sn::after(tick);
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
	if (!is_listed_) {
		guard.unlock();
		if (is_to_keep_time_)
			keep_time(until);
		return;
	}
	(previous_ ? previous_->next_ : untimed.first) = next_;
	if (next_)
		next_->previous_ = previous_;
	previous_ = nullptr;
	is_listed_ = false;
}

/* With the lock. */
untimed_wait &untimed_wait::take_first() noexcept
{
	untimed_wait &taken = *untimed.first;
	untimed.first = taken.next_;
	if (untimed.first)
		untimed.first->previous_ = nullptr;
	taken.next_ = nullptr;
	taken.is_listed_ = false;
	return taken;
}

void untimed_wait::keep_time(sn::deadline until) noexcept
{
	/* Only the task that keeps the time, or begins to, changes it. */
	const sn::deadline tick_end = untimed.tick_end, end = std::min(until, tick_end);
	while (sn::now() < end && !is_over() && !sn::cancelled())
		sn_sleep_until(std::min(end, sn::after(own_look)).time_since_epoch().count());

	const std::lock_guard guard(untimed.lock);
	if (untimed.first && sn::now() < tick_end) {
		/* If its own wait is over, too, it passes it on to the next. */
		untimed_wait &next = take_first();
		next.is_to_keep_time_ = true;
		next.wake();
		return;
	}
	untimed.is_time_kept = false;
	while (untimed.first)
		take_first().wake();
}

} // namespace relay
