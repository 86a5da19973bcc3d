/* SPDX-License-Identifier: MIT */
#include "resolver.hpp"

#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
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

/* "host:port" at the last colon: the host of a backend by name has none. */
sn::result<sn::resolved> look_up(const std::string &address, sn::deadline until)
{
	const auto colon = address.rfind(':');
	return sn::resolve(address.substr(0, colon), address.substr(colon + 1), until);
}

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

	/* What takes too long has failed, and is waited for all the same: the second call joins the
	 * look-up that the first one has left, unless that ends in between. */
	void ask(backend &at, sn::deadline until, const std::atomic<bool> &stopped)
	{
		auto found = look_up(at.settings.address, until);
		const bool is_late = !found && found.error() == std::errc::timed_out;
		if (is_late && !is_over(stopped)) {
			fail(at, found.error());
			found = look_up(at.settings.address, sn::no_deadline);
		}
		if (is_over(stopped))
			return;
		if (found)
			take(at, *found);
		else if (!is_late)
			fail(at, found.error());
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
