/* SPDX-License-Identifier: MIT */
#include "idle.hpp"

namespace relay
{

void idle_watch::push(std::int64_t now) noexcept
{
	const std::lock_guard lock(order_);
	if (now - pushed_.load(std::memory_order_relaxed) <= slack_)
		return;
	/*
	 * Published first: who fails at the new deadline finds it passed. Who failed at the old one
	 * a moment ago may find it not passed, and treats the failure as the kernel's; by then a
	 * byte was delivered after the limit, so either answer is true.
	 */
	pushed_.store(now, std::memory_order_relaxed);
	const sn::deadline until{sn::clock::duration(now + limit_ + slack_)};
	a_->set_read_deadline(until);
	a_->set_write_deadline(until);
	b_->set_read_deadline(until);
	b_->set_write_deadline(until);
}

} // namespace relay
