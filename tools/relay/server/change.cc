/* SPDX-License-Identifier: MIT */
#include "server/change.hpp"

#include "backends/agents.hpp"
#include "backends/checker.hpp"
#include "backends/ready_keeper.hpp"
#include "backends/resolver.hpp"
#include "base/address.hpp"
#include "base/in_time.hpp"
#include "base/report.hpp"
#include "base/sleep.hpp"
#include "config/config_places.hpp"
#include "server/keyed_problem.hpp"
#include "sessions/udp_listener.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* How long the first checks may keep a new process from taking over. The old one waits for twice as
 * long (handover.cc). */
constexpr auto longest_first_checks = 30s;

/* The listener with these settings among them; null if there is none. */
listening *find_listener(const listener_config &of, const listeners &among)
{
	const auto found =
		std::ranges::find_if(among, [&of](const auto &each) { return each->serves(of); });
	return found == among.end() ? nullptr : found->get();
}

} // namespace

/* A listener of UDP that a reload has removed keeps its socket while it has sessions, so the port
 * is not free. If the listener is configured again before they have ended, the new one shares
 * the old one's socket. */
std::unique_ptr<listening> change::open(const listener_config &settings, std::string &why)
{
	if (!is_udp(settings.address))
		return listener::open(all_, settings, why);
	listening *before = nullptr;
	for (const auto &each : serving_.retired)
		if (each->serves(settings) && each->lingers()) {
			before = each.get();
			replaced_.push_back(before);
		}
	return before ? udp_listener::share(all_, settings, *before, why)
		      : udp_listener::open(all_, settings, why);
}

/* If the TLS files cannot be used, reports that and returns false. */
bool change::make_tls()
{
	struct result {
		bool is_made = false;
		tls_set made{};
		std::string why{};
	};
	auto read = call_in_time([&tls = all_.tls, of = settings_, reread = reread_] {
		return tls.read(*of, reread);
	});
	if (!read) {
		emit(fault_, std::string("the files of TLS: ") + no_answer);
		return false;
	}
	/* With thousands of certificates this takes longer than a file system should. */
	auto done = call_in_time(
		[&tls = all_.tls, of = settings_, reread = reread_, file = all_.config_file,
		 read = *std::move(read)]() mutable {
			result its;
			its.is_made = tls.make(*of, reread, std::move(read), its.made, its.why);
			if (!its.is_made)
				its.why = with_place(*of, file, its.why);
			return its;
		},
		2min);
	if (!done || !done->is_made) {
		emit(fault_, done ? done->why : std::string("the files of TLS: ") + no_answer);
		return false;
	}
	tls_ = std::move(done->made);
	return true;
}

bool change::prepare()
{
	if (!make_tls())
		return false;
	contexts_ = tls_.all();
	lists_ = list_files::of(*settings_);
	pools_.use_tls(tls_);
	for (const listener_config &each : settings_->listeners) {
		if (listening *const there = find_listener(each, open_)) {
			staying_.emplace_back(there, pools_.make_route(each, there->address()));
			continue;
		}
		std::string why;
		auto next = open(each, why);
		if (!next) {
			emit(fault_, with_key(all_.config_file, *settings_,
					      "listeners." + each.name + ".address", why));
			return false;
		}
		next->use(pools_.make_route(each, next->address()));
		opened_.push_back(std::move(next));
	}
	open_.reserve(open_.size() + opened_.size());
	return true;
}

void change::announce() const
{
	for (const auto &each : opened_)
		print("listening on " + each->address());
}

/*
 * After a handover nothing is known of the backends, but the old process serves until the new one
 * does, and knows them. Polling is good enough for what happens once. Waits in vain if a check has
 * no result, so clients may have to wait as after any other start; also if the old process ends,
 * because nobody accepts clients then.
 */
void change::await_first_checks() const
{
	const auto awaits = [](const auto &each) { return each && each->awaits_first_checks(); };
	for (const auto until = sn::after(longest_first_checks);
	     all_.inherited.has_former() && std::ranges::any_of(pools_.made(), awaits) &&
	     sn::now() < until;)
		sleep_fully(5ms);
}

/* Starts the checks, lookups and keepers, and the new listeners. If one of them cannot be
 * started, stops all of them and throws. */
void change::start(watchers &watching)
{
	serving_.retired.reserve(serving_.retired.size() + open_.size());
	std::size_t started = 0;
	try {
		const std::size_t most = 4 * pools_.made().size();
		watching.reserve(most);
		serving_.retired_watching.reserve(serving_.retired_watching.size() +
						  serving_.watching.size() + most);
		for (const auto &each : pools_.made()) {
			if (!each)
				continue;
			if (auto names = watch_names(each))
				watching.push_back(std::move(names));
			if (auto health = watch_health(each, all_.counters, all_.sessions,
						       settings_->drain))
				watching.push_back(std::move(health));
			if (auto agents = watch_agents(each, all_.sessions, settings_->drain))
				watching.push_back(std::move(agents));
			if (auto ready = watch_ready(each, all_.stock))
				watching.push_back(std::move(ready));
		}
		await_first_checks();
		for (; started < opened_.size(); started++)
			opened_[started]->start();
	} catch (const std::exception &) {
		retire(watching);
		for (std::size_t i = 0; i < started; i++)
			opened_[i]->stop();
		for (std::size_t i = 0; i < started; i++)
			opened_[i]->close();
		throw;
	}
}

void change::commit()
{
	watchers watching;
	start(watching);

	/* Nothing fails from here on. */
	counts_.commit();
	all_.tls.use(std::move(contexts_));
	all_.lists.use(std::move(lists_));
	for (const auto &each : pools_.made())
		if (each)
			pool::lead(each);
	retire(serving_.watching);
	serving_.watching = std::move(watching);
	for (auto &each : open_) {
		const auto kept = std::ranges::find(staying_, each.get(),
						    &decltype(staying_)::value_type::first);
		if (kept != staying_.end()) {
			each->use(std::move(kept->second));
		} else {
			each->retire();
			serving_.retired.push_back(std::move(each));
		}
	}
	/* The replaced listeners are closed here, because until then they would take datagrams
	 * from the new ones. */
	for (auto *each : replaced_) {
		each->give_up();
		each->close();
	}
	std::erase(open_, nullptr);
	std::ranges::move(opened_, std::back_inserter(open_));
	all_.settings = settings_;
}

void change::let_in() noexcept
{
	for (const auto &each : open_)
		each->let_in();
}

void change::retire(watchers &which) noexcept
{
	for (auto &each : which) {
		each->stop();
		serving_.retired_watching.push_back(std::move(each));
	}
	which.clear();
}

} // namespace relay
