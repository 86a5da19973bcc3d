/* SPDX-License-Identifier: MIT */
#include "resolver.hpp"

#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <netdb.h>
#include <new>
#include <string>
#include <sys/socket.h>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* Concurrent look-ups. Each blocks a thread; a working name service needs far fewer. */
constexpr int most_lookups = 16;
constinit sn::semaphore lookups{most_lookups};

/* A name without an address is looked up at this interval, if its own is longer. */
constexpr auto retry_interval = 1s;

/* The right to run one look-up. */
class permit
{
public:
	permit() { lookups.acquire(); }
	permit(permit &&other) noexcept : is_held_(std::exchange(other.is_held_, false)) {}
	permit &operator=(permit &&) = delete;
	~permit()
	{
		if (is_held_)
			lookups.release();
	}

private:
	bool is_held_ = true;
};

struct answer {
	address_list list;
	std::string error; /* empty: the list is not */
};

/* Looks up "host:port". Blocks the thread. */
answer look_up(const std::string &address)
{
	const auto colon = address.rfind(':');
	addrinfo hints{};
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;
	addrinfo *found = nullptr;
	const int err = getaddrinfo(address.substr(0, colon).c_str(),
				    address.substr(colon + 1).c_str(), &hints, &found);
	const int of_system = errno;
	answer result;
	if (err != 0) {
		result.error = err == EAI_SYSTEM ? std::strerror(of_system) : gai_strerror(err);
		return result;
	}
	const std::unique_ptr<addrinfo, void (*)(addrinfo *)> list(found, freeaddrinfo);
	for (const addrinfo *each = found; each; each = each->ai_next) {
		char host[NI_MAXHOST];
		char port[NI_MAXSERV];
		if (getnameinfo(each->ai_addr, each->ai_addrlen, host, sizeof host, port,
				sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
			continue;
		std::string text = each->ai_family == AF_INET6 ? '[' + std::string(host) + "]:"
							       : std::string(host) + ':';
		text += port;
		if (std::ranges::find(result.list, text) == result.list.end())
			result.list.push_back(std::move(text));
	}
	if (result.list.empty())
		result.error = "it has no address";
	return result;
}

class resolver final : public watcher::work
{
public:
	explicit resolver(const pool &of) : pool_(of) {}

	bool concerns(const backend &at) const override { return at.counts.addresses.named(); }

	/* Runs until the scope is cancelled, which ends each wait with an exception for it. */
	void watch(backend &at, const std::atomic<bool> &stopped) override
	{
		const auto &settings = pool_.settings();
		for (;;) {
			permit held;
			const auto start = sn::now();
			auto looking = sn::spawn(
				[&at, held = std::move(held)] {
					return sn::blocking(
						[&at] { return look_up(at.settings.address); });
				},
				{.name = "look-up"});
			const bool is_late = !looking.wait_until(start + settings.resolve_timeout);
			if (stopped.load(std::memory_order_relaxed))
				return;
			if (is_late)
				fail(at, "the name service does not answer");
			answer result = looking.join();
			if (stopped.load(std::memory_order_relaxed))
				return;
			if (result.error.empty() || !is_late)
				take(at, std::move(result));
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
	void take(backend &at, answer result)
	{
		if (!result.error.empty())
			fail(at, result.error);
		else if (at.counts.addresses.found(std::move(result.list)))
			report(name(at) + " resolves again");
	}

	void fail(backend &at, const std::string &why)
	{
		auto &its = at.counts.addresses;
		if (!its.failed())
			return;
		report(name(at) + " does not resolve: " + why +
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
