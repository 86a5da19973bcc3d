/* SPDX-License-Identifier: MIT */
/*
 * Where events (event.hpp) go: stderr as text or as JSON, syslog, or the journal.
 *
 * emit() may be called in any task and on any thread, also before send_events_to() (then stderr
 * gets the events as text). It must not be called under a lock that tasks wait for, because it may
 * park, for the time of one write(2). It never fails. A reader of stderr that is slow or gone does
 * not delay tasks for long: once a write has waited for 100 ms without success, the next ones do
 * not wait. Events that cannot be written are counted, and reported as events_lost as soon as
 * writing works again. Each event is one write(2) or one datagram, so events never mix. Events of
 * different tasks may be written in any order.
 *
 * A kind that clients can cause at any rate is limited (event_limit). The next event of the kind
 * that is written has the number of events suppressed since the last one. flush_suppressed(), which
 * is called periodically, reports such numbers if no event of the kind has come.
 *
 * If the socket of syslog or of the journal does not take an event, stderr gets it, so that nothing
 * is lost without a trace while a log daemon restarts. There is no queue and no thread, because the
 * limits keep events rare. An event that was emitted before the process died has therefore been
 * written.
 */
#ifndef RELAY_EVENTS_HPP
#define RELAY_EVENTS_HPP

#include "stats/event.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace relay
{

/* The form of events. With "stderr" it is text; or the journal's own form, if stderr is the
 * journal (JOURNAL_STREAM, systemd.exec(5)). */
enum class event_form : unsigned char { text, json, syslog, journal };

/* What is wrong with the value of `events`. Nothing is wrong with "stderr", "json", "syslog"
 * (/dev/log), "syslog:/PATH" (RFC 5424, datagrams to a Unix socket) and "journal". */
std::optional<std::string> event_target_problem(std::string_view target);

/* Sends all events there from now on. event_target_problem() has found nothing wrong with the
 * target. */
void send_events_to(std::string_view target);

/* The same in two steps, of which only the first one throws if there is no memory. */
struct event_target;
std::shared_ptr<const event_target> open_event_target(std::string_view target);
void send_events_to(std::shared_ptr<const event_target> target) noexcept;

/* Sends the event, or counts it as suppressed. */
void emit(event_kind kind, std::string_view message, event_fields fields = {}) noexcept;

/* Counts an event as lost, because there was no memory for it. */
void count_lost_event() noexcept;

/* Calls a function that emits an event, for whose texts there may be no memory. */
template <class Tell>
void try_to_tell(Tell tell) noexcept
try {
	tell();
} catch (const std::exception &) {
	count_lost_event();
}

/* Reports how many events were suppressed, for each kind that may be sent again now. */
void flush_suppressed() noexcept;

/* Since the process started: events that were over the limit of their kind, and events that could
 * not be written anywhere. */
std::uint64_t suppressed_events() noexcept;
std::uint64_t lost_events() noexcept;

} // namespace relay

#endif
