/* SPDX-License-Identifier: MIT */
#include "server/rounds.hpp"

#include "base/sleep.hpp"
#include "base/untimed.hpp"
#include "config/keepalive.hpp"
#include "stats/events.hpp"

#include <chrono>
#include <cstdint>
#include <exception>

namespace relay
{
namespace
{

class changes
{
public:
	explicit changes(const shared &all) : all_(all) {}

	void tell_all()
	{
		struct sn_run_stats runtime = {};
		static_cast<void>(sn_run_stats(&runtime));
		tell(pauses_, runtime.accept_pauses, event_kind::accept_paused,
		     "accepting waited for descriptors or memory");
		tell(untimed_, untimed_wait::spells(), event_kind::no_memory,
		     "there was no memory for timers, so waits took longer than they should");
		tell(dropped_, all_.access_log.dropped(), event_kind::log_dropped,
		     "lines of the access log were dropped, because its target is slow or takes "
		     "nothing");
		flush_suppressed();
	}

private:
	/* If there is no memory for the event's fields, the next round tells of it. */
	static void tell(std::uint64_t &told, std::uint64_t now, event_kind kind, const char *text)
	{
		if (now <= told)
			return;
		try_to_tell([&] {
			emit(kind, text, {{"times", now - told}});
			told = now;
		});
	}

	const shared &all_;
	std::uint64_t pauses_ = 0;
	std::uint64_t untimed_ = 0;
	std::uint64_t dropped_ = 0;
};

} // namespace

rounds::rounds(shared &all, live_config &live)
    : running_(sn::spawn([this, &all, &live] { run(all, live); }, {.name = "rounds"}))
{
}

rounds::~rounds()
{
	end_.release();
	running_.join();
}

/* Waits until the next round. Returns true if the task must end. */
bool rounds::wait()
{
	const auto until = sn::after(keepalive_round);
	for (;; sleep_fully(untimed_wait::tick))
		try {
			return end_.try_acquire_until(until);
		} catch (const std::exception &) {
			/* There is no memory for the wait. */
			if (end_.try_acquire())
				return true;
			if (sn::now() >= until)
				return false;
		}
}

void rounds::run(shared &all, live_config &live)
{
	changes seen(all);
	/* The first rates are since the start. */
	all.registry.remember();
	while (!wait()) {
		for (int n = 1; all.sessions.settle_next(sn::now()); n++)
			/* Each session takes some system calls, so others may run in between. */
			if (n % 32 == 0)
				sn::yield();
		seen.tell_all();
		all.registry.remember();
		all.registry.forget_sources();
		all.tls.look();
		live.look_at_lists();
	}
	seen.tell_all();
}

} // namespace relay
