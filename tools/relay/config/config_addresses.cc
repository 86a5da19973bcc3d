/* SPDX-License-Identifier: MIT */
#include "config/config_addresses.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace relay
{
namespace
{

/* The listener or server that uses an address. */
struct holder {
	std::string key;
	std::string address;
};

/* The addresses of one port that are in use. An address that stands for all of a family, such as
 * 0.0.0.0, conflicts with every other one of that family. */
class taken_port
{
public:
	/* Returns the holder that already uses the address; or null if it was free, after recording
	 * `by` as its holder. */
	const holder *take(std::string_view host, const holder &by)
	{
		const bool of_both = host.empty();
		in6_addr bits{};
		const bool is_ipv6 = host.starts_with('[');
		std::string same(host);
		if (is_ipv6) {
			/* Brings all spellings of an address to one form. A zone is kept. */
			const auto inside = host.substr(1, host.find_first_of("%]") - 1);
			if (inet_pton(AF_INET6, std::string(inside).c_str(), &bits) == 1)
				same = std::string(reinterpret_cast<const char *>(&bits),
						   sizeof bits) +
				       std::string(host.substr(inside.size() + 1));
		}
		const bool is_ipv4 = !is_ipv6 && inet_pton(AF_INET, same.c_str(), &bits) == 1;
		const bool is_every =
			of_both || host == "0.0.0.0" || (is_ipv6 && is_unspecified(host));
		const auto hosts = exact_.find(same);
		if (hosts != exact_.end())
			return &hosts->second;
		for (const int family : {0, 1}) {
			if (!of_both && !(family == 0 ? is_ipv4 : is_ipv6))
				continue;
			const holder &there = is_every ? first_[family] : every_[family];
			if (!there.key.empty())
				return &there;
		}
		exact_.emplace(std::move(same), by);
		for (const int family : {0, 1}) {
			if (!of_both && !(family == 0 ? is_ipv4 : is_ipv6))
				continue;
			if (first_[family].key.empty())
				first_[family] = by;
			if (is_every)
				every_[family] = by;
		}
		return nullptr;
	}

private:
	static bool is_unspecified(std::string_view host)
	{
		return std::ranges::all_of(host.substr(1, host.size() - 2),
					   [](char c) { return c == ':' || c == '0'; });
	}

	std::map<std::string, holder> exact_;
	holder first_[2]; /* by family: IPv4, IPv6 */
	holder every_[2];
};

/* All addresses that are in use so far. */
class taken_addresses
{
public:
	const holder *take(const std::string &address, const holder &by)
	{
		if (is_unix(address)) {
			const auto [first, is_new] = paths_.emplace(address, by);
			return is_new ? nullptr : &first->second;
		}
		const auto place = without_udp(address);
		const auto colon = place.rfind(':');
		return ports_[{is_udp(address), std::string(place.substr(colon + 1))}].take(
			place.substr(0, colon), by);
	}

private:
	std::map<std::string, holder> paths_;
	std::map<std::pair<bool, std::string>, taken_port> ports_;
};

/* A backend through which connections of one listener reach another listener. */
struct way {
	std::size_t to;
	std::size_t group;
	const std::string *backend;
};

std::set<std::size_t> groups_of(const listener_config &listener)
{
	std::set<std::size_t> found;
	if (listener.group != listener_config::no_group)
		found.insert(listener.group);
	for (const auto &route : listener.sni)
		found.insert(route.group);
	for (const auto &route : listener.alpn)
		found.insert(route.group);
	return found;
}

/* The part of an address that a listener and a backend leading to it have in common. */
std::string port_of(std::string_view address)
{
	if (is_unix(address) || is_srv(address))
		return std::string(address);
	return std::string(address.substr(address.rfind(':')));
}

/* For each listener, the listeners that its connections reach. */
std::vector<std::vector<way>> find_ways(const config &made)
{
	/* Listeners by protocol and port. */
	std::map<std::pair<bool, std::string>, std::vector<std::size_t>> there;
	for (std::size_t i = 0; i < made.listeners.size(); i++) {
		const auto &address = made.listeners[i].address;
		there[{is_udp(address), port_of(without_udp(address))}].push_back(i);
	}
	std::vector<std::vector<way>> ways(made.listeners.size());
	for (std::size_t i = 0; i < ways.size(); i++)
		for (const std::size_t group : groups_of(made.listeners[i]))
			for (const auto &backend : made.groups[group].backends) {
				const auto near = there.find({is_udp(made.listeners[i].address),
							      port_of(backend.address)});
				if (near == there.end())
					continue;
				for (const std::size_t to : near->second)
					if (leads_back(backend.address, made.listeners[to].address))
						ways[i].push_back({to, group, &backend.address});
			}
	return ways;
}

} // namespace

void check_addresses(complaints &to, const config &made, const toml::table &top,
		     const named_tables &tables)
{
	taken_addresses taken;
	const auto check = [&](const std::string &address, const std::string &key,
			       const std::string &path, const toml::table &in,
			       const char *written) {
		if (address.empty() || is_any(address))
			return;
		const auto *there = taken.take(address, {key, address});
		if (!there)
			return;
		to.add(in.get(written)->source().begin, path,
		       '"' + address + "\" is already used by " + there->key +
			       (there->address == address ? "" : " as \"" + there->address + '"') +
			       "; expected another address");
	};
	for (std::size_t i = 0; i < made.listeners.size(); i++) {
		const std::string key = "listeners." + made.listeners[i].name;
		check(made.listeners[i].address, key, key + ".address", *tables[i].second,
		      "address");
	}
	check(made.admin, "admin", "admin", top, "admin");
	check(made.control, "control", "control", top, "control");
}

/* A depth-first search without recursion, because a chain may contain every listener. */
void check_circles(complaints &to, const config &made, const named_tables &tables)
{
	enum class mark : unsigned char { fresh, under_way, over };

	const auto ways = find_ways(made);
	std::vector<mark> marks(ways.size(), mark::fresh);
	std::vector<std::pair<std::size_t, std::size_t>> path; /* listener, index of next way */
	for (std::size_t first = 0; first < ways.size(); first++) {
		if (marks[first] != mark::fresh)
			continue;
		path.emplace_back(first, 0);
		marks[first] = mark::under_way;
		while (!path.empty()) {
			const std::size_t at = path.back().first;
			if (path.back().second == ways[at].size()) {
				marks[at] = mark::over;
				path.pop_back();
				continue;
			}
			const way &next = ways[at][path.back().second++];
			if (marks[next.to] == mark::fresh) {
				marks[next.to] = mark::under_way;
				path.emplace_back(next.to, 0);
				continue;
			}
			if (marks[next.to] == mark::over)
				continue;
			/* Reports once for each pair of listener and group. */
			const auto &ways_before = ways[at];
			const std::size_t n = path.back().second - 1;
			if (std::any_of(ways_before.begin(),
					ways_before.begin() + static_cast<std::ptrdiff_t>(n),
					[&](const way &each) { return each.to == next.to; }))
				continue;
			const auto &listener = made.listeners[next.to];
			to.add(tables[next.to].second->get("address")->source().begin,
			       "listeners." + listener.name + ".address",
			       std::string("its ") +
				       (is_udp(listener.address) ? "datagrams" : "connections") +
				       " would come back, because groups." +
				       made.groups[next.group].name +
				       (at == next.to
						? ""
						: " of listeners." + made.listeners[at].name) +
				       " has the backend \"" + *next.backend +
				       "\"; expected another address");
		}
	}
}

} // namespace relay
