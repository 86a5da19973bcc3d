/* SPDX-License-Identifier: MIT */
#include "config/config_tls.hpp"

#include "base/ip.hpp"
#include "tls/tls_context.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

/* The most certificates of a listener. More are a mistake; the library's limit is much higher. */
constexpr std::size_t most_certificates = 10'000;
constexpr std::size_t most_protocols = 32;

/* Returns false and reports an error if this program is built without TLS. */
bool has_tls_for(section &in, const toml::node &node)
{
	if (tls_is_built)
		return true;
	in.complain(node, "tls",
		    "this sennit-relay is built without TLS; expected no such key, or one that is "
		    "built with OpenSSL");
	return false;
}

/* Reads `certificate` and `key`, in a table that may have other keys, too. */
tls_certificate_files read_files(section &in)
{
	tls_certificate_files made;
	in.nonempty("certificate", made.chain);
	made.key = made.chain;
	if (in.take("key"))
		in.nonempty("key", made.key);
	return made;
}

/* Reads an element of an array: a file with certificate and key, or a table. */
void read_listed(complaints &to, section &in, const toml::node &each, const std::string &key,
		 std::vector<tls_certificate_files> &into)
{
	if (const auto *string = each.as_string()) {
		if (string->get().empty())
			in.complain(each, key, "is empty");
		else
			into.push_back({string->get(), string->get()});
		return;
	}
	const auto *table = each.as_table();
	if (!table) {
		in.mistyped(each, key, "a file, or a table with certificate and key");
		return;
	}
	section one(to, *table, in.path(key));
	one.required("certificate", "a file in PEM, such as \"site.pem\"");
	into.push_back(read_files(one));
	one.finish();
}

void read_certificates(complaints &to, section &in, std::vector<tls_certificate_files> &into)
{
	in.take("key");
	if (!in.required("certificate", "a file in PEM, such as \"site.pem\""))
		return;
	const auto &node = *in.take("certificate");
	const auto *list = node.as_array();
	if (!list) {
		if (node.is_string())
			into.push_back(read_files(in));
		else
			in.mistyped(node, "certificate", "a file, or an array of files and tables");
		return;
	}
	if (const auto *key = in.take("key"))
		in.complain(*key, "key",
			    "is set beside an array of certificates; expected it in their tables, "
			    "such as { certificate = \"a.pem\", key = \"a.key\" }");
	if (list->empty())
		in.complain(node, "certificate", "is empty; expected at least one");
	if (list->size() > most_certificates)
		in.complain(node, "certificate",
			    "has too many; expected at most " + std::to_string(most_certificates));
	std::size_t index = 0;
	for (const auto &each : *list)
		read_listed(to, in, each, "certificate[" + std::to_string(index++) + ']', into);
}

void read_alpn(section &in, std::vector<std::string> &into)
{
	const auto *node = in.take("alpn");
	if (!node)
		return;
	const auto *list = node->as_array();
	if (!list) {
		in.mistyped(*node, "alpn", "an array of protocols, such as [\"h2\", \"http/1.1\"]");
		return;
	}
	if (list->empty() || list->size() > most_protocols)
		in.complain(
			*node, "alpn",
			(list->empty() ? std::string("is empty") : std::string("has too many")) +
				"; expected 1 to " + std::to_string(most_protocols) + " protocols");
	std::size_t index = 0;
	for (const auto &each : *list) {
		const std::string key = "alpn[" + std::to_string(index++) + ']';
		const auto *string = each.as_string();
		if (!string)
			in.mistyped(each, key, "a protocol, such as \"h2\"");
		else if (!is_protocol(string->get()))
			in.complain(each, key,
				    '"' + string->get() +
					    "\" is not the name of a protocol; expected 1 to 63 "
					    "visible characters without a comma, such as \"h2\"");
		else if (std::ranges::find(into, string->get()) != into.end())
			in.complain(each, key, '"' + string->get() + "\" is there twice");
		else
			into.push_back(string->get());
	}
}

void read_version(section &in, tls_version &into)
{
	in.choice<tls_version>("min_version", into,
			       {{"1.2", tls_version::v1_2}, {"1.3", tls_version::v1_3}});
}

void read_client_certificates(section &in, tls_server_settings &into)
{
	in.choice<client_certificates>("client_certificate", into.clients,
				       {{"off", client_certificates::none},
					{"optional", client_certificates::optional},
					{"required", client_certificates::required}});
	in.nonempty("client_ca", into.client_ca);
	in.nonempty("client_crl", into.client_crl);
	if (into.clients == client_certificates::none) {
		for (const char *key : {"client_ca", "client_crl"})
			if (const auto *node = in.take(key))
				in.complain(*node, key,
					    "means nothing here; expected client_certificate = "
					    "\"optional\" or \"required\" as well");
	} else if (!in.take("client_ca")) {
		/* With the system's authorities, anybody with any certificate of theirs could
		 * connect. */
		in.complain(*in.take("client_certificate"), "client_certificate",
			    "is set without client_ca; expected the file of the authorities that "
			    "sign the clients' certificates");
	}
}

/* The name that a backend's certificate must have. */
void read_name(section &in, std::string &into)
{
	if (!in.nonempty("name", into))
		return;
	const bool is_good = into.size() <= 253 && std::ranges::all_of(into, [](char c) {
				     return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
					    (c >= '0' && c <= '9') || c == '-' || c == '_' ||
					    c == '.' || c == ':';
			     });
	const bool has_port = into.find(':') != into.npos &&
			      std::holds_alternative<std::string>(ip_network::parse(into));
	if (!is_good || has_port)
		in.complain(*in.take("name"), "name",
			    '"' + into +
				    "\" is not the name of a server; expected one such as "
				    "\"db.example.org\", or an IP address, without a port");
}

/* Some backends have no name of their own that a certificate could be for. */
void check_names(section &in, const toml::node &node, const group_config &group)
{
	if (!group.tls->verify || !group.tls->name.empty())
		return;
	for (const auto &each : group.backends)
		if (is_unix(each.address) || is_srv(each.address)) {
			in.complain(node, "tls",
				    "does not say whose certificate the backend \"" + each.address +
					    "\" has to show; expected tls.name as well, or "
					    "tls.verify = false");
			return;
		}
}

void read_group_table(complaints &to, section &in, const toml::table &table,
		      tls_client_settings &into)
{
	section one(to, table, in.path("tls"));
	one.flag("verify", into.verify);
	one.nonempty("ca", into.ca);
	one.nonempty("crl", into.crl);
	read_name(one, into.name);
	if (one.take("certificate"))
		into.certificate = read_files(one);
	else if (const auto *key = one.take("key"))
		one.complain(*key, "key", "is set without certificate; expected both");
	read_alpn(one, into.alpn);
	read_version(one, into.lowest);
	if (!into.verify)
		for (const char *key : {"ca", "crl"})
			if (const auto *node = one.take(key))
				one.complain(*node, key,
					     "means nothing, because nothing is verified; expected "
					     "no verify = false");
	one.finish();
}

} // namespace

bool is_protocol(const std::string &text)
{
	return !text.empty() && text.size() <= 63 &&
	       std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != ','; });
}

void read_listener_tls(complaints &to, section &in, listener_config &into)
{
	const auto *node = in.take("tls");
	if (!node || !has_tls_for(in, *node))
		return;
	const auto *table = node->as_table();
	if (!table) {
		in.mistyped(*node, "tls", "a table, such as { certificate = \"site.pem\" }");
		return;
	}
	section one(to, *table, in.path("tls"));
	auto &made = into.tls.emplace();
	read_certificates(to, one, made.certificates);
	read_alpn(one, made.alpn);
	read_version(one, made.lowest);
	read_client_certificates(one, made);
	one.finish();
}

void read_group_tls(complaints &to, section &in, group_config &into)
{
	const auto *node = in.take("tls");
	if (!node || !has_tls_for(in, *node))
		return;
	if (const auto *flag = node->as_boolean()) {
		if (flag->get())
			into.tls.emplace();
	} else if (const auto *table = node->as_table()) {
		read_group_table(to, in, *table, into.tls.emplace());
	} else {
		in.mistyped(*node, "tls", "true, false or a table, such as { ca = \"ca.pem\" }");
	}
	if (into.tls)
		check_names(in, *node, into);
}

} // namespace relay
