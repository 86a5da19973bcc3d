/* SPDX-License-Identifier: MIT */
#include "config/config_check.hpp"

#include "config/config_phrases.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace relay
{
namespace
{

/* The longest target of a request. */
constexpr std::size_t longest_target = 1024;

constexpr std::size_t longest_host = 255;

/* Whether the text has no character that could end a line or a word of the request. */
bool is_visible(std::string_view text)
{
	return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_request(std::string_view text)
{
	const auto space = text.find(' ');
	if (space == text.npos)
		return false;
	const auto method = text.substr(0, space);
	const auto target = text.substr(space + 1);
	if (method != "GET" && method != "HEAD" && method != "OPTIONS")
		return false;
	return (target.starts_with('/') || (target == "*" && method == "OPTIONS")) &&
	       target.size() <= longest_target && is_visible(target) &&
	       target.find('#') == target.npos;
}

std::optional<std::uint16_t> to_status(std::string_view digits)
{
	std::uint16_t status = 0;
	const auto [rest, err] =
		std::from_chars(digits.data(), digits.data() + digits.size(), status);
	if (err != std::errc{} || rest != digits.data() + digits.size() || status < 100 ||
	    status > 599)
		return std::nullopt;
	return status;
}

/* Parses a status as an integer, or a range such as "2xx" or "200-299". */
std::optional<status_range> to_statuses(const toml::node &node)
{
	if (const auto *number = node.as_integer()) {
		const auto status = to_status(std::to_string(number->get()));
		return status ? std::optional(status_range{*status, *status}) : std::nullopt;
	}
	const auto *string = node.as_string();
	if (!string)
		return std::nullopt;
	const std::string_view text = string->get();
	if (text.size() == 3 && text.ends_with("xx")) {
		const auto low = to_status(std::string(text.substr(0, 1)) + "00");
		return low ? std::optional(
				     status_range{*low, static_cast<std::uint16_t>(*low + 99)})
			   : std::nullopt;
	}
	const auto dash = text.find('-');
	if (dash == text.npos)
		return std::nullopt;
	const auto low = to_status(text.substr(0, dash));
	const auto high = to_status(text.substr(dash + 1));
	if (!low || !high || *low > *high)
		return std::nullopt;
	return status_range{*low, *high};
}

void read_status(section &in, std::vector<status_range> &into)
{
	const auto *node = in.take("status");
	if (!node)
		return;
	into.clear();
	const auto add = [&](const toml::node &each, const std::string &key) {
		if (const auto range = to_statuses(each))
			into.push_back(*range);
		else
			in.complain(
				each, key,
				"is not a status of HTTP; expected an integer from 100 to 599, "
				"a range in quotes, such as \"2xx\" or \"200-299\", or an array of "
				"these");
	};
	const auto *list = node->as_array();
	if (!list)
		return add(*node, "status");
	if (list->empty())
		in.complain(*node, "status", "is empty; expected at least one");
	std::size_t index = 0;
	for (const auto &each : *list)
		add(each, "status[" + std::to_string(index++) + ']');
}

bool has_no_body(const status_range &of) noexcept
{
	return of.high < 200 || (of.low == of.high && (of.low == 204 || of.low == 304));
}

void read_body_search(section &in, const toml::node &expected, const check_config &how)
{
	const char *none = nullptr;
	if (how.http.starts_with("HEAD "))
		none = "answers to HEAD have none; expected GET";
	else if (!how.status.empty() && std::ranges::all_of(how.status, has_no_body))
		none = "no answer of this status has one; expected another status";
	if (none)
		in.complain(expected, "expect_regex",
			    std::string("searches the body of the answer, but ") + none);
}

void read_http(section &in, check_config &into)
{
	if (in.text("http", into.http) && !is_request(into.http))
		in.complain(
			*in.take("http"), "http",
			'"' + into.http +
				"\" is not a request; expected GET, HEAD or OPTIONS, a space and "
				"a path, such as \"GET /health\"");
	if (in.nonempty("host", into.host) &&
	    (into.host.size() > longest_host || !is_visible(into.host)))
		in.complain(*in.take("host"), "host",
			    "is not the name of a host; expected at most " +
				    std::to_string(longest_host) + " visible characters");
	read_status(in, into.status);
	if (in.take("http")) {
		for (const char *key : phrase_keys)
			if (const auto *other = in.take(key))
				in.complain(*other, key,
					    "is set beside http; expected one or the other");
		if (const auto *body = in.take("expect_regex"))
			read_body_search(in, *body, into);
		return;
	}
	for (const char *key : {"host", "status"})
		if (const auto *alone = in.take(key))
			in.complain(*alone, key, "means nothing without http; expected it as well");
}

/* Without a text there is no datagram to send, and without an answer nothing to conclude. */
void read_udp_check(section &in, check_config &into)
{
	if (!in.flag("udp", into.udp) || !into.udp)
		return;
	const auto *node = in.take("udp");
	for (const char *key : {"http", "tls"})
		if (const auto *other = in.take(key); other && (key[0] == 'h' || into.tls == true))
			in.complain(*other, key,
				    "is set beside udp, but datagrams have neither HTTP nor TLS; "
				    "expected one or the other");
	if (!in.take("send") && !in.take("send_hex") && !in.take("http"))
		in.complain(*node, "udp", "is set without send; expected send and expect as well");
}

} // namespace

bool read_agent_send(section &in, std::string &into)
{
	return read_phrase(in, "send", into);
}

void read_check_place(section &in, check_place &into)
{
	in.count("port", into.port, 65535, 1);
	in.address("address", into.address, address_use::connect);
	if (const auto *both = in.take("address"); both && in.take("port"))
		in.complain(*both, "address",
			    "is set beside port; expected one of them, as an address has its own");
}

void read_agent(section in, agent_config &into)
{
	using namespace std::chrono_literals;

	into.interval = 2s;
	in.duration("interval", into.interval, 10ms);
	in.duration("timeout", into.timeout, 1ms);
	when_down on_down = when_down::keep;
	in.choice<when_down>(
		"on_down", on_down,
		{{"keep", when_down::keep}, {"drain", when_down::drain}, {"cut", when_down::cut}});
	if (in.take("on_down"))
		into.on_down = on_down;
	read_check_place(in, into.at);
	read_agent_send(in, into.send);
	in.finish("[groups.NAME.agent]");
}

void read_check(section in, check_config &into)
{
	using namespace std::chrono_literals;

	into.interval = 2s;
	in.duration("interval", into.interval, 10ms);
	in.duration("timeout", into.timeout, 1ms);
	in.count("rise", into.rise, 1000, 1);
	in.count("fall", into.fall, 1000, 1);
	in.choice<when_down>(
		"on_down", into.on_down,
		{{"keep", when_down::keep}, {"drain", when_down::drain}, {"cut", when_down::cut}});
	in.choice<bool>("initial", into.starts_down, {{"up", false}, {"down", true}});
	read_check_place(in, into.at);
	if (bool by_tls = false; in.flag("tls", by_tls))
		into.tls = by_tls;
	read_phrases(in, into);
	read_http(in, into);
	read_udp_check(in, into);
	in.finish("[groups.NAME.check]");
}

} // namespace relay
