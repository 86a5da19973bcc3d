/* SPDX-License-Identifier: MIT */
#include "session.hpp"

#include "descriptors.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

/* Of "host:port" or "[host]:port". */
std::string_view host_of(std::string_view address)
{
	return address.substr(0, address.rfind(':'));
}

} // namespace

std::optional<termination> lane::refuses(const ip_address &client, source_ticket &counted) const
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

session::session(shared &all, std::shared_ptr<lane> via, sn::tcp client,
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
	tell();
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
	if (all_.access_log || via_->to.by_source())
		client_address_ = client_.peer_address().value_or("");
	const auto limit = via_->settings.lifetime;
	if (limit.count() == 0)
		return serve();
	/* The alarm's end waits for its task, so what that uses is there. */
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
	if (connect())
		relay_both();
}

/* True when there is a backend, and nothing has ended the session meanwhile. */
bool session::connect()
{
	const auto limit = via_->settings.connect_timeout;
	auto until = limit.count() == 0 ? sn::no_deadline : sn::after(limit);
	if (via_->settings.lifetime.count() != 0)
		until = std::min(until, began_ + via_->settings.lifetime);
	const std::uint64_t source = hash_of(host_of(client_address_));
	std::vector<backend *> tried;

	for (;;) {
		ticket next = via_->to.choose(source, tried);
		if (!next)
			break;
		if (!tried.empty())
			all_.counters.retries.add();
		tried.push_back(next.get());
		last_tried_ = next.get();

		auto give_up = until;
		if (until != sn::no_deadline && via_->to.has_other(tried))
			give_up = sn::now() + (until - sn::now()) / 2;
		auto connected = connect_to(next->settings.address, give_up);
		if (connected) {
			connected_ = sn::now();
			next->counts.connected.add();
			via_->to.succeeded(*next.get());
			chosen_ = std::move(next);
			const std::lock_guard lock(all_.sessions.lock());
			backend_ = *std::move(connected);
			/* Cut meanwhile: the client was cancelled, the backend could not be. */
			return cause_.load(std::memory_order_relaxed) == cause::none;
		}
		/* Was it cut while it waited, then the backend is not to blame. */
		if (cause_.load(std::memory_order_relaxed) != cause::none)
			return false;
		if (via_->settings.lifetime.count() != 0 &&
		    sn::now() >= began_ + via_->settings.lifetime) {
			end(cause::lifetime);
			return false;
		}
		next->counts.failures.add();
		const bool ours = is_shortage(connected.error());
		ended_ = ours ? termination::no_memory : termination::connect_failed;
		if (!ours && via_->to.failed(*next.get()))
			all_.counters.ejections.add();
		error_ = connected.error().message();
		if (until != sn::no_deadline && sn::now() >= until)
			break;
	}
	if (tried.empty() && via_->to.has_other(tried)) {
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
 * Tries again while the system is short of something: the client is in, and can wait until there is
 * some again.
 */
sn::result<sn::tcp> session::connect_to(const std::string &address, sn::deadline until)
{
	using namespace std::chrono_literals;

	for (auto pause = 10ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 160ms)) {
		auto connected = sn::tcp::connect(address, until);
		if (connected || !is_shortage(connected.error()))
			return connected;
		if ((until != sn::no_deadline && sn::now() >= until) ||
		    cause_.load(std::memory_order_relaxed) != cause::none)
			return connected;
		sn::sleep(pause);
	}
}

void session::relay_both()
{
	const sn::relay_limits limits{.idle = via_->settings.idle_timeout,
				      .half_close = via_->settings.half_close_timeout};
	auto &of_listener = *via_->counts;
	auto &of_backend = chosen_->counts;
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
	lost_bytes_ = done.lost_bytes;
	switch (done.end) {
	case SN_RELAY_FINISHED:
		end(cause::finished);
		ended_ = !all_.book.ready() ? termination::drained
			 : done.side == 1   ? termination::server_end
					    : termination::client_end;
		break;
	case SN_RELAY_CANCELED: /* by end(), so the cause is known */
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
 * The first cause wins, and ends the relaying. Relaxed: the cause is read for good only after that.
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

/* Counts and logs how it was: the last that is done with it, before its connections are closed. */
void session::tell() noexcept
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
	if (!all_.access_log)
		return;

	access_entry entry;
	entry.time = std::chrono::nanoseconds(sn_walltime());
	entry.cause = ended_;
	entry.listener = counts.name;
	entry.client = client_address_;
	if (last_tried_)
		entry.backend = last_tried_->settings.address;
	entry.error = error_;
	entry.duration = now - began_;
	if (connected)
		entry.connect = connected_ - began_;
	entry.first_byte = first_byte;
	entry.to_backend = done_.a_to_b.bytes_written;
	entry.to_client = done_.b_to_a.bytes_written;
	entry.to_backend_splice = done_.a_to_b.bytes_spliced;
	entry.to_client_splice = done_.b_to_a.bytes_spliced;
	all_.access_log->write(entry);
} catch (const std::exception &) {
	/* No memory for an address's text. */
}

/* Not under the list's lock, as cut() is: connect() sets the backend under it. */
void session::outlive() noexcept
{
	const std::lock_guard lock(all_.sessions.lock());
	end(cause::lifetime);
}

void session::cut() noexcept
{
	end(cause::cut);
}

} // namespace relay
