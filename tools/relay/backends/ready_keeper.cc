/* SPDX-License-Identifier: MIT */
#include "backends/ready_keeper.hpp"

#include "backends/backend_events.hpp"
#include "base/descriptors.hpp"
#include "base/sleep.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

constexpr unsigned most_at_once = 4;
constexpr std::chrono::nanoseconds longest_try = 5s;

constexpr std::chrono::nanoseconds first_pause = 100ms;
constexpr std::chrono::nanoseconds longest_pause = 10s;

/* How often the keeper looks at what changes without waking it: the state of an endpoint, its
 * addresses, and the room for descriptors. */
constexpr std::chrono::nanoseconds keeper_beat = 1s;

/* Looks at connections are at least this far apart, so that one serves connections that were
 * made at nearly the same time. */
constexpr std::chrono::nanoseconds least_keeper_beat = 50ms;

/* A connection that the backend closes sooner than this was of no use. */
constexpr std::chrono::nanoseconds short_life = 1s;

class keeper final : public watcher::work
{
public:
	/* Joins the present endpoints. Make the new keeper before the old one is stopped, so
	 * that ready connections stay open. */
	keeper(pool &of, ready_stock &stock);
	~keeper() override { stock_.leave(store_); }

	bool concerns(const backend &at) const override { return at.settings.weight > 0; }
	void watch(backend &at, const std::atomic<bool> &stopped) override;
	void tell_ended(const pool &of, const char *why) override;

private:
	/* The keeper's state for one endpoint. */
	struct plan {
		explicit plan(std::shared_ptr<endpoint> which) : of(std::move(which)) {}

		const std::shared_ptr<endpoint> of;
		std::atomic<bool> is_over{false};
		std::atomic<unsigned> makers{0}; /* tasks */
		std::atomic<unsigned> failures{0};
		std::atomic<std::int64_t> next_try{0}; /* as of sn_now() */
	};

	/* The endpoints that a task has joined for one backend; leaves them when it is
	 * destroyed. */
	class joined
	{
	public:
		explicit joined(ready_store &store) : store_(store) {}
		joined(const joined &) = delete;
		joined &operator=(const joined &) = delete;
		~joined() { leave(); }

		void follow(const endpoint_list &now);
		const std::vector<std::shared_ptr<plan>> &plans() const { return plans_; }
		void leave() noexcept;
		bell rings;

	private:
		ready_store &store_;
		std::vector<std::shared_ptr<plan>> plans_;
	};

	sn::deadline tend(backend &at, joined &here, sn::scope &makers,
			  const std::atomic<bool> &stopped);
	sn::clock::time_point sweep(const backend &at, plan &which);
	void top_up(backend &at, const std::shared_ptr<plan> &which, joined &here,
		    sn::scope &makers, const std::atomic<bool> &stopped);
	bool is_wanted(const plan &which, const std::atomic<bool> &stopped) const noexcept;
	void make_some(backend &at, plan &which, ticket first, const std::atomic<bool> &stopped);
	bool make_one(plan &which, ticket place, const std::atomic<bool> &stopped);
	std::error_code connect(const endpoint &to, sn::tcp &into);
	static void pause(plan &which) noexcept;
	sn::clock::duration next_age() noexcept;

	pool &pool_;
	ready_store &store_;
	ready_stock &stock_;
	const std::shared_ptr<const tls_context> tls_; /* for handshakes made ahead */
	std::atomic<std::uint32_t> made_{0};
	std::map<const backend *, joined> joined_; /* each used only by its backend's task */
};

void keeper::joined::follow(const endpoint_list &now)
{
	const auto is_listed = [&now](const auto &each) {
		return std::ranges::find(now, each->of, &listed_endpoint::at) != now.end();
	};
	for (const auto &each : plans_)
		if (!is_listed(each)) {
			each->is_over.store(true, std::memory_order_relaxed);
			store_.leave(*each->of, rings);
		}
	std::erase_if(plans_, [&](const auto &each) { return !is_listed(each); });
	plans_.reserve(now.size());
	for (const auto &each : now) {
		const auto known =
			std::ranges::find(plans_, each.at, [](const auto &one) { return one->of; });
		if (known != plans_.end())
			continue;
		auto made = std::make_shared<plan>(each.at);
		store_.join(each.at, rings);
		plans_.push_back(std::move(made));
	}
}

void keeper::joined::leave() noexcept
{
	for (const auto &each : plans_)
		store_.leave(*each->of, rings);
	plans_.clear();
}

keeper::keeper(pool &of, ready_stock &stock)
    : pool_(of), store_(of.ready()), stock_(stock),
      tls_(of.settings().send_proxy == proxy_sending::none ? of.tls() : nullptr)
{
	for (const backend &each : of.backends())
		if (concerns(each))
			joined_.try_emplace(&each, store_)
				.first->second.follow(*each.endpoints.now());
	stock_.enter(store_);
}

/* Runs until the scope is cancelled, which ends each wait. The tasks that make connections end
 * before this one leaves the endpoints. */
void keeper::watch(backend &at, const std::atomic<bool> &stopped)
{
	joined &here = joined_.at(&at);
	const auto leave = [](joined *which) { which->leave(); };
	const std::unique_ptr<joined, decltype(leave)> until_the_end(&here, leave);
	sn::scope makers;
	const endpoint_list *seen = nullptr;
	std::shared_ptr<const endpoint_list> list;
	while (!stopped.load(std::memory_order_relaxed) && !sn::cancelled()) {
		auto next = sn::after(keeper_beat);
		try {
			list = at.endpoints.now();
			if (list.get() != seen)
				here.follow(*list);
			seen = list.get();
			next = tend(at, here, makers, stopped);
		} catch (const std::exception &) {
			if (sn::cancelled())
				throw;
			/* No memory: tries again at the next beat. */
		}
		const int woken = sn_chan_recv_until(here.rings.chan(), nullptr,
						     next.time_since_epoch().count());
		if (woken == -ENOMEM)
			sleep_fully_until(sn::after(first_pause));
		else if (woken < 0 && woken != -ETIMEDOUT)
			return;
	}
}

/* Brings the connections of all endpoints of a backend to their number. Returns when to do it
 * again. */
sn::deadline keeper::tend(backend &at, joined &here, sn::scope &makers,
			  const std::atomic<bool> &stopped)
{
	auto next = sn::after(keeper_beat);
	for (const auto &each : here.plans()) {
		if (!stock_.is_open() || !pool_.may_be_ready(*each->of)) {
			store_.give_up(*each->of,
				       stock_.is_open() ? ready_end::backend : ready_end::config);
			continue;
		}
		next = std::min(next, sweep(at, *each));
		top_up(at, each, here, makers, stopped);
		const std::int64_t again = each->next_try.load(std::memory_order_relaxed);
		if (again > sn_now())
			next = std::min(next, sn::deadline(std::chrono::nanoseconds(again)));
	}
	return std::max(next, sn::after(least_keeper_beat));
}

/* Closes the connections that are of no use any more. Returns when to look again. */
sn::clock::time_point keeper::sweep(const backend &at, plan &which)
{
	const auto now = sn::now();
	auto found = store_.sweep(*which.of, pool_.settings().preconnect.most,
				  pool::limit_of(at, *which.of), tls_, now);
	while (!found.suspect.empty()) {
		std::list<ticket> one;
		one.splice(one.end(), found.suspect, found.suspect.begin());
		ready_connection &is = *one.front().ready();
		const auto age = sn::now() - is.opened;
		switch (look_at(is)) {
		case ready_state::silent:
			store_.put_back(one);
			break;
		case ready_state::closed:
			store_.discarded(ready_end::closed);
			if (age < short_life)
				pause(which);
			break;
		case ready_state::spoke:
			store_.discarded(ready_end::spoke);
			if (store_.spoke(*which.of, age))
				tell_speaks_first(pool_, *which.of);
			break;
		}
	}
	if (store_.was_proved(*which.of))
		which.failures.store(0, std::memory_order_relaxed);
	return found.next;
}

void keeper::top_up(backend &at, const std::shared_ptr<plan> &which, joined &here,
		    sn::scope &makers, const std::atomic<bool> &stopped)
{
	while (is_wanted(*which, stopped) && which->makers.load() < most_at_once) {
		const std::size_t most = pool_.settings().preconnect.most;
		if (!store_.begin(*which->of, most))
			return;
		ticket place = pool_.reserve_ahead(at, which->of);
		if (!place) { /* The endpoint is full: tries again at the next beat. */
			store_.end(*which->of);
			return;
		}
		which->makers.fetch_add(1);
		try {
			makers.go(
				[this, &at, &here, which, &stopped,
				 place = std::move(place)]() mutable {
					make_some(at, *which, std::move(place), stopped);
					which->makers.fetch_sub(1);
					here.rings.ring();
				},
				{.name = "preconnect", .stack_size = tls_ ? tls_stack : 0});
		} catch (...) {
			which->makers.fetch_sub(1);
			store_.end(*which->of);
			throw;
		}
	}
}

bool keeper::is_wanted(const plan &which, const std::atomic<bool> &stopped) const noexcept
{
	return !stopped.load(std::memory_order_relaxed) && stock_.has_room() &&
	       !which.is_over.load(std::memory_order_relaxed) &&
	       sn_now() >= which.next_try.load(std::memory_order_relaxed);
}

/* Makes connections as long as one is wanted. The caller has already called begin() for the
 * first. */
void keeper::make_some(backend &at, plan &which, ticket first, const std::atomic<bool> &stopped)
{
	const std::size_t most = pool_.settings().preconnect.most;
	ticket place = std::move(first);
	for (bool goes_on = true; goes_on;) {
		try {
			goes_on = make_one(which, std::exchange(place, {}), stopped);
		} catch (const std::exception &) {
			/* There is no memory, or the scope was cancelled. */
			pause(which);
			goes_on = false;
		}
		store_.end(*which.of);
		goes_on = goes_on && is_wanted(which, stopped) && store_.begin(*which.of, most);
		if (goes_on && !(place = pool_.reserve_ahead(at, which.of))) {
			store_.end(*which.of);
			goes_on = false;
		}
	}
}

bool keeper::make_one(plan &which, ticket place, const std::atomic<bool> &stopped)
{
	place.set_ready(std::make_unique<ready_connection>(*which.of, stock_.open()));
	ready_connection &made = *place.ready();
	const std::error_code failed = connect(*which.of, made.connection);
	if (sn::cancelled() || stopped.load(std::memory_order_relaxed))
		return false;
	if (failed) {
		made.connection.abort();
		pause(which);
		if (is_shortage(failed)) {
			stock_.give_up_all();
			return false;
		}
		store_.failures.add();
		store_.give_up(*which.of, ready_end::backend);
		return false;
	}
	made.tls = tls_;
	made.opened = sn::now();
	made.expires = made.opened + next_age();
	if (stock_.is_open())
		store_.put(std::move(place));
	return true;
}

std::error_code keeper::connect(const endpoint &to, sn::tcp &into)
{
	const auto until = sn::after(longest_try);
	auto connected = connect_to_endpoint(to.address, until, first_words::unknown);
	if (!connected)
		return connected.error();
	into = *std::move(connected);
	std::string why;
	return tls_ ? tls_->connect(into, tls_host_of(to.backend), "", until, why)
		    : std::error_code();
}

/* Postpones the next attempt. Connections that fail at the same time count once. */
void keeper::pause(plan &which) noexcept
{
	if (which.next_try.load(std::memory_order_relaxed) > sn_now())
		return;
	const unsigned n = std::min(which.failures.fetch_add(1, std::memory_order_relaxed), 16U);
	const auto time = std::min(first_pause * (1 << n), longest_pause);
	which.next_try.store(sn_now() + time.count(), std::memory_order_relaxed);
}

/* An age from three quarters of preconnect_age to all of it, spread evenly by multiples of the
 * golden ratio. */
sn::clock::duration keeper::next_age() noexcept
{
	const std::uint32_t at = made_.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b9;
	const auto quarter = pool_.settings().preconnect.age / 4;
	return 3 * quarter +
	       std::chrono::duration_cast<std::chrono::nanoseconds>(
		       std::chrono::duration<double, std::nano>(quarter) * (at * 0x1p-32));
}

/* Clients only wait longer. */
void keeper::tell_ended(const pool &of, const char *why)
{
	emit(event_kind::preconnect_ended,
	     "connections to the backends of " + of.name() + " are no longer made ahead: " + why,
	     {{"group", of.name()}, {"error", why}});
}

} // namespace

std::unique_ptr<watcher> watch_ready(std::shared_ptr<pool> of, ready_stock &stock)
{
	if (!of->keeps_ready())
		return nullptr;
	const std::size_t stack = of->tls() ? tls_stack : 0;
	auto work = std::make_unique<keeper>(*of, stock);
	return std::make_unique<watcher>(std::move(of), std::move(work), "preconnect", stack);
}

} // namespace relay
