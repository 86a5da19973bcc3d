/* SPDX-License-Identifier: MIT */
#include "backends/ready.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <poll.h>
#include <utility>

#include <sennit/unstable.h>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The poll events of a connection that the backend has closed or that has failed. */
constexpr int has_hung_up = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;

/* How long TLS may take to read bytes that have already arrived. */
constexpr auto time_to_read = 1ms;

/* The age at which a connection is first looked at, early so that a greeting is soon noticed;
 * and the interval between later looks. */
constexpr auto first_look_after = 250ms;
constexpr auto look_interval = 1s;

/* How many connections one system call looks at, under the lock. */
constexpr std::size_t looks_at_once = 64;

} // namespace

ready_state look_at(ready_connection &of) noexcept
{
	pollfd now{of.connection.native_handle(), POLLIN | POLLRDHUP, 0};
	if (poll(&now, 1, 0) <= 0)
		return ready_state::silent;
	if (now.revents & has_hung_up)
		return ready_state::closed;
	if (!of.tls)
		return ready_state::spoke;
	/* A call whose deadline has passed would not try. */
	char byte = 0;
	of.connection.set_read_deadline(sn::after(time_to_read));
	const auto n = of.connection.read(&byte, 1);
	of.connection.set_read_deadline(sn::no_deadline);
	if (!n)
		return n.error() == std::errc::timed_out ? ready_state::silent
							 : ready_state::closed;
	return *n == 0 ? ready_state::closed : ready_state::spoke;
}

ready_store::slot *ready_store::find(const endpoint &of) noexcept
{
	const auto found = slots_.find(&of);
	return found == slots_.end() ? nullptr : &found->second;
}

void ready_store::count(std::ptrdiff_t more) noexcept
{
	idle_.fetch_add(static_cast<std::size_t>(more)); /* (b) and (c) in queue.hpp */
}

void ready_store::move_out(slot &from, list::iterator one, list &to) noexcept
{
	to.splice(to.end(), from.idle, one);
	count(-1);
}

ticket ready_store::take(const endpoint &of) noexcept
{
	if (idle_.load() == 0)
		return {};
	list taken; /* its memory is freed without the lock */
	{
		const std::lock_guard lock(lock_);
		slot *const its = find(of);
		if (!its || its->idle.empty())
			return {};
		move_out(*its, std::prev(its->idle.end()), taken);
		for (bell *each : its->keepers)
			each->ring();
	}
	return std::move(taken.front());
}

void ready_store::proved(const endpoint &of) noexcept
{
	const std::lock_guard lock(lock_);
	if (slot *const its = find(of))
		its->is_proved = true;
}

bool ready_store::was_proved(const endpoint &of) noexcept
{
	const std::lock_guard lock(lock_);
	slot *const its = find(of);
	return its && std::exchange(its->is_proved, false);
}

bool ready_store::spoke(const endpoint &of, sn::clock::duration age) noexcept
{
	if (age >= greeting_time)
		return false;
	list gone;
	const std::lock_guard lock(lock_);
	slot *const its = find(of);
	if (!its || std::exchange(its->speaks_first, true))
		return false;
	count(-static_cast<std::ptrdiff_t>(its->idle.size()));
	gone.splice(gone.end(), its->idle);
	discarded(ready_end::spoke, gone.size());
	return true;
}

void ready_store::join(const std::shared_ptr<endpoint> &which, bell &rings)
{
	const std::lock_guard lock(lock_);
	slot &its = slots_[which.get()];
	its.keepers.push_back(&rings);
	its.speaks_first = false;
}

void ready_store::leave(const endpoint &which, const bell &rings) noexcept
{
	list gone;
	const std::lock_guard lock(lock_);
	slot *const its = find(which);
	if (!its)
		return;
	std::erase(its->keepers, &rings);
	if (!its->keepers.empty())
		return;
	count(-static_cast<std::ptrdiff_t>(its->idle.size()));
	gone.splice(gone.end(), its->idle);
	discarded(ready_end::config, gone.size());
	/* A slot with connections that are being made stays, so that they still count if the
	 * endpoint is joined again before they are ready. */
	if (its->making == 0)
		slots_.erase(&which);
}

bool ready_store::begin(const endpoint &to, std::size_t most) noexcept
{
	const std::lock_guard lock(lock_);
	slot *const its = find(to);
	if (!its || its->speaks_first || its->idle.size() + its->making >= most)
		return false;
	its->making++;
	return true;
}

void ready_store::end(const endpoint &to) noexcept
{
	const std::lock_guard lock(lock_);
	slot *const its = find(to);
	if (its && --its->making == 0 && its->keepers.empty())
		slots_.erase(&to);
}

void ready_store::put(ticket made)
{
	made.ready()->next_look = made.ready()->opened + first_look_after;
	list one; /* if it cannot be put, it is closed here */
	one.push_back(std::move(made));
	put_back(one);
}

/* If nobody wants the connection any more, it stays in the caller's list, and the caller closes
 * it. A connection that is put back after a look may be older than those before it, which does
 * no harm. */
void ready_store::put_back(list &one) noexcept
{
	const std::shared_ptr<endpoint> to = one.front().get();
	queue &line = one.front().line();
	{
		const std::lock_guard lock(lock_);
		slot *const its = find(*to);
		if (!its || its->speaks_first || its->keepers.empty())
			return;
		its->idle.splice(its->idle.end(), one);
		count(1);
	}
	line.place_is_free();
}

ready_store::swept ready_store::sweep(const endpoint &of, std::size_t most, std::uint64_t limit,
				      const std::shared_ptr<const tls_context> &tls,
				      sn::clock::time_point now) noexcept
{
	swept found;
	list old;
	{
		const std::lock_guard lock(lock_);
		slot *const its = find(of);
		if (!its)
			return found;
		std::array<pollfd, looks_at_once> polled;
		std::array<list::iterator, looks_at_once> whose;
		std::size_t n = 0, unwanted = 0;
		for (auto each = its->idle.begin(); each != its->idle.end();) {
			const auto one = each++;
			ready_connection &is = *one->ready();
			if (is.expires <= now || is.tls != tls) {
				unwanted += is.expires > now;
				move_out(*its, one, old);
				continue;
			}
			if (is.next_look <= now && n < looks_at_once) {
				is.next_look = now + look_interval;
				polled[n] = {is.connection.native_handle(), POLLIN | POLLRDHUP, 0};
				whose[n++] = one;
			}
			found.next = std::min({found.next, is.expires, is.next_look});
		}
		discarded(ready_end::age, old.size() - unwanted);
		const int changed = n ? poll(polled.data(), n, 0) : 0;
		for (std::size_t i = 0; i < n; i++) {
			if (changed > 0 && polled[i].revents)
				move_out(*its, whose[i], found.suspect);
			else if (now - whose[i]->ready()->opened >= look_interval)
				its->is_proved = true;
		}
		const std::uint64_t active = of.counts.active.load(std::memory_order_relaxed);
		const std::size_t idle = its->idle.size();
		if (limit != 0 && active > limit)
			most = std::min(most,
					idle - static_cast<std::size_t>(std::min<std::uint64_t>(
						       idle, active - limit)));
		for (; its->idle.size() > most; unwanted++)
			move_out(*its, its->idle.begin(), old);
		discarded(ready_end::config, unwanted);
	}
	return found;
}

void ready_store::give_up(const endpoint &of, ready_end why) noexcept
{
	list gone;
	const std::lock_guard lock(lock_);
	slot *const its = find(of);
	if (!its)
		return;
	count(-static_cast<std::ptrdiff_t>(its->idle.size()));
	gone.splice(gone.end(), its->idle);
	discarded(why, gone.size());
}

void ready_store::give_up_some(list &into, std::size_t n) noexcept
{
	const std::lock_guard lock(lock_);
	for (auto &[of, its] : slots_)
		for (; n > 0 && !its.idle.empty(); n--)
			move_out(its, its.idle.begin(), into);
}

void ready_store::read(group_snapshot &into) const noexcept
{
	into.ready_limit = most_.load(std::memory_order_relaxed);
	into.ready = idle_.load();
	into.ready_hits = hits.get();
	into.ready_misses = misses.get();
	into.ready_failures = failures.get();
	for (std::size_t i = 0; i < discarded_.size(); i++)
		into.ready_discarded[i] = discarded_[i].get();
}

/* How many places for sessions' descriptors are used. */
std::size_t ready_stock::used() const noexcept
{
	return 2 * sessions_.alive() + open_.load(std::memory_order_relaxed);
}

/* Ready connections leave a quarter of all places free, so that there is time to close some
 * before clients need their places. */
bool ready_stock::has_room() const noexcept
{
	const std::size_t most = sessions_.most();
	return is_open() && used() + most / 4 < 2 * most;
}

void ready_stock::make_room() noexcept
{
	if (open_.load(std::memory_order_relaxed) == 0)
		return;
	const std::size_t most = sessions_.most();
	const std::size_t now = used();
	if (now + most / 8 > 2 * most)
		give_up(now + most / 4 - 2 * most, ready_end::room);
}

void ready_stock::give_up_all() noexcept
{
	if (open_.load(std::memory_order_relaxed) != 0)
		give_up(SIZE_MAX, ready_end::room);
}

/* A connection that is being made at this time is closed by its keeper, which checks has_room(). */
void ready_stock::close() noexcept
{
	is_closed_.store(true);
	give_up(SIZE_MAX, ready_end::config);
}

void ready_stock::give_up(std::size_t n, ready_end why) noexcept
{
	std::list<ticket> gone; /* destroyed without the lock */
	const std::lock_guard lock(lock_);
	for (ready_store *each : stores_) {
		const std::size_t before = gone.size();
		each->give_up_some(gone, n - before);
		each->discarded(why, gone.size() - before);
		if (gone.size() == n)
			return;
	}
}

void ready_stock::enter(ready_store &one)
{
	const std::lock_guard lock(lock_);
	stores_.push_back(&one);
}

void ready_stock::leave(const ready_store &one) noexcept
{
	const std::lock_guard lock(lock_);
	const auto found = std::ranges::find(stores_, &one);
	if (found != stores_.end())
		stores_.erase(found);
}

} // namespace relay
