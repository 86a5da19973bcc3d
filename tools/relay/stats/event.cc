/* SPDX-License-Identifier: MIT */
#include "stats/event.hpp"

#include "base/text.hpp"

#include <ctime>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* Longer texts are cut, before and after they are escaped. */
constexpr std::size_t message_most = 1400;
constexpr std::size_t field_most = 400;

/* The limit for events that clients cause: enough to see what is wrong, and little of a flood. */
constexpr event_limit of_clients{10, 1000ms};
/* Hundreds of backends of a group may go down together, and flap. */
constexpr event_limit of_backends{1000, 100ms};
constexpr event_limit of_process{5, 10000ms};

constexpr std::array<event_description, static_cast<std::size_t>(event_kind::count_)> kinds = {{
	{"serving", event_level::info, {}},
	{"cannot_serve", event_level::error, {}},
	{"reloaded", event_level::notice, {}},
	{"not_reloaded", event_level::error, {}},
	{"changed", event_level::notice, {}},
	{"changes_lost", event_level::warning, {}},
	{"killed", event_level::notice, {}},
	{"config_error", event_level::error, {}},
	{"handed_over", event_level::notice, {}},
	{"not_handed_over", event_level::error, {}},
	{"not_notified", event_level::warning, of_process},
	{"stopping", event_level::notice, {}},
	{"draining", event_level::notice, {}},
	{"cutting", event_level::warning, {}},
	{"stopped", event_level::info, {}},
	{"relay_died", event_level::error, {}},
	{"counters", event_level::info, {}},
	{"socket_unused", event_level::warning, {}},
	{"backend_down", event_level::warning, of_backends},
	{"backend_up", event_level::notice, of_backends},
	{"backend_ejected", event_level::warning, of_backends},
	{"backend_returned", event_level::notice, of_backends},
	{"backend_cut", event_level::warning, of_backends},
	{"checks_ended", event_level::error, {}},
	{"agent_down", event_level::warning, of_backends},
	{"agent_up", event_level::notice, of_backends},
	{"agent_says", event_level::notice, of_backends},
	{"agent_lost", event_level::warning, of_backends},
	{"agent_answers", event_level::notice, of_backends},
	{"agents_ended", event_level::error, {}},
	{"preconnect_off", event_level::warning, of_backends},
	{"preconnect_ended", event_level::error, {}},
	{"name_failing", event_level::warning, of_backends},
	{"name_resolves", event_level::notice, of_backends},
	{"names_ended", event_level::error, {}},
	{"connect_failed", event_level::warning, of_clients},
	{"no_backend", event_level::error, of_clients},
	{"limit_reached", event_level::warning, of_clients},
	{"certificate_left_out", event_level::warning, of_process},
	{"no_room", event_level::error, of_process},
	{"accept_paused", event_level::error, of_process},
	{"accept_failed", event_level::error, of_process},
	{"no_memory", event_level::error, of_process},
	{"log_failed", event_level::error, of_process},
	{"log_dropped", event_level::warning, of_process},
	{"admin_failed", event_level::error, of_process},
	{"tls_reloaded", event_level::notice, {}},
	{"tls_not_reloaded", event_level::error, {}},
	{"lists_reread", event_level::notice, {}},
	{"lists_not_reread", event_level::error, {}},
	{"certificate_expiring", event_level::warning, of_backends},
	{"certificate_invalid", event_level::error, of_backends},
	{"revocation_list_expiring", event_level::warning, of_backends},
	{"revocation_list_invalid", event_level::error, of_backends},
	{"control_refused", event_level::warning, of_clients},
	{"admin_refused", event_level::warning, of_process},
	{"admin_exposed", event_level::warning, {}},
	{"events_suppressed", event_level::notice, {}},
	{"events_lost", event_level::warning, {}},
}};

/* The facility "daemon". */
constexpr int facility = 3 * 8;

std::string priority(event_level level, int of = 0)
{
	return '<' + std::to_string(of + static_cast<int>(level)) + '>';
}

/* Cuts the text, but no character in two. Bytes that are not UTF-8 are replaced later. */
std::string_view cut(std::string_view text, std::size_t most)
{
	if (text.size() <= most)
		return text;
	while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
		most--;
	return text.substr(0, most);
}

/* Appends the text, cut so that the result has no more than `most` bytes. */
template <class Append>
void append_cut(std::string &out, std::string_view text, std::size_t most, Append append)
{
	const std::size_t before = out.size();
	for (auto part = most;; part /= 2) {
		append(out, cut(text, part));
		if (out.size() - before <= most || part == 0)
			return;
		out.resize(before);
	}
}

std::size_t most_of(std::string_view key)
{
	return key == "message" ? message_most : field_most;
}

/* Calls each(key, text, is_number) for every field that is known, the message last. */
template <class Each>
void for_fields(const event &what, Each each)
{
	for (const auto &field : what.fields)
		if (!field.text.empty())
			each(field.key, std::string_view(field.text), field.is_number);
	if (what.suppressed)
		each("suppressed", std::to_string(what.suppressed), true);
	if (!what.message.empty())
		each("message", std::string_view(what.message), false);
}

/* "warning backend_down key=value ..." */
std::string to_words(const event &what)
{
	const auto &about = describe(what.kind);
	std::string out = std::string(to_string(about.level)) + ' ' + about.name;
	for_fields(what, [&out](std::string_view key, std::string_view text, bool) {
		((out += ' ') += key) += '=';
		append_cut(out, text, most_of(key), append_logfmt);
	});
	return out;
}

std::string upper(std::string_view key)
{
	std::string out;
	for (const char c : key)
		out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
	return out;
}

/* Appends the value of a parameter of structured data, in which '"', '\' and ']' are escaped. */
void append_parameter(std::string &out, std::string_view text)
{
	/* The escapes of JSON make the text one line of UTF-8, and its quotes are those that are
	 * needed here. */
	std::string quoted;
	append_json(quoted, text);
	for (const char c : quoted) {
		if (c == ']')
			out += '\\';
		out += c;
	}
}

} // namespace

const char *to_string(event_level level) noexcept
{
	switch (level) {
	case event_level::error:
		return "error";
	case event_level::warning:
		return "warning";
	case event_level::notice:
		return "notice";
	case event_level::info:
		break;
	}
	return "info";
}

const event_description &describe(event_kind kind) noexcept
{
	return kinds[static_cast<std::size_t>(kind)];
}

std::string to_text(const event &what)
{
	return to_time(what.time) + ' ' + to_words(what) + '\n';
}

std::string to_prefixed_text(const event &what)
{
	return priority(describe(what.kind).level) + to_words(what) + '\n';
}

std::string to_json(const event &what)
{
	const auto &about = describe(what.kind);
	std::string out = "{\"time\":\"" + to_time(what.time) + "\",\"level\":\"" +
			  to_string(about.level) + "\",\"event\":\"" + about.name + '"';
	for_fields(what, [&out](std::string_view key, std::string_view text, bool is_number) {
		((out += ",\"") += key) += "\":";
		if (is_number)
			out += text;
		else
			append_cut(out, text, most_of(key), append_json);
	});
	return out += "}\n";
}

std::string syslog_start(event_level level, std::chrono::nanoseconds time, std::string_view host,
			 long pid, std::string_view name)
{
	return priority(level, facility) + "1 " + to_time(time) + ' ' +
	       (host.empty() ? "-" : to_printable(host)) + " sennit-relay " + std::to_string(pid) +
	       ' ' + std::string(name) + ' ';
}

std::string to_syslog(const event &what, std::string_view host, long pid)
{
	const auto &about = describe(what.kind);
	std::string out = syslog_start(about.level, what.time, host, pid, about.name);
	std::string data;
	for_fields(what, [&data](std::string_view key, std::string_view text, bool) {
		if (key == "message")
			return;
		((data += ' ') += key) += '=';
		append_cut(data, text, field_most, append_parameter);
	});
	/* 32473 is the enterprise number that RFC 5612 reserves for examples; sennit has none of
	 * its own. */
	out += data.empty() ? "-" : "[sennit@32473" + data + ']';
	if (!what.message.empty())
		out += ' ' + to_printable(cut(what.message, message_most));
	return out;
}

std::string local_syslog_start(event_level level, std::chrono::nanoseconds time, long pid)
{
	const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
	std::tm parts{};
	localtime_r(&seconds, &parts);
	/* Names of months in English, whatever the locale is. */
	static constexpr const char *months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
						 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	char rest[32];
	const auto size = std::strftime(rest, sizeof rest, "%e %H:%M:%S", &parts);
	return priority(level, facility) + months[parts.tm_mon] + ' ' + std::string(rest, size) +
	       " sennit-relay[" + std::to_string(pid) + "]: ";
}

std::string to_local_syslog(const event &what, long pid)
{
	return local_syslog_start(describe(what.kind).level, what.time, pid) + to_words(what);
}

std::string to_journal(const event &what)
{
	const auto &about = describe(what.kind);
	/* Lines "KEY=text". The protocol has another form for a text with a line end, so line
	 * ends are replaced. */
	std::string out = "SYSLOG_IDENTIFIER=sennit-relay\nPRIORITY=" +
			  std::to_string(static_cast<int>(about.level)) +
			  "\nSENNIT_EVENT=" + about.name + '\n';
	for_fields(what, [&out](std::string_view key, std::string_view text, bool) {
		if (key != "message")
			out += "SENNIT_" + upper(key) + '=' + to_printable(cut(text, field_most)) +
			       '\n';
	});
	const auto words = what.message.empty() ? to_words(what) : what.message;
	return out + "MESSAGE=" + to_printable(cut(words, message_most)) + '\n';
}

} // namespace relay
