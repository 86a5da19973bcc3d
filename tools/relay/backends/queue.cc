/* SPDX-License-Identifier: MIT */
#include "backends/queue.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace relay
{

void queue::use(std::shared_ptr<giver> latest) noexcept
{
	std::shared_ptr<giver> former; /* released without the lock */
	{
		const std::lock_guard lock(lock_);
		former = latest_.lock();
		latest_ = latest;
		if (former && former != latest)
			former->precede(std::move(latest), after_);
	}
	changed();
}

queue::entry queue::enter(waiter &who) noexcept
{
	std::shared_ptr<giver> with; /* released without the lock */
	const std::lock_guard lock(lock_);
	who.previous_ = last_;
	(last_ ? last_->next_ : first_) = &who;
	last_ = &who;
	who.waits_ = true;
	not_plain_ += !who.is_plain_;
	waiting_.fetch_add(1);
	with = latest_.lock();
	serve(with);
	if (!who.waits_)
		return who.is_in_vain_ ? entry::in_vain : entry::served;
	if (with && !with->may_serve(who)) {
		unlink(who);
		return entry::in_vain;
	}
	/* A full queue does not matter if the newcomer can be served immediately. */
	if (waiting_.load(std::memory_order_relaxed) > limit()) {
		unlink(who);
		return entry::full;
	}
	return entry::waits;
}

queue::place queue::look(const waiter &who) noexcept
{
	const std::lock_guard lock(lock_);
	if (!who.waits_)
		return who.is_in_vain_ ? place::in_vain : place::given;
	return first_ == &who ? place::first : place::behind;
}

std::shared_ptr<queue::giver> queue::latest() noexcept
{
	const std::lock_guard lock(lock_);
	return latest_.lock();
}

bool queue::leave(waiter &who) noexcept
{
	const std::lock_guard lock(lock_);
	if (!who.waits_)
		return !who.is_in_vain_;
	unlink(who);
	return false;
}

void queue::changed() noexcept
{
	std::shared_ptr<giver> with;
	const std::lock_guard lock(lock_);
	with = latest_.lock();
	serve(with);
}

void queue::give_freed() noexcept
{
	std::shared_ptr<giver> with;
	const std::lock_guard lock(lock_);
	with = latest_.lock();
	if (!with)
		return;
	note_first_checks(*with);
	give_places(with, extent::freed);
}

void queue::ended() noexcept
{
	std::shared_ptr<giver> with;
	const std::lock_guard lock(lock_);
	with = latest_.lock();
	has_awaited_ = true;
	serve(with);
}

/*
 * Called with the lock held. The bell is rung under the lock, because the waiter must take the lock
 * to leave and so exists until then.
 *
 * When a place has been freed, the search ends with the first waiter after the one that has got it
 * for which there is no place. Usually that is the next one. It does not end with the one that has
 * got the place, because there may be more places: those of a backend whose ejection has ended, or
 * of an attempt that failed for lack of memory. While places are freed all the time, the first
 * waiter is always a new one, and never looks by itself.
 *
 * Once there is no place for one waiter, waiters like it are skipped. Usually all are plain, and
 * the search ends. If one backend refuses connections and another is full, all waiters have tried
 * the one that refuses; without skipping, each freed place would cost a choice for every waiter.
 */
void queue::give_places(const std::shared_ptr<giver> &with, extent how_far) noexcept
{
	bool is_given = false;
	bool is_plain_over = false;
	const waiter *in_vain = nullptr; /* the last one, not plain, without a place */
	std::size_t others = not_plain_; /* how many that are not plain are left */
	for (waiter *each = first_; each && !(is_plain_over && others == 0);) {
		waiter *const next = each->next_;
		others -= !each->is_plain_;
		if (each->is_plain_ ? !is_plain_over
				    : !in_vain || !with->are_alike(*in_vain, *each)) {
			switch (with->give_place(*each, with)) {
			case giver::answer::given:
				unlink(*each);
				each->rings.ring();
				is_given = true;
				break;
			case giver::answer::none:
				if (is_given && how_far == extent::freed)
					return;
				if (each->is_plain_)
					is_plain_over = true;
				else
					in_vain = each;
				break;
			case giver::answer::no_memory:
				return;
			}
		}
		each = next;
	}
}

/* Called with the lock held. Wakes those that wait in vain, wherever in the queue they are. */
void queue::dismiss(const giver &with) noexcept
{
	std::optional<bool> may_serve_plain; /* the same for all of them */
	for (waiter *each = first_; each;) {
		waiter *const next = each->next_;
		if (!each->is_plain_ || !may_serve_plain) {
			const bool may_serve = with.may_serve(*each);
			if (each->is_plain_)
				may_serve_plain = may_serve;
			each->is_in_vain_ = !may_serve;
		} else {
			each->is_in_vain_ = !*may_serve_plain;
		}
		if (each->is_in_vain_) {
			unlink(*each);
			each->rings.ring();
		}
		each = next;
	}
}

/* Called with the lock held, before places are given, so that whoever is served finds the relay
 * ready. */
void queue::note_first_checks(const giver &with) noexcept
{
	if (!first_checks_are_over() && !with.awaits_first_checks())
		first_checks_are_over_.store(true, std::memory_order_relaxed);
}

/* Called with the lock held. */
void queue::serve(const std::shared_ptr<giver> &with) noexcept
{
	if (!with)
		return; /* the first pool of the group is about to take effect */
	note_first_checks(*with);
	give_places(with, extent::all);
	const bool has_awaited = with->has_awaited();
	/* Once nobody watches the backends, an answer that was under way may still come. */
	if ((std::exchange(has_awaited_, has_awaited) && !has_awaited) || with->is_unwatched())
		dismiss(*with);
}

void queue::unlink(waiter &who) noexcept
{
	const bool was_first = first_ == &who;
	(who.previous_ ? who.previous_->next_ : first_) = who.next_;
	(who.next_ ? who.next_->previous_ : last_) = who.previous_;
	who.waits_ = false;
	not_plain_ -= !who.is_plain_;
	waiting_.fetch_sub(1);
	if (was_first && first_)
		first_->rings.ring();
}

} // namespace relay
