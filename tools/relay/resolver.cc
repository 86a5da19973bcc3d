/* SPDX-License-Identifier: MIT */
#include "resolver.hpp"

#include "look_up.hpp"
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* A name without an address is looked up at this interval, if its own is longer. */
constexpr auto retry_interval = 1s;

/* Without duplicates. */
address_list to_list(const sn::resolved &found)
{
	address_list list;
	for (const sn_resolved_address &each : found) {
		sn_address address;
		char text[SN_ADDRESS_MAX];
		if (sn_address_from_sockaddr(&address,
					     reinterpret_cast<const sockaddr *>(&each.address),
					     each.length) == 0 &&
		    sn_address_text(&address, text, sizeof text) > 0 &&
		    std::ranges::find(list, text) == list.end())
			list.emplace_back(text);
	}
	return list;
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
	default:
		return error.message();
	}
}

class resolver final : public watcher::work
{
public:
	explicit resolver(const pool &of) : pool_(of) {}

	bool concerns(const backend &at) const override { return at.counts.addresses.named(); }

	/* Runs until the scope is cancelled, which ends each wait. */
	void watch(backend &at, const std::atomic<bool> &stopped) override
	{
		const auto &settings = pool_.settings();
		for (;;) {
			const auto start = sn::now();
			ask(at, start + settings.resolve_timeout, stopped);
			if (is_over(stopped))
				return;
			auto pause = settings.resolve;
			if (at.counts.addresses.down())
				pause = std::min<std::chrono::nanoseconds>(pause, retry_interval);
			sn::sleep_until(std::max(start + pause, sn::now()));
		}
	}

	void failed(pool &of, const char *why) override
	{
		report("the names of " + of.name() +
		       " are no longer looked up, and keep their addresses: " + why);
		for (backend &each : of.backends())
			if (concerns(each) && !each.counts.addresses.known())
				each.counts.addresses.failed();
	}

private:
	static bool is_over(const std::atomic<bool> &stopped)
	{
		return sn::cancelled() || stopped.load(std::memory_order_relaxed);
	}

	/* What takes too long has failed, and is waited for all the same. */
	void ask(backend &at, sn::deadline until, const std::atomic<bool> &stopped)
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
		if (const auto &found = asked->found())
			take(at, *found);
		else if (!is_late)
			fail(at, found.error());
	}

	/* Null when it cannot, which counts as a failure. */
	std::shared_ptr<look_up> start(backend &at)
	try {
		return look_up::of(at.settings.address);
	} catch (const std::exception &) {
		fail(at, std::make_error_code(std::errc::not_enough_memory));
		return nullptr;
	}

	void take(backend &at, const sn::resolved &found)
	{
		if (at.counts.addresses.found(to_list(found)))
			report(name(at) + " resolves again");
	}

	void fail(backend &at, const std::error_code &error)
	{
		auto &its = at.counts.addresses;
		if (!its.failed())
			return;
		report(name(at) + " does not resolve: " + explain(error) +
		       (its.down() ? "; it is down until it does"
				   : "; its earlier addresses stay in use until it does"));
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
				 [](const backend &each) { return each.counts.addresses.named(); }))
		return nullptr;
	auto work = std::make_unique<resolver>(*of);
	return std::make_unique<watcher>(std::move(of), std::move(work), "names");
}

} // namespace relay
