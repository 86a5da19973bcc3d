/* SPDX-License-Identifier: MIT */
#include "balance.hpp"

#include <algorithm>
#include <cmath>

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

std::uint64_t active(const backend &of) noexcept
{
	return of.counts.active.load(std::memory_order_relaxed);
}

bool reserve(backend &of) noexcept
{
	const std::uint64_t most = of.settings.max_connections;
	std::uint64_t now = active(of);
	do {
		if (most && now >= most)
			return false;
	} while (!of.counts.active.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
	return true;
}

bool contains(const std::vector<backend *> &tried, const backend &one) noexcept
{
	return std::ranges::find(tried, &one) != tried.end();
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
    : settings_(settings), name_(name)
{
	for (const auto &each : settings.backends)
		backends_.emplace_back(
			each, counts.open_backend(name, each, settings.check.interval.count() > 0));
}

/* A stale "down" counts only while there are checks that can lift it. */
bool pool::may_be_chosen(const backend &one) const noexcept
{
	return one.settings.weight > 0 && !one.counts.addresses.down() &&
	       (settings_.check.interval.count() == 0 ||
		one.counts.check.load(std::memory_order_relaxed) != checked::down);
}

bool pool::has_other(const std::vector<backend *> &tried) const noexcept
{
	return std::ranges::any_of(backends_, [&](const backend &each) {
		return may_be_chosen(each) && !contains(tried, each);
	});
}

/* The current weight, in hundredths of the configured one; 0 while it is ejected. */
std::uint64_t pool::weight_at(const backend &of, std::int64_t now) const noexcept
{
	const std::uint64_t all = std::uint64_t{100} * of.settings.weight;
	const std::int64_t until = of.counts.slow_until.load(std::memory_order_relaxed);
	if (now >= until)
		return all;
	if (now < of.counts.ejected_until.load(std::memory_order_relaxed))
		return 0;
	const double left = static_cast<double>(until - now) /
			    static_cast<double>(settings_.slow_return.count());
	return std::clamp<std::uint64_t>(
		static_cast<std::uint64_t>(static_cast<double>(all) * (1 - std::min(left, 1.0))),
		of.settings.weight, all);
}

pool::candidates pool::find_candidates(const std::vector<backend *> &tried) const
{
	const std::int64_t now = sn_now();
	candidates fit;
	candidates any;
	for (backend &each : backends_) {
		if (!may_be_chosen(each) || contains(tried, each))
			continue;
		any.push_back({&each, std::uint64_t{100} * each.settings.weight});
		if (const auto weight = weight_at(each, now))
			fit.push_back({&each, weight});
	}
	return fit.empty() ? any : fit;
}

void pool::succeeded(backend &at) noexcept
{
	/* Read first: a needless write would take the cache line from other threads. */
	if (at.counts.failures_in_a_row.load(std::memory_order_relaxed) != 0)
		at.counts.failures_in_a_row.store(0, std::memory_order_relaxed);
}

bool pool::failed(backend &at) noexcept
{
	const std::uint32_t row =
		at.counts.failures_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1;
	const std::int64_t now = sn_now();
	std::int64_t old = at.counts.ejected_until.load(std::memory_order_relaxed);
	if (settings_.eject_after == 0 || row < settings_.eject_after || now < old)
		return false;
	/* Of concurrent failures one ejects it. A year is the longest, so nothing overflows. */
	const std::int64_t until = now + settings_.eject_for.count();
	if (!at.counts.ejected_until.compare_exchange_strong(old, until, std::memory_order_relaxed))
		return false;
	at.counts.ejections.add();
	at.counts.slow_until.store(until + settings_.slow_return.count(),
				   std::memory_order_relaxed);
	return true;
}

bool pool::checked(backend &at, const std::error_code &answer) noexcept
{
	using relay::checked;

	auto &its = at.counts;
	its.checks.add();
	if (answer)
		its.check_failures.add();
	its.last_error.store(answer.value(), std::memory_order_relaxed);
	its.last_check.store(sn_walltime(), std::memory_order_relaxed);

	const checked was = its.check.load(std::memory_order_relaxed);
	const bool speaks_against = (was == checked::down) == !answer;
	if (!speaks_against) {
		its.answers_in_a_row.store(0, std::memory_order_relaxed);
		if (!answer)
			its.check.store(checked::up, std::memory_order_relaxed);
		return false;
	}
	const std::uint32_t row = its.answers_in_a_row.load(std::memory_order_relaxed) + 1;
	if (row < (answer ? settings_.check.fall : settings_.check.rise)) {
		its.answers_in_a_row.store(row, std::memory_order_relaxed);
		return false;
	}
	its.answers_in_a_row.store(0, std::memory_order_relaxed);
	if (!answer) {
		/* The checks have connected too: from now on it returns slowly. */
		const std::int64_t now = sn_now();
		its.failures_in_a_row.store(0, std::memory_order_relaxed);
		its.ejected_until.store(now, std::memory_order_relaxed);
		its.slow_until.store(now + settings_.slow_return.count(),
				     std::memory_order_relaxed);
	}
	its.check.store(answer ? checked::down : checked::up, std::memory_order_relaxed);
	return true;
}

void pool::unchecked(backend &at) noexcept
{
	at.counts.check.store(relay::checked::unknown, std::memory_order_relaxed);
}

bool pool::less_loaded(const candidate &a, const candidate &b) noexcept
{
	return (active(*a.to) + 1) * b.weight < (active(*b.to) + 1) * a.weight;
}

ticket pool::choose(std::uint64_t source, const std::vector<backend *> &tried)
{
	candidates among = find_candidates(tried);
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
		if (reserve(*among[best].to))
			return ticket(*among[best].to);
		among.erase(among.begin() + static_cast<std::ptrdiff_t>(best));
	}
	return {};
}

std::size_t pool::round_robin(const candidates &among)
{
	const std::lock_guard lock(lock_);
	std::int64_t sum = 0;
	std::size_t best = 0;
	for (std::size_t i = 0; i < among.size(); i++) {
		const auto weight = static_cast<std::int64_t>(among[i].weight);
		among[i].to->credit += weight;
		sum += weight;
		if (among[i].to->credit > among[best].to->credit)
			best = i;
	}
	among[best].to->credit -= sum;
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

/* Each backend draws from an exponential distribution with its weight; the least value wins. */
std::size_t pool::source_hash(const candidates &among, std::uint64_t source)
{
	std::size_t best = 0;
	double least = 0;
	for (std::size_t i = 0; i < among.size(); i++) {
		const std::uint64_t drawn = mix(source ^ among[i].to->hash);
		/* In (0, 1): 53 bits, and half a step off 0. */
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
