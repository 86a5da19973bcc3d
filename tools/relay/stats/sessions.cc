/* SPDX-License-Identifier: MIT */
#include "stats/sessions.hpp"

namespace relay
{

bool sessions::reserve() noexcept
{
	/* Acquire, pairs with gone()'s release: the session that made room has closed its
	 * descriptors. */
	std::size_t alive = alive_.load(std::memory_order_relaxed);
	do {
		if (alive >= most())
			return false;
	} while (!alive_.compare_exchange_weak(alive, alive + 1, std::memory_order_acquire,
					       std::memory_order_relaxed));
	return true;
}

void sessions::add(entry &session) noexcept
{
	const std::lock_guard lock(lock_);
	session.next_ = first_;
	if (first_)
		first_->previous_ = &session;
	first_ = &session;
	if (!unsettled_)
		unsettled_ = &session;
}

void sessions::leave(entry &session) noexcept
{
	const std::lock_guard lock(lock_);
	if (unsettled_ == &session)
		unsettled_ = session.previous_;
	if (session.next_)
		session.next_->previous_ = session.previous_;
	if (session.previous_)
		session.previous_->next_ = session.next_;
	else
		first_ = session.next_;
}

bool sessions::settle_next(sn::clock::time_point now) noexcept
{
	const std::lock_guard lock(lock_);
	if (!unsettled_ || !unsettled_->settle(now))
		return false;
	unsettled_ = unsettled_->previous_;
	return true;
}

void sessions::cut_all() noexcept
{
	const std::lock_guard lock(lock_);
	for (entry *session = first_; session; session = session->next_)
		session->cut();
}

std::size_t sessions::kill(const session_filter &which) noexcept
{
	const std::lock_guard lock(lock_);
	std::size_t n = 0;
	for (entry *session = first_; session; session = session->next_)
		n += session->kill(which);
	return n;
}

std::size_t sessions::lose_backend(const endpoint &which) noexcept
{
	const std::lock_guard lock(lock_);
	std::size_t n = 0;
	for (entry *session = first_; session; session = session->next_)
		n += session->lose_backend(which);
	return n;
}

} // namespace relay
