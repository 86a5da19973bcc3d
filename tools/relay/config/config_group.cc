/* SPDX-License-Identifier: MIT */
#include "config/config_group.hpp"

#include "config/config_check.hpp"
#include "config/config_limits.hpp"
#include "config/config_tls.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace relay
{
namespace
{

/* The most connections to make ahead. A larger number is a mistake, because each counts for
 * every endpoint. */
constexpr std::int64_t preconnect_max = 1000;

/* Reads where the checks of this backend connect to. */
void read_place(complaints &to, const section &in, const toml::table &table, check_place &into)
{
	section place(to, table, in.path("check"));
	read_check_place(place, into);
	if (table.empty())
		to.add(place.where(), in.path("check"),
		       "says nothing; expected port or address; the other keys of checks are the "
		       "group's");
	place.finish();
}

/* Reads where the agent of this backend is. */
void read_agent_of(complaints &to, const section &in, const toml::table &table,
		   backend_config &into)
{
	section its(to, table, in.path("agent"));
	read_check_place(its, into.agent);
	if (std::string send; read_agent_send(its, send))
		into.agent_send = std::move(send);
	if (table.empty())
		to.add(its.where(), in.path("agent"),
		       "says nothing; expected port, address or send; the other keys of agents are "
		       "the group's");
	its.finish();
}

/* Returns false if the backend has no valid address. */
bool read_backend(complaints &to, section in, backend_config &into)
{
	const bool good = in.required("address", "that of the backend, such as \"10.0.0.7:80\"") &&
			  in.address("address", into.address, address_use::backend);
	in.count("weight", into.weight, weight_max);
	in.count("priority", into.priority, priority_max);
	in.count("max_connections", into.max_connections, connections_max);
	read_bandwidth(to, in, "bandwidth", into.bandwidth);
	if (const auto *check = in.table("check", "a table, such as { port = 8008 }"))
		read_place(to, in, *check, into.check);
	if (const auto *agent = in.table("agent", "a table, such as { port = 9707 }"))
		read_agent_of(to, in, *agent, into);
	in.finish("the table of a backend");
	return good;
}

/* Checks that the agents of the backends are consistent with the group's. */
void check_agents(section &in, const group_config &group)
{
	const auto *list = in.take("backends")->as_array();
	for (std::size_t i = 0; i < group.backends.size(); i++) {
		const auto &each = group.backends[i];
		const std::string key = "backends[" + std::to_string(i) + ']';
		if (!group.agent.is_there()) {
			if (each.agent.is_other() || each.agent_send)
				in.complain(*list->get(i), key + ".agent",
					    "means nothing, because the group has no agents; "
					    "expected a table [groups.NAME.agent] as well");
			continue;
		}
		const auto &where = each.agent.is_other() ? each.agent : group.agent.at;
		if (!where.is_other()) {
			in.complain(*in.take("agent"), "agent",
				    "does not say where the agents are; expected port or address, "
				    "here or as agent = { ... } of each backend");
			return;
		}
		if (where.port != 0 && is_unix(each.address))
			in.complain(
				*list->get(i), key,
				'"' + each.address +
					"\" has no ports, so agent.port means nothing; expected "
					"agent = { address = ... } here");
	}
}

/* Checks that the places of the backends' checks are consistent with the group's. */
void check_places(section &in, const group_config &group)
{
	const auto *list = in.take("backends")->as_array();
	const bool is_checked = in.take("check") != nullptr;
	for (std::size_t i = 0; i < group.backends.size(); i++) {
		const auto &each = group.backends[i];
		const std::string key = "backends[" + std::to_string(i) + ']';
		if (each.check.is_other() && !is_checked)
			in.complain(*list->get(i), key + ".check",
				    "means nothing, because the group has no checks; expected a "
				    "table [groups.NAME.check] as well");
		const auto &where = each.check.is_other() ? each.check : group.check.at;
		if (where.port != 0 && is_unix(each.address))
			in.complain(
				*list->get(i), key,
				'"' + each.address +
					"\" has no ports, so check.port means nothing; expected "
					"check = { address = ... } here");
		const auto &to = where.address.empty() ? each.address : where.address;
		if (group.check.udp && is_unix(to))
			in.complain(*list->get(i), key,
				    "is checked by datagrams, but \"" + to +
					    "\" takes none; expected HOST:PORT, or no check.udp");
	}
}

/* Version 1 has no header for datagrams. Checks that go to another place have none at all. */
void check_headers_of_checks(section &in, const group_config &group)
{
	if (!group.check.udp || group.send_proxy != proxy_sending::v1)
		return;
	const bool is_elsewhere = std::ranges::all_of(group.backends, [&](const auto &each) {
		return each.check.is_other() || group.check.at.is_other();
	});
	if (!is_elsewhere)
		in.complain(*in.take("check")->as_table()->get("udp"), "check.udp",
			    "is true, but send_proxy is \"v1\", which has no datagrams; expected "
			    "\"v2\" there, or checks of another port or address");
}

void read_backends(complaints &to, section &in, group_config &group)
{
	if (!in.required("backends", "an array of addresses, such as [\"10.0.0.7:80\"]"))
		return;
	const auto *node = in.take("backends");
	const auto *list = node->as_array();
	if (!list) {
		in.mistyped(*node, "backends", "an array of addresses or tables");
		return;
	}
	if (list->empty())
		in.complain(*node, "backends", "is empty; expected at least one");
	std::map<std::string, source_position> seen;
	std::size_t index = 0;
	for (const auto &each : *list) {
		const std::string key = "backends[" + std::to_string(index++) + ']';
		backend_config made;
		bool good = false;
		if (const auto *string = each.as_string()) {
			made.address = string->get();
			const auto problem = address_problem(made.address, address_use::backend);
			if (problem)
				in.complain(each, key, '"' + made.address + "\": " + *problem);
			good = !problem;
		} else if (const auto *table = each.as_table()) {
			good = read_backend(to, section(to, *table, in.path(key)), made);
		} else {
			in.mistyped(each, key, "an address or a table");
		}
		if (good) {
			const auto [first, is_new] =
				seen.emplace(made.address, each.source().begin);
			if (!is_new)
				in.complain(each, key,
					    '"' + made.address + "\" is already in line " +
						    std::to_string(first->second.line) +
						    "; expected each address once");
		}
		group.backends.push_back(std::move(made));
	}
}

/* Reads what PROXY headers carry in addition to the addresses. */
void read_proxy_extras(section &in, group_config &group)
{
	const auto *node = in.take("send_proxy_with");
	if (!node)
		return;
	const auto *list = node->as_array();
	if (!list || list->empty()) {
		in.complain(
			*node, "send_proxy_with",
			"is not an array of records; expected some of \"crc32c\", \"unique-id\" "
			"and \"client-certificate\"");
		return;
	}
	std::size_t index = 0;
	for (const auto &each : *list) {
		const std::string key = "send_proxy_with[" + std::to_string(index++) + ']';
		const auto *string = each.as_string();
		if (!string)
			in.mistyped(each, key,
				    "\"crc32c\", \"unique-id\" or \"client-certificate\"");
		else if (string->get() == "crc32c")
			group.send_proxy_with.checksum = true;
		else if (string->get() == "unique-id")
			group.send_proxy_with.unique_id = true;
		else if (string->get() == "client-certificate")
			group.send_proxy_with.client_certificate = true;
		else
			in.complain(each, key,
				    '"' + string->get() +
					    "\" is none of the choices; expected one of crc32c, "
					    "unique-id, client-certificate");
	}
	if (group.send_proxy != proxy_sending::v2)
		in.complain(*node, "send_proxy_with",
			    "means nothing here; expected send_proxy = \"v2\" as well");
}

/* Checks with TLS use the group's settings. A Unix socket has no name for a certificate. */
void check_tls_of_checks(section &in, const group_config &group)
{
	const auto *check = in.take("check");
	const auto *table = check ? check->as_table() : nullptr;
	const auto *node = table ? table->get("tls") : nullptr;
	if (!node || group.check.tls != true)
		return;
	if (!group.tls) {
		in.complain(*node, "check.tls",
			    "is true, but the group has no tls; expected it as well");
		return;
	}
	if (!group.tls->verify || !group.tls->name.empty())
		return;
	std::string nameless = is_unix(group.check.at.address) ? group.check.at.address : "";
	for (const auto &each : group.backends)
		if (is_unix(each.check.address))
			nameless = each.check.address;
	if (!nameless.empty())
		in.complain(*node, "check.tls",
			    "does not say whose certificate \"" + nameless +
				    "\" has to show; expected tls.name as well, or tls.verify = "
				    "false");
}

/* Reads the settings of connections that are made ahead of clients. */
void read_preconnect(section &in, preconnect_config &into)
{
	in.count("preconnect", into.most, preconnect_max);
	in.duration("preconnect_age", into.age, std::chrono::milliseconds(100));
	if (const auto *alone = in.take("preconnect_age"); alone && !in.take("preconnect"))
		in.complain(*alone, "preconnect_age",
			    "means nothing without preconnect; expected it as well");
}

} // namespace

void read_group(complaints &to, section &in, group_config &group)
{
	in.choice<balancing>("balance", group.balance,
			     {{"round-robin", balancing::round_robin},
			      {"least-connections", balancing::least_connections},
			      {"two-choices", balancing::two_choices},
			      {"source-hash", balancing::source_hash}});
	in.count("eject_after", group.eject_after, 1'000'000);
	in.duration("eject_for", group.eject_for);
	in.choice<proxy_sending>("send_proxy", group.send_proxy,
				 {{"none", proxy_sending::none},
				  {"v1", proxy_sending::v1},
				  {"v2", proxy_sending::v2}});
	read_proxy_extras(in, group);
	in.duration("slow_return", group.slow_return);
	in.count("retries", group.retry.most, 100);
	in.duration("retry_delay", group.retry.delay, std::chrono::milliseconds(1));
	in.duration("attempt_timeout", group.attempt_timeout);
	in.count("queue", group.queue.limit, connections_max);
	in.duration("queue_timeout", group.queue.timeout);
	in.choice<bool>("queue_half_closed", group.queue.leave_by_half_close,
			{{"wait", false}, {"leave", true}});
	read_preconnect(in, group.preconnect);
	in.duration("resolve", group.resolve, std::chrono::milliseconds(100));
	in.duration("resolve_timeout", group.resolve_timeout, std::chrono::milliseconds(10));
	read_keepalive(to, in, group.keepalive);
	if (const auto *check = in.table("check", "a table, such as { interval = \"2s\" }"))
		read_check(section(to, *check, in.path("check")), group.check);
	if (const auto *agent = in.table("agent", "a table, such as { port = 9707 }"))
		read_agent(section(to, *agent, in.path("agent")), group.agent);
	read_backends(to, in, group);
	read_group_tls(to, in, group);
	check_tls_of_checks(in, group);
	if (to.none()) {
		check_places(in, group);
		check_headers_of_checks(in, group);
		check_agents(in, group);
	}
	in.finish("[groups.NAME]");
}

void learn_keys(complaints &to)
{
	const toml::table none;
	complaints others("");
	backend_config backend;
	check_config check;
	read_backend(others, section(others, none, ""), backend);
	read_check(section(others, none, ""), check);
	agent_config agent;
	read_agent(section(others, none, ""), agent);
	to.learn(others);
}

/* Unless the group has an alpn of its own, the backend is offered the protocol that the client
 * has agreed on with the relay, which is not known ahead of the client. */
void check_preconnect(section &in, const std::vector<group_config> &groups,
		      const listener_config &of)
{
	if (!of.tls || of.tls->alpn.empty())
		return;
	const auto check = [&](std::string_view key, std::size_t which) {
		const auto *const node = in.take(key);
		if (!node || which == listener_config::no_group)
			return;
		const group_config &group = groups[which];
		if (group.preconnect.most != 0 && group.send_proxy == proxy_sending::none &&
		    group.tls && group.tls->alpn.empty())
			in.complain(*node, key,
				    "leads to groups." + group.name +
					    ", which has preconnect and tls, but its handshakes "
					    "need the protocol that a client of this listener has "
					    "agreed on; expected tls.alpn there, or no preconnect");
	};
	check("group", of.group);
	for (const auto &each : of.sni)
		check(in.take("sni") ? "sni" : "sni_files", each.group);
	for (const auto &each : of.alpn)
		check("alpn", each.group);
}

} // namespace relay
