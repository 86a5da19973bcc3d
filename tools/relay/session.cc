/* SPDX-License-Identifier: MIT */
#include "session.hpp"

#include "descriptors.hpp"
#include "keepalive.hpp"
#include "names.hpp"
#include "opening.hpp"

#include <algorithm>
#include <cstddef>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>
#include <vector>

#include <sennit/unstable.h>

namespace relay
{
namespace
{

/* The host of "host:port" or "[host]:port"; all of "unix:...". */
std::string_view host_of(std::string_view address)
{
	if (address.starts_with("unix:"))
		return address;
	return address.substr(0, address.rfind(':'));
}

/* The name of an end of a Unix socket, as a PROXY header has it; nothing if it is none. */
std::optional<std::string> unix_name_of(int fd, decltype(getsockname) *which)
{
	sockaddr_un at{};
	socklen_t length = sizeof at;
	if (which(fd, reinterpret_cast<sockaddr *>(&at), &length) != 0 || at.sun_family != AF_UNIX)
		return std::nullopt;
	std::string name(at.sun_path, std::min<std::size_t>(length, sizeof at) -
					      offsetof(sockaddr_un, sun_path));
	if (!name.starts_with('\0'))
		name.resize(std::min(name.find('\0'), name.size()));
	return name;
}

/* What there is to say of a client's connection, without addresses if it has been reset. */
proxy_header describe(int fd)
{
	using family = proxy_header::family;
	proxy_header header;
	const auto peer = peer_of(fd);
	const auto here = local_of(fd);
	if (peer && here && peer->ip.is_ipv6 == here->ip.is_ipv6) {
		header.of = peer->ip.is_ipv6 ? family::ipv6 : family::ipv4;
		header.source = {peer->ip.bytes, peer->port, {}};
		header.destination = {here->ip.bytes, here->port, {}};
		return header;
	}
	if (auto listener = unix_name_of(fd, getsockname)) {
		header.of = family::local;
		/* A client that has gone has no name any more. */
		header.source.path = unix_name_of(fd, getpeername).value_or("");
		header.destination.path = *std::move(listener);
	}
	return header;
}

/* Whether bytes can be read now. */
bool has_come(int fd) noexcept
{
	int bytes = 0;
	return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

} // namespace

bool route::tells_sources_apart() const noexcept
{
	return !settings.deny.empty() || !settings.allow.empty() ||
	       settings.max_connections_per_source != 0;
}

std::optional<termination> route::refuses(const ip_address &client, source_ticket &counted) const
{
	if (contains(settings.deny, client) ||
	    (!settings.allow.empty() && !contains(settings.allow, client)))
		return termination::refused_list;
	if (settings.max_connections_per_source) {
		if (!counts->sources.enter(client, settings.max_connections_per_source))
			return termination::refused_limit;
		counted = source_ticket(counts->sources, client);
	}
	return std::nullopt;
}

pool *route::pool_for(std::string_view server_name) const noexcept
{
	std::size_t best = settings.sni.size();
	for (std::size_t i = 0; i < settings.sni.size(); i++) {
		const std::string_view name = settings.sni[i].name;
		if (name == server_name)
			return by_name[i].get();
		if (name.starts_with('.') && server_name.size() > name.size() &&
		    server_name.ends_with(name) &&
		    (best == settings.sni.size() || name.size() > settings.sni[best].name.size()))
			best = i;
	}
	return best < settings.sni.size() ? by_name[best].get() : others.get();
}

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
	/* No memory. */
	ended_ = termination::no_memory;
	all_.counters.no_memory.add();
}

void session::serve()
{
	if (receive_opening() && connect() && send_opening())
		relay_both();
}

/* Determines the client's address and the pool. False when that fails; the session is over then. */
bool session::receive_opening()
{
	const auto &settings = via_->settings;
	const bool has_proxy_header = settings.expects_header();
	if (all_.access_log)
		(has_proxy_header ? proxy_address_ : client_address_) =
			client_.peer_address().value_or("");

	const auto until = settings.hello_timeout.count() == 0 ? sn::no_deadline
							       : began_ + settings.hello_timeout;
	if (has_proxy_header) {
		proxy_header header;
		if (auto fault = receive_proxy_header(client_, until, header)) {
			client_address_ = std::exchange(proxy_address_, {});
			return fail_opening(fault->why, std::move(fault->text));
		}
		using family = proxy_header::family;
		if (header.of == family::none) {
			/* The proxy's own connection, or one of nobody knows whom. */
			client_address_ = std::exchange(proxy_address_, {});
		} else {
			client_address_ = to_text(header, header.source);
		}
		if (header.of == family::ipv4 || header.of == family::ipv6) {
			const auto ip = to_ip(header.source.ip.data(), header.of == family::ipv6);
			if (const auto refused = via_->refuses(ip, source_))
				return fail_opening(*refused, "");
		} else if (!header.own && via_->tells_sources_apart()) {
			/* Otherwise lists and limits would not hold for clients whose proxy does
			 * not know their address. The proxy itself is trusted. */
			return fail_opening(termination::refused_list,
					    "the PROXY header has no IP address");
		}
		proxy_ = std::move(header);
	}
	if (!settings.sni.empty()) {
		tls_hello hello;
		if (auto fault = receive_tls_hello(client_, until, hello, hello_))
			return fail_opening(fault->why, std::move(fault->text));
		sni_ = std::move(hello.name);
	}
	to_ = via_->pool_for(sni_);
	if (!to_) {
		/* It fits into an empty socket's buffer at once. If not, do not wait for long. */
		client_.set_write_deadline(sn::after(std::chrono::seconds(1)));
		static_cast<void>(client_.write_all(tls_unrecognized_name));
		return fail_opening(termination::no_route,
				    sni_.empty() ? "the client asked for no name" : "");
	}
	if (client_address_.empty() && to_->by_source())
		client_address_ = client_.peer_address().value_or("");
	return true;
}

bool session::fail_opening(termination why, std::string text)
{
	ended_ = why;
	error_ = std::move(text);
	if (cause_.load(std::memory_order_relaxed) != cause::none)
		return false; /* it was ended from outside, which is counted already */
	switch (why) {
	case termination::bad_proxy_header:
	case termination::bad_tls_hello:
	case termination::hello_timeout:
		all_.counters.bad_openings.add();
		break;
	case termination::no_route:
		all_.counters.no_route.add();
		break;
	case termination::refused_list:
		all_.counters.denied.add();
		break;
	case termination::refused_limit:
		all_.counters.refused.add();
		break;
	default:
		break;
	}
	return false;
}

/* The PROXY header for the backend; empty if the group asks for none. */
std::string session::opening_for() const
{
	const auto how = to_->settings().send_proxy;
	if (how == proxy_sending::none)
		return {};
	proxy_header header = proxy_ ? *proxy_ : describe(sn_tcp_fd(client_.get()));
	if (!sni_.empty())
		header.authority = sni_;
	return how == proxy_sending::v1 ? write_proxy_v1(header) : write_proxy_v2(header);
}

/* True when the PROXY header and the hello have been sent, and copying can begin. */
bool session::send_opening()
{
	const std::string first = opening_for() + hello_;
	if (first.empty())
		return true;
	const auto idle = via_->settings.idle_timeout;
	const auto until = idle.count() == 0 ? sn::no_deadline : sn::after(idle);
	backend_.set_write_deadline(until);
	const auto sent = backend_.write_all(first);
	if (!sent) {
		/* The kernel reports the same error when it gives up on the backend. */
		const bool late = sent.error() == std::errc::timed_out &&
				  until != sn::no_deadline && sn::now() >= until;
		lost_bytes_ = true;
		ended_ = late ? termination::idle_timeout : termination::server_reset;
		error_ = sent.error().message();
		end(late ? cause::idle : cause::failure);
		return false;
	}
	backend_.set_write_deadline(sn::no_deadline);
	passed_ = hello_.size();
	via_->counts->to_backend.bytes.add(passed_);
	chosen_->counts.to_backend.bytes.add(passed_);
	hello_ = {};
	return true;
}

/* True when a backend is connected, and nothing has ended the session meanwhile. */
bool session::connect()
{
	const auto limit = via_->settings.connect_timeout;
	const auto lifetime = via_->settings.lifetime;
	auto until = limit.count() == 0 ? sn::no_deadline : sn::after(limit);
	if (lifetime.count() != 0 && (until == sn::no_deadline || began_ + lifetime < until))
		until = began_ + lifetime;
	const std::uint64_t source = hash_of(host_of(client_address_));
	std::vector<backend *> tried;

	for (;;) {
		ticket next = to_->choose(source, tried);
		if (!next)
			break;
		if (!tried.empty()) {
			all_.counters.retries.add();
			via_->counts->retries.add();
		}
		tried.push_back(next.get());
		last_tried_ = next.get();

		auto give_up = until;
		if (until != sn::no_deadline && to_->has_other(tried))
			give_up = sn::now() + (until - sn::now()) / 2;
		auto connected = connect_to(*next.get(), source, give_up);
		if (connected) {
			connected_ = sn::now();
			next->counts.connected.add();
			to_->succeeded(*next.get());
			chosen_ = std::move(next);
			const int fd = sn_tcp_fd(connected->get());
			if (!keepalive_can_wait(to_->settings().keepalive))
				probe_backend(fd);
			const std::lock_guard lock(all_.sessions.lock());
			if (is_settled_ && keepalive_can_wait(to_->settings().keepalive))
				probe_backend(fd);
			backend_ = *std::move(connected);
			/* If it was cut meanwhile, only the client could be cancelled. */
			return cause_.load(std::memory_order_relaxed) == cause::none;
		}
		/* If the session was cut while it waited, the backend did not fail. */
		if (cause_.load(std::memory_order_relaxed) != cause::none)
			return false;
		if (lifetime.count() != 0 && sn::now() >= began_ + lifetime) {
			end(cause::lifetime);
			return false;
		}
		next->counts.failures.add();
		const bool ours = is_shortage(connected.error());
		ended_ = ours ? termination::no_memory : termination::connect_failed;
		if (!ours && to_->failed(*next.get()))
			all_.counters.ejections.add();
		error_ = check_error_text(connected.error().value(), next->settings.address);
		if (until != sn::no_deadline && sn::now() >= until)
			break;
	}
	if (tried.empty() && to_->has_other(tried)) {
		ended_ = termination::refused_limit;
		all_.counters.refused.add();
		return false;
	}
	if (tried.empty())
		ended_ = termination::no_backend;
	all_.counters.connect_failed.add();
	return false;
}

/*
 * Whether the first bytes to the backend are ours. They are if there is an opening to send, or if
 * the client has sent bytes already. Clients usually send as soon as they are connected, and are
 * accepted a moment later at the earliest. Short connections of bench-relay, nine alternating
 * rounds with and without this: 16.2 packets for a connection through the relay instead of 18.2,
 * CPU of relay and server 72 and 20 us instead of 80 and 28.
 */
first_words session::whose_first_words() const noexcept
{
	const bool is_ours = !hello_.empty() || to_->settings().send_proxy != proxy_sending::none ||
			     has_come(sn_tcp_fd(client_.get()));
	return is_ours ? first_words::ours : first_words::unknown;
}

/*
 * Retries while the system is out of some resource: the client has been accepted, and can wait
 * until the resource is available again.
 */
sn::result<sn::tcp> session::connect_to(backend &at, std::uint64_t source, sn::deadline until)
{
	using namespace std::chrono_literals;

	const auto is_over = [this] {
		return cause_.load(std::memory_order_relaxed) != cause::none;
	};
	const auto by = to_->by_source() ? std::optional(source) : std::nullopt;
	for (auto pause = 10ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 160ms)) {
		auto connected = connect_to_any(at.counts.addresses, by, until, whose_first_words(),
						is_over);
		if (connected || !is_shortage(connected.error()))
			return connected;
		if ((until != sn::no_deadline && sn::now() >= until) || is_over())
			return connected;
		sn::sleep(pause);
	}
}

void session::relay_both()
{
	auto &of_listener = *via_->counts;
	auto &of_backend = chosen_->counts;
	pacer pace({.each = of_listener.bandwidth_per_connection,
		    .of_listener = of_listener.bandwidth,
		    .of_backend = of_backend.bandwidth,
		    .waits_of_listener = of_listener.throttled,
		    .waits_of_backend = of_backend.throttled,
		    .throttled = all_.counters.throttled});
	const sn_relay_tuning tuning{.closing = 1, .gather = via_->settings.gather};
	const sn::relay_limits limits{.idle = via_->settings.idle_timeout,
				      .half_close = via_->settings.half_close_timeout,
				      .pace = pace.calls(),
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
			/* Only one task copies this way. */
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
	case SN_RELAY_CANCELED: /* by end(), which has recorded the cause */
		break;
	case SN_RELAY_FAILED:
		ended_ = done.error == std::errc::not_enough_memory ? termination::no_memory
			 : done.side == 1                           ? termination::server_reset
								    : termination::client_reset;
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
 * The first cause wins, and ends the relaying. Relaxed: the final value is read only after the
 * relaying has ended.
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
	case cause::cut:
		all_.counters.cut.add();
		break;
	}
	client_.cancel();
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
		client_address_ = client_.peer_address().value_or("");

	access_entry entry;
	entry.time = std::chrono::nanoseconds(sn_walltime());
	entry.cause = ended_;
	entry.listener = counts.name;
	entry.client = client_address_;
	if (last_tried_)
		entry.backend = last_tried_->settings.address;
	entry.peer = proxy_address_;
	entry.sni = sni_;
	entry.error = error_;
	entry.duration = now - began_;
	if (connected)
		entry.connect = connected_ - began_;
	entry.first_byte = first_byte;
	entry.to_backend = done_.a_to_b.bytes_written;
	entry.to_client = done_.b_to_a.bytes_written;
	entry.to_backend_splice = done_.a_to_b.bytes_spliced;
	entry.to_client_splice = done_.b_to_a.bytes_spliced;
	log->write(entry);
} catch (const std::exception &) {
	/* No memory for the text of an address. */
}

/* Takes the lock itself, because connect() sets the backend under it; cut() is called with the
 * lock held. */
void session::outlive() noexcept
{
	const std::lock_guard lock(all_.sessions.lock());
	end(cause::lifetime);
}

void session::cut() noexcept
{
	end(cause::cut);
}

/* If the backend is not connected yet, connect() sets its keepalive. */
bool session::settle(sn::clock::time_point now) noexcept
{
	if (now - began_ < keepalive_delay)
		return false;
	is_settled_ = true;
	if (backend_ && keepalive_can_wait(to_->settings().keepalive))
		probe_backend(sn_tcp_fd(backend_.get()));
	return true;
}

/* The kernel knows at once when the peer of a Unix socket is gone. */
void session::probe_backend(int fd) noexcept
{
	if (!chosen_->is_local)
		set_keepalive_of_new(fd, to_->settings().keepalive);
}

} // namespace relay
