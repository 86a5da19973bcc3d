/* SPDX-License-Identifier: MIT */
#include "backends/backend_events.hpp"

#include "stats/events.hpp"

#include <string>

namespace relay
{
namespace
{

std::string name_of(const pool &of, const endpoint &at)
{
	return "backend " + at.name() + " of " + of.name();
}

/* what: which backends stand in the way; is_so: how. */
void tell_not_waiting(std::string_view listener, const pool &of, const char *what,
		      const char *is_so, const char *limit, const char *beside) noexcept
{
	try_to_tell([&] {
		emit(event_kind::limit_reached,
		     std::string("a client is closed, because ") + what + " of " + of.name() +
			     is_so + ", and " + beside,
		     {{"listener", listener}, {"group", of.name()}, {"limit", limit}});
	});
}

void emit_shortage(const std::string &what, const std::string &why, event_fields fields)
{
	emit(event_kind::no_memory, what + " could not be made for lack of a resource: " + why,
	     std::move(fields));
}

/* The detail if there is one, or else the error in words. */
std::string words_of(const std::error_code &error, std::string_view detail, const endpoint &at)
{
	return detail.empty() ? check_error_text(error.value(), at.address) : std::string(detail);
}

} // namespace

event_fields fields_of(const pool &of, const backend &at)
{
	return {{"group", of.name()}, {"backend", at.settings.address}};
}

event_fields fields_of(const pool &of, const endpoint &at)
{
	event_fields fields = {{"group", of.name()}, {"backend", at.backend}};
	if (at.resolved())
		fields.emplace_back("endpoint", at.address);
	return fields;
}

void tell_checked(const pool &of, const endpoint &at, const std::error_code &answer,
		  std::string_view detail) noexcept
{
	try_to_tell([&] {
		auto fields = fields_of(of, at);
		if (!answer) {
			emit(event_kind::backend_up, name_of(of, at) + " is up again",
			     std::move(fields));
			return;
		}
		const std::string why = words_of(answer, detail, at);
		fields.emplace_back("error", why);
		emit(event_kind::backend_down, name_of(of, at) + " is down: " + why,
		     std::move(fields));
	});
}

void tell_shortage(const pool &of, const endpoint &at, const std::error_code &error) noexcept
{
	try_to_tell([&] {
		const std::string why = check_error_text(error.value(), at.address);
		auto fields = fields_of(of, at);
		fields.emplace_back("error", why);
		emit_shortage("a check of " + name_of(of, at), why, std::move(fields));
	});
}

void tell_agent(const pool &of, const endpoint &at, const agent_state::change &made) noexcept
{
	const auto tell = [&](event_kind kind, const std::string &words, std::string_view says = "",
			      std::string_view more = "") {
		auto fields = fields_of(of, at);
		fields.emplace_back("says", says);
		emit(kind, words + (more.empty() ? "" : ": " + std::string(more)),
		     std::move(fields));
	};
	try_to_tell([&] {
		if (!made.counts)
			return;
		const auto &before = made.before;
		const auto &after = made.after;
		if (made.answers_again)
			tell(event_kind::agent_answers,
			     "the agent of " + name_of(of, at) + " answers again");
		if (before.health != after.health) {
			const bool is_up = after.health == agent_health::up;
			tell(is_up ? event_kind::agent_up : event_kind::agent_down,
			     name_of(of, at) + (is_up ? " is up again" : " is down") +
				     " by its agent",
			     to_string(after.health), made.description);
		}
		if (before.admin != after.admin)
			tell(event_kind::agent_says,
			     "the agent of " + name_of(of, at) + " says " + to_string(after.admin),
			     to_string(after.admin), made.description);
	});
}

void tell_agent_lost(const pool &of, const endpoint &at, std::string_view why) noexcept
{
	try_to_tell([&] {
		auto fields = fields_of(of, at);
		fields.emplace_back("error", why);
		emit(event_kind::agent_lost,
		     "the agent of " + name_of(of, at) +
			     " does not answer, so its last answer stays in effect: " +
			     std::string(why),
		     std::move(fields));
	});
}

void tell_failed(std::string_view listener, const pool &of, const endpoint &at,
		 const std::error_code &error, std::string_view detail, bool ours,
		 bool is_ejected) noexcept
{
	try_to_tell([&] {
		const std::string why = words_of(error, detail, at);
		auto fields = fields_of(of, at);
		fields.emplace_back("listener", listener);
		fields.emplace_back("error", why);
		if (ours) {
			emit_shortage("a connection to " + name_of(of, at), why, std::move(fields));
			return;
		}
		emit(event_kind::connect_failed,
		     "cannot connect to " + name_of(of, at) + ": " + why, std::move(fields));
		if (!is_ejected)
			return;
		fields = fields_of(of, at);
		fields.emplace_back("error", why);
		emit(event_kind::backend_ejected,
		     name_of(of, at) +
			     " is left out for a while, because connections to it fail: " + why,
		     std::move(fields));
	});
}

void tell_succeeded(const pool &of, const endpoint &at) noexcept
{
	const auto most = of.settings().eject_after;
	if (most == 0 || at.counts.failures_in_a_row.load(std::memory_order_relaxed) < most)
		return;
	try_to_tell([&] {
		emit(event_kind::backend_returned, name_of(of, at) + " can be connected to again",
		     fields_of(of, at));
	});
}

void tell_cut(const pool &of, const endpoint &at, std::uint64_t n) noexcept
{
	try_to_tell([&] {
		auto fields = fields_of(of, at);
		fields.emplace_back("connections", n);
		emit(event_kind::backend_cut,
		     name_of(of, at) + " is down: reset " + std::to_string(n) + " open connections",
		     std::move(fields));
	});
}

void tell_speaks_first(const pool &of, const endpoint &at) noexcept
{
	try_to_tell([&] {
		emit(event_kind::preconnect_off,
		     name_of(of, at) +
			     " writes before its client does, so connections to it are not made "
			     "ahead any more, until the configuration is read again",
		     fields_of(of, at));
	});
}

void tell_no_backend(std::string_view listener, const pool &of) noexcept
{
	try_to_tell([&] {
		emit(event_kind::no_backend,
		     "a client is closed, because no backend of " + of.name() + " can be used",
		     {{"listener", listener}, {"group", of.name()}});
	});
}

void tell_full(std::string_view listener, const pool &of, const char *limit,
	       const char *beside) noexcept
{
	tell_not_waiting(listener, of, "each backend", " is at its max_connections", limit, beside);
}

void tell_unchecked(std::string_view listener, const pool &of, const char *limit,
		    const char *beside) noexcept
{
	tell_not_waiting(listener, of, "first checks of backends", " are not over yet", limit,
			 beside);
}

void tell_limit(std::string_view listener, const char *limit) noexcept
{
	try_to_tell([&] {
		emit(event_kind::limit_reached,
		     "a client of " + std::string(listener) + " is closed, because " + limit +
			     " is reached",
		     {{"listener", listener}, {"limit", limit}});
	});
}

void tell_no_room(std::string_view address, std::size_t most) noexcept
{
	try_to_tell([&] {
		emit(event_kind::no_room,
		     "no more connections fit into the limit of open files, so clients of " +
			     std::string(address) + " wait",
		     {{"address", address}, {"limit", std::uint64_t{most}}});
	});
}

} // namespace relay
