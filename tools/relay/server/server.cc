/* SPDX-License-Identifier: MIT */
#include "server/server.hpp"

#include "backends/lookup.hpp"
#include "base/descriptors.hpp"
#include "base/in_time.hpp"
#include "base/notify.hpp"
#include "base/sleep.hpp"
#include "base/untimed.hpp"
#include "handover/early_signals.hpp"
#include "handover/supervisor.hpp"
#include "server/change.hpp"
#include "server/live_config.hpp"
#include "server/rounds.hpp"
#include "server/services.hpp"
#include "server/serving.hpp"
#include "stats/events.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

void report_counters(const shared &all) noexcept
{
	try_to_tell([&] {
		const auto [to_backend, to_client] = all.registry.bytes();
		emit(event_kind::counters, "", to_fields(all.counters, to_backend, to_client));
	});
}

/* Waits for a signal until the deadline, with or without memory for a timer. Without, a signal may
 * be late by a tick, and so may the end of the wait. */
sn::result<int> wait_for_signal(sn::deadline until) noexcept
{
	for (;;) {
		const auto signum = sn::wait_signal(until);
		if (signum || signum.error() != std::errc::not_enough_memory || sn::now() >= until)
			return signum;
		sleep_fully_until(std::min(until, sn::after(untimed_wait::tick)));
	}
}

bool asks_to_stop(int signum)
{
	return signum == SIGTERM || signum == SIGINT;
}

/*
 * Takes the turn, after the changes that wait for it already. Each of these may take seconds, so
 * those that have not begun when a signal asks to stop are refused. Returns that signal. Rejected:
 * looking for the signal between short waits for the turn. Each of them would begin at the end of
 * the queue, so that clients that make one change after the other could keep the relay from its
 * own.
 */
std::optional<int> take_turn(std::unique_lock<sn::mutex> &turn, live_config &live)
{
	std::optional<int> stop;
	if (turn.try_lock())
		return stop;
	try {
		sn::scope watching;
		watching.go(
			[&] {
				/* Other signals stay pending. */
				const auto signum = sn::wait_signal({SIGTERM, SIGINT});
				if (!signum)
					return; /* the turn has come first */
				live.refuse();
				stop = *signum;
			},
			{.name = "signals"});
		turn.lock();
	} catch (const std::exception &) {
		/* There is no memory for a task. The signal waits. */
		if (!turn.owns_lock())
			turn.lock();
	}
	return stop;
}

/* Answers a signal that does not stop the relay: prints the counters, or reopens the log. */
void answer_signal(shared &all, int signum) noexcept
{
	if (signum == SIGUSR1)
		report_counters(all);
	if (signum != SIGHUP)
		return;
	if (all.late)
		all.late->pass_on();
	if (const auto log = all.access_log.get())
		log->reopen();
}

/* The new process serves, so nothing that fails here may keep this one from retiring. */
void hand_on(shared &all, files_in_transit &files, pid_t pid) noexcept
{
	files.are_taken();
	/* If there is a first process, it stays the service manager's main process. */
	if (all.program.link >= 0)
		report_newest(all.program.link, pid);
	else
		notify_main_pid(pid);
	try_to_tell([&] {
		emit(event_kind::handed_over, "handed over to process " + std::to_string(pid),
		     {{"pid", static_cast<std::uint64_t>(pid)}});
	});
}

void tell_not_handed_over(const char *why) noexcept
{
	try_to_tell(
		[&] { emit(event_kind::not_handed_over, std::string("not handed over: ") + why); });
}

void tell_not_notified(std::string_view first, int error) noexcept
{
	try_to_tell([&] {
		emit(event_kind::not_notified,
		     "the service manager was not notified of " + std::string(first) + ": " +
			     (error == EAGAIN ? "its socket stayed full, so it does not read"
					      : std::generic_category().message(error)),
		     {{"state", first}});
	});
}

/* Starts a new process; returns true if it has taken over. */
bool hand_over_all(shared &all, serving &now)
try {
	/* What retiring needs, because after the handover nothing may fail. */
	now.retired.reserve(now.retired.size() + now.open.size());
	now.retired_admins.reserve(now.retired_admins.size() + 2);
	std::vector<handed_listener> listeners;
	for (const auto &each : now.open)
		listeners.push_back(each->to_hand_over());
	if (now.admin)
		listeners.push_back({now.admin->socket(), std::string(admin_listener_name),
				     all.settings->admin});
	if (now.control)
		listeners.push_back({now.control->socket(), std::string(control_listener_name),
				     all.settings->control});
	files_in_transit files(listeners);
	std::string why;
	const pid_t pid = hand_over(all.program, listeners, all.tls.tickets(), why);
	if (pid < 0) {
		tell_not_handed_over(why.c_str());
		return false;
	}
	all.late.emplace(pid, all.program.link);
	hand_on(all, files, pid);
	return true;
} catch (const std::exception &error) {
	tell_not_handed_over(error.what());
	return false;
}

/* Serves until a signal asks to stop (true), or until another process has taken over (false). */
bool serve_until_stopped(shared &all, serving &now, live_config &live)
{
	std::unique_lock turn(live.turn());
	const auto wait = [&](sn::deadline until) {
		turn.unlock();
		auto signum = wait_for_signal(until);
		if (signum && asks_to_stop(*signum)) {
			live.refuse();
			turn.lock(); /* another such signal is for the steps that follow */
		} else if (const auto stop = take_turn(turn, live)) {
			if (signum)
				answer_signal(all, *signum); /* nobody else has it */
			signum = *stop;
		}
		return signum;
	};
	const auto next_line = [&all] {
		const auto interval = all.settings->stats_interval;
		return interval == 0ns ? sn::no_deadline : sn::after(interval);
	};

	auto interval = all.settings->stats_interval;
	for (auto next = next_line();;) {
		const auto signum = wait(next);
		if (signum && asks_to_stop(*signum)) {
			live.close();
			return true;
		}
		if (signum && *signum == SIGUSR2) {
			if (hand_over_all(all, now)) {
				live.tell_lost();
				live.close();
				return false;
			}
			continue;
		}
		if (signum && *signum == SIGHUP && !all.config_file.empty())
			live.reload_file();
		/* A client of the control server may have changed it, too. */
		if (std::exchange(interval, all.settings->stats_interval) !=
		    all.settings->stats_interval)
			next = next_line();
		/* The log is reopened after the reload, because the reload may have replaced it. */
		answer_signal(all, signum ? *signum : SIGUSR1);
		if (!signum)
			next = next_line();
	}
}

std::uint64_t to_ms(std::chrono::nanoseconds time)
{
	return static_cast<std::uint64_t>(time / 1ms);
}

/* Answers signals until the deadline. Returns true if a signal asks to stop before that. */
bool wait_and_answer(shared &all, sn::deadline until)
{
	const auto signum = wait_for_signal(until);
	if (signum && asks_to_stop(*signum))
		return true;
	if (signum)
		answer_signal(all, *signum);
	return false;
}

/*
 * A load balancer in front of the relay needs time to learn that the relay is no longer ready.
 * Clients that it sends until then are still served. Another signal to stop ends the wait.
 */
void delay_the_stop(shared &all)
{
	const auto time = all.settings->stop_delay;
	if (time == 0ns)
		return;
	try_to_tell([&] {
		emit(event_kind::stopping, "no longer ready; new connections are still served",
		     {{"delay_ms", to_ms(time)}});
	});
	const auto until = sn::after(time);
	while (sn::now() < until && !wait_and_answer(all, until))
		continue;
}

/* If there is no memory for the event, the connections are not lost for that. */
void tell_draining(const shared &all, std::optional<std::chrono::nanoseconds> time) noexcept
{
	try_to_tell([&] {
		const auto open = all.sessions.alive();
		event_fields fields{{"connections", std::uint64_t{open}}};
		if (time)
			fields.emplace_back("drain_ms", to_ms(*time));
		emit(event_kind::draining,
		     "no longer accepting; " + std::to_string(open) +
			     " open connections may finish",
		     std::move(fields));
	});
}

/* Waits until the sessions have ended or the time is over. Returns true if a signal asks to stop
 * before that. Polling is simple, and the pauses begin short, so sessions that end soon are
 * noticed soon. */
bool drain_until(shared &all, sn::deadline until, std::chrono::nanoseconds longest_pause)
{
	auto pause = std::chrono::nanoseconds(20ms);
	while (all.sessions.alive() > 0 && sn::now() < until) {
		if (all.late)
			all.late->look();
		if (wait_and_answer(all, std::min(until, sn::after(pause))))
			return true;
		pause = std::min(2 * pause, longest_pause);
	}
	return false;
}

void drain(shared &all)
{
	tell_draining(all, all.settings->drain);
	drain_until(all, sn::after(all.settings->drain), 20ms);
}

/* After a handover the connections may take days, because nobody waits for them. A signal to
 * stop means that the whole relay stops, so it limits them to the usual drain time. Returns true if
 * such a signal has come. */
bool drain_after_handover(shared &all)
{
	const auto time = all.settings->handover_drain;
	tell_draining(all, time);
	const auto until = time ? sn::after(*time) : sn::deadline::max();
	if (!drain_until(all, until, 500ms))
		return false;
	tell_draining(all, all.settings->drain);
	drain_until(all, std::min(until, sn::after(all.settings->drain)), 20ms);
	return true;
}

/* Waits until all know of the new process, or a signal asks to stop. Until then this one may get
 * what is meant for the new one, and its end may be taken for that of the relay. */
void finish_handover(shared &all)
{
	for (const auto until = sn::after(60s); !all.late->all_know() && sn::now() < until;)
		if (wait_and_answer(all, std::min(until, sn::after(20ms))))
			return;
	/* One that was sent before may still be on its way to a thread of this process. */
	const auto until = sn::after(100ms);
	while (sn::now() < until && !wait_and_answer(all, until))
		continue;
}

/* Waits until the clients that the admin and the control server were answering have their answers,
 * the time is over, or a signal asks to stop. */
void finish_answers(shared &all, const serving &now, std::chrono::nanoseconds time)
{
	const auto is_over = [](const auto &each) { return each->over(); };
	for (const auto until = sn::after(time);
	     !std::ranges::all_of(now.retired_admins, is_over) && sn::now() < until;)
		if (wait_and_answer(all, std::min(until, sn::after(10ms))))
			return;
}

/* The log and the sessions may have taken seconds since finish_handover(). A SIGHUP that was sent
 * before this may still be on its way to a thread, as there. */
void pass_on_the_last(shared &all) noexcept
{
	if (!all.late)
		return;
	all.late->pass_on_to_the_end();
	if (sn::wait_signal({SIGHUP}, sn::after(10ms)))
		all.late->pass_on();
}

void tell_stopped() noexcept
{
	try_to_tell([] {
		emit(event_kind::stopped, "the relay ends", {{"pid", std::uint64_t(getpid())}});
	});
}

/* Flushes what print() has written. Flushing all streams would wait for a file that a thread reads
 * (in_time.hpp) and that does not answer, because the thread holds the lock of its stream. */
void flush_output() noexcept
{
	std::fflush(stdout);
}

/*
 * Ends the process without waiting for tasks, because some cannot be interrupted, such as one that
 * looks up a name without a helper thread (resolve.h). The tasks need no cleanup beyond what the
 * kernel does for every process that ends.
 */
[[noreturn]] void leave(shared &all)
{
	pass_on_the_last(all);
	tell_stopped();
	flush_output();
	std::_Exit(EXIT_SUCCESS);
}

/* Ends the process of a failed start if a call still uses what returning would destroy
 * (in_time.hpp). What the start has opened is closed by now. */
void leave_calls_behind()
{
	if (calls_left_behind() == 0)
		return;
	flush_output();
	std::_Exit(EXIT_FAILURE);
}

void tell_cutting(const shared &all) noexcept
{
	try_to_tell([&] {
		const auto open = all.sessions.alive();
		emit(event_kind::cutting, "cutting " + std::to_string(open) + " open connections",
		     {{"connections", std::uint64_t{open}}});
	});
}

void cut(shared &all)
{
	if (all.sessions.alive() == 0)
		return;
	tell_cutting(all);
	all.sessions.cut_all();
	for (const auto until = sn::after(1s); all.sessions.alive() > 0 && sn::now() < until;)
		sleep_fully(2ms);
	if (all.sessions.alive() == 0)
		return;
	leave(all);
}

/* Ends every watcher. Returns false if a task has not ended after a second. */
bool end_watching(serving &now)
{
	bool over = true;
	const auto until = sn::after(1s);
	for (auto *watching : {&now.watching, &now.retired_watching}) {
		for (auto &each : *watching)
			each->stop();
		for (auto &each : *watching)
			over = each->over(until) && over;
	}
	return over;
}

/* The tasks that the process has besides its listeners and servers. */
struct background {
	std::optional<rounds> going;
	std::optional<attempts_watch> connecting;
	std::optional<first_process_watch> watch;
};

/* Opens all listeners and starts to serve; returns false if that fails. Until nothing can fail any
 * more, clients wait in the backlogs: another process may accept them there, now or later, while
 * the end of this process would reset the connections that it has accepted. Therefore, if this
 * throws, no listener has let a client in; a server may have. */
bool begin(shared &all, serving &now, live_config &live, background &tasks)
{
	all.registry.set_process([&all](snapshot &into) {
		into.accept_pauses += all.counters.accept_holds.get();
		into.limit = all.sessions.most();
		into.reloads = all.counters.reloads.get();
		into.reload_failures = all.counters.reload_failures.get();
		into.ejections = all.counters.ejections.get();
		into.check_failures = all.counters.check_failures.get();
		into.certificates_left_out = all.counters.certificates_left_out.get();
		into.log_dropped = all.access_log.dropped();
		into.certificates = all.tls.certificates();
		all.lists.fill(into);
	});
	change first(all, now, all.settings, true);
	process_services services(all, now, nullptr, *all.settings);
	if (!first.prepare() || !services.prepare())
		return false;
	if (const std::size_t needed = descriptors_needed(); descriptor_limit() < needed) {
		emit(event_kind::cannot_serve, "cannot serve: the limit of open files is " +
						       std::to_string(descriptor_limit()) +
						       "; expected at least " +
						       std::to_string(needed) + " (ulimit -n)");
		return false;
	}
	all.sessions.set_most(connections_that_fit(first.opened().size()));
	first.announce();
	services.announce();
	all.registry.set_ready(true);
	services.start_log();
	services.use_log();
	first.commit();
	tasks.going.emplace(all, live);
	tasks.connecting.emplace(all.attempts);
	tasks.watch.emplace(all.program.link);
	/* The servers start when there is something to report; last, because a client of the
	 * control server waits for the turn, which is held here. */
	services.start_servers();
	/* Nothing fails from here on, because an old process ends after this. */
	all.inherited.done();
	first.let_in();
	services.use_servers();
	try_to_tell([&] {
		emit(event_kind::serving, std::string("sennit-relay ") + sn_version() + " serves",
		     {{"version", sn_version()},
		      {"listeners", std::uint64_t{now.open.size()}},
		      {"pid", static_cast<std::uint64_t>(getpid())}});
	});
	return true;
}

/* Ends the process when begin() has thrown: without freeing the memory that its tasks use, but with
 * the files of its Unix sockets removed. If there is an old process, it continues, because this one
 * has not reported to it. */
[[noreturn]] void give_up(shared &all, const serving &now, const char *why) noexcept
{
	try_to_tell([&] { emit(event_kind::cannot_serve, std::string("cannot run: ") + why); });
	finish_answers(all, now, 1s); /* a server that is over has removed its file, too */
	for (const auto &each : now.open) {
		each->stop();
		each->close();
	}
	static_cast<void>(all.access_log.exchange(nullptr));
	flush_output();
	std::_Exit(EXIT_FAILURE);
}

} // namespace

int serve(shared &all)
{
	/* First of all: a signal during startup must end the relay in order. */
	for (const int signum : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, new_interval_signal})
		sn::catch_signal(signum).value();
	send_early_signals_again();

	notify_lost = tell_not_notified;
	serving now;
	live_config live(all, now);
	now.control_by = &live;
	background tasks;
	try {
		const std::lock_guard turn(live.turn());
		if (!begin(all, now, live, tasks)) {
			leave_calls_behind();
			return EXIT_FAILURE;
		}
	} catch (const std::exception &error) {
		give_up(all, now, error.what());
	}

	notify_ready();

	const bool is_end = serve_until_stopped(all, now, live);

	all.stock.close();
	if (is_end) {
		all.registry.set_ready(false);
		notify_stopping();
		delay_the_stop(all);
	} else {
		/*
		 * The new process accepts from the same backlogs. Clients that it does not accept
		 * are accepted here while the listeners retire. From now on the new process's admin
		 * server answers; whoever is being answered here gets the answer. The relay stays
		 * ready.
		 */
		for (const auto &each : now.retired_admins)
			each->hand_over();
		for (auto *each : {&now.admin, &now.control}) {
			if (!*each)
				continue;
			(*each)->hand_over();
			now.retired_admins.push_back(std::move(*each));
		}
		for (auto &each : now.open) {
			each->hand_over();
			now.retired.push_back(std::move(each));
		}
		now.open.clear();
		reap(now);
	}
	/* After a handover nobody is in a hurry, so sessions of an old listener continue. */
	for (const auto *all_listeners : {&now.open, &now.retired})
		for (const auto &each : *all_listeners)
			if (is_end || !each->lingers())
				each->stop();
	for (const auto *all_listeners : {&now.open, &now.retired})
		for (const auto &each : *all_listeners)
			each->close();
	if (is_end) {
		drain(all);
	} else {
		const bool is_to_stop = drain_after_handover(all);
		if (all.sessions.alive() == 0)
			finish_answers(all, now, is_to_stop ? 1s : 10s);
	}
	/* The servers are closed before cut(), which may leave(): only close() removes the file
	 * of a Unix socket. */
	for (const auto *each : {&now.admin, &now.control})
		if (*each)
			(*each)->close();
	for (const auto &each : now.retired_admins)
		each->close();
	if (!is_end)
		finish_handover(all);
	cut(all);
	/* The rounds tell of lines that were dropped, so they end after the log. */
	const bool log_is_closed = all.access_log.exchange(nullptr);
	tasks.going.reset();
	tasks.connecting.reset();
	tasks.watch.reset();
	const bool watching_is_over = end_watching(now);
	/* The memory of these must not be freed while they use it, so leave() ends the process
	 * without that. */
	if (!watching_is_over || !log_is_closed || lookup::any() || calls_left_behind() > 0)
		leave(all);
	pass_on_the_last(all);
	tell_stopped();
	return EXIT_SUCCESS;
}

} // namespace relay
