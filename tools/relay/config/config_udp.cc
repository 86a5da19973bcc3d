/* SPDX-License-Identifier: MIT */
#include "config/config_udp.hpp"

#include "wire/quic_crypto.hpp"

#include <algorithm>
#include <string>

namespace relay
{
namespace
{

/* A larger number is a mistake: a session with that many answers to each datagram ends by its
 * idle timeout. */
constexpr std::int64_t responses_most = 1000;

/* Keys that concern connections or their streams. */
constexpr const char *of_connections[] = {
	"proxy_from",
	"connect_timeout",
	"half_close_timeout",
	"coalesce",
	"tls",
	"keepalive",
	"user_timeout",
	"bandwidth_per_connection",
	"bandwidth_per_source",
	"alpn",
};

/* Reports settings that a group cannot have if datagrams are sent to it. */
void check_group(section &in, const toml::node &at, std::string_view key, const group_config &group)
{
	if (group.send_proxy == proxy_sending::v1)
		in.complain(at, key,
			    "leads to groups." + group.name +
				    ", whose send_proxy is \"v1\", which has no datagrams; "
				    "expected \"v2\" there");
	if (group.tls)
		in.complain(at, key,
			    "leads to groups." + group.name +
				    ", which has tls, but datagrams go there as they are; expected "
				    "no tls there");
	if (group.preconnect.most != 0)
		in.complain(at, key,
			    "leads to groups." + group.name +
				    ", which has preconnect, but datagrams need no connection; "
				    "expected no preconnect there");
	const auto local = std::ranges::find_if(
		group.backends, [](const auto &each) { return is_unix(each.address); });
	if (local != group.backends.end())
		in.complain(at, key,
			    "leads to groups." + group.name + ", whose backend \"" +
				    local->address +
				    "\" takes no datagrams; expected HOST:PORT there");
}

} // namespace

void read_udp(section &in, const std::vector<group_config> &groups, listener_config &into)
{
	in.count("responses", into.responses, responses_most);
	if (!is_udp(into.address)) {
		if (const auto *node = in.take("responses"))
			in.complain(*node, "responses",
				    "means nothing for connections; expected it beside an address "
				    "such as \"udp:127.0.0.1:53\"");
		return;
	}
	for (const char *key : of_connections)
		if (const auto *node = in.take(key))
			in.complain(*node, key,
				    "means nothing for datagrams; expected no such key beside an "
				    "address of UDP");
	if (const auto *node = in.take("idle_timeout"); node && into.idle_timeout.count() == 0)
		in.complain(*node, "idle_timeout",
			    "is 0, but nothing else ends the sessions of UDP; expected more");
	const char *const key_of_names = in.take("sni") ? "sni" : "sni_files";
	const auto *const names = in.take(key_of_names);
	if (names && !has_quic_crypto())
		in.complain(*names, key_of_names,
			    "needs the hello of QUIC, but this sennit-relay is built without "
			    "OpenSSL; expected group alone");
	if (const auto *node = in.take("group"); node && into.group != listener_config::no_group)
		check_group(in, *node, "group", groups[into.group]);
	for (const auto &each : into.sni)
		check_group(in, *names, key_of_names, groups[each.group]);
}

} // namespace relay
