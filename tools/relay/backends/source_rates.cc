/* SPDX-License-Identifier: MIT */
#include "backends/source_rates.hpp"

#include "backends/rate_limit.hpp"

#include <algorithm>

namespace relay
{
namespace
{

/* A hash of the address, or of an IPv6 address's network; never 0. */
std::uint64_t tag_of(const ip_address &source) noexcept
{
	ip_address network = source;
	std::fill(network.bytes.begin() + 8, network.bytes.end(), 0);
	return keyed_hash(network) | 1;
}

} // namespace

bool source_rates::enter(const ip_address &source, std::int64_t now, std::uint64_t per_second,
			 std::uint64_t burst)
{
	const rate_limit limit{per_second, burst};
	const std::int64_t latest = limit.latest(now);
	const std::uint64_t tag = tag_of(source);
	shard &at = shards_[(tag >> 1) % shards];
	const std::lock_guard lock(at.lock);
	if (at.all.empty())
		at.all.resize(sets);
	/* What is due is an effect of the old limit, as in class rate. All of the shard is
	 * shortened, because a place that is due late would not be forgotten for as long. */
	if (at.limit != limit.id()) {
		at.limit = limit.id();
		for (auto &each : at.all)
			for (auto &one : each)
				one.due = std::min(one.due, latest);
	}
	set &its = at.all[(tag >> 8) % sets];
	auto found = std::ranges::find(its, tag, &place::tag);
	if (found == its.end()) {
		found = std::ranges::min_element(
			its, {}, [](const place &each) { return each.tag ? each.due : INT64_MIN; });
		if (found->tag && found->due > now)
			forgotten_.add();
		*found = {tag, now};
	}
	const std::int64_t next = std::max(found->due, now) + limit.step();
	if (next > latest)
		return false;
	found->due = next;
	return true;
}

} // namespace relay
