/* SPDX-License-Identifier: MIT */
#include "sessions/attempts.hpp"

#include "base/sleep.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <utility>

namespace relay
{
namespace
{

/*
 * Whether what poll() has reported, without being asked for anything, says that the client has
 * gone. POLLHUP alone comes from a Unix client that has closed its socket. If it has left bytes
 * there, the backend gets them.
 */
bool is_gone(int client, int events) noexcept
{
	int bytes = 0;
	if (events & (POLLERR | POLLNVAL))
		return true;
	return (events & POLLHUP) && !(ioctl(client, FIONREAD, &bytes) == 0 && bytes > 0);
}

} // namespace

attempts::attempt::attempt(attempts &all, int client, const std::atomic<bool> &is_over) noexcept
    : all_(all), client_(client), is_over_(is_over)
{
	if (sn_scope_open(&scope_, SN_NO_DEADLINE) < 0) {
		scope_ = nullptr;
		return;
	}
	const auto due = sn::now() + interval;
	bool is_first = false;
	{
		const std::lock_guard lock(all_.lock_);
		all_.append(*this, due);
		is_first = !std::exchange(all_.looks_, true);
	}
	if (is_first)
		sn_semaphore_release(&all_.begun_, 1);
}

attempts::attempt::~attempt()
{
	if (!scope_)
		return;
	{
		const std::lock_guard lock(all_.lock_);
		if (!is_ended_)
			all_.remove(*this);
	}
	sn_scope_close(scope_);
}

bool attempts::attempt::client_left() const noexcept
{
	const std::lock_guard lock(all_.lock_);
	return has_left_;
}

bool attempts::has_left(int client) noexcept
{
	pollfd look{client, 0, 0};
	return poll(&look, 1, 0) > 0 && is_gone(client, look.revents);
}

/* The list is in the order of `due`, because each attempt is appended an interval ahead. */
void attempts::append(attempt &one, sn::clock::time_point due) noexcept
{
	one.due_ = due;
	one.previous_ = last_;
	one.next_ = nullptr;
	(last_ ? last_->next_ : first_) = &one;
	last_ = &one;
}

void attempts::remove(attempt &one) noexcept
{
	(one.previous_ ? one.previous_->next_ : first_) = one.next_;
	(one.next_ ? one.next_->previous_ : last_) = one.previous_;
}

/* Looks at the attempts that are due, and ends those whose clients have gone, or whose sessions are
 * over. Returns when the next one is due; no_deadline if there are none, and then the next attempt
 * wakes the task. */
sn::deadline attempts::look() noexcept
{
	for (bool is_first = true;; is_first = false) {
		if (!is_first)
			sn_yield(); /* others may run between two system calls */
		const auto now = sn::now();
		pollfd looks[at_once];
		attempt *looked_at[at_once];
		std::size_t n = 0;

		const std::lock_guard lock(lock_);
		for (; n < at_once && first_ && first_->due_ <= now; n++) {
			looked_at[n] = first_;
			looks[n] = {first_->client_, 0, 0};
			remove(*looked_at[n]);
			append(*looked_at[n], now + interval);
		}
		if (n == 0) {
			looks_ = first_ != nullptr;
			return first_ ? first_->due_ : sn::no_deadline;
		}
		const bool says_something = poll(looks, static_cast<nfds_t>(n), 0) > 0;
		for (std::size_t i = 0; i < n; i++) {
			attempt &each = *looked_at[i];
			each.has_left_ = says_something && is_gone(looks[i].fd, looks[i].revents);
			/* Relaxed: nothing that was written before it is read here. */
			if (!each.has_left_ && !each.is_over_.load(std::memory_order_relaxed))
				continue;
			each.is_ended_ = true;
			remove(each);
			sn_scope_cancel(each.scope_);
		}
	}
}

void attempts::watch() noexcept
{
	while (!is_over_.load(std::memory_order_relaxed)) {
		const auto next = look();
		if (next == sn::no_deadline)
			static_cast<void>(!sn_semaphore_acquire(&begun_));
		else
			sleep_fully_until(next);
	}
}

void attempts::end() noexcept
{
	is_over_.store(true, std::memory_order_relaxed);
	sn_semaphore_release(&begun_, 1);
}

} // namespace relay
