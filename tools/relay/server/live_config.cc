/* SPDX-License-Identifier: MIT */
#include "server/live_config.hpp"

#include "base/notify.hpp"
#include "base/sleep.hpp"
#include "server/change.hpp"
#include "server/services.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* Calls it with a limit of time. Throws if the configuration's file, or a file that it names,
 * does not answer; other failures throw, too. */
template <class Call>
auto call_elsewhere(Call call)
{
	auto done = call_in_time(std::move(call));
	if (!done)
		throw std::runtime_error(
			std::string("cannot be read, or a file that it names cannot: ") +
			no_answer);
	return *std::move(done);
}

/* The effect of a change of a backend, in words, for its event and for the client. */
std::string describe(const backend_edit &what)
{
	const std::string name = "backend " + what.backend + " of " + what.group;
	switch (what.what) {
	case backend_edit::kind::set_weight:
		return name + " has the weight " + std::to_string(what.weight.value_or(1));
	case backend_edit::kind::drain:
		return name + " gets no new connections";
	case backend_edit::kind::enable:
		return name + " has the weight of the file again";
	case backend_edit::kind::add:
		return name + " is added";
	case backend_edit::kind::remove:
		return name + " is removed";
	}
	return name;
}

/* The answer may arrive, because the client may have ended no more than its own stream. */
controller::outcome client_has_left()
{
	return {503, "the client has left while its request waited for others, so nothing has "
		     "changed\n"};
}

} // namespace

void reap(serving &now)
{
	const auto over = [](const auto &each) { return each->retired(); };
	const auto is_late = [](const auto &each) { return !each->retired() && !each->lingers(); };
	for (const auto until = sn::after(1s);
	     std::ranges::any_of(now.retired, is_late) && sn::now() < until;)
		sleep_fully(1ms);
	for (const auto &each : now.retired)
		if (over(each))
			each->close();
	std::erase_if(now.retired, over);
	std::erase_if(now.retired_watching, [](const auto &each) { return each->over(sn::now()); });
	std::erase_if(now.retired_admins, [](const auto &each) {
		if (!each->over())
			return false;
		each->close();
		return true;
	});
}

live_config::live_config(shared &all, serving &now)
    : all_(all), serving_(now), from_file_(all.settings)
{
}

/* Returns true if the configuration is in effect. reread: see change.hpp. */
bool live_config::put_in_effect(const std::shared_ptr<const config> &next, bool reread)
{
	reap(serving_); /* the new configuration may want the address of a retired listener */

	const std::size_t listeners_before = serving_.open.size();
	const auto before = all_.settings;
	process_services services(all_, serving_, before.get(), *next);
	change to_next(all_, serving_, next, reread);
	if (!services.prepare() || !to_next.prepare())
		return false;
	std::shared_ptr<const event_target> events;
	if (next->events != before->events)
		events = open_event_target(next->events);
	services.start_log();
	services.start_servers();
	to_next.announce();
	services.announce();
	to_next.commit();
	to_next.let_in();
	services.use_servers();
	if (events)
		send_events_to(std::move(events));
	services.use_log();
	/* A listener takes as many descriptors as a session: its socket, and a client that
	 * waits. */
	const std::size_t room = all_.sessions.most() + listeners_before;
	all_.sessions.set_most(room > serving_.open.size() ? room - serving_.open.size() : 1);
	reap(serving_);
	if (next->stats_interval != before->stats_interval)
		static_cast<void>(::kill(getpid(), new_interval_signal));
	return true;
}

/* Reads the file; returns true if its configuration is in effect. */
bool live_config::take_over_file()
{
	auto read = call_elsewhere([file = all_.config_file] { return read_config(file); });
	if (const auto *errors = std::get_if<config_errors>(&read)) {
		for (const auto &line : errors->lines)
			emit(event_kind::config_error, line);
		return false;
	}
	const auto next = std::make_shared<const config>(std::move(std::get<config>(read)));
	if (!put_in_effect(next, true))
		return false;
	from_file_ = next;
	return true;
}

bool live_config::reload_file() noexcept
{
	notify_reloading();
	const bool has_changes = all_.settings != from_file_;
	bool taken = false;
	try {
		taken = take_over_file();
	} catch (const std::exception &error) {
		try_to_tell([&] {
			emit(event_kind::config_error, all_.config_file + ": " + error.what());
		});
	}
	if (taken) {
		all_.counters.reloads.add();
		try_to_tell([&] {
			emit(event_kind::reloaded, "reloaded " + all_.config_file,
			     {{"file", all_.config_file}});
		});
		if (has_changes)
			emit(event_kind::changes_lost,
			     "changes that were made by the control server do not apply any more");
	} else {
		all_.counters.reload_failures.add();
		try_to_tell([&] {
			emit(event_kind::not_reloaded,
			     "not reloaded: the previous configuration stays in effect",
			     {{"file", all_.config_file}});
		});
	}
	notify_ready();
	return taken;
}

void live_config::look_at_lists() noexcept
try {
	if (all_.lists.none() || !lists_have_changed())
		return;
	const std::unique_lock turn(turn_, std::try_to_lock);
	if (turn.owns_lock() && refusal().status == 200)
		reread_lists();
} catch (const std::exception &) {
	/* There is no memory; the next round may succeed. */
}

/* While the file system does not answer, the files count as unchanged. */
bool live_config::lists_have_changed()
{
	auto turn = looking_.take();
	if (!turn)
		return false;
	const auto changed = call_in_time([&lists = all_.lists, turn = std::move(turn)]() mutable {
		const bool is_other = lists.have_changed();
		turn.reset();
		return is_other;
	});
	return changed.value_or(false);
}

/* The rest of the text is already in effect, so only the lists of the new configuration are used
 * (list_files.hpp). */
void live_config::reread_lists()
{
	const std::string name =
		all_.settings == from_file_ ? all_.config_file : "the changed configuration";
	auto turn = rereading_.take();
	if (!turn)
		return; /* an earlier attempt still waits for the file system */
	std::variant<config, config_errors> parsed;
	try {
		parsed = call_elsewhere(
			[of = all_.settings, name, turn = std::move(turn)]() mutable {
				auto read = parse_config(of->text, name);
				turn.reset();
				return read;
			});
	} catch (const std::exception &error) {
		parsed = config_errors{.lines = {name + ": " + error.what()}, .has_unread = true};
	}
	if (const auto *errors = std::get_if<config_errors>(&parsed)) {
		if (!errors->has_unread)
			all_.lists.refuse();
		else if (!all_.lists.fail())
			return;
		std::string why = errors->lines.front();
		if (errors->lines.size() > 1)
			why += ", and " + std::to_string(errors->lines.size() - 1) + " more errors";
		emit(event_kind::lists_not_reread,
		     "files of lists have changed and cannot be used, so what was read before "
		     "stays in use: " +
			     why,
		     {{"error", why}});
		return;
	}
	const auto next = std::make_shared<const config>(std::move(std::get<config>(parsed)));
	auto read = list_files::of(*next);
	const auto changed = list_files::changed(read, all_.lists.in_use());
	for (const auto &each : next->listeners)
		for (const auto &open : serving_.open)
			if (!each.lists.empty() && open->serves(each))
				open->use_lists(
					std::shared_ptr<const listener_config>(next, &each));
	all_.lists.use(std::move(read));
	for (const auto &each : changed)
		emit(event_kind::lists_reread,
		     each.file + " has changed and is in use, with " +
			     std::to_string(each.entries) +
			     (each.entries == 1 ? " entry" : " entries"),
		     {{"listener", each.listener},
		      {"key", each.key},
		      {"file", each.file},
		      {"entries", each.entries}});
}

void live_config::tell_lost() const noexcept
{
	if (all_.settings != from_file_)
		emit(event_kind::changes_lost,
		     "the new process begins with the file, without the changes that were made by "
		     "the control server");
}

/* Why the configuration cannot be changed; status 200 if it can. */
controller::outcome live_config::refusal() const
{
	if (is_closed_.load(std::memory_order_relaxed))
		return {503, "the relay is stopping, or another process has taken over\n"};
	if (all_.config_file.empty())
		return {409, "the relay was started with addresses instead of --config FILE, so "
			     "its configuration cannot be changed\n"};
	return {};
}

controller::outcome live_config::configuration()
{
	const std::lock_guard turn(turn_);
	if (auto why = refusal(); why.status != 200)
		return why;
	return {200, all_.settings->text};
}

/* Takes the turn for a change; not if the client has left while it waited. */
std::unique_lock<sn::mutex> live_config::wait_for_turn(const requester &by)
{
	std::unique_lock turn(turn_, std::try_to_lock);
	if (turn.owns_lock())
		return turn; /* most clients did not wait */
	turn.lock();
	if (by.has_left())
		turn.unlock();
	return turn;
}

controller::outcome live_config::edit(const backend_edit &what, const requester &by)
{
	const auto turn = wait_for_turn(by);
	if (!turn.owns_lock())
		return client_has_left();
	if (auto why = refusal(); why.status != 200)
		return why;
	const auto before = all_.settings;
	try {
		return try_to_edit(what);
	} catch (const std::exception &error) {
		/* There is no memory, or no thread. Without a commit nothing has changed. */
		const bool is_done = all_.settings != before;
		emit(event_kind::admin_failed, std::string("control: ") + error.what(),
		     {{"error", error.what()}});
		return {500, std::string(is_done ? "it has taken effect, but not everything that "
						   "follows was done: "
						 : "nothing has changed: ") +
				     error.what() + '\n'};
	}
}

/* With the turn. Throws if there is no memory. */
controller::outcome live_config::try_to_edit(const backend_edit &what)
{
	const auto edited = call_elsewhere([now = all_.settings, file = from_file_, what] {
		return edit_config(now->text, file->text, what);
	});
	if (const auto *problem = std::get_if<edit_problem>(&edited))
		return {problem->is_unknown ? 404 : 409, problem->text + '\n'};
	auto parsed = call_elsewhere([text = std::get<std::string>(edited)] {
		return parse_config(text, "the changed configuration");
	});
	if (const auto *errors = std::get_if<config_errors>(&parsed)) {
		outcome bad{400, {}};
		for (const auto &line : errors->lines)
			bad.text += line + '\n';
		return bad;
	}
	if (!put_in_effect(std::make_shared<const config>(std::move(std::get<config>(parsed))),
			   false))
		return {500, "it cannot take effect; the relay's events have the reason\n"};
	const std::string done = describe(what);
	emit(event_kind::changed, done, {{"group", what.group}, {"backend", what.backend}});
	return {200, done + '\n'};
}

controller::outcome live_config::reload(const requester &by)
{
	const auto turn = wait_for_turn(by);
	if (!turn.owns_lock())
		return client_has_left();
	if (auto why = refusal(); why.status != 200)
		return why;
	const bool is_done = reload_file();
	/* After the reload, because that may have replaced the log. */
	if (const auto log = all_.access_log.get())
		log->reopen();
	if (!is_done)
		return {409,
			"not reloaded: the previous configuration stays in effect; the relay's "
			"events have the reason\n"};
	return {200, "reloaded " + all_.config_file + '\n'};
}

controller::outcome live_config::kill(const session_filter &which)
{
	const std::uint64_t n = all_.sessions.kill(which);
	const std::string done =
		"reset " + std::to_string(n) + (n == 1 ? " connection" : " connections");
	emit(event_kind::killed, done,
	     {{"connections", n},
	      {"listener", which.listener},
	      {"group", which.group},
	      {"backend", which.backend},
	      {"endpoint", which.endpoint},
	      {"client", which.client}});
	return {200, done + '\n'};
}

} // namespace relay
