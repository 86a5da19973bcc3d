/* SPDX-License-Identifier: MIT */
#include "backends/source_bandwidth.hpp"

#include <sennit/clock.h>

#include <algorithm>
#include <iterator>

namespace relay
{
namespace
{

ip_address network_of(const ip_address &source) noexcept
{
	ip_address network = source;
	std::fill(network.bytes.begin() + 8, network.bytes.end(), 0);
	return network;
}

} // namespace

buckets *source_bandwidths::use::shared() const noexcept
{
	return of_ ? &which_->both : nullptr;
}

void source_bandwidths::follow_limit(entry &which) const noexcept
{
	for (unsigned way = 0; way < which.both.size(); way++)
		follow(limit_, way, which.both[way]);
}

/* Without a limit buckets are full. */
bool source_bandwidths::is_full(entry &which, std::int64_t now) const noexcept
{
	follow_limit(which);
	return std::ranges::all_of(which.both, [now](bucket &each) { return each.is_full(now); });
}

source_bandwidths::use source_bandwidths::enter(const ip_address &source, std::int64_t now)
{
	const ip_address network = network_of(source);
	shard &at = shard_of(network);
	const std::lock_guard lock(at.lock);
	entry *which = nullptr;
	if (const auto found = at.all.find(network); found != at.all.end()) {
		which = found->second;
		if (which->connections == 0)
			at.busy.splice(at.busy.end(), at.idle, which->self);
	} else {
		std::list<entry> made;
		which = &made.emplace_back(network);
		which->self = made.begin();
		at.all.emplace(network, which);
		at.busy.splice(at.busy.end(), made);
		known_.add();
	}
	which->connections++;
	follow_limit(*which);
	forget_some(at, now);
	return {*this, *which};
}

void source_bandwidths::leave(entry &which) noexcept
{
	shard &at = shard_of(which.source);
	const std::lock_guard lock(at.lock);
	if (--which.connections > 0)
		return;
	at.idle.splice(at.idle.end(), at.busy, which.self);
	forget_some(at, sn_now());
}

/* `which` is idle. */
void source_bandwidths::forget(shard &at, std::list<entry>::iterator which) noexcept
{
	at.all.erase(which->source);
	at.idle.erase(which);
	known_.subtract();
}

/* Forgets idle sources whose buckets are full, from the oldest to the first whose buckets are not,
 * and more if there are too many. The newest one is looked at as well, because a short connection
 * usually takes nothing from them that matters. */
void source_bandwidths::forget_some(shard &at, std::int64_t now) noexcept
{
	while (!at.idle.empty() && is_full(at.idle.front(), now))
		forget(at, at.idle.begin());
	if (!at.idle.empty() && is_full(at.idle.back(), now))
		forget(at, std::prev(at.idle.end()));
	if (at.idle.size() > idle_sources_most / shards) {
		forgotten_.add();
		forget(at, at.idle.begin());
	}
}

void source_bandwidths::forget_full(std::int64_t now) noexcept
{
	for (shard &at : shards_) {
		const std::lock_guard lock(at.lock);
		for (auto each = at.idle.begin(); each != at.idle.end();) {
			const auto which = each++;
			if (is_full(*which, now))
				forget(at, which);
		}
	}
}

} // namespace relay
