/* SPDX-License-Identifier: MIT */
/* The beginning of a session: what the client sends first, and what its backend gets first. */
#include "sessions/session.hpp"

#include "backends/backend_events.hpp"
#include "stats/events.hpp"
#include "wire/opening.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <utility>

namespace relay
{
namespace
{

/* The path or name of an end of a Unix socket, in the form of a PROXY header; nothing if the
 * socket is of another kind. */
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

/* Describes a client's connection for a PROXY header, without addresses if it has been reset. */
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
		/* A client that has gone has no name any more; its header has an empty one. */
		header.source.path = unix_name_of(fd, getpeername).value_or("");
		header.destination.path = *std::move(listener);
	}
	return header;
}

/* If both addresses of a header are IPv4 addresses in IPv6 form, turns them into IPv4, because
 * many programs refuse the mapped form. */
void unmap(proxy_header &header) noexcept
{
	using family = proxy_header::family;
	if (header.of != family::ipv6)
		return;
	const auto source = to_ip(header.source.ip.data(), true);
	const auto destination = to_ip(header.destination.ip.data(), true);
	if (source.is_ipv6 || destination.is_ipv6)
		return;
	header.of = family::ipv4;
	header.source.ip = source.bytes;
	header.destination.ip = destination.bytes;
}

/* Puts the facts of the client's TLS that ends here into the header, in place of what a proxy
 * has said. */
void describe_tls(const tls_facts &facts, proxy_header &into)
{
	into.alpn = facts.alpn;
	into.tls = true;
	proxy_tls &says = into.about_tls.emplace();
	says.version = facts.version;
	says.cipher = facts.cipher;
	says.has_certificate = facts.has_certificate;
	says.shown_now = facts.has_certificate && !facts.resumed;
	says.common_name = facts.common_name;
	into.tls_bytes.clear();
}

/* Whether the error means that the peer has ended the connection. */
bool is_gone(const std::error_code &error) noexcept
{
	return error == std::errc::broken_pipe || error == std::errc::connection_reset;
}

/* 128 random bits as text: logs of both sides can be compared by it. */
std::string make_id()
{
	static constexpr char digits[] = "0123456789abcdef";
	std::array<unsigned char, 16> bits{};
	/* getrandom() of a few bytes cannot fail once the system has started. */
	static_cast<void>(getrandom(bits.data(), bits.size(), 0));
	std::string text;
	for (const unsigned char each : bits) {
		text += digits[each >> 4];
		text += digits[each & 15];
	}
	return text;
}

} // namespace

/* Determines the client's address and the pool. Returns false if that fails; then the session is
 * over. */
bool session::receive_opening()
{
	const auto &settings = via_->settings;
	const bool has_proxy_header = settings.expects_header();
	if (all_.access_log)
		(has_proxy_header ? proxy_address_ : client_address_) = address_of(client_);

	const auto until = settings.hello_timeout.count() == 0 ? sn::no_deadline
							       : began_ + settings.hello_timeout;
	if (has_proxy_header && !receive_proxy(until))
		return false;
	if (settings.reads_hello()) {
		tls_hello hello;
		if (auto fault = receive_tls_hello(client_, until, hello, hello_))
			return fail_opening(fault->why, std::move(fault->text));
		sni_ = std::move(hello.name);
		return find_pool(hello.alpn);
	}
	if (!via_->tls)
		return find_pool({});
	if (!receive_tls(until))
		return false;
	sni_ = tls_->server_name;
	return find_pool(tls_->alpn.empty() ? ""
					    : static_cast<char>(tls_->alpn.size()) + tls_->alpn);
}

/* Receives the header that a proxy in front of the relay sends. */
bool session::receive_proxy(sn::deadline until)
{
	proxy_header header;
	if (auto fault = receive_proxy_header(client_, until, header)) {
		client_address_ = std::exchange(proxy_address_, {});
		return fail_opening(fault->why, std::move(fault->text));
	}
	using family = proxy_header::family;
	if (header.of == family::none) {
		/* The connection is the proxy's own, or the proxy does not know whose it is. */
		client_address_ = std::exchange(proxy_address_, {});
	} else {
		unmap(header);
		client_address_ = without_mapping(to_text(header, header.source));
	}
	if (header.of == family::ipv4 || header.of == family::ipv6) {
		const auto ip = to_ip(header.source.ip.data(), header.of == family::ipv6);
		if (const auto refused = via_->refuses(ip, source_))
			return fail_opening(*refused, "");
	} else if (!header.own && via_->tells_sources_apart()) {
		/* Without an address, lists and limits could not apply to the client. The
		 * proxy's own connections are trusted. */
		return fail_opening(termination::refused_list,
				    "the PROXY header has no IP address");
	}
	proxy_ = std::move(header);
	return true;
}

/* Finds the pool by the name and the protocols that the client asks for. */
bool session::find_pool(std::string_view protocols)
{
	to_ = via_->pool_for(sni_, protocols);
	if (!to_) {
		/* The alert fits into the empty buffer of the socket; if not, the wait is short.
		 * A client whose handshake is complete gets close_notify. */
		client_.set_write_deadline(sn::after(std::chrono::seconds(1)));
		if (!tls_)
			static_cast<void>(client_.write_all(tls_unrecognized_name));
		return fail_opening(termination::no_route,
				    sni_.empty() ? "the client asked for no name" : "");
	}
	return true;
}

bool session::fail_opening(termination why, std::string text)
{
	ended_ = why;
	error_ = std::move(text);
	if (cause_.load(std::memory_order_relaxed) != cause::none)
		return false; /* something else has ended it, and counted that */
	switch (why) {
	case termination::bad_proxy_header:
	case termination::bad_tls_hello:
	case termination::hello_timeout:
	case termination::tls_timeout:
	case termination::tls_failed:
		all_.counters.bad_openings.add();
		break;
	case termination::no_route:
		all_.counters.no_route.add();
		break;
	case termination::refused_list:
		all_.counters.denied.add();
		break;
	case termination::refused_rate:
		tell_limit(via_->counts->name, "accept_rate_per_source");
		all_.counters.rate_refused.add();
		break;
	case termination::refused_limit:
		tell_limit(via_->counts->name, "max_connections_per_source");
		all_.counters.refused.add();
		break;
	default:
		break;
	}
	return false;
}

/* The PROXY header for the backend; empty if the group asks for none. */
std::string session::opening_for()
{
	const auto how = to_->settings().send_proxy;
	if (how == proxy_sending::none)
		return {};
	proxy_header header = proxy_ ? *proxy_ : describe(client_.native_handle());
	if (!sni_.empty())
		header.authority = sni_;
	if (how == proxy_sending::v1)
		return write_proxy_v1(header);
	if (tls_)
		describe_tls(*tls_, header);
	const auto &with = to_->settings().send_proxy_with;
	if (with.client_certificate && tls_ && tls_->has_certificate)
		header.about_tls->certificate = tls_context::certificate_of(client_);
	if (with.unique_id) {
		/* The id stays the same for each backend that is tried. */
		if (id_.empty())
			id_ = header.unique_id.empty() ? make_id() : header.unique_id;
		header.unique_id = id_;
	}
	bool left_out = false;
	auto written = write_proxy_v2(header, with.checksum, &left_out);
	if (left_out)
		count_left_out(header.about_tls->certificate.size());
	return written;
}

/* The client's certificate, of so many bytes, does not fit into the header. */
void session::count_left_out(std::size_t bytes) noexcept
{
	all_.counters.certificates_left_out.add();
	try {
		emit(event_kind::certificate_left_out,
		     "a client of " + via_->counts->name +
			     " has a certificate that does not fit into the PROXY header, so " +
			     to_->name() + " does not get it",
		     {{"listener", via_->counts->name}, {"group", to_->name()}, {"bytes", bytes}});
	} catch (const std::bad_alloc &) {
		/* It is counted. */
	}
}

/* Sends the PROXY header and the hello. done: copying can begin. again: the connection was a
 * ready one, and was lost before anything was sent. */
session::sending session::send_opening()
{
	/* With TLS, secure() has sent the header before the handshake. */
	const std::string first = (to_->tls() ? "" : opening_for()) + hello_;
	if (first.empty())
		return sending::done;
	const auto idle = via_->settings.idle_timeout;
	const auto until = idle.count() == 0 ? sn::no_deadline : sn::after(idle);
	backend_.set_write_deadline(until);
	const iovec all{const_cast<char *>(first.data()), first.size()};
	std::size_t passed = 0;
	const auto sent = backend_.writev_all({&all, 1}, &passed);
	if (!sent && is_ready_one_ && passed == 0 && is_gone(sent.error()))
		return lose_ready_one() == ready_one::lost ? sending::again : sending::over;
	if (!sent) {
		/* The kernel reports the same error when it gives up on the backend. */
		const bool late = sent.error() == std::errc::timed_out &&
				  until != sn::no_deadline && sn::now() >= until;
		lost_bytes_ = true;
		ended_ = late ? termination::idle_timeout : termination::server_reset;
		error_ = sent.error().message();
		end(late ? cause::idle : cause::failure);
		return sending::over;
	}
	backend_.set_write_deadline(sn::no_deadline);
	passed_ = hello_.size();
	via_->counts->to_backend.bytes.add(passed_);
	chosen_->counts.to_backend.bytes.add(passed_);
	hello_ = {};
	return sending::done;
}

} // namespace relay
