/* SPDX-License-Identifier: MIT */
#include "config.hpp"

#include "address.hpp"
#include "duration.hpp"
#include "keepalive.hpp"
#include "size.hpp"

/* Errors as values: otherwise exceptions would have to be caught around every parser call. */
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
/*
 * toml++ 3.3 tells the compiler to assume that a key begins with a valid character, in places where
 * that depends on the text: for some malformed texts a debug build would abort, and an optimized
 * one would have undefined behaviour. The parser's next lines report the error, unless the
 * assumption lets the compiler remove them.
 */
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

using toml::source_position;

constexpr std::size_t largest_file = std::size_t{4} << 20;

/* Errors in the order in which they are found, which is not quite the order of the file. */
class complaints
{
public:
	explicit complaints(std::string file) : file_(std::move(file)) {}

	void add(source_position where, const std::string &key, const std::string &text)
	{
		found_.emplace_back(where, (key.empty() ? "" : key + ": ") + text);
	}

	bool none() const { return found_.empty(); }

	config_errors in_order()
	{
		std::ranges::stable_sort(found_, {}, [](const auto &each) {
			return std::pair(each.first.line, each.first.column);
		});
		config_errors lines;
		for (const auto &[where, text] : found_)
			lines.push_back(file_ + ':' + std::to_string(where.line) + ':' +
					std::to_string(where.column) + ": " + text);
		return lines;
	}

private:
	std::string file_;
	std::vector<std::pair<source_position, std::string>> found_;
};

std::string kind(const toml::node &node)
{
	switch (node.type()) {
	case toml::node_type::table:
		return "a table";
	case toml::node_type::array:
		return "an array";
	case toml::node_type::string:
		return "a string";
	case toml::node_type::integer:
		return "an integer";
	case toml::node_type::floating_point:
		return "a floating-point number";
	case toml::node_type::boolean:
		return "a boolean";
	default:
		return "a date or time";
	}
}

/*
 * A table whose keys are taken one by one; finish() reports the keys that were not taken. Taking a
 * key that is not there leaves the default alone and returns false.
 */
class section
{
public:
	section(complaints &to, const toml::table &table, std::string path)
	    : to_(to), table_(table), path_(std::move(path))
	{
	}

	std::string path(std::string_view key) const
	{
		return path_.empty() ? std::string(key) : path_ + '.' + std::string(key);
	}

	source_position where() const { return table_.source().begin; }

	void complain(const toml::node &node, std::string_view key, const std::string &text)
	{
		to_.add(node.source().begin, path(key), text);
	}

	const toml::node *take(std::string_view key)
	{
		known_.emplace(key);
		return table_.get(key);
	}

	bool required(std::string_view key)
	{
		if (take(key))
			return true;
		to_.add(where(), path(key), "missing; it has no default");
		return false;
	}

	bool text(std::string_view key, std::string &into)
	{
		const auto *node = take(key);
		if (!node)
			return false;
		const auto *value = node->as_string();
		if (!value)
			return mistyped(*node, key, "a string");
		into = value->get();
		return true;
	}

	bool nonempty(std::string_view key, std::string &into)
	{
		if (!text(key, into))
			return false;
		if (!into.empty())
			return true;
		complain(*table_.get(key), key, "is empty");
		return false;
	}

	bool address(std::string_view key, std::string &into, address_use use)
	{
		if (!text(key, into))
			return false;
		const auto problem = address_problem(into, use);
		if (problem)
			complain(*table_.get(key), key, '"' + into + "\": " + *problem);
		return !problem;
	}

	/* The text as written; nothing if the key is missing or its value is wrong. */
	std::optional<std::string> duration(std::string_view key, std::chrono::nanoseconds &into,
					    std::chrono::milliseconds least = {})
	{
		const auto *node = take(key);
		if (!node)
			return std::nullopt;
		std::string written;
		if (const auto *string = node->as_string())
			written = string->get();
		else if (const auto *seconds = node->as_integer())
			written = std::to_string(seconds->get());
		else {
			mistyped(*node, key, "a duration, such as \"500ms\", \"10s\" or \"2m\"");
			return std::nullopt;
		}
		const auto read = parse_duration(written);
		if (!read) {
			complain(*node, key,
				 '"' + written +
					 "\" is not a duration; expected 0 to a year, such as "
					 "\"500ms\", \"10s\", \"2m\" or \"1h\"");
			return std::nullopt;
		}
		into = *read;
		if (into < least) {
			complain(*node, key,
				 '"' + written + "\" is too short; expected at least " +
					 std::to_string(least.count()) + "ms");
			return std::nullopt;
		}
		return written;
	}

	template <class Number>
	void count(std::string_view key, Number &into, std::int64_t most, std::int64_t least = 0)
	{
		const auto *node = take(key);
		if (!node)
			return;
		const auto *number = node->as_integer();
		if (!number) {
			mistyped(*node, key, "an integer");
			return;
		}
		if (number->get() < least || number->get() > most)
			complain(*node, key,
				 std::to_string(number->get()) + " is out of range; expected " +
					 std::to_string(least) + " to " + std::to_string(most));
		else
			into = static_cast<Number>(number->get());
	}

	/* False if the key is missing or its value is wrong. */
	bool size(std::string_view key, std::uint64_t &into, std::uint64_t least,
		  std::uint64_t most, const std::string &range)
	{
		const auto *node = take(key);
		if (!node)
			return false;
		std::string written;
		if (const auto *string = node->as_string())
			written = string->get();
		else if (const auto *bytes = node->as_integer())
			written = std::to_string(bytes->get());
		else
			return mistyped(*node, key,
					"a number of bytes, such as \"512KiB\" or 65536");
		const auto read = parse_size(written);
		if (!read)
			complain(*node, key,
				 '"' + written +
					 "\" is not a number of bytes; expected one such as 65536, "
					 "\"512KiB\" or \"10MB\"");
		else if (*read < least || *read > most)
			complain(*node, key,
				 '"' + written + "\" is out of range; expected " + range);
		else
			into = *read;
		return read && into == *read;
	}

	template <class Value>
	void choice(std::string_view key, Value &into,
		    const std::vector<std::pair<std::string_view, Value>> &choices)
	{
		std::string word;
		if (!text(key, word))
			return;
		std::string all;
		for (const auto &[name, value] : choices) {
			if (name == word) {
				into = value;
				return;
			}
			all += (all.empty() ? "" : ", ") + std::string(name);
		}
		complain(*table_.get(key), key,
			 '"' + word + "\" is none of the choices; expected one of " + all);
	}

	const toml::table *table(std::string_view key)
	{
		const auto *node = take(key);
		if (!node)
			return nullptr;
		if (const auto *found = node->as_table())
			return found;
		mistyped(*node, key, "a table");
		return nullptr;
	}

	bool mistyped(const toml::node &node, std::string_view key, const std::string &expected)
	{
		complain(node, key, "is " + kind(node) + "; expected " + expected);
		return false;
	}

	void finish()
	{
		std::string all;
		for (const auto &key : known_)
			all += (all.empty() ? "" : ", ") + key;
		for (const auto &[key, value] : table_)
			if (!known_.contains(std::string(key.str())))
				to_.add(key.source().begin, path(key.str()),
					"unknown key; expected one of " + all);
	}

private:
	complaints &to_;
	const toml::table &table_;
	const std::string path_;
	std::set<std::string> known_;
};

/* More connections than any machine can have; a larger number is a mistake. */
constexpr std::int64_t connections_max = 1'000'000'000;

/* The named subtables of a table, such as [listeners.NAME], in the order of the file. */
std::vector<std::pair<std::string, const toml::table *>> named(section &top, const char *key)
{
	std::vector<std::pair<std::string, const toml::table *>> found;
	if (!top.required(key))
		return found;
	const auto *node = top.take(key);
	const auto *table = node->as_table();
	if (!table) {
		top.mistyped(*node, key, std::string("tables [") + key + ".NAME]");
		return found;
	}
	if (table->empty())
		top.complain(*node, key, "is empty; expected at least one");
	for (const auto &[name, value] : *table) {
		if (const auto *each = value.as_table())
			found.emplace_back(name.str(), each);
		else
			top.mistyped(value, std::string(key) + '.' + std::string(name.str()),
				     "a table");
	}
	std::ranges::stable_sort(found, {}, [](const auto &each) {
		const auto where = each.second->source().begin;
		return std::pair(where.line, where.column);
	});
	return found;
}

/* The kernel's limit. */
constexpr std::uint32_t most_probes = 127;

void read_seconds(section &in, std::string_view key, std::chrono::seconds &into, bool may_be_none)
{
	std::chrono::nanoseconds read{};
	const auto written = in.duration(key, read);
	if (!written)
		return;
	const auto time = to_keepalive(read);
	if (time || (may_be_none && read.count() == 0))
		into = time.value_or(std::chrono::seconds(0));
	else
		in.complain(*in.take(key), key,
			    '"' + *written +
				    "\" is not supported; expected whole seconds, 1s to 9h" +
				    (may_be_none ? ", or 0 for none" : ""));
}

/* A shorter timeout would end a connection for one lost packet; a longer one limits nothing. */
void read_user_timeout(section &in, std::chrono::milliseconds &into)
{
	using namespace std::chrono_literals;

	std::chrono::nanoseconds read{};
	const auto written = in.duration("user_timeout", read);
	if (written && read.count() != 0 && (read < 1s || read > 24h))
		in.complain(*in.take("user_timeout"), "user_timeout",
			    '"' + *written +
				    "\" is out of range; expected 1s to 24h, or 0 for none");
	else if (written)
		into = std::chrono::floor<std::chrono::milliseconds>(read);
}

/* A duration instead of a table is the idle time. */
void read_keepalive(complaints &to, section &in, keepalive_config &into)
{
	const auto *node = in.take("keepalive");
	if (const auto *table = node ? node->as_table() : nullptr) {
		section each(to, *table, in.path("keepalive"));
		read_seconds(each, "idle", into.idle, true);
		read_seconds(each, "interval", into.interval, false);
		each.count("count", into.count, most_probes, 1);
		each.finish();
	} else if (node && !node->is_string() && !node->is_integer()) {
		in.mistyped(*node, "keepalive", "a duration, such as \"1m\", or a table");
	} else {
		read_seconds(in, "keepalive", into.idle, true);
	}
	read_user_timeout(in, into.user_timeout);
}

/* Less is a mistake, and would go in chunks of a second; more limits nothing. */
constexpr std::uint64_t least_bandwidth = std::uint64_t{1} << 10;
constexpr std::uint64_t most_bandwidth = std::uint64_t{1} << 40;

/* A number of bytes is for each direction; a table sets the directions apart. */
void read_bandwidth(complaints &to, section &in, std::string_view key, bandwidth_config &into)
{
	const auto read = [](section &from, std::string_view name, std::uint64_t &value) {
		return from.size(name, value, least_bandwidth, most_bandwidth,
				 "1KiB to 1TiB, or no such key for no limit");
	};
	const auto *node = in.take(key);
	if (!node)
		return;
	const auto *table = node->as_table();
	if (!table) {
		if (node->is_string() || node->is_integer()) {
			if (read(in, key, into.to_backend))
				into.to_client = into.to_backend;
		} else {
			in.mistyped(*node, key, "a number of bytes, such as \"10MiB\", or a table");
		}
		return;
	}
	section both(to, *table, in.path(key));
	read(both, "to_backend", into.to_backend);
	read(both, "to_client", into.to_client);
	both.size("burst", into.burst, least_bandwidth, most_bandwidth, "1KiB to 1TiB");
	if (!both.take("to_backend") && !both.take("to_client"))
		in.complain(*node, key, "limits nothing; expected to_backend, to_client or both");
	both.finish();
}

void read_backends(complaints &to, section &in, group_config &group)
{
	if (!in.required("backends"))
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
			const auto problem = address_problem(made.address, address_use::connect);
			if (problem)
				in.complain(each, key, '"' + made.address + "\": " + *problem);
			good = !problem;
		} else if (const auto *table = each.as_table()) {
			section one(to, *table, in.path(key));
			good = one.required("address") &&
			       one.address("address", made.address, address_use::connect);
			one.count("weight", made.weight, weight_max);
			one.count("max_connections", made.max_connections, connections_max);
			read_bandwidth(to, one, "bandwidth", made.bandwidth);
			one.finish();
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

/* The longest check.send or check.expect; more is a mistake. */
constexpr std::size_t longest_phrase = 4096;

void read_check(section in, check_config &into)
{
	using namespace std::chrono_literals;

	into.interval = 2s;
	in.duration("interval", into.interval, 10ms);
	in.duration("timeout", into.timeout, 1ms);
	in.count("rise", into.rise, 1000, 1);
	in.count("fall", into.fall, 1000, 1);
	for (const auto &[key, phrase] :
	     {std::pair("send", &into.send), std::pair("expect", &into.expect)})
		if (in.nonempty(key, *phrase) && phrase->size() > longest_phrase)
			in.complain(*in.take(key), key,
				    "is too long; expected at most " +
					    std::to_string(longest_phrase) + " bytes");
	if (const auto *said = in.take("send"); said && !in.take("expect"))
		in.complain(*said, "send", "is set without expect; expected both keys");
	in.finish();
}

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
	in.duration("slow_return", group.slow_return);
	in.duration("resolve", group.resolve, std::chrono::milliseconds(100));
	in.duration("resolve_timeout", group.resolve_timeout, std::chrono::milliseconds(10));
	read_keepalive(to, in, group.keepalive);
	if (const auto *check = in.table("check"))
		read_check(section(to, *check, in.path("check")), group.check);
	read_backends(to, in, group);
	in.finish();
}

/* unix: set if "unix" is among them, where that is allowed; null: it is not. */
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
		in.mistyped(node, key, "a string");
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
	const auto *table = in.table("sni");
	if (!table)
		return;
	if (table->empty())
		in.complain(*table, "sni", "is empty; expected at least one name");
	for (const auto &[written, node] : *table) {
		const std::string key = "sni.\"" + std::string(written.str()) + '"';
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

/* Clients of a Unix socket have no IP address, unless a proxy's header says one. */
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
	for (const char *key : {"allow", "deny", "max_connections_per_source"})
		if (const auto *node = in.take(key))
			in.complain(*node, key,
				    "means nothing at a Unix socket, whose clients have no IP "
				    "address; expected proxy_from = [\"unix\"] as well, or no such "
				    "key");
}

/* Octal digits, such as "0660". */
void read_mode(section &in, listener_config &into)
{
	std::string written;
	if (!in.text("mode", written))
		return;
	const auto &node = *in.take("mode");
	unsigned mode = 0;
	const auto [rest, err] =
		std::from_chars(written.data(), written.data() + written.size(), mode, 8);
	if (err != std::errc{} || rest != written.data() + written.size() || mode == 0 ||
	    mode > 0777)
		in.complain(node, "mode",
			    '"' + written +
				    "\" is not the mode of a file; expected octal digits, such as "
				    "\"0660\"");
	else if (!is_unix(into.address) || into.address.starts_with("unix:@"))
		in.complain(node, "mode",
			    "means nothing here; expected it beside the path of a Unix socket");
	else if (!(mode & 0200))
		in.complain(
			node, "mode",
			'"' + written +
				"\" does not let the owner write, so the relay could not tell "
				"whether a file that it finds is in use; expected the bit 0200, "
				"as in \"0660\"");
	else
		into.mode = static_cast<int>(mode);
}

void read_listener(complaints &to, section &in, const std::vector<group_config> &groups,
		   listener_config &into)
{
	if (in.required("address"))
		in.address("address", into.address, address_use::listen);
	read_mode(in, into);
	read_sni(in, groups, into.sni);
	/* With sni there may be no group for other names. */
	if (in.take("sni") ? in.take("group") != nullptr : in.required("group"))
		into.group = find_group(in, *in.take("group"), "group", groups)
				     .value_or(listener_config::no_group);
	read_networks(in, "proxy_from", into.proxy_from, &into.proxy_from_unix);
	in.duration("hello_timeout", into.hello_timeout);
	in.duration("connect_timeout", into.connect_timeout);
	in.duration("idle_timeout", into.idle_timeout);
	in.duration("half_close_timeout", into.half_close_timeout);
	in.duration("lifetime", into.lifetime);
	in.choice<sn_relay_gather>("gather", into.gather,
				   {{"auto", SN_RELAY_GATHER_AUTO},
				    {"never", SN_RELAY_GATHER_NEVER},
				    {"always", SN_RELAY_GATHER_ALWAYS}});
	read_keepalive(to, in, into.keepalive);
	in.count("max_connections", into.max_connections, connections_max);
	in.count("max_connections_per_source", into.max_connections_per_source, connections_max);
	in.count("accept_rate", into.accept_rate, connections_max);
	into.accept_burst = into.accept_rate;
	in.count("accept_burst", into.accept_burst, connections_max, 1);
	if (const auto *burst = in.take("accept_burst"); burst && into.accept_rate == 0)
		in.complain(*burst, "accept_burst", "limits nothing; expected accept_rate as well");
	read_bandwidth(to, in, "bandwidth", into.bandwidth);
	read_bandwidth(to, in, "bandwidth_per_connection", into.bandwidth_per_connection);
	read_networks(in, "allow", into.allow);
	read_networks(in, "deny", into.deny);
	check_sources(in, into);
	in.finish();
}

/* An address can be listened on only once; port 0 is a different port each time. */
void check_addresses(complaints &to, const config &made, const toml::node *admin,
		     const std::vector<std::pair<std::string, const toml::table *>> &tables)
{
	std::map<std::string, std::string> seen;
	for (std::size_t i = 0; i < made.listeners.size(); i++) {
		const auto &each = made.listeners[i];
		if (each.address.empty() || is_any(each.address))
			continue;
		const auto [first, is_new] = seen.emplace(each.address, each.name);
		if (!is_new)
			to.add(tables[i].second->get("address")->source().begin,
			       "listeners." + each.name + ".address",
			       '"' + each.address + "\" is already used by listeners." +
				       first->second);
	}
	if (const auto used = seen.find(made.admin); used != seen.end())
		to.add(admin->source().begin, "admin",
		       '"' + made.admin + "\" is already used by listeners." + used->second);
}

/* A connection that comes back is relayed again, and again, until there are no descriptors. */
void check_circles(complaints &to, const config &made,
		   const std::vector<std::pair<std::string, const toml::table *>> &tables)
{
	for (std::size_t i = 0; i < made.listeners.size(); i++) {
		const auto &each = made.listeners[i];
		std::vector<std::size_t> groups;
		if (each.group != listener_config::no_group)
			groups.push_back(each.group);
		for (const auto &route : each.sni)
			groups.push_back(route.group);
		for (const std::size_t group : groups) {
			const auto &backends = made.groups[group].backends;
			const auto found = std::ranges::find_if(backends, [&](const auto &backend) {
				return leads_back(backend.address, each.address);
			});
			if (found == backends.end())
				continue;
			to.add(tables[i].second->get("address")->source().begin,
			       "listeners." + each.name + ".address",
			       "its connections would come back, because groups." +
				       made.groups[group].name + " has the backend \"" +
				       found->address + "\"; expected another address");
			break;
		}
	}
}

} // namespace

std::variant<config, config_errors> parse_config(std::string_view text, const std::string &file)
{
	const auto parsed = toml::parse(text, file);
	complaints to(file);
	if (!parsed) {
		to.add(parsed.error().source().begin, "",
		       std::string(parsed.error().description()));
		return to.in_order();
	}

	config made;
	section top(to, parsed.table(), "");
	top.duration("drain", made.drain);
	top.duration("stats_interval", made.stats_interval);
	top.address("admin", made.admin, address_use::listen);
	top.nonempty("access_log", made.access_log);
	top.choice<bool>("access_log_format", made.access_log_json,
			 {{"logfmt", false}, {"json", true}});
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
	check_addresses(to, made, parsed.table().get("admin"), listeners);
	if (to.none()) /* the addresses are well formed, and the groups are there */
		check_circles(to, made, listeners);
	top.finish();
	if (!to.none())
		return to.in_order();
	return made;
}

std::variant<config, config_errors> read_config(const std::string &file)
{
	const auto failed = [&file](int err) {
		return config_errors{file +
				     ": cannot be read: " + std::generic_category().message(err)};
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
			return config_errors{file + ": is larger than 4 MiB"};
	}
	if (std::ferror(in.get()))
		return failed(errno);
	return parse_config(text, file);
}

} // namespace relay
