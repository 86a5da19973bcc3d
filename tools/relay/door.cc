/* SPDX-License-Identifier: MIT */
#include "door.hpp"

#include "report.hpp"

#include <chrono>
#include <new>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

std::string explain(const std::string &address, const std::error_code &error)
{
	const std::string start = "cannot listen on " + address + ": ";
	if (error == std::errc::no_such_file_or_directory)
		return start + "it does not resolve; expected an address of this machine, or the "
			       "name of one";
	if (error == std::errc::resource_unavailable_try_again)
		return start + "it does not resolve for now, the name service does not answer; "
			       "expected an address of this machine, or the name of one";
	if (error == std::errc::address_in_use)
		return start + "the port is in use; expected a free one (port 0 takes any)";
	if (error == std::errc::address_not_available)
		return start + "expected an address of this machine";
	if (error == std::errc::permission_denied)
		return start + "not permitted; expected a port that this user may use, such as one "
			       "above 1023";
	return start + error.message();
}

} // namespace

std::unique_ptr<door> door::open(shared &all, const listener_config &settings, pools &to,
				 std::string &why)
{
	auto listener = sn::tcp_listener::listen(settings.address);
	if (!listener) {
		why = explain(settings.address, listener.error());
		return nullptr;
	}
	auto address = listener->address().value_or(settings.address);
	return std::unique_ptr<door>(
		new door(all, settings, to, *std::move(listener), std::move(address)));
}

door::door(shared &all, const listener_config &settings, pools &to, sn::tcp_listener listener,
	   std::string address)
    : all_(all), listener_(std::move(listener)), address_(std::move(address)),
      name_(settings.name.empty() ? address_ : settings.name),
      via_{settings, to.get(settings.group, name_),
	   all.book.open_listener(name_, address_, settings.max_connections)},
      task_name_("accept " + address_)
{
}

void door::start()
{
	accepting_ = sn::spawn([this] { serve(); }, {.name = task_name_.c_str()});
}

void door::stop() noexcept
{
	stopping_.store(true, std::memory_order_relaxed);
	/* Long past: the accept that waits fails, and so does every later one. */
	listener_.set_deadline(sn::deadline(1ns));
}

void door::close()
{
	accepting_.join();
	listener_.close();
}

void door::serve()
{
	while (!stopping()) {
		auto client = listener_.accept();
		if (client) {
			all_.counters.accepted.add();
			via_.counts.accepted.add();
			if (is_full()) {
				all_.counters.refused.add();
				via_.counts
					.ended[static_cast<std::size_t>(termination::refused_limit)]
					.add();
				client->close();
			} else if (wait_for_room()) {
				admit(*std::move(client));
			} else {
				all_.counters.cut.add();
				via_.counts.ended[static_cast<std::size_t>(termination::cut)].add();
				client->abort();
			}
		} else if (!stopping()) {
			/* Nothing that is known to happen. Not too often, should it last. */
			report("cannot accept on " + address_ + ": " + client.error().message());
			sn::sleep(100ms);
		}
	}
}

/* Only this task adds to the number, so that it cannot grow between the look and the addition. */
bool door::is_full() const noexcept
{
	const std::uint64_t most = via_.settings.max_connections;
	return most && via_.active.load(std::memory_order_relaxed) >= most;
}

/* False when the relay shuts down first. */
bool door::wait_for_room()
{
	if (all_.sessions.reserve())
		return true;
	all_.counters.accept_holds.add();
	while (!stopping()) {
		/* Looking every so often is simple, and as quick as clients can notice. */
		sn::sleep(10ms);
		if (all_.sessions.reserve())
			return true;
	}
	return false;
}

void door::admit(sn::tcp client)
{
	std::unique_ptr<session> made;
	via_.active.fetch_add(1, std::memory_order_relaxed);
	try {
		made = std::make_unique<session>(all_, via_, std::move(client));
	} catch (const std::bad_alloc &) {
		via_.active.fetch_sub(1, std::memory_order_relaxed);
		all_.sessions.gone();
		all_.counters.no_memory.add();
		via_.counts.ended[static_cast<std::size_t>(termination::no_memory)].add();
		return;
	}
	/* The session has the client now, and closes it if its task cannot be had. */
	try {
		sn::go([made = std::move(made)] { made->run(); }, {.name = "session"});
	} catch (const std::exception &) {
		all_.counters.no_memory.add();
	}
}

} // namespace relay
