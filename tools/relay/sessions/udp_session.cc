/* SPDX-License-Identifier: MIT */
#include "sessions/udp_session.hpp"

#include "backends/backend_events.hpp"
#include "base/descriptors.hpp"
#include "base/sleep.hpp"
#include "base/udp_reports.hpp"
#include "sessions/udp_send.hpp"
#include "stats/events.hpp"
#include "wire/proxy_header.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <linux/sock_diag.h>
#include <optional>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The idle timeout while the relay stops. A client that waits for an answer usually has it
 * sooner. */
constexpr std::chrono::nanoseconds idle_while_stopping = 1s;

/* Whether an error that a send returns may be a report about an earlier datagram that ends nothing:
 * about its size or its fragments, or one that may pass, after the first answer. */
bool may_end_nothing(int error) noexcept
{
	return error == EMSGSIZE || error == EHOSTUNREACH || error == ENETUNREACH;
}

proxy_end proxy_end_of(const sn_address &at)
{
	proxy_end end;
	std::copy_n(at.bytes, sizeof at.bytes, end.ip.begin());
	end.port = at.port;
	return end;
}

/* The PROXY header for each datagram; empty if the group asks for none. */
std::string header_for(const pool &to, const udp_key &key, const udp_port &port,
		       const std::string &sni)
{
	if (to.settings().send_proxy == proxy_sending::none)
		return {};
	proxy_header header;
	header.of = key.client.family == AF_INET6 ? proxy_header::family::ipv6
						  : proxy_header::family::ipv4;
	header.datagram = true;
	header.authority = sni;
	header.source = proxy_end_of(key.client);
	header.destination = proxy_end_of(key.local ? key.local : port.bound);
	header.destination.port = port.bound.port;
	return write_proxy_v2(header);
}

bool is_within(bucket &limit, std::uint64_t bytes) noexcept
{
	return limit.most() == 0 || limit.take_at_once(bytes, sn_now());
}

/* Takes the bytes from the buckets if they may be moved now. */
bool is_within_both(buckets &a, buckets &b, sn_relay_direction way, std::uint64_t bytes) noexcept
{
	if (!is_within(a[way], bytes))
		return false;
	if (is_within(b[way], bytes))
		return true;
	if (a[way].most() != 0)
		a[way].give_back(bytes);
	return false;
}

} // namespace

std::uint64_t dropped_by_system(int fd) noexcept
{
	std::uint32_t counts[SK_MEMINFO_VARS] = {};
	socklen_t size = sizeof counts;
	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, counts, &size) != 0)
		return 0;
	return counts[SK_MEMINFO_DROPS];
}

udp_session::udp_session(parts of)
    : places_(std::move(of.places)), port_(std::move(of.port)), via_(std::move(of.via)),
      source_(std::move(of.source)), to_(of.to), key_(of.key), chosen_(of.chosen.get()),
      place_(std::move(of.chosen)), backend_(std::move(of.backend)), sni_(std::move(of.sni)),
      header_(header_for(to_, key_, *port_, sni_))
{
	via_->counts->accepted.add();
	port_->all.counters.accepted.add();
	port_->all.counters.active.add();
	chosen_->counts.connected.add();
	port_->all.sessions.add(*this);
}

udp_session::~udp_session()
{
	auto &all = port_->all;
	all.sessions.leave(*this);
	end(termination::no_memory); /* has an effect only if it never had a task */
	record_end();
	all.counters.active.subtract();
}

/* The datagram that was counted by asked() is dropped, so nothing answers it. If the last answer to
 * the others comes at this moment, this task or the session's notices that it was the last. */
void udp_session::not_asked() noexcept
{
	asked_.fetch_sub(1);
	if (has_all_answers())
		look_again();
}

bool udp_session::has_all_answers() const noexcept
{
	const std::uint64_t each = via_->settings.responses;
	const std::uint64_t answers = answered_.load();
	return each != 0 && answers != 0 && answers >= each * asked_.load();
}

std::int64_t udp_session::over_at() const noexcept
{
	const auto &settings = via_->settings;
	auto idle = settings.idle_timeout;
	if (port_->is_stopping())
		idle = std::min(idle, idle_while_stopping);
	std::int64_t at = active_at_.load(std::memory_order_relaxed) + idle.count();
	if (settings.lifetime.count() != 0)
		at = std::min(at, began_ + settings.lifetime.count());
	return has_all_answers() ? began_ : at;
}

bool udp_session::end_if_over(std::int64_t now) noexcept
{
	if (now < over_at())
		return false;
	end(why_over(now));
	return true;
}

bool udp_session::pass_on(std::string_view datagram) noexcept
{
	auto &counts = *via_->counts;
	const auto drop = [&](udp_drop why) {
		counts.datagrams.drop(why);
		not_asked();
		return true;
	};
	if (!is_within_both(counts.bandwidth, chosen_->counts.bandwidth, SN_RELAY_A_TO_B,
			    datagram.size()))
		return drop(udp_drop::bandwidth);

	iovec pieces[] = {{const_cast<char *>(header_.data()), header_.size()},
			  {const_cast<char *>(datagram.data()), datagram.size()}};
	msghdr message{};
	message.msg_iov = pieces;
	message.msg_iovlen = 2;
	ssize_t n = -1;
	bool is_reported = false;
	/* The error may be about an earlier datagram; then this one is sent once more. A report
	 * that is final is missed if it comes here after the first answer, but this datagram then
	 * causes another. */
	for (int tries = 0; tries < 2; tries++) {
		n = send_at_once(backend_.native_handle(), message);
		if (n >= 0 || !may_end_nothing(errno))
			break;
		const int error = errno;
		if (const int reported = take_reports(is_reported)) {
			lose_connection(reported);
			return false;
		}
		errno = error;
	}
	if (n >= 0) {
		counts.datagrams.to_backend.add();
		counts.to_backend.bytes.add(datagram.size());
		chosen_->counts.to_backend.bytes.add(datagram.size());
		datagrams_to_backend_++;
		bytes_to_backend_ += datagram.size();
		return true;
	}
	switch (errno) {
	case EMSGSIZE:
		return drop(udp_drop::too_large);
	case EHOSTUNREACH:
	case ENETUNREACH:
		/* Otherwise the machine itself has no route. */
		if (is_reported)
			return drop(udp_drop::not_sent);
		lose_connection(errno);
		return false;
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case EPERM: /* a firewall of this machine */
		return drop(udp_drop::not_sent);
	default:
		lose_connection(errno);
		return false;
	}
}

void udp_session::free_places() noexcept
{
	const std::lock_guard lock(freeing_);
	places_.leave_listener();
	const source_ticket source = std::move(source_);
	const ticket place = std::move(place_);
}

void udp_session::run() noexcept
{
	try {
		receive();
	} catch (const std::exception &) {
		end(termination::no_memory);
	}
	free_places();
	port_->remove(*this);
}

void udp_session::receive()
{
	/* The buffer is not on the stack, where the compiler would touch each of its pages. On
	 * the heap only the pages that datagrams have filled take memory: usually one. */
	const auto room = std::make_unique_for_overwrite<char[]>(udp_buffer_size);
	char *const buf = room.get();
	look_again();
	while (!is_ending()) {
		const ssize_t n = receive_in_time(buf);
		if (n >= 0) {
			if (!take(buf, static_cast<std::size_t>(n)))
				return;
		} else if (n == -EAGAIN) {
			if (port_->end_if_over(*this, sn_now()))
				return;
			wait_until_over();
		} else if (n == -ENOMEM || n == -ENOBUFS) {
			sleep_fully(10ms);
		} else if (n == -ECANCELED || n == -EBADF) {
			return; /* by end() */
		} else if (n == -EMSGSIZE || (n == -EHOSTUNREACH && !is_answered())) {
			/* A router's next link takes less: the system has noted that, and sends
			 * fragments from now on. Or fragments were lost. Or the report is final; if
			 * there is none, the listener's task has it. */
			bool is_any = false;
			if (const int reported = take_reports(is_any))
				lose_connection(reported);
			static_cast<void>(sn_yield());
		} else if (n != -EINTR) {
			lose_connection(static_cast<int>(-n));
		}
	}
}

/* Receives an answer. Fails with EAGAIN if there is none and the deadline has passed. */
ssize_t udp_session::receive_in_time(char *buf)
{
	ssize_t n = sn_udp_recv(backend_.get(), buf, udp_buffer_size, nullptr);
	if (n != -ETIMEDOUT)
		return n;
	/* A backend that sends all the time must not put off the end of the lifetime. */
	if (is_past_lifetime(sn_now()))
		return -EAGAIN;
	/* An answer may have come at the last moment, or before this task ran. */
	n = recv(backend_.native_handle(), buf, udp_buffer_size, MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	/* The answer has moved the end. */
	active_at_.store(sn_now(), std::memory_order_relaxed);
	wait_until_over();
	return n;
}

bool udp_session::is_past_lifetime(std::int64_t now) const noexcept
{
	const auto life = via_->settings.lifetime.count();
	return life != 0 && now >= began_ + life;
}

/* Sets the deadline. stop() may move the end forward just before that; then it is set again. */
void udp_session::wait_until_over()
{
	std::int64_t at = 0;
	do {
		at = over_at();
		backend_.set_read_deadline(sn::deadline(std::chrono::nanoseconds(at)));
	} while (over_at() < at);
}

/* Handles an answer. Returns false if it was the last one. */
bool udp_session::take(char *buf, std::size_t size)
{
	active_at_.store(sn_now(), std::memory_order_relaxed);
	if (!is_answered())
		first_answer();
	if (!answer(buf, size))
		return false;
	answered_.fetch_add(1);
	if (has_all_answers() && port_->end_if_over(*this, sn_now()))
		return false;
	ignore_passing_reports();
	return true;
}

/* The reason for which it is over at that time. */
termination udp_session::why_over(std::int64_t now) const noexcept
{
	if (has_all_answers())
		return port_->all.registry.ready() ? termination::server_end : termination::drained;
	if (is_past_lifetime(now))
		return termination::lifetime;
	return port_->is_stopping() ? termination::drained : termination::idle_timeout;
}

void udp_session::first_answer() noexcept
{
	first_answer_.store(sn_now() - began_, std::memory_order_relaxed);
	tell_succeeded(to_, *chosen_.get());
	to_.succeeded(*chosen_.get());
}

/* Makes the system keep no more errors, and discard those that may pass. Takes an error of before
 * that which no call has returned yet: a client that has its answer may have asked again by now. An
 * error that the system is returning at this very moment may still end the session. */
void udp_session::ignore_passing_reports() noexcept
{
	if (!std::exchange(keeps_reports_, false))
		return;
	const int fd = backend_.native_handle();
	keep_reports(fd, chosen_->address.starts_with('['), false);
	int error = 0;
	socklen_t size = sizeof error;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0 &&
	    !may_end_nothing(error))
		lose_connection(error);
}

int udp_session::take_reports(bool &is_any) noexcept
{
	const int error = relay::take_reports(backend_.get(), is_any);
	/* After an answer they may pass, and are about to be discarded. */
	return is_answered() ? 0 : error;
}

/* Sends by the simple call where possible: messages take more stack, and each session would keep
 * that. */
sn::result<void> udp_session::send_to_client(char *bytes, std::size_t size)
{
	if (!key_.local)
		return port_->socket.send(bytes, size, key_.client);
	sn::udp_message message{};
	message.data = bytes;
	message.size = size;
	message.peer = key_.client;
	message.local = key_.local;
	const auto sent = port_->socket.send(std::span<const sn::udp_message>(&message, 1));
	if (!sent)
		return sn::unexpected(sent.error());
	return {};
}

/* Sends an answer. Waits while the socket has no room, which holds up only this session. Returns
 * false if the socket has been closed. */
bool udp_session::answer(char *bytes, std::size_t size)
{
	auto &counts = *via_->counts;
	if (!is_within_both(counts.bandwidth, chosen_->counts.bandwidth, SN_RELAY_B_TO_A, size)) {
		counts.datagrams.drop(udp_drop::bandwidth);
		return true;
	}
	const auto sent = send_to_client(bytes, size);
	if (sent) {
		counts.datagrams.to_client.add(1);
		counts.to_client.bytes.add(size);
		chosen_->counts.to_client.bytes.add(size);
		datagrams_to_client_++;
		bytes_to_client_ += size;
		return true;
	}
	counts.datagrams.drop(sent.error() == std::errc::message_size ? udp_drop::too_large
								      : udp_drop::not_sent);
	return sent.error() != std::errc::bad_file_descriptor;
}

/* Ends the session because datagrams do not reach the backend. */
void udp_session::lose_connection(int error) noexcept
{
	const std::error_code why(error, std::generic_category());
	if (!end(is_answered() ? termination::server_reset : termination::connect_failed))
		return;
	error_.store(error, std::memory_order_relaxed);
	const bool ours = is_shortage(why);
	if (!ours)
		chosen_->counts.failures.add();
	const bool is_ejected = !ours && to_.failed(*chosen_.get());
	if (is_ejected)
		port_->all.counters.ejections.add();
	tell_failed(via_->counts->name, to_, *chosen_.get(), why, {}, ours, is_ejected);
}

/* Ends the session for the first reason that is given. Returns true if it is this one. */
bool udp_session::end(termination why) noexcept
{
	auto none = termination::count_;
	if (!ended_.compare_exchange_strong(none, why, std::memory_order_relaxed))
		return false;
	auto &counts = port_->all.counters;
	switch (why) {
	case termination::connect_failed:
		counts.connect_failed.add();
		break;
	case termination::server_reset:
		counts.resets.add();
		break;
	case termination::idle_timeout:
		counts.idle_timeouts.add();
		break;
	case termination::lifetime:
		counts.lifetimes.add();
		break;
	case termination::backend_down:
		counts.backend_down.add();
		break;
	case termination::killed:
		counts.killed.add();
		break;
	case termination::cut:
		counts.cut.add();
		break;
	case termination::no_memory:
		counts.no_memory.add();
		break;
	default:
		break;
	}
	backend_.cancel();
	return true;
}

bool udp_session::lose_backend(const endpoint &which) noexcept
{
	return chosen_.get() == &which && end(termination::backend_down);
}

bool udp_session::kill(const session_filter &which) noexcept
{
	const sn::address &client = key_.client;
	const auto ip = to_ip(client.bytes, client.family == AF_INET6);
	return which.fits(via_->counts->name, to_.name(), chosen_->backend, chosen_->address) &&
	       (which.client.empty() || which.fits_client(ip, client.scope)) &&
	       end(termination::killed);
}

/* Called when no other task has the session any more. */
void udp_session::record_end() noexcept
try {
	auto &counts = *via_->counts;
	const auto ended = ended_.load(std::memory_order_relaxed);
	const std::int64_t now = sn_now();
	if (const auto lost = dropped_by_system(backend_.native_handle()))
		counts.datagrams.drop(udp_drop::receive_buffer, lost);
	for (auto *each : {&counts.to_backend, &chosen_->counts.to_backend})
		each->userspace.add(bytes_to_backend_);
	for (auto *each : {&counts.to_client, &chosen_->counts.to_client})
		each->userspace.add(bytes_to_client_);
	const auto first_answer = first_answer_.load(std::memory_order_relaxed);
	if (first_answer >= 0)
		counts.first_byte.record(std::chrono::nanoseconds(first_answer));
	counts.duration.record(std::chrono::nanoseconds(now - began_));
	counts.ended[static_cast<std::size_t>(ended)].add();
	const auto log = port_->all.access_log.get();
	if (!log)
		return;
	const std::string client = key_.client.text();
	const int error = error_.load(std::memory_order_relaxed);
	const std::string why = error ? check_error_text(error, chosen_->address) : "";
	access_entry entry;
	entry.time = std::chrono::nanoseconds(sn_walltime());
	entry.cause = ended;
	entry.listener = counts.name;
	entry.client = client;
	entry.backend = chosen_->backend;
	if (chosen_->resolved())
		entry.endpoint = chosen_->address;
	entry.sni = sni_;
	entry.error = why;
	entry.duration = std::chrono::nanoseconds(now - began_);
	entry.first_byte = std::chrono::nanoseconds(first_answer);
	entry.to_backend = bytes_to_backend_;
	entry.to_client = bytes_to_client_;
	entry.datagrams = {{datagrams_to_backend_, datagrams_to_client_}};
	log->write(entry);
} catch (const std::exception &) {
	/* There is no memory for the texts. */
}

} // namespace relay
