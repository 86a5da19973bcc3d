/* SPDX-License-Identifier: MIT */
#include "sessions/listener.hpp"

#include "backends/backend_events.hpp"
#include "base/address.hpp"
#include "base/backlog.hpp"
#include "base/sleep.hpp"
#include "config/keepalive.hpp"
#include "stats/events.hpp"

#include <chrono>
#include <new>
#include <sys/stat.h>
#include <utility>

#include <sennit/unstable.h>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

std::string explain_unix(const std::string &address, const std::error_code &error)
{
	if (error == std::errc::address_in_use) {
		if (address.starts_with("unix:@"))
			return "the name is in use; expected a free one (unix:@ takes any)";
		struct stat there {
		};
		if (lstat(address.substr(address.find(':') + 1).c_str(), &there) == 0 &&
		    !S_ISSOCK(there.st_mode))
			return std::string(S_ISDIR(there.st_mode) ? "a folder" : "a file") +
			       " that is no socket is there; expected a free path, or a socket "
			       "that nobody has open";
		return "the path is in use; expected a free one, or a socket that nobody has open";
	}
	if (error == std::errc::no_such_file_or_directory)
		return "there is no such folder; expected one for the socket's file";
	if (error == std::errc::not_a_directory)
		return "a part of the path is not a folder; expected one for the socket's file";
	if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
	    error == std::errc::read_only_file_system)
		return "not permitted; expected a folder that this user may write to";
	return error.message();
}

std::string explain_tcp(const std::error_code &error)
{
	if (error == std::errc::no_such_file_or_directory)
		return "it does not resolve; expected an address of this machine, or the name of "
		       "one";
	if (error == std::errc::resource_unavailable_try_again || error == std::errc::timed_out)
		return "it does not resolve now, because the name service does not answer; "
		       "expected an address of this machine, or the name of one";
	if (error == std::errc::address_in_use)
		return "the port is in use; expected a free one (port 0 takes any)";
	if (error == std::errc::address_not_available)
		return "expected an address of this machine";
	if (error == std::errc::permission_denied)
		return "not permitted; expected a port that this user may use, such as one above "
		       "1023";
	return error.message();
}

/* The longest lookup of a listener's name. At the deadline, the scope's error is reported. */
constexpr auto lookup_most = 10s;

} // namespace

std::string explain_listening(const std::string &address, const std::error_code &error)
{
	return is_unix(address) ? explain_unix(address, error) : explain_tcp(error);
}

std::string explain_adopting(const std::string &address, int fd, const std::error_code &error)
{
	return "cannot listen on " + address + " with inherited descriptor " + std::to_string(fd) +
	       ": " + error.message() +
	       "; expected a listening socket of TCP, or a Unix stream socket";
}

sn::result<sn::tcp_listener> listen_at(const std::string &address, int mode)
{
	if (!is_unix(address)) {
		const sn::scope limit(sn::after(lookup_most));
		return sn::tcp_listener::listen(address);
	}
	if (mode == 0)
		return sn::tcp_listener::listen(address);
	sn_unix_listener *made = nullptr;
	sn_unix_options options = {};
	options.mode = mode;
	const int err = sn_unix_listen(&made, address.c_str(), &options);
	if (err < 0)
		return sn::unexpected(sn::from_errno(err));
	return sn::tcp_listener(sn_unix_listener_tcp(made));
}

bool enter(const route &via) noexcept
{
	const std::uint64_t most = via.settings.max_connections;
	auto &active = via.counts->active;
	std::uint64_t now = active.load(std::memory_order_relaxed);
	do {
		if (most && now >= most)
			return false;
	} while (!active.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
	return true;
}

std::unique_ptr<listener> listener::open(shared &all, const listener_config &settings,
					 std::string &why)
{
	int handed = -1;
	auto adopted = all.inherited.take(settings.name, settings.address, handed);
	auto socket = adopted ? *std::move(adopted) : listen_at(settings.address, settings.mode);
	if (!socket) {
		why = adopted ? explain_adopting(settings.address, handed, socket.error())
			      : "cannot listen on " + settings.address + ": " +
					explain_listening(settings.address, socket.error());
		return nullptr;
	}
	auto address = socket->address().value_or(settings.address);
	return std::unique_ptr<listener>(
		new listener(all, settings, *std::move(socket), std::move(address)));
}

listener::listener(shared &all, const listener_config &settings, sn::tcp_listener socket,
		   std::string address)
    : all_(all), socket_(std::move(socket)), address_(std::move(address)),
      asked_name_(settings.name), asked_address_(settings.address),
      is_local_(is_unix(settings.address)), task_name_("accept " + address_)
{
}

/* Port 0 is a different port each time, so such listeners are matched by name. */
bool listener::serves(const listener_config &settings) const
{
	return settings.address == asked_address_ &&
	       (!is_any(settings.address) || settings.name == asked_name_);
}

void listener::use(std::shared_ptr<route> via) noexcept
{
	const std::lock_guard lock(lock_);
	via_.swap(via); /* the last reference to the old route is released without the lock */
	if (is_let_in_)
		apply_keepalive();
}

void listener::use_lists(std::shared_ptr<const listener_config> read) noexcept
{
	std::unique_lock lock(lock_);
	const auto via = via_;
	lock.unlock();
	via->use_lists(std::move(read));
}

/* Applies the keepalive settings to the socket. Called under the lock, and not before let_in(),
 * because until then another process may still use the socket. */
void listener::apply_keepalive() noexcept
{
	/* Unix sockets have no keepalive, and need none. */
	without_keepalive_ = is_local_ ? 0
				       : set_keepalive_of_listener(socket_.native_handle(),
								   via_->settings.keepalive);
}

/* The route of the next client. has_keepalive: whether its socket has the keepalive settings. */
std::shared_ptr<route> listener::via(bool &has_keepalive)
{
	const std::lock_guard lock(lock_);
	has_keepalive = without_keepalive_ == 0;
	if (without_keepalive_ != 0 && without_keepalive_ != UINT64_MAX)
		without_keepalive_--;
	return via_;
}

void listener::start()
{
	accepting_ = sn::spawn([this] { serve(); },
			       {.name = task_name_.c_str(), .flags = SN_TASK_BRIEF});
}

void listener::let_in() noexcept
{
	{
		const std::lock_guard lock(lock_);
		if (std::exchange(is_let_in_, true))
			return;
		apply_keepalive();
	}
	entrance_.open();
}

void listener::stop() noexcept
{
	phase_.store(phase::stopping, std::memory_order_relaxed);
	entrance_.open();
	/* A deadline long past makes the waiting accept fail, and every later one. */
	const std::lock_guard lock(lock_);
	if (!retired())
		socket_.set_deadline(sn::deadline(1ns));
}

void listener::retire() noexcept
{
	phase_.store(phase::retiring, std::memory_order_relaxed);
	entrance_.open();
	socket_.set_deadline(sn::deadline(1ns));
}

void listener::close()
{
	accepting_.join();
	socket_.close();
}

void listener::serve()
{
	entrance_.pass();
	while (is(phase::open)) {
		auto client = socket_.accept();
		if (client) {
			take(*std::move(client));
		} else if (is(phase::open)) {
			/* No such error is known. The pause bounds the number of reports if one
			 * persists. */
			try_to_tell([&] {
				emit(event_kind::accept_failed,
				     "cannot accept on " + address_ + ": " +
					     client.error().message(),
				     {{"address", address_}, {"error", client.error().message()}});
			});
			sleep_fully(100ms);
		}
	}
	if (is(phase::retiring))
		serve_backlog();
}

void listener::serve_backlog()
{
	drain_backlog(
		socket_, [&] { return is(phase::retiring); },
		[&](sn::tcp client) { take(std::move(client)); });
	const std::lock_guard lock(lock_);
	socket_.close();
	closed_.store(true, std::memory_order_release);
}

void listener::take(sn::tcp client)
{
	bool has_keepalive = false;
	auto via = this->via(has_keepalive);
	const auto &settings = via->settings;
	auto &counts = *via->counts;
	all_.counters.accepted.add();
	counts.accepted.add();

	source_ticket counted;
	const bool expects_header = settings.expects_header();
	/* A client of a Unix socket has an address only if a proxy states it (check_sources()). */
	if (!is_local_ && (expects_header || via->tells_sources_apart())) {
		/* A connection that has been reset by now has no peer. */
		const auto peer = peer_of(client.native_handle());
		std::optional<termination> refused = termination::client_left;
		try {
			/* Behind a proxy the client's address is in the PROXY header. */
			if (peer && expects_header)
				refused = contains(settings.proxy_from, peer->ip)
						  ? std::nullopt
						  : std::optional(termination::refused_list);
			else if (peer)
				refused = via->refuses(peer->ip, counted);
		} catch (const std::bad_alloc &) {
			refused = termination::no_memory;
		}
		if (refused == termination::refused_limit)
			tell_limit(counts.name, "max_connections_per_source");
		else if (refused == termination::refused_rate)
			tell_limit(counts.name, "accept_rate_per_source");
		if (refused)
			return turn_away(*via, std::move(client), *refused);
	}
	if (settings.accept_rate &&
	    !counts.rate.enter(sn_now(), settings.accept_rate, settings.accept_burst)) {
		tell_limit(counts.name, "accept_rate");
		return turn_away(*via, std::move(client), termination::refused_rate);
	}
	if (!enter(*via)) {
		tell_limit(counts.name, "max_connections");
		return turn_away(*via, std::move(client), termination::refused_limit);
	}
	if (!wait_for_room()) {
		counts.active.fetch_sub(1, std::memory_order_relaxed);
		return turn_away(*via, std::move(client), termination::cut);
	}
	if (!has_keepalive)
		set_keepalive(client.native_handle(), settings.keepalive);
	admit(std::move(via), std::move(client), std::move(counted));
}

/* Counts, logs and closes a client that does not become a session. */
void listener::turn_away(const route &via, sn::tcp client, termination why)
{
	via.counts->ended[static_cast<std::size_t>(why)].add();
	switch (why) {
	case termination::cut:
		all_.counters.cut.add();
		break;
	case termination::refused_list:
		all_.counters.denied.add();
		break;
	case termination::refused_rate:
		all_.counters.rate_refused.add();
		break;
	case termination::refused_limit:
		all_.counters.refused.add();
		break;
	case termination::no_memory:
		all_.counters.no_memory.add();
		break;
	default:
		break;
	}
	if (const auto log = all_.access_log.get())
		try {
			const auto address = address_of(client);
			access_entry entry;
			entry.time = std::chrono::nanoseconds(sn_walltime());
			entry.cause = why;
			entry.listener = via.counts->name;
			entry.client = address;
			log->write(entry);
		} catch (const std::bad_alloc &) {
			/* There is no memory for the text of an address. */
		}
	if (why == termination::cut)
		client.abort();
	else
		client.close();
}

/* Waits until there is room for one more session. Returns false if the relay shuts down first. */
bool listener::wait_for_room()
{
	if (all_.sessions.reserve())
		return true;
	all_.counters.accept_holds.add();
	if (no_room_.begins(sn_now()))
		tell_no_room(address_, all_.sessions.most());
	while (!is(phase::stopping)) {
		/* Polling is simple, and clients do not notice a delay this short. */
		sleep_fully(10ms);
		if (all_.sessions.reserve()) {
			no_room_.goes_on(sn_now());
			return true;
		}
	}
	return false;
}

void listener::admit(std::shared_ptr<route> via, sn::tcp client, source_ticket counted)
{
	const auto counts = via->counts;
	/* A handshake computes for a millisecond, which is too long for a brief task. */
	const sn::task_attr attr =
		via->makes_handshakes ? sn::task_attr{.name = "session", .stack_size = tls_stack}
				      : sn::task_attr{.name = "session", .flags = SN_TASK_BRIEF};
	std::unique_ptr<session> made;
	try {
		made = std::make_unique<session>(all_, std::move(via), std::move(client),
						 std::move(counted));
	} catch (const std::bad_alloc &) {
		counts->active.fetch_sub(1, std::memory_order_relaxed);
		all_.sessions.gone();
		all_.counters.no_memory.add();
		counts->ended[static_cast<std::size_t>(termination::no_memory)].add();
		return;
	}
	/* The session owns the client now, and closes it if its task cannot be started. */
	try {
		sn::go([made = std::move(made)] { made->run(); }, attr);
	} catch (const std::exception &) {
		all_.counters.no_memory.add();
	}
}

} // namespace relay
