/* SPDX-License-Identifier: MIT */
#include "config/config.hpp"

#include "base/address.hpp"
#include "base/host_names.hpp"
#include "config/config_addresses.hpp"
#include "config/config_group.hpp"
#include "config/config_limits.hpp"
#include "config/config_lists.hpp"
#include "config/config_section.hpp"
#include "config/config_syntax.hpp"
#include "config/config_tls.hpp"
#include "config/config_udp.hpp"
#include "stats/events.hpp"
#include "stats/syslog_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

constexpr std::size_t largest_file = std::size_t{4} << 20;

/* The named subtables of a table, such as [listeners.NAME], in the order of the file. */
named_tables named(section &top, const char *key)
{
	named_tables found;
	const std::string header = std::string("[") + key + ".NAME]";
	const auto *node = top.take_tables(key);
	if (!top.required(key, "at least one table " + header))
		return found;
	const auto *table = node->as_table();
	if (!table) {
		top.mistyped(*node, key, "tables " + header);
		return found;
	}
	if (table->empty())
		top.complain(*node, key, "is empty; expected at least one");
	for (const auto &[name, value] : *table) {
		if (const auto *each = value.as_table())
			found.emplace_back(name.str(), each);
		else
			top.mistyped(value, std::string(key) + '.' + std::string(name.str()),
				     "a table; its keys follow " + header +
					     ", where NAME is yours to choose");
	}
	std::ranges::stable_sort(found, {}, [](const auto &each) {
		const auto where = each.second->source().begin;
		return std::pair(where.line, where.column);
	});
	return found;
}

/* unix: set to true if the list has "unix"; null: "unix" is not allowed there. */
void read_networks(section &in, std::string_view key, ip_networks &into, bool *unix = nullptr)
{
	const auto *node = in.take(key);
	if (!node)
		return;
	const auto *list = node->as_array();
	if (!list) {
		in.mistyped(*node, key, "an array of networks");
		return;
	}
	std::size_t index = 0;
	for (const auto &each : *list) {
		const std::string name = std::string(key) + '[' + std::to_string(index++) + ']';
		const auto *string = each.as_string();
		if (!string) {
			in.mistyped(each, name, "a network, such as \"10.0.0.0/8\"");
			continue;
		}
		if (unix && string->get() == "unix") {
			*unix = true;
			continue;
		}
		auto read = ip_network::parse(string->get());
		if (const auto *problem = std::get_if<std::string>(&read))
			in.complain(each, name, '"' + string->get() + "\": " + *problem);
		else
			into.push_back(std::get<ip_network>(read));
	}
	/* An empty list of allowed networks could mean that none is allowed, or that all are. */
	if (list->empty())
		in.complain(*node, key, "is empty; expected at least one network");
}

/* The index of the group that a text names; reports an error if there is none. */
std::optional<std::size_t> find_group(section &in, const toml::node &node, std::string_view key,
				      const std::vector<group_config> &groups)
{
	const auto *name = node.as_string();
	if (!name) {
		in.mistyped(node, key, "the NAME of a [groups.NAME], in quotes");
		return std::nullopt;
	}
	const auto found = std::ranges::find(groups, name->get(), &group_config::name);
	if (found == groups.end()) {
		in.complain(node, key,
			    '"' + name->get() +
				    "\" is unknown; expected the NAME of a [groups.NAME]");
		return std::nullopt;
	}
	return static_cast<std::size_t>(found - groups.begin());
}

/* A name that a hello can ask for, in lower case; nothing if it is not a valid one. */
std::optional<std::string> to_server_name(std::string_view written)
{
	std::string name;
	const bool is_wild = written.starts_with("*.");
	for (const char c : written.substr(is_wild ? 1 : 0)) {
		const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
		if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '-' &&
		    c != '_' && c != '.')
			return std::nullopt;
		if (c == '.' && name.ends_with('.'))
			return std::nullopt;
		name += lower;
	}
	if (name.size() < (is_wild ? 2 : 1) || name.size() > 253 || name.ends_with('.') ||
	    (!is_wild && name.starts_with('.')))
		return std::nullopt;
	return name;
}

void read_sni(section &in, const std::vector<group_config> &groups, std::vector<sni_route> &into)
{
	const auto *table = in.table(
		"sni", "a table of names and groups, such as { \"www.example.org\" = \"web\" }");
	if (!table)
		return;
	if (table->empty())
		in.complain(*table, "sni", "is empty; expected at least one name");
	for (const auto &[written, node] : *table) {
		const std::string key = "sni.\"" + std::string(written.str()) + '"';
		if (node.is_table()) { /* www.example.org = "web" is one of three tables */
			in.mistyped(node, key,
				    "a group; a name needs quotes, as in \"www.example.org\" = "
				    "\"web\"");
			continue;
		}
		const auto name = to_server_name(written.str());
		if (!name)
			in.complain(node, key,
				    "is not the name of a server; expected one such as "
				    "\"www.example.org\" or \"*.example.org\"");
		const auto group = find_group(in, node, key, groups);
		if (!name || !group)
			continue;
		if (std::ranges::find(into, *name, &sni_route::name) != into.end())
			in.complain(node, key, "is already there in another spelling");
		into.push_back({*name, *group});
	}
}

/* Names in files, each for one group: { "FILE" = "GROUP" }. */
void read_sni_files(section &in, const std::vector<group_config> &groups,
		    std::vector<sni_route> &into, std::vector<list_file> &files)
{
	const auto *table = in.table(
		"sni_files", "a table of files and groups, such as { \"names.txt\" = \"web\" }");
	if (!table)
		return;
	if (table->empty())
		in.complain(*table, "sni_files", "is empty; expected at least one file");
	std::set<std::string> known;
	for (const auto &each : into)
		known.insert(each.name);
	for (const auto &[file, node] : *table) {
		const std::string key = "sni_files.\"" + std::string(file.str()) + '"';
		const auto group = find_group(in, node, key, groups);
		const auto add = [&](std::string_view entry) -> std::optional<std::string> {
			auto name = to_server_name(entry);
			if (!name)
				return "expected the name of a server, such as www.example.org or "
				       "*.example.org";
			if (!known.insert(*name).second)
				return "is already there";
			if (group)
				into.push_back({*std::move(name), *group});
			return std::nullopt;
		};
		files.push_back(read_list(in, node, key, std::string(file.str()), "name", add));
		files.back().key = "sni_files";
	}
}

void read_alpn_routes(section &in, const std::vector<group_config> &groups, listener_config &into)
{
	const auto *table = in.table(
		"alpn", "a table of protocols and groups, such as { \"http/1.1\" = \"web\" }");
	if (!table)
		return;
	if (table->empty())
		in.complain(*table, "alpn", "is empty; expected at least one protocol");
	for (const auto &[written, node] : *table) {
		const std::string protocol(written.str());
		const std::string key = "alpn.\"" + protocol + '"';
		const auto group = find_group(in, node, key, groups);
		if (!is_protocol(protocol))
			in.complain(node, key,
				    "is not the name of a protocol; expected 1 to 63 visible "
				    "characters without a comma, such as \"h2\"");
		else if (into.tls &&
			 std::ranges::find(into.tls->alpn, protocol) == into.tls->alpn.end())
			in.complain(node, key,
				    "is never agreed on; expected it in tls.alpn as well");
		else if (group)
			into.alpn.push_back({protocol, *group});
	}
}

/* Clients of a Unix socket have no IP address, unless a PROXY header states one. */
void check_sources(section &in, const listener_config &made)
{
	const auto *proxies = in.take("proxy_from");
	if (proxies && !made.proxy_from.empty() && is_unix(made.address))
		in.complain(
			*proxies, "proxy_from",
			"names networks, but the address is a Unix socket; expected [\"unix\"]");
	if (made.proxy_from_unix && !is_unix(made.address))
		in.complain(
			*proxies, "proxy_from",
			"names \"unix\", but the address is not a Unix socket; expected networks");
	if (!is_unix(made.address) || proxies)
		return;
	for (const char *key :
	     {"allow", "allow_file", "deny", "deny_file", "max_connections_per_source",
	      "accept_rate_per_source", "bandwidth_per_source"})
		if (const auto *node = in.take(key))
			in.complain(*node, key,
				    "means nothing at a Unix socket, whose clients have no IP "
				    "address; expected proxy_from = [\"unix\"] as well, or no such "
				    "key");
}

/* Octal digits, such as "0660". */
void read_mode(section &in, const char *key, const std::string &address, int &into)
{
	const auto *const found = in.take(key);
	if (!found)
		return;
	const auto &node = *found;
	if (!node.is_string()) {
		in.mistyped(node, key, "octal digits in quotes, such as \"0660\"");
		return;
	}
	const std::string &written = node.as_string()->get();
	unsigned mode = 0;
	const auto [rest, err] =
		std::from_chars(written.data(), written.data() + written.size(), mode, 8);
	if (err != std::errc{} || rest != written.data() + written.size() || mode == 0 ||
	    mode > 0777)
		in.complain(node, key,
			    '"' + written +
				    "\" is not the mode of a file; expected octal digits, such as "
				    "\"0660\"");
	else if (!is_unix(address) || address.starts_with("unix:@"))
		in.complain(node, key,
			    "means nothing here; expected it beside the path of a Unix socket");
	else if (!(mode & 0200))
		in.complain(
			node, key,
			'"' + written +
				"\" does not let the owner write, so the relay could not tell "
				"whether a file that it finds is in use; expected the bit 0200, "
				"as in \"0660\"");
	else
		into = static_cast<int>(mode);
}

/* Reads accept_rate and accept_burst, or the pair of keys of another kind. */
void read_rate(section &in, const std::string &kind, std::uint64_t &rate, std::uint64_t &burst)
{
	const std::string of_rate = "accept_rate" + kind;
	const std::string of_burst = "accept_burst" + kind;
	in.count(of_rate, rate, connections_max);
	burst = rate;
	in.count(of_burst, burst, connections_max, 1);
	if (const auto *written = in.take(of_burst); written && rate == 0)
		in.complain(*written, of_burst, "limits nothing; expected " + of_rate + " as well");
}

void read_listener(complaints &to, section &in, const std::vector<group_config> &groups,
		   listener_config &into)
{
	if (in.required("address", "where to listen, such as \":8080\""))
		in.address("address", into.address, address_use::serve);
	read_mode(in, "mode", into.address, into.mode);
	if (is_udp(into.address))
		into.idle_timeout = udp_idle_timeout;
	read_sni(in, groups, into.sni);
	read_sni_files(in, groups, into.sni, into.lists);
	std::ranges::sort(into.sni, {}, &sni_route::name);
	read_listener_tls(to, in, into);
	read_alpn_routes(in, groups, into);
	/* With sni or alpn, the group for all other clients may be missing. */
	const bool has_routes = in.take("sni") || in.take("sni_files") || in.take("alpn");
	if (has_routes ? in.take("group") != nullptr
		       : in.required("group", "the NAME of a [groups.NAME]"))
		into.group = find_group(in, *in.take("group"), "group", groups)
				     .value_or(listener_config::no_group);
	read_networks(in, "proxy_from", into.proxy_from, &into.proxy_from_unix);
	in.duration("hello_timeout", into.hello_timeout);
	in.duration("connect_timeout", into.connect_timeout);
	in.duration("idle_timeout", into.idle_timeout);
	in.duration("half_close_timeout", into.half_close_timeout);
	in.duration("lifetime", into.lifetime);
	in.choice<sn_relay_coalesce>("coalesce", into.coalesce,
				     {{"auto", SN_RELAY_COALESCE_AUTO},
				      {"never", SN_RELAY_COALESCE_NEVER},
				      {"always", SN_RELAY_COALESCE_ALWAYS}});
	read_keepalive(to, in, into.keepalive);
	in.count("max_connections", into.max_connections, connections_max);
	in.count("max_connections_per_source", into.max_connections_per_source, connections_max);
	read_rate(in, "", into.accept_rate, into.accept_burst);
	read_rate(in, "_per_source", into.accept_rate_per_source, into.accept_burst_per_source);
	read_bandwidth(to, in, "bandwidth", into.bandwidth);
	read_bandwidth(to, in, "bandwidth_per_source", into.bandwidth_per_source);
	read_bandwidth(to, in, "bandwidth_per_connection", into.bandwidth_per_connection);
	read_networks(in, "allow", into.allow);
	read_networks(in, "deny", into.deny);
	/* An empty list of allowed networks could mean that none is allowed, or that all are. */
	read_network_file(in, "allow_file", "network", into.allow, into.lists);
	read_network_file(in, "deny_file", nullptr, into.deny, into.lists);
	check_sources(in, into);
	for (auto *const networks : {&into.proxy_from, &into.allow, &into.deny})
		compact(*networks);
	read_udp(in, groups, into);
	check_preconnect(in, groups, into);
	in.finish("[listeners.NAME]");
}

void read_admin_hosts(section &in, config &into)
{
	const auto *node = in.take("admin_hosts");
	if (!node)
		return;
	const auto *list = node->as_array();
	if (!list) {
		in.mistyped(*node, "admin_hosts", "an array of names");
		return;
	}
	std::size_t index = 0;
	for (const auto &each : *list) {
		const std::string key = "admin_hosts[" + std::to_string(index++) + ']';
		const auto *name = each.as_string();
		if (!name)
			in.mistyped(each, key, "a name");
		else if (const auto problem = host_name_problem(name->get()))
			in.complain(each, key, '"' + name->get() + "\" " + *problem);
		else
			into.admin_hosts.push_back(name->get());
	}
	if (into.admin.empty())
		in.complain(*node, "admin_hosts", "means nothing here; expected admin as well");
	else if (list->empty())
		in.complain(*node, "admin_hosts",
			    "is empty; expected at least one name, or no such key");
}

void read_control(section &in, config &into)
{
	const bool is_good = in.address("control", into.control, address_use::listen);
	read_mode(in, "control_mode", into.control, into.control_mode);
	in.nonempty("control_token_file", into.control_token_file);
	const auto *const where = in.take("control");
	if (!where) {
		if (const auto *node = in.take("control_token_file"))
			in.complain(*node, "control_token_file",
				    "means nothing here; expected control as well");
		return;
	}
	/* Without a token, every local user or every machine could change everything there. */
	const bool is_private = is_unix(into.control) && !into.control.starts_with("unix:@");
	if (is_good && !is_private && !in.take("control_token_file"))
		in.complain(*where, "control",
			    '"' + into.control +
				    "\" can be reached by others; expected control_token_file as "
				    "well, or the path of a Unix socket");
}

/* Whether a file can be opened is found out later. */
void read_access_log(section &in, config &into)
{
	if (in.nonempty("access_log", into.access_log) && is_syslog(into.access_log))
		if (const auto problem = event_target_problem(into.access_log))
			in.complain(*in.take("access_log"), "access_log",
				    '"' + into.access_log + "\" " + *problem);
	std::string format;
	if (!in.nonempty("access_log_format", format))
		return;
	std::string why;
	if (auto parsed = log_format::parse(format, why))
		into.access_log_format = *std::move(parsed);
	else
		in.complain(*in.take("access_log_format"), "access_log_format", why);
}

void read_events(section &in, config &into)
{
	if (!in.text("events", into.events))
		return;
	if (const auto problem = event_target_problem(into.events))
		in.complain(*in.take("events"), "events", '"' + into.events + "\" " + *problem);
}

} // namespace

std::variant<config, config_errors> parse_config(std::string_view text, const std::string &file)
{
	const auto parsed = toml::parse(text, file);
	complaints to(file);
	if (!parsed) {
		const auto &error = parsed.error();
		const auto at = error.source().begin;
		to.add(at, "",
		       explain_syntax(line_of(text, at.line), at.column, error.description()));
		return to.in_order();
	}

	config made;
	made.text = text;
	section top(to, parsed.table(), "");
	top.duration("drain", made.drain);
	if (std::chrono::nanoseconds own{}; top.duration("handover_drain", own))
		made.handover_drain = own;
	top.duration("stop_delay", made.stop_delay);
	top.duration("stats_interval", made.stats_interval);
	top.address("admin", made.admin, address_use::listen);
	read_control(top, made);
	read_access_log(top, made);
	read_admin_hosts(top, made);
	read_events(top, made);
	for (const auto &[name, table] : named(top, "groups")) {
		made.groups.emplace_back().name = name;
		section in(to, *table, "groups." + name);
		read_group(to, in, made.groups.back());
	}
	const auto listeners = named(top, "listeners");
	for (const auto &[name, table] : listeners) {
		made.listeners.emplace_back().name = name;
		section in(to, *table, "listeners." + name);
		read_listener(to, in, made.groups, made.listeners.back());
	}
	check_addresses(to, made, parsed.table(), listeners);
	if (to.none()) /* the addresses are well formed, and the groups are there */
		check_circles(to, made, listeners);
	learn_keys(to);
	top.finish("the lines above all tables");
	if (!to.none())
		return to.in_order();
	return made;
}

std::variant<config, config_errors> read_config(const std::string &file)
{
	const auto failed = [&file](int err) {
		return config_errors{
			{file + ": cannot be read: " + std::generic_category().message(err)}};
	};
	const std::unique_ptr<std::FILE, int (*)(std::FILE *)> in(std::fopen(file.c_str(), "re"),
								  std::fclose);
	if (!in)
		return failed(errno);
	std::string text;
	char chunk[16384];
	for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, in.get())) > 0;) {
		text.append(chunk, n);
		if (text.size() > largest_file)
			return config_errors{{file + ": is larger than 4 MiB"}};
	}
	if (std::ferror(in.get()))
		return failed(errno);
	return parse_config(text, file);
}

} // namespace relay
