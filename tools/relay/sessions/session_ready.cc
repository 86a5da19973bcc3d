/* SPDX-License-Identifier: MIT */
/*
 * The part of a session that uses connections made ahead of it (ready.hpp).
 *
 * The backend may have closed such a connection, or may do so at any time while it waits for a
 * request. If the session notices before it has sent any of the client's bytes, it immediately
 * makes another connection to the same endpoint, whose place it keeps. If that fails, it counts as
 * any failed connection. A client that is slow to speak is therefore not cut off by a backend that
 * has waited for longer than the client has been there. Bytes that were sent are never sent again,
 * because the backend may have acted on them: a backend that closes while a request is on its way
 * resets the client, as it would without the relay.
 */
#include "sessions/session.hpp"

#include "backends/backend_events.hpp"

#include <poll.h>
#include <utility>

#include <sennit/unstable.h>

namespace relay
{
namespace
{

constexpr short watched_events = POLLIN | POLLRDHUP;

} // namespace

/* Why a ready connection cannot be used; nothing if it can. */
std::optional<ready_end> session::judge(ready_connection &made, const endpoint &at)
{
	const bool wants_tls = to_->tls() && to_->settings().send_proxy == proxy_sending::none;
	if (made.tls != (wants_tls ? to_->tls() : nullptr))
		return ready_end::config;
	const auto now = sn::now();
	if (made.expires <= now)
		return ready_end::age;
	switch (look_at(made)) {
	case ready_state::closed:
		return ready_end::closed;
	case ready_state::spoke:
		if (to_->ready().spoke(at, now - made.opened))
			tell_speaks_first(*to_, at);
		return ready_end::spoke;
	default:
		return std::nullopt;
	}
}

/* Takes a usable ready connection to the endpoint; returns an invalid one if there is none. The
 * connection has the place that the ticket already holds. */
sn::tcp session::take_ready(ticket &next, sn::deadline until)
{
	is_ready_one_ = false;
	if (!to_->keeps_ready() || is_replacing_)
		return {};
	auto &store = to_->ready();
	while (auto made = next.take_ready()) {
		auto why = judge(*made, *next.get());
		/* If the store now serves another configuration, no other connection is taken from
		 * it. */
		bool is_last = why == ready_end::config;
		/* If the group sends PROXY headers, the handshake comes only now, after the
		 * header. If it fails, perhaps only because the backend has closed the
		 * connection, it is made again on a new connection, whose error tells what is
		 * wrong. */
		if (!why && to_->tls() && !made->tls &&
		    secure(made->connection, *next.get(), until)) {
			why = ready_end::closed;
			is_last = true;
		}
		if (!why) {
			store.hits.add();
			store.proved(*next.get());
			is_ready_one_ = true;
			return std::move(made->connection);
		}
		store.discarded(*why);
		made.reset();
		if (is_last || cause_.load(std::memory_order_relaxed) != cause::none)
			break;
		if (ticket other = store.take(*next.get()))
			next.set_ready(other.take_ready());
	}
	store.misses.add();
	return {};
}

/*
 * Watches a ready connection until the client or the backend sends something. lost: the backend has
 * closed it before that, and connect() makes another one. kept: there is something to relay.
 *
 * If the relay ends the client's TLS, it may already have read bytes of the client, so the client
 * counts as having spoken.
 */
session::ready_one session::watch_ready_one()
{
	if (!is_ready_one_)
		return ready_one::kept;
	const bool speaks_now = !hello_.empty() || tls_ ||
				(!to_->tls() && to_->settings().send_proxy != proxy_sending::none);
	const auto idle = via_->settings.idle_timeout;
	const auto until = idle.count() == 0 ? sn::no_deadline : sn::after(idle);
	std::optional<bell> rings; /* made only for a wait */
	for (;;) {
		pollfd now[2] = {{client_.native_handle(), watched_events, 0},
				 {backend_.native_handle(), watched_events, 0}};
		static_cast<void>(poll(now, 2, 0));
		if (now[1].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
			return lose_ready_one();
		if (speaks_now || now[0].revents || now[1].revents)
			return ready_one::kept;
		if (until != sn::no_deadline && sn::now() >= until) {
			ended_ = termination::idle_timeout;
			end(cause::idle);
			return ready_one::over;
		}
		if (!rings)
			rings.emplace();
		if (!wait_for_either(*rings, until))
			return cause_.load(std::memory_order_relaxed) == cause::none
				       ? ready_one::kept
				       : ready_one::over;
	}
}

/* Waits until the client or the backend sends something or ends. Returns false if something else
 * ends the wait, such as a lack of memory for it. */
bool session::wait_for_either(bell &rings, sn::deadline until)
{
	{
		const std::lock_guard lock(all_.sessions.lock());
		rings_ = &rings;
		if (cause_.load(std::memory_order_relaxed) != cause::none)
			rings.ring();
	}
	sn_case cases[3] = {};
	cases[0].chan = rings.chan();
	cases[0].op = SN_CASE_RECV;
	cases[1].poll = {client_.native_handle(), watched_events};
	cases[1].op = SN_CASE_POLL;
	cases[2].poll = {backend_.native_handle(), watched_events};
	cases[2].op = SN_CASE_POLL;
	const int done = sn_select(cases, 3, until.time_since_epoch().count());
	const std::lock_guard lock(all_.sessions.lock());
	rings_ = nullptr;
	return done > 0 || done == -ETIMEDOUT;
}

/* Drops the lost connection, and keeps its place for the next one. backend_ is cleared before
 * chosen_, because lose_backend() reads chosen_ only if there is a backend_. */
session::ready_one session::lose_ready_one()
{
	sn::tcp lost;
	{
		const std::lock_guard lock(all_.sessions.lock());
		lost = std::move(backend_);
		kept_ = std::move(chosen_);
	}
	lost.close();
	to_->ready().discarded(ready_end::closed);
	connected_ = {};
	is_ready_one_ = false;
	return cause_.load(std::memory_order_relaxed) == cause::none ? ready_one::lost
								     : ready_one::over;
}

} // namespace relay
