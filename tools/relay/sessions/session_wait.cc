/* SPDX-License-Identifier: MIT */
/* How a session waits for a backend: in the queue of its group, for the addresses of names, or
 * until it tries again; and how it follows a reload. */
#include "sessions/session.hpp"

#include "backends/backend_events.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

namespace relay
{
namespace
{

/* Whether the error may be due to a backend that is being restarted. */
bool may_pass(const std::error_code &error, bool is_local) noexcept
{
	switch (error.value()) {
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
		return true;
	case ENOENT: /* for a name, that it does not resolve */
		return is_local;
	default:
		return false;
	}
}

/* The longest pause between two attempts, where no timeout limits them. */
constexpr std::chrono::nanoseconds longest_delay = std::chrono::minutes(1);

} // namespace

/* Waits for the bell, or for the client to leave. Whatever ends the session rings the bell, too. */
woken session::wait_beside(bell &rings, sn::deadline until)
{
	{
		const std::lock_guard lock(all_.sessions.lock());
		rings_ = &rings;
		if (cause_.load(std::memory_order_relaxed) != cause::none)
			rings.ring();
	}
	const woken why =
		wait_for(rings,
			 {.fd = client_.native_handle(),
			  /* With TLS, bytes of the client may have been read already. */
			  .has_sent = !hello_.empty() || tls_,
			  .leaves_by_half_close = to_->settings().queue.leave_by_half_close},
			 until);
	const std::lock_guard lock(all_.sessions.lock());
	rings_ = nullptr;
	return why;
}

/*
 * Takes a place at a backend that has not been tried. If all of these are full, waits for one; if
 * the wait fails, ended_ has the reason.
 */
session::placing session::take_place(const tried_endpoints &tried, ticket &into)
{
	into = to_->choose_in_turn(to_->by_source() ? client_hash() : 0, tried);
	if (into)
		return placing::given;
	if (!to_->may_get_other(tried))
		return placing::none_left;
	if (to_->line().limit() == 0 && to_->line().is_empty()) {
		ended_ = termination::refused_limit;
		all_.counters.refused.add();
		tell_not_waiting(tried, "backends.max_connections", "the group has no queue");
		return placing::over;
	}

	/* With the source also where the group does not need it, because the place may be one of a
	 * later configuration. */
	queued_choice mine(client_hash(), tried);
	placing placed = placing::given;
	switch (to_->line().enter(mine)) {
	case queue::entry::full:
		ended_ = termination::queue_full;
		all_.counters.refused.add();
		to_->line().full.add();
		tell_not_waiting(tried, "queue", "its queue is full");
		return placing::over;
	case queue::entry::waits:
		placed = wait_in_queue(mine);
		break;
	case queue::entry::in_vain:
		return placing::none_left;
	case queue::entry::served:
		break;
	}
	if (placed != placing::given)
		return placed;
	if (mine.of.get() != to_)
		follow(std::move(mine.of));
	into = std::move(mine.got);
	return placing::given;
}

/* Reports a client that is closed although a backend may have a place for it later. */
void session::tell_not_waiting(const tried_endpoints &tried, const char *limit,
			       const char *beside) const
{
	if (to_->awaits_first_checks(tried))
		tell_unchecked(via_->counts->name, *to_, to_->line().limit() ? limit : "queue",
			       beside);
	else
		tell_full(via_->counts->name, *to_, limit, beside);
}

/* Waits in the queue. The first in the queue wakes at each beat, see queue.hpp. */
session::placing session::wait_in_queue(queued_choice &mine)
{
	queue &line = to_->line();
	const auto start = sn::now();
	const auto limit = to_->settings().queue.timeout;
	const auto until = limit.count() == 0 ? sn::no_deadline : start + limit;

	line.waited.add();
	placing placed = placing::over;
	for (;;) {
		const auto at = line.look(mine);
		if (at == queue::place::given) {
			placed = stop_waiting(mine, woken::rung);
			break;
		}
		if (at == queue::place::in_vain) {
			placed = placing::none_left;
			break;
		}
		auto next = until;
		const sn::deadline beat = sn::after(queue::beat);
		if (at == queue::place::first && (until == sn::no_deadline || beat < until))
			next = beat;
		const woken why = wait_beside(mine.rings, next);
		const bool is_over = cause_.load(std::memory_order_relaxed) != cause::none;
		const bool is_late = until != sn::no_deadline && sn::now() >= until;
		if (is_over || is_late || why == woken::client_left) {
			placed = stop_waiting(mine, why);
			break;
		}
		if (why == woken::late)
			line.changed();
	}
	queued_ = std::max(queued_, std::chrono::nanoseconds(0)) + (sn::now() - start);
	line.ns.add(static_cast<std::uint64_t>((sn::now() - start).count()));
	return placed;
}

/* Leaves the queue. A client that was given a place just before its time was over still uses it.
 * If the client has gone, the place is freed when `mine` is destroyed. */
session::placing session::stop_waiting(queued_choice &mine, woken why)
{
	queue &line = to_->line();
	const bool is_given = line.leave(mine);
	if (cause_.load(std::memory_order_relaxed) != cause::none)
		return placing::over; /* the cause is counted already */
	if (why == woken::client_left) {
		ended_ = termination::client_left;
		error_ = "while it waited for a backend";
		line.left.add();
		return placing::over;
	}
	if (is_given)
		return placing::given;
	ended_ = termination::queue_timeout;
	all_.counters.refused.add();
	line.timeouts.add();
	tell_not_waiting(mine.tried, "queue_timeout", "the client has waited for queue_timeout");
	return placing::over;
}

/* Waits before the next round of attempts. times: how often the session has waited already. */
session::retrying session::wait_to_retry(const std::error_code &error, const endpoint &at,
					 unsigned times, sn::deadline until)
{
	const auto &how = to_->settings().retry;
	if (times >= how.most || !may_pass(error, at.is_local))
		return retrying::no;
	/* Computed in doubles, because the hundredth delay may be centuries. */
	const double delay =
		std::ldexp(static_cast<double>(how.delay.count()), static_cast<int>(times));
	const double left = until == sn::no_deadline
				    ? static_cast<double>(longest_delay.count())
				    : static_cast<double>((until - sn::now()).count());
	if (until != sn::no_deadline && delay >= left)
		return retrying::no;
	const auto then = sn::after(
		std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(delay, left))));
	bell rings;
	const woken why = wait_beside(rings, then);
	if (cause_.load(std::memory_order_relaxed) != cause::none)
		return retrying::over;
	if (why != woken::client_left)
		return retrying::again;
	ended_ = termination::client_left;
	error_ = "while it waited to try a backend again";
	return retrying::over;
}

/* The client's address, for groups that balance by it. Throws std::bad_alloc. */
std::uint64_t session::client_hash()
{
	if (client_address_.empty())
		client_address_ = address_of(client_);
	return hash_of(host_of(client_address_));
}

/* From now on the client gets what a reload has put in the place of its group's backends. Nobody
 * checks or looks up backends that a reload has removed. */
void session::follow(std::shared_ptr<pool> next) noexcept
{
	later_ = std::move(next);
	to_ = later_.get();
}

/* Waits for the first lookups of names. A name that a reload has removed is not looked up any more,
 * so the client then gets a backend of the new configuration. Returns true if the session is over,
 * because the client has gone or for another cause. */
bool session::await_names(sn::deadline until)
{
	auto look_at = sn::now() + attempts::interval;
	bool has_left = false;
	std::shared_ptr<pool> next;
	const auto is_over = [&] {
		if (const auto now = sn::now(); now >= look_at) {
			look_at = now + attempts::interval;
			has_left = attempts::has_left(client_.native_handle());
			next = to_->successor();
		}
		return has_left || next || is_over_.load(std::memory_order_relaxed);
	};
	for (to_->await_names(until, is_over); next; to_->await_names(until, is_over))
		follow(std::move(next));
	if (cause_.load(std::memory_order_relaxed) != cause::none)
		return true;
	if (has_left)
		leave_unanswered();
	return has_left;
}

} // namespace relay
