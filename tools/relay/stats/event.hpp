/* SPDX-License-Identifier: MIT */
/*
 * An event: something that an operator wants to know, with a level, a name and fields; and its
 * forms as text, as JSON, for syslog and for the journal. events.hpp sends it.
 *
 * The table `event_kinds` has every kind, with its level and how many of it may be written;
 * docs/relay-operation.md describes each. Names and fields are for programs and are not renamed.
 * The message is for people and may change.
 *
 * Each form is one record, without a line break in it except in the journal's form, and at most
 * event_most bytes: long texts are cut.
 * No text from outside can end the value that it is in (text.hpp).
 */
#ifndef RELAY_EVENT_HPP
#define RELAY_EVENT_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* The values are syslog's priorities. */
enum class event_level : unsigned char { error = 3, warning = 4, notice = 5, info = 6 };

/* "error", "warning", "notice" or "info". */
const char *to_string(event_level level) noexcept;

/*
 * How many events of one kind are written: `burst` of them immediately, and then one in each
 * `pause`. A burst of 0 means all. Kinds that a client or a backend can cause at any rate must have
 * a limit.
 */
struct event_limit {
	unsigned burst = 0;
	std::chrono::milliseconds pause{};
};

enum class event_kind : unsigned char {
	serving,
	cannot_serve,
	reloaded,
	not_reloaded,
	changed,
	changes_lost,
	killed,
	config_error,
	handed_over,
	not_handed_over,
	not_notified,
	stopping,
	draining,
	cutting,
	stopped,
	relay_died,
	counters,
	socket_unused,
	backend_down,
	backend_up,
	backend_ejected,
	backend_returned,
	backend_cut,
	checks_ended,
	agent_down,
	agent_up,
	agent_says,
	agent_lost,
	agent_answers,
	agents_ended,
	preconnect_off,
	preconnect_ended,
	name_failing,
	name_resolves,
	names_ended,
	connect_failed,
	no_backend,
	limit_reached,
	certificate_left_out,
	no_room,
	accept_paused,
	accept_failed,
	no_memory,
	log_failed,
	log_dropped,
	admin_failed,
	tls_reloaded,
	tls_not_reloaded,
	lists_reread,
	lists_not_reread,
	certificate_expiring,
	certificate_invalid,
	revocation_list_expiring,
	revocation_list_invalid,
	control_refused,
	admin_refused,
	admin_exposed,
	events_suppressed,
	events_lost,
	count_
};

struct event_description {
	const char *name;
	event_level level;
	event_limit limit;
};

/* By kind. */
const event_description &describe(event_kind kind) noexcept;

struct event_field {
	event_field(std::string_view called, std::string_view says) : key(called), text(says) {}
	event_field(std::string_view called, const std::string &says) : key(called), text(says) {}
	event_field(std::string_view called, const char *says) : key(called), text(says) {}
	event_field(std::string_view called, std::uint64_t n)
	    : key(called), text(std::to_string(n)), is_number(true)
	{
	}

	std::string_view key; /* lower case letters, digits and '_'; lives forever */
	std::string text;     /* empty: unknown, and left out */
	bool is_number = false;
};

using event_fields = std::vector<event_field>;

struct event {
	std::chrono::nanoseconds time{}; /* since 1970 */
	event_kind kind = event_kind::serving;
	std::string message{}; /* for people; may be empty */
	event_fields fields{};
	std::uint64_t suppressed = 0; /* earlier events of the kind left out */
};

/* The longest record with up to five fields of text. A pipe takes that much in one piece
 * (PIPE_BUF). */
inline constexpr std::size_t event_most = 4096;

/* "2026-11-21T09:55:14.123Z warning backend_down group=web message=\"...\"\n" */
std::string to_text(const event &what);

/* The same without the time and with the priority in front, "<4>warning backend_down ...\n": for a
 * reader that adds the time and knows priorities, as the journal does on stderr. */
std::string to_prefixed_text(const event &what);

/* {"time":"...","level":"warning","event":"backend_down",...} and a line end. */
std::string to_json(const event &what);

/* RFC 5424, with the fields as structured data: "<28>1 2026-11-21T09:55:14.123Z host sennit-relay
 * 4711 backend_down [sennit@32473 group=\"web\"] message". */
std::string to_syslog(const event &what, std::string_view host, long pid);

/* The part in front of what the two forms of syslog say; in RFC 5424 structured data follows. */
std::string syslog_start(event_level level, std::chrono::nanoseconds time, std::string_view host,
			 long pid, std::string_view name);
std::string local_syslog_start(event_level level, std::chrono::nanoseconds time, long pid);

/* The form in which the C library writes to /dev/log, in local time: "<28>Nov 21 09:55:14
 * sennit-relay[4711]: warning backend_down ...". */
std::string to_local_syslog(const event &what, long pid);

/* A datagram of the journal's own protocol: MESSAGE, PRIORITY, SENNIT_EVENT and the fields as
 * SENNIT_GROUP and so on. */
std::string to_journal(const event &what);

} // namespace relay

#endif
