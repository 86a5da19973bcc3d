/* SPDX-License-Identifier: MIT */
/*
 * The events of backends and of the clients that want one (events.hpp): what a session or a check
 * has found, in words and fields. None of them fails: without memory there is no event. May park.
 */
#ifndef RELAY_BACKEND_EVENTS_HPP
#define RELAY_BACKEND_EVENTS_HPP

#include "backends/balance.hpp"
#include "stats/event.hpp"

#include <string_view>
#include <system_error>

namespace relay
{

/* The fields that say which backend it is, and which address of it if it is a name. */
event_fields fields_of(const pool &of, const backend &at);
event_fields fields_of(const pool &of, const endpoint &at);

/* A check has changed the state of a backend. No error: it is up again. detail: in words, if more
 * is known than the error says. */
void tell_checked(const pool &of, const endpoint &at, const std::error_code &answer,
		  std::string_view detail) noexcept;

/* A check could not be made, because the relay itself lacks a resource. It says nothing of the
 * backend. */
void tell_shortage(const pool &of, const endpoint &at, const std::error_code &error) noexcept;

/* The agent of a backend has said something, and that it has said nothing, for the first time. */
void tell_agent(const pool &of, const endpoint &at, const agent_state::change &made) noexcept;
void tell_agent_lost(const pool &of, const endpoint &at, std::string_view why) noexcept;

/* A connection to a backend could not be made; is_ejected: that made it an ejected one. ours: the
 * relay itself lacks a resource, which says nothing of the backend. */
void tell_failed(std::string_view listener, const pool &of, const endpoint &at,
		 const std::error_code &error, std::string_view detail, bool ours,
		 bool is_ejected) noexcept;

/* Before pool::succeeded(): a connection was made. An event if the backend was ejected. */
void tell_succeeded(const pool &of, const endpoint &at) noexcept;

/* n open connections of a backend that is down were reset. */
void tell_cut(const pool &of, const endpoint &at, std::uint64_t n) noexcept;

/* A backend writes before its clients do, so connections to it are not made ahead any more. */
void tell_speaks_first(const pool &of, const endpoint &at) noexcept;

/* A client of that listener is closed because the group has no backend for it, or because all of
 * them are at their max_connections and the limit of waiting is reached, too. */
void tell_no_backend(std::string_view listener, const pool &of) noexcept;
void tell_full(std::string_view listener, const pool &of, const char *limit) noexcept;

/* A client of that listener is closed because a limit of its configuration is reached. */
void tell_limit(std::string_view listener, const char *limit) noexcept;

/* The clients of that address wait, because no more than `most` connections fit. */
void tell_no_room(std::string_view address, std::size_t most) noexcept;

} // namespace relay

#endif
