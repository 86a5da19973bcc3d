/* SPDX-License-Identifier: MIT */
#include "sessions/session.hpp"

#include "backends/backend_events.hpp"
#include "backends/names.hpp"
#include "base/descriptors.hpp"
#include "base/sleep.hpp"
#include "config/keepalive.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cstddef>
#include <sys/ioctl.h>
#include <utility>
#include <vector>

#include <sennit/unstable.h>

namespace relay
{
namespace
{

/* Whether bytes can be read now. */
bool has_come(int fd) noexcept
{
	int bytes = 0;
	return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

} // namespace

session::session(shared &all, std::shared_ptr<route> via, sn::tcp client,
		 source_ticket counted) noexcept
    : all_(all), via_(std::move(via)), client_(std::move(client)), source_(std::move(counted))
{
	all_.counters.active.add();
	all_.sessions.add(*this);
}

session::~session()
{
	all_.sessions.leave(*this);
	const cause why = cause_.load(std::memory_order_relaxed);
	record_end();
	if (why == cause::none || why == cause::finished || (why == cause::idle && !lost_bytes_)) {
		client_.close();
		backend_.close();
	} else {
		client_.abort();
		backend_.abort();
	}
	chosen_ = {};
	kept_ = {};
	later_.reset();
	source_ = {};
	via_->counts->active.fetch_sub(1, std::memory_order_relaxed);
	via_.reset();
	all_.counters.active.subtract();
	all_.sessions.gone();
}

void session::run()
try {
	const auto limit = via_->settings.lifetime;
	if (limit.count() == 0)
		return serve();
	/* The alarm's destructor waits for its task, so `this` is still valid there. */
	sn::alarm over([this] { outlive(); });
	over.set_at(began_ + limit);
	serve();
} catch (const std::exception &) {
	/* No memory. Bytes may be missing, so neither peer must take what it got for all: without a
	 * cause, both connections would be closed in good order. */
	if (backend_)
		end(cause::failure);
	ended_ = termination::no_memory;
	all_.counters.no_memory.add();
	emit(event_kind::no_memory, "a connection has ended for lack of memory");
}

/*
 * Calls it on a stack that is large enough for TLS to the backend. The session's task has such a
 * stack if its route had any TLS when the client was accepted. But a session that has waited in the
 * queue is served by the group's latest pool, and a reload may have given the group TLS. Then
 * another task with such a stack makes the call, and the session's own task waits for it. Few
 * sessions need that, so large stacks for all that wait would be wasted.
 */
template <class Call>
auto session::with_tls_stack(Call call)
{
	if (via_->makes_handshakes || !to_->tls())
		return call();
	return sn::spawn(call, {.name = "session", .stack_size = tls_stack}).join();
}

void session::serve()
{
	if (!receive_opening())
		return;
	while (connect()) {
		const auto its = watch_ready_one();
		if (its == ready_one::over)
			return;
		const auto sent = its == ready_one::lost
					  ? sending::again
					  : with_tls_stack([this] { return send_opening(); });
		if (sent == sending::done)
			with_tls_stack([this] { relay_both(); });
		if (sent != sending::again)
			return;
		is_replacing_ = true;
	}
}

/* When an attempt must end while another endpoint is left to try. until: when the time for all
 * attempts is over. */
sn::deadline session::end_of_attempt(sn::deadline until) const noexcept
{
	const auto limit = to_->settings().attempt_timeout;
	const auto now = sn::now();
	const bool is_endless = until == sn::no_deadline;
	if (limit.count() != 0)
		return is_endless ? now + limit : std::min(until, now + limit);
	return is_endless ? until : now + (until - now) / 2;
}

/* Returns true if a backend is connected, and nothing has ended the session during that. */
bool session::connect()
{
	const auto limit = via_->settings.connect_timeout;
	const auto lifetime = via_->settings.lifetime;
	auto until = limit.count() == 0 ? sn::no_deadline : sn::after(limit);
	if (lifetime.count() != 0 && (until == sn::no_deadline || began_ + lifetime < until))
		until = began_ + lifetime;
	tried_endpoints tried;
	std::error_code failed; /* why the last one of these could not be used */
	unsigned rounds = 0;
	bool has_tried = false;
	const auto wait_for_next_round = [&] {
		const auto then = wait_to_retry(failed, *tried.back(), rounds++, until);
		if (then == retrying::over)
			return then;
		auto next = to_->successor();
		if (next && (until == sn::no_deadline || sn::now() < until)) {
			follow(std::move(next));
			rounds = 0;
			tried.clear();
			return await_names(until) ? retrying::over : retrying::again;
		}
		if (then == retrying::again)
			tried.clear();
		return then;
	};

	all_.stock.make_room();
	if (await_names(until))
		return false;
	for (;;) {
		ticket next = std::move(kept_);
		const auto asked = sn::now();
		const placing placed = next ? placing::given : take_place(tried, next);
		if (placed == placing::over)
			return false;
		if (placed == placing::none_left && tried.empty())
			break;
		if (until != sn::no_deadline)
			until += sn::now() - asked;
		if (lifetime.count() != 0)
			until = std::min(until, began_ + lifetime);
		if (placed == placing::none_left) {
			/* The others have failed while it waited for them. */
			const auto then = wait_for_next_round();
			if (then == retrying::over)
				return false;
			if (then == retrying::no)
				break;
			continue;
		}
		if (has_tried) {
			/* Attempts that end soon are not watched. */
			if (attempts::has_left(client_.native_handle())) {
				leave_unanswered();
				return false;
			}
			all_.counters.retries.add();
			via_->counts->retries.add();
		}
		tried.push_back(next.get());
		last_tried_ = next.get();
		has_tried = true;

		const bool has_other = to_->has_other(tried);
		const auto give_up = has_other ? end_of_attempt(until) : until;
		auto connected =
			with_tls_stack([&] { return try_to_connect(next, give_up, has_other); });
		is_replacing_ = false;
		if (connected) {
			connected_ = sn::now();
			next->counts.connected.add();
			tell_succeeded(*to_, *next.get());
			to_->succeeded(*next.get());
			chosen_ = std::move(next);
			const int fd = connected->native_handle();
			if (!keepalive_can_wait(to_->settings().keepalive))
				probe_backend(fd);
			const std::lock_guard lock(all_.sessions.lock());
			if (is_settled_ && keepalive_can_wait(to_->settings().keepalive))
				probe_backend(fd);
			backend_ = *std::move(connected);
			/* A cut before this could cancel the client only, so it is noticed here. */
			return cause_.load(std::memory_order_relaxed) == cause::none;
		}
		/* If the session was cut during the attempt, or the client left, the backend did
		 * not fail. */
		if (cause_.load(std::memory_order_relaxed) != cause::none ||
		    ended_ == termination::client_left)
			return false;
		if (lifetime.count() != 0 && sn::now() >= began_ + lifetime) {
			end(cause::lifetime);
			return false;
		}
		failed = connected.error();
		const bool ours = is_shortage(failed);
		if (!ours)
			next->counts.failures.add();
		ended_ = ours ? termination::no_memory : termination::connect_failed;
		const bool is_ejected = !ours && to_->failed(*next.get());
		if (is_ejected)
			all_.counters.ejections.add();
		tell_failed(via_->counts->name, *to_, *next.get(), failed, refusal_, ours,
			    is_ejected);
		error_ = refusal_.empty() ? check_error_text(failed.value(), next->address)
					  : refusal_;
		if (until != sn::no_deadline && sn::now() >= until)
			break;
		if (to_->may_get_other(tried))
			continue;
		next = {}; /* frees the place during the wait */
		const auto then = wait_for_next_round();
		if (then == retrying::over)
			return false;
		if (then == retrying::no)
			break;
	}
	tell_no_backend(via_->counts->name, *to_);
	if (!has_tried)
		ended_ = termination::no_backend;
	all_.counters.connect_failed.add();
	return false;
}

/* Makes one attempt, which ends early if the client goes away; ended_ is client_left then. */
sn::result<sn::tcp> session::try_to_connect(ticket &next, sn::deadline until, bool has_other)
{
	const attempts::attempt watched(all_.attempts, client_.native_handle(), is_over_);
	if (sn::tcp ready = take_ready(next, until))
		return sn::result<sn::tcp>(std::move(ready));
	auto connected = connect_to(*next.get(), until, has_other);
	if (!connected && watched.client_left())
		leave_unanswered();
	return connected;
}

void session::leave_unanswered()
{
	ended_ = termination::client_left;
	error_ = "while it waited for a backend to answer";
}

/*
 * Whether the relay has bytes for the backend before it connects. It has if there is an opening to
 * send, or if the client has sent bytes already. Clients usually send as soon as they are
 * connected, and are accepted a moment later at the earliest. Measured with the short connections
 * of bench-relay, in nine alternating rounds with and without this: a connection through the relay
 * takes 16.2 packets instead of 18.2, and 72 us of CPU in the relay and 20 in the server, instead
 * of 80 and 28.
 */
first_words session::whose_first_words() const noexcept
{
	const bool is_ours = !hello_.empty() || to_->settings().send_proxy != proxy_sending::none ||
			     to_->tls() || has_come(client_.native_handle());
	return is_ours ? first_words::ours : first_words::unknown;
}

/*
 * Connects. Retries while the system is out of some resource, because the client has been accepted,
 * and can wait until the resource is available again. Local ports are separate for each destination
 * address, so if none is free and another endpoint is left to try, this returns immediately.
 */
sn::result<sn::tcp> session::connect_to(endpoint &at, sn::deadline until, bool has_other)
{
	using namespace std::chrono_literals;

	const auto is_over = [this] {
		return cause_.load(std::memory_order_relaxed) != cause::none;
	};
	const auto since = asked(at);
	for (auto pause = 10ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 160ms)) {
		refusal_.clear();
		auto connected = connect_to_endpoint(at.address, until, whose_first_words());
		const bool was_canceled =
			!connected && connected.error() == std::errc::operation_canceled;
		if (connected || (!is_shortage(connected.error()) && !was_canceled &&
				  connected.error() != std::errc::timed_out))
			answered(at);
		else if (was_canceled && sn_now() - since < most_patience)
			not_asked(at, since); /* the endpoint has not had its time */
		if (connected && to_->tls())
			if (const auto failed = secure(*connected, at, until)) {
				connected->abort();
				connected = sn::unexpected(failed);
			}
		if (connected || !is_shortage(connected.error()))
			return connected;
		not_asked(at, since);
		if (has_other && connected.error() == std::errc::address_not_available)
			return connected;
		all_.stock.give_up_all();
		/* Checked after the pause, because a further attempt would fail with "timed out"
		 * instead of the shortage. If the client leaves, the pause ends, and the next
		 * attempt fails. */
		sleep_fully(pause);
		if ((until != sn::no_deadline && sn::now() >= until) || is_over())
			return connected;
	}
}

void session::relay_both()
{
	auto &of_listener = *via_->counts;
	auto &of_backend = chosen_->counts;
	rate_limiter rate({.each = of_listener.bandwidth_per_connection,
			   .each_source = of_listener.bandwidth_per_source,
			   .of_listener = of_listener.bandwidth,
			   .of_backend = of_backend.bandwidth,
			   .of_source = source_.bandwidth(),
			   .waits_of_listener = of_listener.throttled,
			   .waits_of_backend = of_backend.throttled,
			   .throttled = all_.counters.throttled});
	/* With TLS the relay does not close early, because a close sends close_notify only if
	 * there is room for it at that moment. */
	const sn_relay_tuning tuning{.closing = !has_tls(), .coalesce = via_->settings.coalesce};
	const sn::relay_limits limits{.idle = via_->settings.idle_timeout,
				      .half_close = via_->settings.half_close_timeout,
				      .rate_limit = rate.calls(),
				      .tuning = &tuning};
	const auto done = sn::relay(
		client_, backend_, limits, [&](sn_relay_direction way, std::size_t n) noexcept {
			if (way == SN_RELAY_A_TO_B) {
				of_listener.to_backend.bytes.add(n);
				of_backend.to_backend.bytes.add(n);
				return;
			}
			of_listener.to_client.bytes.add(n);
			of_backend.to_client.bytes.add(n);
			/* Only one task copies in this direction. */
			if (first_byte_ns_.load(std::memory_order_relaxed) < 0)
				first_byte_ns_.store((sn::now() - connected_).count(),
						     std::memory_order_relaxed);
		});

	done_ = done;
	done_.a_to_b.bytes_written += passed_;
	done_.a_to_b.bytes_userspace += passed_;
	lost_bytes_ = done.lost_bytes;
	switch (done.end) {
	case SN_RELAY_FINISHED:
		end(cause::finished);
		ended_ = !all_.registry.ready() ? termination::drained
			 : done.side == 1       ? termination::server_end
						: termination::client_end;
		break;
	case SN_RELAY_CANCELED: /* end() did this, and recorded the cause */
		break;
	case SN_RELAY_FAILED:
		ended_ = done.error == std::errc::not_enough_memory ? termination::no_memory
			 : done.side == 1                           ? termination::server_reset
								    : termination::client_reset;
		/* The reason of TLS, such as a stream that was cut off, says more than
		 * "connection aborted". */
		error_ = tls_context::reason(done.side == 1 ? backend_ : client_);
		if (error_.empty())
			error_ = done.error.message();
		if (done.error == std::errc::not_enough_memory)
			all_.counters.no_memory.add();
		end(cause::failure);
		break;
	case SN_RELAY_IDLE:
	case SN_RELAY_HALF_CLOSE:
		ended_ = done.end == SN_RELAY_IDLE ? termination::idle_timeout
						   : termination::half_close_timeout;
		end(cause::idle);
		break;
	}
}

/*
 * Ends the relaying, if this is the first cause. Relaxed, because the final value is read only
 * after the relaying has ended.
 */
void session::end(cause why) noexcept
{
	cause none = cause::none;
	if (!cause_.compare_exchange_strong(none, why, std::memory_order_relaxed))
		return;
	switch (why) {
	case cause::none:
	case cause::finished:
		return;
	case cause::failure:
		all_.counters.resets.add();
		break;
	case cause::idle:
		all_.counters.idle_timeouts.add();
		break;
	case cause::lifetime:
		all_.counters.lifetimes.add();
		break;
	case cause::backend_down:
		all_.counters.backend_down.add();
		break;
	case cause::killed:
		all_.counters.killed.add();
		break;
	case cause::cut:
		all_.counters.cut.add();
		break;
	}
	is_over_.store(true, std::memory_order_relaxed); /* ends an attempt to connect */
	client_.cancel();
	if (rings_)
		rings_->ring();
	if (backend_)
		backend_.cancel();
}

/* Counts and logs the session: the last step before its connections are closed. */
void session::record_end() noexcept
try {
	if (cause_.load(std::memory_order_relaxed) == cause::cut)
		ended_ = termination::cut;
	else if (cause_.load(std::memory_order_relaxed) == cause::lifetime)
		ended_ = termination::lifetime;
	else if (cause_.load(std::memory_order_relaxed) == cause::backend_down)
		ended_ = termination::backend_down;
	else if (cause_.load(std::memory_order_relaxed) == cause::killed)
		ended_ = termination::killed;
	const auto now = sn::now();
	const bool connected = connected_ != sn::clock::time_point{};
	const std::chrono::nanoseconds first_byte(first_byte_ns_.load(std::memory_order_relaxed));
	auto &counts = *via_->counts;
	counts.to_backend.add_paths(done_.a_to_b);
	counts.to_client.add_paths(done_.b_to_a);
	if (chosen_) {
		chosen_->counts.to_backend.add_paths(done_.a_to_b);
		chosen_->counts.to_client.add_paths(done_.b_to_a);
	}
	if (connected) {
		counts.connect.record(connected_ - began_);
		counts.duration.record(now - began_);
	}
	if (first_byte.count() >= 0)
		counts.first_byte.record(first_byte);
	counts.ended[static_cast<std::size_t>(ended_)].add();
	const auto log = all_.access_log.get();
	if (!log)
		return;
	/* The address was not looked up if there was no log when the session began. */
	if (client_address_.empty())
		client_address_ = address_of(client_);

	access_entry entry;
	entry.time = std::chrono::nanoseconds(sn_walltime());
	entry.cause = ended_;
	entry.listener = counts.name;
	entry.client = client_address_;
	if (last_tried_) {
		entry.backend = last_tried_->backend;
		if (last_tried_->resolved())
			entry.endpoint = last_tried_->address;
	}
	entry.peer = proxy_address_;
	entry.sni = sni_;
	entry.id = id_;
	if (tls_) {
		entry.tls = tls_->version;
		entry.alpn = tls_->alpn;
		entry.client_cn = tls_->common_name;
	}
	entry.error = error_;
	entry.duration = now - began_;
	entry.queue = queued_;
	if (connected)
		entry.connect = connected_ - began_;
	entry.first_byte = first_byte;
	entry.to_backend = done_.a_to_b.bytes_written;
	entry.to_client = done_.b_to_a.bytes_written;
	entry.to_backend_splice = done_.a_to_b.bytes_spliced;
	entry.to_client_splice = done_.b_to_a.bytes_spliced;
	log->write(entry);
} catch (const std::exception &) {
	/* There is no memory for the text of an address. */
}

/* The lifetime is over. Takes the sessions' lock, because connect() sets the backend under it;
 * cut() in contrast is called with the lock held. */
void session::outlive() noexcept
{
	const std::lock_guard lock(all_.sessions.lock());
	end(cause::lifetime);
}

void session::cut() noexcept
{
	end(cause::cut);
}

/* Called under the sessions' lock, under which connect() sets backend_. It sets chosen_ before
 * that. */
bool session::lose_backend(const endpoint &which) noexcept
{
	if (!backend_ || chosen_.get().get() != &which ||
	    cause_.load(std::memory_order_relaxed) != cause::none)
		return false;
	end(cause::backend_down);
	return true;
}

/* The compared fields are set before backend_, as in lose_backend(), and do not change after
 * that. */
bool session::kill(const session_filter &which) noexcept
try {
	if (!backend_ || cause_.load(std::memory_order_relaxed) != cause::none ||
	    !which.fits(via_->counts->name, to_->name(), chosen_->backend, chosen_->address) ||
	    (!which.client.empty() && !has_client(which)))
		return false;
	end(cause::killed);
	return true;
} catch (const std::exception &) {
	return false; /* there is no memory to compare it */
}

/* All sessions wait for this, so the address is turned into a text only for a client of a Unix
 * socket. The text of a scope is the interface's name, which may have changed; only an address of
 * the connection itself has one. */
bool session::has_client(const session_filter &which) const
{
	const bool has_scope = client_address_.starts_with('[') &&
			       client_address_.find('%') != client_address_.npos;
	if (!client_address_.empty() && !has_scope)
		return which.fits_client(client_address_);
	if (!which.client_ip)
		return which.fits_client(address_of(client_));
	const auto its = peer_of(client_.native_handle());
	return its && which.fits_client(its->ip, its->scope);
}

/* If the backend is not connected yet, connect() sets its keepalive. */
bool session::settle(sn::clock::time_point now) noexcept
{
	if (now - began_ < keepalive_delay)
		return false;
	is_settled_ = true;
	if (backend_ && keepalive_can_wait(to_->settings().keepalive))
		probe_backend(backend_.native_handle());
	return true;
}

/* Enables keepalive. A Unix socket needs none, because the kernel knows immediately when its
 * peer is gone. */
void session::probe_backend(int fd) noexcept
{
	if (!chosen_->is_local)
		set_keepalive_of_new(fd, to_->settings().keepalive);
}

} // namespace relay
