/* SPDX-License-Identifier: MIT */
/*
 * Where events (event.hpp) go: stderr as text or as JSON, syslog, or the journal.
 *
 * emit() may be called in any task and on any thread, also before events are opened (then stderr
 * gets them as text), but not under a lock that tasks wait for: it may park, for the time of one
 * write(2). It never fails. A reader of stderr that is slow or gone delays no task: once a write
 * has waited for 100 ms without success, the next ones do not wait. Events that cannot be written
 * are counted, and reported as events_lost as soon as writing works again. Each event is one
 * write(2) or one datagram, so events never mix. Of two tasks' events either may be first.
 *
 * A kind that clients can cause at any rate is limited (event_limit). The next event of the kind
 * that passes has the number of those suppressed, and flush_suppressed(), which is called now and
 * then, reports numbers for which no event has come.
 *
 * If the socket of syslog or of the journal does not take an event, stderr gets it, so that nothing
 * is lost without a trace while a log daemon restarts. There is no queue and no thread: events are
 * rare by their limits, and an event that was emitted before the process died has been written.
 */
#ifndef RELAY_EVENTS_HPP
#define RELAY_EVENTS_HPP

#include "stats/event.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace relay
{

/* stderr: in the journal's own form if stderr is the journal (JOURNAL_STREAM, systemd.exec(5)). */
enum class event_form : unsigned char { text, json, syslog, journal };

/* What is wrong with the value of `events`; nothing if it is one of: "stderr", "json", "syslog"
 * (/dev/log), "syslog:/PATH" (RFC 5424, datagrams to a Unix socket), "journal". */
std::optional<std::string> event_target_problem(std::string_view target);

/* All events from now on go there; the target has no problem. */
void send_events_to(std::string_view target);

/* Sends the event, or counts it as suppressed. */
void emit(event_kind kind, std::string_view message, event_fields fields = {}) noexcept;

/* Reports how many events were suppressed, for each kind that may be sent again now. */
void flush_suppressed() noexcept;

/* Since the process started: events that were over the limit of their kind, and events that could
 * not be written anywhere. */
std::uint64_t suppressed_events() noexcept;
std::uint64_t lost_events() noexcept;

} // namespace relay

#endif
