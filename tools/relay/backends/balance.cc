/* SPDX-License-Identifier: MIT */
#include "backends/balance.hpp"

#include "backends/agents.hpp"
#include "base/sleep.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace relay
{
namespace
{

/* The finalizer of splitmix64: every input bit changes every output bit half of the time. */
std::uint64_t mix(std::uint64_t x) noexcept
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9U;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebU;
	return x ^ (x >> 31);
}

std::uint64_t active(const endpoint &of) noexcept
{
	return in_use(of.counts);
}

bool reserve(endpoint &of, std::uint64_t most) noexcept
{
	std::uint64_t now = of.counts.active.load(); /* (b) in queue.hpp */
	do {
		if (most && now >= most)
			return false;
	} while (!of.counts.active.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
	return true;
}

/* Whether clients should avoid the endpoint because it is silent. False while it is due for a
 * probe. */
bool is_silent(const endpoint &one, std::int64_t now) noexcept
{
	const auto since = one.counts.unanswered_since.load(std::memory_order_relaxed);
	return since != 0 && now - since >= most_patience &&
	       now - since < most_patience + silence_probed;
}

/* Notes that the endpoint was chosen. If it is silent, this client is its probe, and the next
 * one is due only after silent_probed. */
void note_probe(endpoint &one, std::int64_t now) noexcept
{
	auto &its = one.counts.unanswered_since;
	auto since = its.load(std::memory_order_relaxed);
	/* Fails if the endpoint has answered, or another client has just been chosen to probe
	 * it. */
	if (since != 0 && now - since >= most_patience)
		its.compare_exchange_strong(since, now - most_patience, std::memory_order_relaxed);
}

bool contains(const tried_endpoints &tried, const endpoint &one) noexcept
{
	return std::ranges::find(tried, &one, &std::shared_ptr<endpoint>::get) != tried.end();
}

/* In hundredths. A listed weight of 0 becomes the smallest weight above 0. Neither
 * settings.weight nor percent is 0. */
std::uint64_t weight_of(const backend_config &settings, const listed_endpoint &listed,
			std::uint32_t percent) noexcept
{
	const auto own = std::min<std::uint64_t>(std::uint64_t{settings.weight} * percent,
						 std::uint64_t{100} * weight_max);
	return listed.weight ? own * listed.weight : std::max<std::uint64_t>(own / 100, 1);
}

checking checking_of(const check_config &how) noexcept
{
	if (how.interval.count() == 0)
		return checking::none;
	return how.starts_down ? checking::starts_down : checking::starts_up;
}

/* Whether clients wait for the first check of the endpoint instead of using a backup. An error
 * means that this machine could not make the check. */
bool holds_priority(const endpoint &of) noexcept
{
	return of.counts.last_error.load(std::memory_order_relaxed) == 0;
}

/* Makes the endpoint return slowly until then, or later if it does so already. */
void slow_down(endpoint_counters &its, std::int64_t until) noexcept
{
	auto now = its.slow_until.load(std::memory_order_relaxed);
	while (now < until &&
	       !its.slow_until.compare_exchange_weak(now, until, std::memory_order_relaxed))
		;
}

} // namespace

std::uint64_t hash_of(std::string_view bytes) noexcept
{
	std::uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a, then mixed: its high bits are poor */
	for (const char c : bytes)
		hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
	return mix(hash);
}

pool::pool(const group_config &settings, const std::string &name, registry::generation &counts)
    : settings_(settings), name_(name), group_(counts.open_group(name, settings.queue.limit))
{
	for (const auto &each : settings.backends)
		backends_.emplace_back(each,
				       counts.open_backend(name, each, checking_of(settings.check),
							   agent_of(settings, each)));
}

/* A "down" of the checks counts only while there are checks that can lift it. An agent's answers
 * need no such test, because they are forgotten when the agent goes. */
pool::access pool::access_to(const endpoint &one) const noexcept
{
	using relay::checked;

	if (!one.agent.effect().lets_in())
		return access::closed;
	if (settings_.check.interval.count() == 0 || is_unchecked_.load(std::memory_order_relaxed))
		return access::open;
	const auto result = one.counts.check.load(std::memory_order_relaxed);
	if (result == checked::down)
		return access::closed;
	if (result != checked::unknown || !settings_.check.starts_down)
		return access::open;
	return is_unwatched_.load() ? access::closed : access::awaited;
}

bool pool::has_endpoint(std::string_view address) const
{
	return std::ranges::any_of(backends_, [&](const backend &of) {
		std::shared_ptr<const endpoint_list> keep;
		return std::ranges::any_of(of.endpoints.now(keep), [&](const auto &each) {
			return each.at->address == address;
		});
	});
}

/* Allocates no memory, and neither do the questions that use it: nobody would ask them again if
 * they could not be answered when the last check ends. */
template <class Condition>
bool pool::has_left(const tried_endpoints &tried, Condition fits) const noexcept
{
	return std::ranges::any_of(backends_, [&](const backend &of) {
		std::shared_ptr<const endpoint_list> keep;
		return of.settings.weight > 0 &&
		       std::ranges::any_of(of.endpoints.now(keep), [&](const auto &each) {
			       return fits(access_to(*each.at)) && !contains(tried, *each.at);
		       });
	});
}

bool pool::has_other(const tried_endpoints &tried) const noexcept
{
	return has_left(tried, [](access to) { return to != access::closed; });
}

bool pool::starts_down() const noexcept
{
	return settings_.check.starts_down && settings_.check.interval.count() != 0 &&
	       !is_unchecked_.load(std::memory_order_relaxed) && !is_unwatched_.load();
}

/* An endpoint that could not be checked waits for this machine, and does not hold its priority. */
bool pool::awaits_first_checks(const tried_endpoints &tried) const noexcept
{
	if (!starts_down())
		return false;
	std::shared_ptr<const endpoint_list> keep;
	bool is_any = false;
	auto awaited = UINT64_MAX;
	auto open = UINT64_MAX;
	for (const backend &of : backends_) {
		if (of.settings.weight == 0)
			continue;
		if (!of.endpoints.known()) {
			is_any = true;
			awaited = std::min(awaited, priority_of(of.settings.priority, 0));
			continue;
		}
		for (const auto &each : of.endpoints.now(keep)) {
			const auto may = access_to(*each.at);
			if (may == access::closed || contains(tried, *each.at))
				continue;
			const auto priority = priority_of(of.settings.priority, each.priority);
			if (may == access::open)
				open = std::min(open, priority);
			else if (is_any = true; holds_priority(*each.at))
				awaited = std::min(awaited, priority);
		}
	}
	return is_any && awaited <= open;
}

bool pool::has_awaited() const noexcept
{
	return settings_.check.starts_down &&
	       (lacks_a_name() || has_left({}, [](access to) { return to == access::awaited; }));
}

bool pool::lacks_a_name() const noexcept
{
	return !is_unwatched_.load() && std::ranges::any_of(backends_, [](const backend &of) {
		return of.settings.weight > 0 && !of.endpoints.known();
	});
}

/* Happens only just after the start, so polling is good enough. */
void pool::await_names(sn::deadline until, const std::function<bool()> &gone) const
{
	using namespace std::chrono_literals;

	if (!lacks_names())
		return;
	/* If another endpoint can be chosen, waits for half of the time only: another endpoint
	 * than the client's usual one is better than none. */
	if (until != sn::no_deadline && has_other({}))
		until = sn::now() + (until - sn::now()) / 2;
	while (lacks_names() && !gone() && (until == sn::no_deadline || sn::now() < until))
		sleep_fully(5ms);
}

/* The current weight in hundredths; 0 while the endpoint is ejected. all: its weight when
 * nothing reduces it. */
std::uint64_t pool::weight_at(const endpoint &of, std::uint64_t all,
			      std::int64_t now) const noexcept
{
	const std::int64_t until = of.counts.slow_until.load(std::memory_order_relaxed);
	if (now >= until)
		return all;
	if (now < of.counts.ejected_until.load(std::memory_order_relaxed))
		return 0;
	const double left = static_cast<double>(until - now) /
			    static_cast<double>(settings_.slow_return.count());
	const std::uint64_t least = std::max<std::uint64_t>(all / 100, 1);
	return std::clamp<std::uint64_t>(
		static_cast<std::uint64_t>(static_cast<double>(all) * (1 - std::min(left, 1.0))),
		least, all);
}

pool::candidates pool::find_candidates(const tried_endpoints &tried, std::int64_t now,
				       kept &keep) const
{
	candidates fit;
	candidates any;
	/* The best priority of those that await their first checks, or the lookup before these. */
	auto awaited = UINT64_MAX;
	for (const backend &of : backends_) {
		if (of.settings.weight == 0)
			continue;
		if (starts_down() && !of.endpoints.known())
			awaited = std::min(awaited, priority_of(of.settings.priority, 0));
		for (const auto &each : of.endpoints.now(keep)) {
			const auto may = access_to(*each.at);
			if (may == access::closed || contains(tried, *each.at))
				continue;
			if (may == access::awaited) {
				if (holds_priority(*each.at))
					awaited =
						std::min(awaited, priority_of(of.settings.priority,
									      each.priority));
				continue;
			}
			/* The agent may have set it to 0 after access_to() has looked. */
			const std::uint32_t percent = each.at->agent.effect().percent;
			const auto all =
				weight_of(of.settings, each, std::max<std::uint32_t>(percent, 1));
			any.push_back({each.at.get(), all, &of, &each});
			if (const auto weight = weight_at(*each.at, all, now))
				fit.push_back({each.at.get(), weight, &of, &each});
		}
	}
	candidates &best = fit.empty() && awaited == UINT64_MAX ? any : fit;
	if (best.empty())
		return {};
	const auto first =
		std::min(awaited, std::ranges::min(best, {}, &candidate::priority).priority());
	std::erase_if(best, [&](const candidate &each) { return each.priority() > first; });
	return std::move(best);
}

void pool::succeeded(endpoint &at) noexcept
{
	/* Read first: a needless write would take the cache line from other threads. */
	if (at.counts.failures_in_a_row.load(std::memory_order_relaxed) != 0)
		at.counts.failures_in_a_row.store(0, std::memory_order_relaxed);
}

bool pool::failed(endpoint &at) noexcept
{
	const std::uint32_t row =
		at.counts.failures_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1;
	const std::int64_t now = sn_now();
	std::int64_t old = at.counts.ejected_until.load(std::memory_order_relaxed);
	if (settings_.eject_after == 0 || row < settings_.eject_after || now < old)
		return false;
	/* Of concurrent failures, one ejects the endpoint. A year is the longest duration, so
	 * nothing overflows. */
	const std::int64_t until = now + settings_.eject_for.count();
	if (!at.counts.ejected_until.compare_exchange_strong(old, until, std::memory_order_relaxed))
		return false;
	at.counts.ejections.add();
	at.counts.slow_until.store(until + settings_.slow_return.count(),
				   std::memory_order_relaxed);
	line().changed(); /* waiters may now use a backup */
	return true;
}

bool pool::may_be_ready(const endpoint &one) const noexcept
{
	const std::int64_t now = sn_now();
	return access_to(one) == access::open && !is_silent(one, now) &&
	       now >= one.counts.ejected_until.load(std::memory_order_relaxed);
}

ticket pool::reserve_ahead(const backend &of, const std::shared_ptr<endpoint> &one) const noexcept
{
	const std::uint64_t most = limit_of(of, *one);
	if (most == 1 || (most != 0 && line().limit() == 0) || !line().is_empty() ||
	    !reserve(*one, most == 0 ? 0 : most - 1))
		return {};
	return {one, line()};
}

agent_state::change pool::heard(endpoint &at, const agent_id &agent, const agent_answer &answer)
{
	const auto change = at.agent.heard(agent, answer);
	if (change.before.is_down() && !change.after.is_down())
		slow_down(at.counts, sn_now() + settings_.slow_return.count());
	/* Waiting clients may now be given this endpoint, or a backup in its place. */
	if (change.before != change.after)
		line().changed();
	return change;
}

void pool::unheard() noexcept
{
	for (const backend &each : backends_)
		each.endpoints.forget_agent();
	line().changed();
}

bool pool::less_loaded(const candidate &a, const candidate &b) noexcept
{
	return (active(*a.to) + 1) * b.weight < (active(*b.to) + 1) * a.weight;
}

ticket pool::choose_from(candidates among, std::uint64_t source, std::int64_t now, use wanted)
{
	while (!among.empty()) {
		std::size_t best = 0;
		switch (settings_.balance) {
		case balancing::round_robin:
			best = round_robin(among);
			break;
		case balancing::least_connections:
			best = least_connections(among);
			break;
		case balancing::two_choices:
			best = two_choices(among);
			break;
		case balancing::source_hash:
			best = source_hash(among, source);
			break;
		}
		const candidate &chosen = among[best];
		const std::uint64_t most = limit_of(*chosen.of, *chosen.to);
		/* A ready connection already has a place, but the limit may have been lowered
		 * since. */
		if (keeps_ready() && (most == 0 || in_use(chosen.to->counts) < most))
			if (ticket made = group_->ready.take(*chosen.to))
				return made;
		if (reserve(*chosen.to, most)) {
			if (wanted == use::connection)
				note_probe(*chosen.to, now);
			return {chosen.listed->at, line()};
		}
		among.erase(among.begin() + static_cast<std::ptrdiff_t>(best));
	}
	return {};
}

ticket pool::choose(std::uint64_t source, const tried_endpoints &tried, use wanted)
{
	kept keep;
	const std::int64_t now = sn_now();
	candidates among = find_candidates(tried, now, keep);
	/* Clang 14 cannot compile what std::ranges::partition() returns. */
	const auto silent = std::partition(among.begin(), among.end(), [&](const candidate &each) {
		return wanted == use::datagrams || !is_silent(*each.to, now);
	});
	if (silent == among.end())
		return choose_from(std::move(among), source, now, wanted);
	candidates others(silent, among.end());
	among.erase(silent, among.end());
	ticket found = choose_from(std::move(among), source, now, wanted);
	return found ? std::move(found) : choose_from(std::move(others), source, now, wanted);
}

ticket pool::choose_in_turn(std::uint64_t source, const tried_endpoints &tried)
{
	return line().is_empty() ? choose(source, tried) : ticket();
}

void pool::lead(const std::shared_ptr<pool> &which) noexcept
{
	which->line().set_limit(which->settings_.queue.limit);
	which->ready().set_most(which->settings_.preconnect.most);
	which->line().use(which);
	if (which->is_unchecked_.load())
		which->forget_checks();
}

queue::giver::answer pool::give_place(queue::waiter &to,
				      const std::shared_ptr<queue::giver> &itself) noexcept
try {
	auto &client = static_cast<queued_choice &>(to);
	client.got = choose(client.source, client.tried);
	if (client.got) {
		client.of = std::static_pointer_cast<pool>(itself);
		return answer::given;
	}
	return answer::none;
} catch (const std::bad_alloc &) {
	return answer::no_memory;
}

bool pool::may_serve(const queue::waiter &which) const noexcept
{
	return (!settings_.check.starts_down && !is_unwatched()) ||
	       may_get_other(static_cast<const queued_choice &>(which).tried);
}

/* Two clients that have tried the same endpoints can use the same places, because room does not
 * depend on the source. */
bool pool::are_alike(const queue::waiter &a, const queue::waiter &b) const noexcept
{
	const auto &one = static_cast<const queued_choice &>(a).tried;
	const auto &other = static_cast<const queued_choice &>(b).tried;
	return one.size() == other.size() &&
	       std::ranges::all_of(one, [&](const auto &each) { return contains(other, *each); });
}

std::size_t pool::round_robin(const candidates &among)
{
	const std::lock_guard lock(lock_);
	std::int64_t sum = 0;
	std::int64_t most = 0;
	std::size_t best = 0;
	for (std::size_t i = 0; i < among.size(); i++) {
		const auto weight = static_cast<std::int64_t>(among[i].weight);
		const auto credit =
			weight + among[i].to->credit.fetch_add(weight, std::memory_order_relaxed);
		sum += weight;
		if (i == 0 || credit > most) {
			best = i;
			most = credit;
		}
	}
	among[best].to->credit.fetch_sub(sum, std::memory_order_relaxed);
	return best;
}

std::size_t pool::least_connections(const candidates &among)
{
	const auto start = static_cast<std::size_t>(turn_.fetch_add(1, std::memory_order_relaxed) %
						    among.size());
	std::size_t best = start;
	for (std::size_t i = 1; i < among.size(); i++) {
		const std::size_t next = (start + i) % among.size();
		if (less_loaded(among[next], among[best]))
			best = next;
	}
	return best;
}

std::size_t pool::two_choices(const candidates &among)
{
	std::uint64_t sum = 0;
	for (const candidate &each : among)
		sum += each.weight;
	const auto pick = [&](std::uint64_t at, std::size_t skip) {
		std::size_t i = skip == 0 ? 1 : 0;
		for (; i < among.size(); i++) {
			if (i == skip)
				continue;
			if (at < among[i].weight)
				break;
			at -= among[i].weight;
		}
		return i;
	};
	/* A mixed Weyl sequence: a generator that any number of tasks may draw from. */
	const std::uint64_t random =
		mix(turn_.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed));
	const std::size_t first = pick(random % sum, among.size());
	if (among.size() == 1)
		return first;
	const std::size_t second = pick(mix(~random) % (sum - among[first].weight), first);
	return less_loaded(among[second], among[first]) ? second : first;
}

/* Each endpoint draws from an exponential distribution with its weight; the least value wins. */
std::size_t pool::source_hash(const candidates &among, std::uint64_t source)
{
	std::size_t best = 0;
	double least = 0;
	for (std::size_t i = 0; i < among.size(); i++) {
		const std::uint64_t drawn = mix(source ^ among[i].to->hash);
		/* A number in (0, 1): 53 random bits, plus half a step to exclude 0. */
		const double uniform = (static_cast<double>(drawn >> 11) + 0.5) * 0x1p-53;
		const double arrival = -std::log(uniform) / static_cast<double>(among[i].weight);
		if (i == 0 || arrival < least) {
			best = i;
			least = arrival;
		}
	}
	return best;
}

} // namespace relay
