/* SPDX-License-Identifier: MIT */
#include "backends/resolver.hpp"

#include "backends/backend_events.hpp"
#include "backends/lookup.hpp"
#include "base/sleep.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* A name without an address is looked up at this interval if the configured one is longer. */
constexpr auto retry_interval = 1s;

/* How many answers in a row must say that a name does not exist. A single one may come from a name
 * server that has just begun to load the zone. */
constexpr unsigned denials_that_count = 3;

/* Whether the name service has answered that the name does not exist, or has no address. */
bool is_denial(const std::error_code &error) noexcept
{
	return error.value() == ENOENT || error.value() == EADDRNOTAVAIL;
}

/* The errors of sn_resolve() in words. */
std::string explain(const std::error_code &error)
{
	switch (error.value()) {
	case ENOENT:
		return "the name or the service is unknown";
	case EADDRNOTAVAIL:
		return "it has no address";
	case EAGAIN:
		return "the name service has failed for now";
	case EIO:
		return "the name service has failed";
	case ETIMEDOUT:
		return "the name service does not answer";
	case ENOSYS:
		return "this system's C library cannot look up SRV records";
	default:
		return error.message();
	}
}

class resolver final : public watcher::work
{
public:
	explicit resolver(const pool &of) : pool_(of) {}

	bool concerns(const backend &at) const override { return at.endpoints.named(); }

	/* Runs until the scope is cancelled, which ends each wait. A lack of memory for a wait does
	 * not end the lookups, as it does not end checks (visitor.cc). */
	void watch(backend &at, const std::atomic<bool> &stopped) override
	{
		const auto &settings = pool_.settings();
		for (unsigned denials = 0;;) {
			const auto start = sn::now();
			try {
				ask(at, start + settings.resolve_timeout, stopped, denials);
			} catch (const std::exception &) {
				if (!is_over(stopped))
					fail(at,
					     std::make_error_code(std::errc::not_enough_memory));
			}
			auto pause = settings.resolve;
			if (at.endpoints.down())
				pause = std::min<std::chrono::nanoseconds>(pause, retry_interval);
			if (is_over(stopped))
				return;
			sleep_fully_until(std::max(start + pause, sn::now()));
			if (is_over(stopped))
				return;
		}
	}

	/* Nobody need wait for a first lookup any longer. */
	void given_up(pool &of) noexcept override
	{
		for (backend &each : of.backends())
			if (concerns(each) && !each.endpoints.known())
				each.endpoints.failed();
		of.line().changed();
	}

	void tell_ended(const pool &of, const char *why) override
	{
		emit(event_kind::names_ended,
		     "the names of " + of.name() +
			     " are no longer looked up, and keep their addresses: " + why,
		     {{"group", of.name()}, {"error", why}});
	}

private:
	static bool is_over(const std::atomic<bool> &stopped)
	{
		return sn::cancelled() || stopped.load(std::memory_order_relaxed);
	}

	/* Looks the name up once. A lookup that takes too long is recorded as failed, and then
	 * waited for all the same. */
	void ask(backend &at, sn::deadline until, const std::atomic<bool> &stopped,
		 unsigned &denials)
	{
		const auto asked = start(at);
		if (!asked)
			return;
		const bool is_late = !asked->ends_by(until);
		if (is_late && !is_over(stopped)) {
			fail(at, std::make_error_code(std::errc::timed_out));
			asked->ends_by(sn::no_deadline);
		}
		if (is_over(stopped))
			return;
		/* A service with some of its hosts is better than one without any. */
		const bool is_enough = !asked->missing() || at.endpoints.now()->empty();
		denials = !asked->found() && is_denial(asked->found().error()) ? denials + 1 : 0;
		if (const auto &found = asked->found(); found && is_enough)
			take(at, *found);
		else if (!is_late)
			fail(at, found ? asked->missing() : found.error());
		if (denials >= denials_that_count && !at.endpoints.down())
			give_up(at, asked->found().error());
	}

	/* Removes the addresses of a name that does not exist any more, because they may belong
	 * to others now. */
	void give_up(backend &at, const std::error_code &error)
	try {
		at.endpoints.give_up();
		pool_.line().changed();
		const std::string why = explain(error);
		auto fields = fields_of(pool_, at);
		fields.emplace_back("error", why);
		emit(event_kind::name_failing,
		     name(at) + " does not resolve any more: " + why + "; it is down until it does",
		     std::move(fields));
	} catch (const std::bad_alloc &) {
		/* No memory; the next answer tries again. */
	}

	/* Starts a lookup. Returns null if that fails, and records the failure. */
	std::shared_ptr<lookup> start(backend &at)
	try {
		return lookup::of(at.settings.address);
	} catch (const std::exception &) {
		fail(at, std::make_error_code(std::errc::not_enough_memory));
		return nullptr;
	}

	void take(backend &at, const found_endpoints &found)
	try {
		const bool is_news = at.endpoints.found(found);
		pool_.line().changed();
		if (is_news)
			emit(event_kind::name_resolves, name(at) + " resolves again",
			     fields_of(pool_, at));
	} catch (const std::bad_alloc &) {
		fail(at, std::make_error_code(std::errc::not_enough_memory));
	}

	void fail(backend &at, const std::error_code &error) noexcept
	try {
		auto &its = at.endpoints;
		if (!its.failed())
			return;
		pool_.line().changed(); /* clients may wait for the first lookup */
		const std::string why = explain(error);
		auto fields = fields_of(pool_, at);
		fields.emplace_back("error", why);
		emit(event_kind::name_failing,
		     name(at) + " does not resolve: " + why +
			     (its.down() ? "; it is down until it does"
					 : "; its earlier addresses stay in use until it does"),
		     std::move(fields));
	} catch (const std::bad_alloc &) {
		/* No memory for the event. */
	}

	std::string name(const backend &at) const
	{
		return "backend " + at.settings.address + " of " + pool_.name();
	}

	const pool &pool_;
};

} // namespace

std::unique_ptr<watcher> watch_names(std::shared_ptr<pool> of)
{
	if (std::ranges::none_of(of->backends(),
				 [](const backend &each) { return each.endpoints.named(); }))
		return nullptr;
	auto work = std::make_unique<resolver>(*of);
	return std::make_unique<watcher>(std::move(of), std::move(work), "names");
}

} // namespace relay
