/* SPDX-License-Identifier: MIT */
#include "session.hpp"

#include <algorithm>
#include <utility>

namespace relay
{
namespace
{

/* Whether the error says that the system has no more of something that it may have again. */
bool is_shortage(const std::error_code &error)
{
	return error == std::errc::too_many_files_open ||
	       error == std::errc::too_many_files_open_in_system ||
	       error == std::errc::no_buffer_space || error == std::errc::not_enough_memory;
}

} // namespace

session::session(shared &all, const route &via, sn::tcp client) noexcept
    : all_(all), via_(via), client_(std::move(client))
{
	all_.counters.active.add();
	all_.sessions.add(*this);
}

session::~session()
{
	all_.sessions.leave(*this);
	const cause why = cause_.load(std::memory_order_relaxed);
	if (why == cause::none || (why == cause::idle && !lost_bytes_)) {
		client_.close();
		backend_.close();
	} else {
		client_.abort();
		backend_.abort();
	}
	all_.counters.active.subtract();
	all_.sessions.gone();
}

void session::run()
{
	auto connected = connect();
	if (!connected) {
		/* Was it cut while it waited, then the backend is not to blame. */
		if (cause_.load(std::memory_order_relaxed) == cause::none)
			all_.counters.connect_failed.add();
		return;
	}
	{
		const std::lock_guard lock(all_.sessions.lock());
		backend_ = *std::move(connected);
		/* Cut in the meantime: the client was cancelled, the backend could not be. */
		if (cause_.load(std::memory_order_relaxed) != cause::none)
			return;
	}
	relay_both();
}

/*
 * Tries again while the system is short of something: the client is in, and can wait until there is
 * some again.
 */
sn::result<sn::tcp> session::connect()
{
	using namespace std::chrono_literals;

	const auto limit = all_.settings.connect_timeout;
	const auto until = limit == 0ns ? sn::no_deadline : sn::after(limit);
	for (auto pause = 10ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 160ms)) {
		auto connected = sn::tcp::connect(via_.backend, until);
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
	const sn::relay_limits limits{.idle = all_.settings.idle_timeout};
	const auto done = sn::relay(client_, backend_, limits,
				    [this](sn_relay_direction way, std::size_t n) noexcept {
					    auto &counters = all_.counters;
					    (way == SN_RELAY_A_TO_B ? counters.bytes_to_backend
								    : counters.bytes_to_client)
						    .add(n);
				    });

	lost_bytes_ = done.lost_bytes;
	switch (done.end) {
	case SN_RELAY_FINISHED:
	case SN_RELAY_CANCELED: /* by end(), so the cause is known */
		break;
	case SN_RELAY_FAILED:
		if (done.error == std::errc::not_enough_memory)
			all_.counters.no_memory.add();
		end(cause::failure);
		break;
	case SN_RELAY_IDLE:
	case SN_RELAY_HALF_CLOSE:
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
		break;
	case cause::failure:
		all_.counters.resets.add();
		break;
	case cause::idle:
		all_.counters.idle_timeouts.add();
		break;
	case cause::cut:
		all_.counters.cut.add();
		break;
	}
	client_.cancel();
	if (backend_)
		backend_.cancel();
}

void session::cut() noexcept
{
	end(cause::cut);
}

} // namespace relay
