/* SPDX-License-Identifier: MIT */
#include "backends/queue.hpp"

#include <utility>

namespace relay
{

void queue::use(std::weak_ptr<giver> latest) noexcept
{
	{
		const std::lock_guard lock(lock_);
		latest_.swap(latest);
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
		return entry::served;
	/* Those before it do not count as long as it can be served beside them. */
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
		return place::given;
	return first_ == &who ? place::first : place::behind;
}

bool queue::leave(waiter &who) noexcept
{
	const std::lock_guard lock(lock_);
	if (!who.waits_)
		return true;
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

/*
 * With the lock held. Ringing under it keeps the waiter alive, which has to leave under it.
 *
 * Once there is no place for one waiter, those like it are skipped: usually all are plain, and the
 * search ends. If one backend refuses and another is full, all waiters have tried the one that
 * refuses, and a choice for each of them would take time in proportion to the clients, for each
 * place.
 */
void queue::serve(const std::shared_ptr<giver> &with) noexcept
{
	if (!with)
		return; /* the first pool of the group is about to take effect */
	bool is_plain_over = false;
	const waiter *in_vain = nullptr; /* the last that is not plain */
	std::size_t others = not_plain_; /* from `each` on */
	for (waiter *each = first_; each && !(is_plain_over && others == 0);) {
		waiter *const next = each->next_;
		others -= !each->is_plain_;
		if (each->is_plain_ ? !is_plain_over
				    : !in_vain || !with->are_alike(*in_vain, *each)) {
			switch (with->give_place(*each, with)) {
			case giver::answer::given:
				unlink(*each);
				each->rings.ring();
				break;
			case giver::answer::none:
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
