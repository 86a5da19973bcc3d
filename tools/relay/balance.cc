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

/* Whether a, with one connection more, has less to do for its weight than b. */
bool less_loaded(const backend &a, const backend &b) noexcept
{
	return (active(a) + 1) * b.settings.weight < (active(b) + 1) * a.settings.weight;
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

pool::pool(const group_config &settings, const std::string &name, book &counts)
    : settings_(settings)
{
	for (const auto &each : settings.backends)
		backends_.emplace_back(each, counts.open_backend(name, each));
}

bool pool::has_other(const std::vector<backend *> &tried) const noexcept
{
	return std::ranges::any_of(backends_, [&](const backend &each) {
		return each.settings.weight > 0 && !contains(tried, each);
	});
}

ticket pool::choose(std::uint64_t source, const std::vector<backend *> &tried)
{
	candidates among;
	for (backend &each : backends_)
		if (each.settings.weight > 0 && !contains(tried, each))
			among.push_back(&each);
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
		if (reserve(*among[best]))
			return ticket(*among[best]);
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
		among[i]->credit += among[i]->settings.weight;
		sum += among[i]->settings.weight;
		if (among[i]->credit > among[best]->credit)
			best = i;
	}
	among[best]->credit -= sum;
	return best;
}

std::size_t pool::least_connections(const candidates &among)
{
	const auto start = static_cast<std::size_t>(
		turn_.fetch_add(1, std::memory_order_relaxed) % among.size());
	std::size_t best = start;
	for (std::size_t i = 1; i < among.size(); i++) {
		const std::size_t next = (start + i) % among.size();
		if (less_loaded(*among[next], *among[best]))
			best = next;
	}
	return best;
}

std::size_t pool::two_choices(const candidates &among)
{
	std::uint64_t sum = 0;
	for (const backend *each : among)
		sum += each->settings.weight;
	const auto pick = [&](std::uint64_t at, std::size_t skip) {
		std::size_t i = skip == 0 ? 1 : 0;
		for (; i < among.size(); i++) {
			if (i == skip)
				continue;
			if (at < among[i]->settings.weight)
				break;
			at -= among[i]->settings.weight;
		}
		return i;
	};
	/* Weyl's sequence, mixed: a generator that any number of tasks may draw from. */
	const std::uint64_t random =
		mix(turn_.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed));
	const std::size_t first = pick(random % sum, among.size());
	if (among.size() == 1)
		return first;
	const std::size_t second =
		pick(mix(~random) % (sum - among[first]->settings.weight), first);
	return less_loaded(*among[second], *among[first]) ? second : first;
}

/* Each backend draws a number from an exponential distribution of its weight; the first is it. */
std::size_t pool::source_hash(const candidates &among, std::uint64_t source)
{
	std::size_t best = 0;
	double least = 0;
	for (std::size_t i = 0; i < among.size(); i++) {
		const std::uint64_t drawn = mix(source ^ among[i]->hash);
		/* In (0, 1): 53 bits, and half a step off 0. */
		const double uniform = (static_cast<double>(drawn >> 11) + 0.5) * 0x1p-53;
		const double arrival = -std::log(uniform) / among[i]->settings.weight;
		if (i == 0 || arrival < least) {
			best = i;
			least = arrival;
		}
	}
	return best;
}

} // namespace relay
