/* SPDX-License-Identifier: MIT */
/* Which clients of a listener are served, and by which group. */
#include "sessions/session.hpp"

#include <algorithm>
#include <utility>

namespace relay
{
namespace
{

bool have_tls(const std::vector<std::shared_ptr<pool>> &some)
{
	return std::ranges::any_of(some, [](const auto &each) { return each && each->tls(); });
}

} // namespace

route::route(std::shared_ptr<const config> of, const listener_config &says,
	     std::shared_ptr<pool> for_others, std::vector<std::shared_ptr<pool>> for_groups,
	     std::vector<std::shared_ptr<pool>> for_protocols,
	     std::shared_ptr<const tls_context> ends_tls,
	     std::shared_ptr<listener_counters> counted)
    : whole(std::move(of)), settings(says), others(std::move(for_others)),
      by_group(std::move(for_groups)), by_protocol(std::move(for_protocols)),
      tls(std::move(ends_tls)),
      makes_handshakes(tls || have_tls(by_group) || have_tls(by_protocol) || have_tls({others})),
      counts(std::move(counted))
{
}

void route::use_lists(std::shared_ptr<const listener_config> read) noexcept
{
	const std::lock_guard lock(lock_);
	lists_.swap(read); /* the old lists are released after the lock */
}

/* The lists in use. Without list files the pointer owns nothing, because the reference count of
 * an owner would be a cache line shared by all processors. */
std::shared_ptr<const listener_config> route::lists() const noexcept
{
	if (!settings.lists.empty()) {
		const std::lock_guard lock(lock_);
		if (lists_)
			return lists_;
	}
	return {std::shared_ptr<void>(), &settings};
}

bool route::tells_sources_apart() const noexcept
{
	const auto these = lists();
	return !these->deny.empty() || !these->allow.empty() || settings.limits_sources();
}

bool route::denies(const ip_address &client) const noexcept
{
	const auto these = lists();
	return contains(these->deny, client) ||
	       (!these->allow.empty() && !contains(these->allow, client));
}

std::optional<termination> route::refuses(const ip_address &client, source_ticket &counted,
					  bool is_new) const
{
	if (denies(client))
		return termination::refused_list;
	if (is_new && settings.accept_rate_per_source &&
	    !counts->source_rates.enter(client, sn_now(), settings.accept_rate_per_source,
					settings.accept_burst_per_source))
		return termination::refused_rate;
	if (settings.max_connections_per_source) {
		if (!counts->sources.enter(client, settings.max_connections_per_source))
			return termination::refused_limit;
		counted = source_ticket(counts->sources, client);
	}
	/* The limit may be newer than this route, if the address was known late, or, while a
	 * listener is replaced, older. */
	if (settings.bandwidth_per_source.is_there() || counts->bandwidth_per_source.is_there())
		counted.set_bandwidth(counts->source_bandwidths.enter(client, sn_now()));
	return std::nullopt;
}

pool *route::pool_for(std::string_view server_name, std::string_view protocols) const noexcept
{
	while (!settings.alpn.empty() && !protocols.empty()) {
		const std::size_t size = static_cast<unsigned char>(protocols.front());
		const auto each = protocols.substr(1, size);
		const auto found = std::ranges::find(settings.alpn, each, &alpn_route::protocol);
		if (found != settings.alpn.end())
			return by_protocol[static_cast<std::size_t>(found - settings.alpn.begin())]
				.get();
		protocols.remove_prefix(std::min(protocols.size(), size + 1));
	}
	/* There can be many names, so they are sorted. Looks for the name itself, and then for
	 * "*." entries that match its end from a dot on, the longest first. */
	const auto these = lists();
	for (std::string_view end = server_name; !end.empty();) {
		const auto at = std::ranges::lower_bound(these->sni, end, {}, &sni_route::name);
		if (at != these->sni.end() && at->name == end)
			return by_group[at->group].get();
		const auto dot = end.find('.', 1);
		end = dot == end.npos ? std::string_view{} : end.substr(dot);
	}
	return others.get();
}

} // namespace relay
