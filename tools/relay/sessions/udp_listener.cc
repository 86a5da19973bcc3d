/* SPDX-License-Identifier: MIT */
#include "sessions/udp_listener.hpp"

#include "backends/backend_events.hpp"
#include "base/address.hpp"
#include "base/descriptors.hpp"
#include "base/sleep.hpp"
#include "sessions/listener.hpp"
#include "sessions/udp_send.hpp"
#include "sessions/udp_session.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fcntl.h>
#include <new>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The most datagrams that one call receives. Only the pages of their buffers that have been
 * filled take memory: 2 MiB for a listener at most. */
constexpr std::size_t batch_most = 32;

/* The receive buffer to ask for, for bursts; net.core.rmem_max limits it. */
constexpr int receive_buffer_asked = 4 << 20;

/* The longest lookup of a listener's name. */
constexpr auto udp_lookup_most = 10s;

/* Whether the socket may receive at every address of the machine. A name may stand for that,
 * too. */
bool may_have_every_address(const std::string &at)
{
	const auto parsed = sn::address::parse(at);
	return !parsed || std::ranges::all_of(parsed->bytes, [](auto byte) { return byte == 0; });
}

sn::udp_options options_for(const std::string &at)
{
	return {.flags = may_have_every_address(at) ? SN_UDP_PACKET_INFO : 0,
		.receive_buffer = receive_buffer_asked,
		.send_buffer = 0};
}

/* See udp_session.hpp for the flag. */
const sn::udp_options options_to_backends = {
	.flags = SN_UDP_ERRORS, .receive_buffer = 0, .send_buffer = 0};

std::string explain_adopting_udp(const std::string &address, int fd, const std::error_code &error)
{
	return "cannot receive at " + address + " with inherited descriptor " + std::to_string(fd) +
	       ": " + error.message() + "; expected a socket of UDP";
}

/* The hash of the client's address, as source-hash computes it for connections. */
std::uint64_t source_of(const sn::address &client)
{
	const std::string text = client.text();
	return hash_of(std::string_view(text).substr(0, text.rfind(':')));
}

ip_address ip_of(const sn::address &at)
{
	return to_ip(at.bytes, at.family == AF_INET6);
}

} // namespace

std::unique_ptr<udp_listener> udp_listener::open(shared &all, const listener_config &settings,
						 std::string &why)
{
	const std::string at(without_udp(settings.address));
	const auto options = options_for(at);
	int handed = -1;
	if (auto adopted =
		    all.inherited.take_udp(settings.name, settings.address, options, handed)) {
		if (*adopted)
			return make(all, settings, **std::move(adopted));
		why = explain_adopting_udp(settings.address, handed, adopted->error());
		return nullptr;
	}
	const sn::scope limit(sn::after(udp_lookup_most));
	auto socket = sn::udp::open(at, options);
	if (socket)
		return make(all, settings, *std::move(socket));
	why = "cannot listen on " + settings.address + ": " + explain_listening(at, socket.error());
	return nullptr;
}

std::unique_ptr<udp_listener> udp_listener::share(shared &all, const listener_config &settings,
						  const listening &of, std::string &why)
{
	const int there = of.to_hand_over().fd();
	if (there < 0) /* its last session has just ended */
		return open(all, settings, why);
	const int fd = fcntl(there, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		why = std::generic_category().message(errno);
	} else if (of.to_hand_over().fd() != there) {
		/* The socket was closed before or during the call, so the duplicate may be of
		 * any other descriptor. */
		::close(fd);
		return open(all, settings, why);
	} else {
		auto socket =
			sn::udp::adopt(fd, options_for(std::string(without_udp(settings.address))));
		if (socket)
			return make(all, settings, *std::move(socket));
		::close(fd);
		why = socket.error().message();
	}
	why = "cannot listen on " + settings.address +
	      " again, where sessions of a previous listener are open: " + why;
	return nullptr;
}

std::unique_ptr<udp_listener> udp_listener::make(shared &all, const listener_config &settings,
						 sn::udp socket)
{
	return std::unique_ptr<udp_listener>(new udp_listener(
		all, settings, std::make_shared<udp_port>(all, std::move(socket))));
}

udp_listener::udp_listener(shared &all, const listener_config &settings,
			   std::shared_ptr<udp_port> port)
    : all_(all), port_(std::move(port)), address_("udp:" + port_->bound.text()),
      asked_name_(settings.name), asked_address_(settings.address),
      task_name_("receive " + address_),
      dropped_before_(dropped_by_system(port_->socket.native_handle()))
{
}

udp_listener::~udp_listener()
{
	if (!is_started_)
		return;
	ends_.store(true); /* before wake(), see udp_port.hpp */
	port_->wake();
	entrance_.open();
	receiving_.join();
}

handed_listener udp_listener::to_hand_over() const
{
	handed_listener made;
	made.name = asked_name_;
	made.address = asked_address_;
	made.datagrams = port_->socket.get();
	return made;
}

/* Port 0 is a different port each time, so such listeners are matched by name. */
bool udp_listener::serves(const listener_config &settings) const
{
	return settings.address == asked_address_ &&
	       (!is_any(settings.address) || settings.name == asked_name_);
}

void udp_listener::use(std::shared_ptr<route> via) noexcept
{
	via->counts->datagrams.are_there.store(true, std::memory_order_relaxed);
	const std::lock_guard lock(lock_);
	via_.swap(via); /* the last reference to the old route is released without the lock */
}

void udp_listener::use_lists(std::shared_ptr<const listener_config> read) noexcept
{
	via()->use_lists(std::move(read));
}

std::shared_ptr<route> udp_listener::via()
{
	const std::lock_guard lock(lock_);
	return via_;
}

/* The task itself must not fail, because nobody would receive then, so it allocates nothing. */
void udp_listener::start()
{
	buffers_ = std::make_unique_for_overwrite<char[]>(batch_most * udp_buffer_size);
	batch_.resize(batch_most);
	receiving_ = sn::spawn([this] { serve(); }, {.name = task_name_.c_str()});
	is_started_ = true;
}

void udp_listener::close()
{
	const auto goes_on = [this] { return lingers() && !port_->is(udp_port::phase::given_up); };
	if (!is_started_ || goes_on())
		return;
	port_->wake();
	/* Polling is simple. A client that came before the listener was stopped may get its
	 * session only now; then the task continues to serve it. */
	for (; !closed_.load(std::memory_order_acquire); sleep_fully(1ms))
		if (goes_on())
			return;
	receiving_.join();
	is_started_ = false;
}

void udp_listener::serve()
{
	entrance_.pass();
	while (!ends_.load() && !port_->is_over()) {
		for (std::size_t i = 0; i < batch_most; i++) {
			batch_[i].data = buffers_.get() + i * udp_buffer_size;
			batch_[i].size = udp_buffer_size;
		}
		const auto n = port_->socket.receive(batch_);
		if (n) {
			for (std::size_t i = 0; i < *n; i++)
				take(batch_[i]);
		} else if (n.error() != std::errc::timed_out) { /* timed out: woken */
			/* There may be no memory for a timer. The pause bounds the number of
			 * reports. */
			try_to_tell([&] {
				emit(event_kind::accept_failed,
				     "cannot receive at " + address_ + ": " + n.error().message(),
				     {{"address", address_}, {"error", n.error().message()}});
			});
			sleep_fully(100ms);
		}
		count_dropped();
		watch_time(!n);
	}
	via()->counts->datagrams.drop(udp_drop::stopping, pending_.expire(INT64_MAX).datagrams);
	/* No session is left that would answer through the socket. Only the descriptor is
	 * closed, because others may still look at the object. */
	if (port_->is(udp_port::phase::retiring) && port_->is_empty())
		sn_udp_close(port_->socket.get());
	closed_.store(true, std::memory_order_release);
}

/* Drops clients whose hello is late, and sets the deadline for the next one. This may overwrite
 * the deadline that was set to wake the task, so the loop checks after this whether it must end. */
void udp_listener::watch_time(bool is_woken)
{
	if (const auto late = pending_.expire(sn_now()); late.clients > 0) {
		all_.counters.bad_openings.add(late.clients);
		via()->counts->datagrams.drop(udp_drop::bad_hello, late.datagrams);
	}
	const auto next = pending_.next();
	if (next == watched_ && !is_woken)
		return;
	watched_ = next;
	port_->socket.set_read_deadline(
		next == INT64_MAX ? sn::no_deadline : sn::deadline(std::chrono::nanoseconds(next)));
}

/* Costs a system call for each batch, which is little beside those for the datagrams. */
void udp_listener::count_dropped()
{
	const auto now = dropped_by_system(port_->socket.native_handle());
	if (now > dropped_before_)
		via()->counts->datagrams.drop(udp_drop::receive_buffer, now - dropped_before_);
	dropped_before_ = now;
}

void udp_listener::take(const sn::udp_message &message)
{
	const std::string_view datagram(static_cast<const char *>(message.data), message.length);
	const udp_key key{message.peer,
			  port_->has_every_address ? sn::address(message.local) : sn::address()};
	if (const auto session = port_->find(key, sn_now())) {
		if (!session->is_ending() && session->pass_on(datagram))
			return;
		session->free_places();
		port_->remove(*session);
	}
	try {
		begin(key, datagram);
	} catch (const std::exception &) {
		via()->counts->datagrams.drop(udp_drop::no_room);
		tell_shortage();
	}
}

void udp_listener::begin(const udp_key &key, std::string_view datagram)
{
	const auto via = this->via();
	if (!port_->is(udp_port::phase::open))
		via->counts->datagrams.drop(udp_drop::stopping);
	else if (const auto why = deny(*via, key))
		via->counts->datagrams.drop(*why);
	else if (!via->settings.sni.empty())
		read_hello(via, key, datagram);
	else
		begin_session(via, via->others.get(), key, {{}, datagram}, "");
}

void udp_listener::read_hello(const std::shared_ptr<route> &via, const udp_key &key,
			      std::string_view datagram)
{
	auto &drops = via->counts->datagrams;
	auto *client = pending_.find(key);
	quic_hello begun;
	tls_hello hello;
	const auto state = (client ? client->hello : begun).add(datagram, hello);
	if (state == quic_hello::state::more) {
		if (!client) {
			const auto most = via->settings.hello_timeout.count();
			std::size_t lost = 0;
			client = &pending_.add(key, most == 0 ? INT64_MAX : sn_now() + most,
					       std::move(begun), lost);
			drops.drop(udp_drop::no_room, lost);
		}
		/* The client sends again what is lost. If it was given up instead, what it sends
		 * next would not be its beginning. */
		if (!udp_pending::keep(*client, datagram))
			drops.drop(udp_drop::bad_hello);
		return;
	}
	/* A forged datagram does not end what a client has begun. */
	const bool is_over =
		client && (state == quic_hello::state::done || client->datagrams.empty());
	std::vector<std::string> kept;
	if (is_over) {
		kept.swap(client->datagrams);
		pending_.remove(*client);
	}
	switch (state) {
	case quic_hello::state::done:
		return begin_session(via, via->pool_for(hello.name, {}), key, {kept, datagram},
				     hello.name);
	case quic_hello::state::early:
		return drops.drop(udp_drop::bad_hello);
	case quic_hello::state::not_first:
		if (via->others)
			return begin_session(via, via->others.get(), key, {{}, datagram}, "");
		break;
	case quic_hello::state::other_version:
		answer_version(key, datagram);
		break;
	case quic_hello::state::more:
	case quic_hello::state::bad:
		break;
	}
	all_.counters.bad_openings.add();
	drops.drop(udp_drop::bad_hello, kept.size() + 1);
}

/*
 * Answers only a datagram that is as large as a first datagram must be (RFC 9000, section 6). The
 * answer has two connection ids of at most 255 bytes each and 11 bytes more, so the victim of a
 * forged address gets less than half of what the forger sent. It is sent without waiting, because a
 * wait would hold up all clients. If there is no room for it, it is lost, and the client asks
 * again.
 */
void udp_listener::answer_version(const udp_key &key, std::string_view datagram)
{
	constexpr std::size_t first_least = 1200;
	if (datagram.size() < first_least)
		return;
	answer_at_once(*port_, key, write_version_negotiation(read_quic_packet(datagram)));
}

/* to: null if no group serves the name. */
void udp_listener::begin_session(const std::shared_ptr<route> &via, pool *to, const udp_key &key,
				 const first_datagrams &first, const std::string &sni)
{
	auto &drops = via->counts->datagrams;
	const auto all = first.kept.size() + 1;
	if (!to) {
		all_.counters.no_route.add();
		return drops.drop(udp_drop::no_route, all);
	}
	try {
		try_session(via, *to, key, first, sni);
	} catch (const std::exception &) {
		drops.drop(udp_drop::no_room, all);
		tell_shortage();
	}
}

/* Opens a session and passes the first datagrams on. Throws only if nothing was passed on. */
void udp_listener::try_session(const std::shared_ptr<route> &via, pool &to, const udp_key &key,
			       const first_datagrams &first, const std::string &sni)
{
	auto &drops = via->counts->datagrams;
	const auto all = first.kept.size() + 1;
	auto why = udp_drop::backend_failed;
	/* Tries another backend if the first one refuses before anything was sent to it. */
	for (std::size_t tries = 0; tries < 2; tries++) {
		const auto made = open_session(via, to, key, sni, tries == 0, why);
		if (!made)
			break;
		for (std::size_t i = 0; i < all; i++)
			made->asked(sn_now());
		port_->add(made);
		try {
			sn::go([made] { made->run(); },
			       {.name = "datagrams", .flags = SN_TASK_BRIEF});
		} catch (...) {
			port_->remove(*made); /* no task would ever end it */
			throw;
		}
		std::size_t passed = 0;
		while (passed < first.kept.size() && made->pass_on(first.kept[passed]))
			passed++;
		if (passed == first.kept.size() && made->pass_on(first.last))
			return;
		made->free_places();
		port_->remove(*made);
		why = udp_drop::backend_failed;
		if (passed > 0) /* a datagram is passed on at most once */
			return drops.drop(why, all - passed);
	}
	drops.drop(why, all);
}

/* The reason not to look at any datagram of this client, if there is one. Called before anything
 * is answered, and costs no system call. */
std::optional<udp_drop> udp_listener::deny(const route &via, const udp_key &key)
{
	if (key.client.port == 0 || all_.udp_addresses.has(key.client))
		return udp_drop::bad_source;
	if (via.denies(ip_of(key.client))) {
		all_.counters.denied.add();
		return udp_drop::refused_list;
	}
	return std::nullopt;
}

/* The reason to give this client no session, if there is one. is_new: it counts for the rates. */
std::optional<udp_drop> udp_listener::refuse(const route &via, const udp_key &key, bool is_new,
					     source_ticket &counted)
{
	const auto &settings = via.settings;
	auto &counts = *via.counts;
	if (via.tells_sources_apart()) {
		const auto refused = via.refuses(ip_of(key.client), counted, is_new);
		if (refused == termination::refused_list) {
			all_.counters.denied.add();
			return udp_drop::refused_list;
		}
		if (refused == termination::refused_rate) {
			tell_limit(counts.name, "accept_rate_per_source");
			all_.counters.rate_refused.add();
			return udp_drop::refused_rate;
		}
		if (refused) {
			tell_limit(counts.name, "max_connections_per_source");
			all_.counters.refused.add();
			return udp_drop::refused_limit;
		}
	}
	if (is_new && settings.accept_rate &&
	    !counts.rate.enter(sn_now(), settings.accept_rate, settings.accept_burst)) {
		tell_limit(counts.name, "accept_rate");
		all_.counters.rate_refused.add();
		return udp_drop::refused_rate;
	}
	return std::nullopt;
}

/* Opens a session. If that fails, returns null, and `why` has the reason for dropping the
 * datagram. is_new: false in another attempt for the same datagram. */
std::shared_ptr<udp_session> udp_listener::open_session(const std::shared_ptr<route> &via, pool &to,
							const udp_key &key, const std::string &sni,
							bool is_new, udp_drop &why)
{
	auto &counts = *via->counts;
	source_ticket counted;
	/* The client is a backend of the pool: it would answer the answers of the other
	 * backends, or its own. */
	if (to.has_endpoint(key.client.text())) {
		why = udp_drop::bad_source;
		return nullptr;
	}
	if (const auto refused = refuse(*via, key, is_new, counted)) {
		why = *refused;
		return nullptr;
	}
	if (pause_.lasts(sn_now(), all_.sessions.alive())) {
		tell_shortage();
		why = udp_drop::no_room;
		return nullptr;
	}
	if (!enter(*via)) {
		tell_limit(counts.name, "max_connections");
		all_.counters.refused.add();
		why = udp_drop::refused_limit;
		return nullptr;
	}
	if (!all_.sessions.reserve()) {
		counts.active.fetch_sub(1, std::memory_order_relaxed);
		tell_shortage();
		why = udp_drop::no_room;
		return nullptr;
	}
	udp_places places(all_.sessions, via->counts);

	if (const auto is_own = all_.udp_addresses.has_among_all(key.client); !is_own) {
		why = pause();
		return nullptr;
	} else if (*is_own) {
		why = udp_drop::bad_source;
		return nullptr;
	}

	const std::uint64_t source = to.by_source() ? source_of(key.client) : 0;
	tried_endpoints tried;
	for (;;) {
		ticket chosen = to.choose(source, tried, pool::use::datagrams);
		if (!chosen) {
			tell_no_backend(counts.name, to);
			why = udp_drop::no_backend;
			return nullptr;
		}
		tried.push_back(chosen.get());
		auto socket = sn::udp::connect(chosen->address, sn::now(), options_to_backends);
		if (socket)
			return std::make_shared<udp_session>(
				udp_session::parts{.port = port_,
						   .via = via,
						   .to = to,
						   .key = key,
						   .places = std::move(places),
						   .source = std::move(counted),
						   .chosen = std::move(chosen),
						   .backend = *std::move(socket),
						   .sni = sni});
		if (is_shortage_for_datagrams(socket.error())) {
			why = pause();
			return nullptr;
		}
		chosen->counts.failures.add();
		const bool is_ejected = to.failed(*chosen.get());
		if (is_ejected)
			all_.counters.ejections.add();
		tell_failed(counts.name, to, *chosen.get(), socket.error(), {}, false, is_ejected);
	}
}

/* Pauses, because a socket could not be had for a session, whose place is reserved. */
udp_drop udp_listener::pause()
{
	pause_.begin(sn_now(), all_.sessions.alive() - 1);
	tell_shortage();
	return udp_drop::no_room;
}

void udp_listener::tell_shortage()
{
	if (!no_room_.begins(sn_now()))
		return;
	emit(event_kind::no_room,
	     "no more sessions fit into the limit of open files or the range of ports, so "
	     "datagrams of new clients of " +
		     address_ + " are dropped",
	     {{"address", address_}, {"limit", std::uint64_t{all_.sessions.most()}}});
}

} // namespace relay
