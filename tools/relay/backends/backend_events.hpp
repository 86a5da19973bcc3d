/* SPDX-License-Identifier: MIT */
/*
 * Emits the events of backends and of the clients that want one (events.hpp): what a session or a
 * check has found, in words and fields. No call fails; without memory there is no event. All of
 * them may park.
 */
#ifndef RELAY_BACKEND_EVENTS_HPP
#define RELAY_BACKEND_EVENTS_HPP

#include "backends/balance.hpp"
#include "stats/event.hpp"

#include <string_view>
#include <system_error>

namespace relay
{

/* The fields that identify the backend, and the address if the backend is a name. */
event_fields fields_of(const pool &of, const backend &at);
event_fields fields_of(const pool &of, const endpoint &at);

/* A check has changed the state of a backend. If the answer is no error, the backend is up
 * again. detail: what is known beyond the error, in words. */
void tell_checked(const pool &of, const endpoint &at, const std::error_code &answer,
		  std::string_view detail) noexcept;

/* A check could not be made, because the relay itself lacks a resource. This says nothing about
 * the backend. */
void tell_shortage(const pool &of, const endpoint &at, const std::error_code &error) noexcept;

/* tell_agent(): the agent of a backend has answered. tell_agent_lost(): it has not, for the
 * first time since its last answer. */
void tell_agent(const pool &of, const endpoint &at, const agent_state::change &made) noexcept;
void tell_agent_lost(const pool &of, const endpoint &at, std::string_view why) noexcept;

/* A connection to a backend could not be made. is_ejected: the failure has ejected the backend.
 * ours: the relay itself lacks a resource, which says nothing about the backend. */
void tell_failed(std::string_view listener, const pool &of, const endpoint &at,
		 const std::error_code &error, std::string_view detail, bool ours,
		 bool is_ejected) noexcept;

/* A connection was made. Emits an event if the backend was ejected, so call it before
 * pool::succeeded(). */
void tell_succeeded(const pool &of, const endpoint &at) noexcept;

/* n open connections of a backend that is down were reset. */
void tell_cut(const pool &of, const endpoint &at, std::uint64_t n) noexcept;

/* A backend writes before its clients do, so connections to it are not made ahead any more. */
void tell_speaks_first(const pool &of, const endpoint &at) noexcept;

/* A client of that listener is closed because the group has no backend for it, or because all of
 * them are at their max_connections and the client may not wait, or has waited too long. limit:
 * the key that was decisive; beside: why the client does not wait, in words. tell_unchecked(): the
 * same, but what it waits for is the first check of a backend. */
void tell_no_backend(std::string_view listener, const pool &of) noexcept;
void tell_full(std::string_view listener, const pool &of, const char *limit,
	       const char *beside) noexcept;
void tell_unchecked(std::string_view listener, const pool &of, const char *limit,
		    const char *beside) noexcept;

/* A client of that listener is closed because a limit of its configuration is reached. */
void tell_limit(std::string_view listener, const char *limit) noexcept;

/* The clients of that address wait, because no more than `most` connections fit. */
void tell_no_room(std::string_view address, std::size_t most) noexcept;

} // namespace relay

#endif
