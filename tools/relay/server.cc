/* SPDX-License-Identifier: MIT */
#include "server.hpp"

#include "admin.hpp"
#include "checker.hpp"
#include "descriptors.hpp"
#include "door.hpp"
#include "notify.hpp"
#include "report.hpp"
#include "resolver.hpp"
#include "watcher.hpp"

#include <sennit/sennit.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;
using doors = std::vector<std::unique_ptr<door>>;
using watchers = std::vector<std::unique_ptr<watcher>>;

/* What serves, and what did and is not over yet. */
struct serving {
	doors open;
	doors retired;
	watchers watching; /* checks and look-ups */
	watchers retired_watching;
};

void report_counters(const shared &all)
{
	const auto [to_backend, to_client] = all.book.bytes();
	report(to_line(all.counters, to_backend, to_client));
}

/* On stdout, for those who asked for port 0. A closed stdout is no reason not to serve. */
void announce(const doors &opened)
{
	for (const auto &each : opened)
		std::printf("listening on %s\n", each->address().c_str());
	std::fflush(stdout);
}

/* The door of a listener; there is one. */
door *find_door(const listener_config &of, const doors &among)
{
	const auto found =
		std::ranges::find_if(among, [&of](const auto &each) { return each->serves(of); });
	return found == among.end() ? nullptr : found->get();
}

/*
 * A configuration on its way to being served by. Until commit() has returned nothing of what was
 * there has changed; a change that is thrown away closes the doors that it has opened.
 */
class change
{
public:
	change(shared &all, serving &now, std::shared_ptr<const config> settings)
	    : all_(all), serving_(now), open_(now.open), settings_(std::move(settings)),
	      counts_(all.book), pools_(settings_, counts_)
	{
	}

	/* Opens the doors that are not there, and makes everybody's lane. False when a door cannot
	 * be opened, which is reported. May park. */
	bool prepare()
	{
		for (const listener_config &each : settings_->listeners) {
			if (door *const there = find_door(each, open_)) {
				staying_.emplace_back(there,
						      pools_.make_lane(each, there->address()));
				continue;
			}
			std::string why;
			auto next = door::open(all_, each, why);
			if (!next) {
				report(why);
				return false;
			}
			next->use(pools_.make_lane(each, next->address()));
			opened_.push_back(std::move(next));
		}
		open_.reserve(open_.size() + opened_.size());
		return true;
	}

	const doors &opened() const { return opened_; }

	/*
	 * Starts the new doors and checks, has the doors that stay serve by the configuration and
	 * retires what it does not have. When something cannot be started it throws, and the others
	 * were open for a moment as if they had come and gone. May park.
	 */
	void commit()
	{
		serving_.retired.reserve(serving_.retired.size() + open_.size());
		watchers watching;
		std::size_t started = 0;
		try {
			const std::size_t most = 2 * pools_.made().size();
			watching.reserve(most);
			serving_.retired_watching.reserve(serving_.retired_watching.size() +
							  serving_.watching.size() + most);
			for (const auto &each : pools_.made()) {
				if (!each)
					continue;
				if (auto names = watch_names(each))
					watching.push_back(std::move(names));
				if (auto health = watch_health(each, all_.counters))
					watching.push_back(std::move(health));
			}
			for (; started < opened_.size(); started++)
				opened_[started]->start();
		} catch (const std::exception &) {
			retire(watching);
			for (std::size_t i = 0; i < started; i++)
				opened_[i]->stop();
			for (std::size_t i = 0; i < started; i++)
				opened_[i]->close();
			throw;
		}

		/* Nothing fails from here on. */
		counts_.commit();
		retire(serving_.watching);
		serving_.watching = std::move(watching);
		for (auto &each : open_) {
			const auto kept = std::ranges::find(staying_, each.get(),
							    &decltype(staying_)::value_type::first);
			if (kept != staying_.end()) {
				each->use(std::move(kept->second));
			} else {
				each->retire();
				serving_.retired.push_back(std::move(each));
			}
		}
		std::erase(open_, nullptr);
		std::ranges::move(opened_, std::back_inserter(open_));
		all_.settings = settings_;
	}

private:
	void retire(watchers &which) noexcept
	{
		for (auto &each : which) {
			each->stop();
			serving_.retired_watching.push_back(std::move(each));
		}
		which.clear();
	}

	shared &all_;
	serving &serving_;
	doors &open_;
	const std::shared_ptr<const config> settings_;
	book::edition counts_;
	pools pools_;
	doors opened_;
	std::vector<std::pair<door *, std::shared_ptr<lane>>> staying_;
};

bool open_admin(shared &all, std::unique_ptr<admin_server> &admin)
{
	if (all.settings->admin.empty())
		return true;
	all.book.set_process([&all](snapshot &now) {
		now.accept_pauses += all.counters.accept_holds.get();
		now.limit = all.sessions.most();
		now.reloads = all.counters.reloads.get();
		now.reload_failures = all.counters.reload_failures.get();
		now.log_dropped = all.access_log ? all.access_log->dropped() : 0;
	});
	std::string why;
	const int handed = all.inherited.take(admin_listener_name, all.settings->admin);
	auto listener = handed < 0 ? sn::result<sn::tcp_listener>(sn::failure{ENOENT})
				   : sn::tcp_listener::adopt(handed);
	admin = listener ? std::make_unique<admin_server>(all.book, *std::move(listener))
			 : admin_server::open(all.book, all.settings->admin, why);
	if (!admin)
		report(why);
	return admin != nullptr;
}

bool open_log(shared &all)
{
	if (all.settings->access_log.empty())
		return true;
	std::string why;
	all.access_log = access_log::open(
		all.settings->access_log,
		all.settings->access_log_json ? log_format::json : log_format::logfmt, why);
	if (!all.access_log)
		report(why);
	return all.access_log != nullptr;
}

bool asks_to_stop(int signum)
{
	return signum == SIGTERM || signum == SIGINT;
}

/* Closes for good the doors that have let in their queue; waits a second for them at most. Forgets
 * the checks and look-ups that are over. */
void reap(serving &now)
{
	const auto over = [](const auto &each) { return each->retired(); };
	for (const auto until = sn::after(1s);
	     !std::ranges::all_of(now.retired, over) && sn::now() < until;)
		sn::sleep(1ms);
	for (const auto &each : now.retired)
		if (over(each))
			each->close();
	std::erase_if(now.retired, over);
	std::erase_if(now.retired_watching, [](const auto &each) { return each->over(sn::now()); });
}

/* Of these there is one for the process, which does not change while it runs. */
bool same_surroundings(const config &now, const config &next, std::string &why)
{
	const char *key = now.admin != next.admin                       ? "admin"
			  : now.access_log != next.access_log           ? "access_log"
			  : now.access_log_json != next.access_log_json ? "access_log_format"
									: nullptr;
	if (key)
		why = std::string(key) +
		      ": is another; expected what it was at the start, or a restart";
	return key == nullptr;
}

/* On a thread of its own, for a parser whose depth nobody knows. */
std::variant<config, config_errors> read_elsewhere(const std::string &file)
{
	return sn::blocking([&file] {
		return std::async(std::launch::async, [&file] { return read_config(file); }).get();
	});
}

/* True when what the file says is in effect. */
bool take_over(shared &all, serving &now)
{
	auto read = read_elsewhere(all.config_file);
	if (const auto *errors = std::get_if<config_errors>(&read)) {
		for (const auto &line : *errors)
			report(line);
		return false;
	}
	const auto next = std::make_shared<const config>(std::move(std::get<config>(read)));
	std::string why;
	if (!same_surroundings(*all.settings, *next, why)) {
		report(all.config_file + ": " + why);
		return false;
	}
	reap(now); /* addresses of retired doors may be wanted again */

	const std::size_t doors_before = now.open.size();
	change to_next(all, now, next);
	if (!to_next.prepare())
		return false;
	announce(to_next.opened());
	to_next.commit();
	/* A door takes as much as a session: its socket, and a client that waits. */
	const std::size_t room = all.sessions.most() + doors_before;
	all.sessions.set_most(room > now.open.size() ? room - now.open.size() : 1);
	reap(now);
	return true;
}

void reload(shared &all, serving &now)
{
	notify_reloading();
	bool taken = false;
	try {
		taken = take_over(all, now);
	} catch (const std::exception &error) {
		report(all.config_file + ": " + error.what());
	}
	if (taken) {
		all.counters.reloads.add();
		report("reloaded " + all.config_file);
	} else {
		all.counters.reload_failures.add();
		report("not reloaded: what was in effect before goes on");
	}
	notify_ready();
}

/* What is neither to stop nor to go on: prints the counters, or opens the log anew. */
void answer_signal(shared &all, int signum)
{
	if (signum == SIGUSR1)
		report_counters(all);
	else if (signum != SIGHUP)
		return;
	else if (all.access_log)
		all.access_log->reopen();
}

/* True when a new process serves. */
bool hand_over_all(shared &all, serving &now, const admin_server *admin)
try {
	std::vector<handed_listener> listeners;
	for (const auto &each : now.open)
		listeners.push_back(each->to_hand_over());
	if (admin)
		listeners.push_back(
			{admin->fd(), std::string(admin_listener_name), all.settings->admin});
	std::string why;
	const pid_t pid = hand_over(all.program, listeners, why);
	if (pid < 0) {
		report("not handed over: " + why);
		return false;
	}
	notify_main_pid(pid);
	report("handed over to process " + std::to_string(pid));
	return true;
} catch (const std::exception &error) {
	report(std::string("not handed over: ") + error.what());
	return false;
}

/* Until the first signal that asks to stop, or until another process serves: false. */
bool serve_until_told(shared &all, serving &now, const admin_server *admin)
{
	const auto next_line = [&all] {
		const auto interval = all.settings->stats_interval;
		return interval == 0ns ? sn::no_deadline : sn::after(interval);
	};

	for (auto next = next_line();;) {
		const auto signum = sn::wait_signal(next);
		if (signum && asks_to_stop(*signum))
			return true;
		if (signum && *signum == SIGUSR2) {
			if (hand_over_all(all, now, admin))
				return false;
			continue;
		}
		answer_signal(all, signum ? *signum : SIGUSR1);
		if (signum && *signum == SIGHUP && !all.config_file.empty()) {
			const auto before = all.settings->stats_interval;
			reload(all, now);
			if (all.settings->stats_interval != before)
				next = next_line();
		}
		if (!signum)
			next = next_line();
	}
}

/* Until the sessions have ended, the time is over or another signal asks to stop. */
void drain(shared &all)
{
	const auto until = sn::after(all.settings->drain);
	/* Looking every so often is simple, and it is not for long. */
	while (all.sessions.alive() > 0 && sn::now() < until) {
		const auto signum = sn::wait_signal(std::min(until, sn::after(20ms)));
		if (signum && asks_to_stop(*signum))
			return;
		if (signum)
			answer_signal(all, *signum);
	}
}

/*
 * What is still connecting cannot be interrupted, and a look-up in the name service can keep the
 * runtime from ending for long. Nothing of theirs needs more than the kernel does for every process
 * that ends.
 */
[[noreturn]] void leave()
{
	std::fflush(nullptr);
	std::_Exit(EXIT_SUCCESS);
}

void cut(shared &all)
{
	if (all.sessions.alive() == 0)
		return;
	report("cutting " + std::to_string(all.sessions.alive()) + " open connections");
	all.sessions.cut_all();
	for (const auto until = sn::after(1s); all.sessions.alive() > 0 && sn::now() < until;)
		sn::sleep(2ms);
	if (all.sessions.alive() == 0)
		return;
	leave();
}

/* Every watcher's tasks have ended. False when one is still in the name service after a second. */
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

/* True when everything is served. */
bool begin(shared &all, serving &now, std::unique_ptr<admin_server> &admin)
{
	change first(all, now, all.settings);
	if (!first.prepare() || !open_admin(all, admin) || !open_log(all))
		return false;
	all.sessions.set_most(connections_that_fit(first.opened().size()));
	announce(first.opened());
	if (admin) {
		std::printf("admin on %s\n", admin->address().c_str());
		std::fflush(stdout);
	}
	if (all.access_log)
		all.access_log->start();
	all.book.set_ready(true);
	first.commit();
	all.inherited.done();
	if (admin)
		admin->start(); /* now there is something to tell */
	return true;
}

} // namespace

int serve(shared &all)
{
	/* First of all: a signal during what follows must end the relay in order. */
	for (const int signum : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP})
		sn::catch_signal(signum).value();

	serving now;
	std::unique_ptr<admin_server> admin;
	if (!begin(all, now, admin))
		return EXIT_FAILURE;

	notify_ready();

	const bool is_end = serve_until_told(all, now, admin.get());

	all.book.set_ready(false);
	if (is_end) {
		notify_stopping();
	} else {
		/* The queues are those of the new process too; only what it does not serve is
		 * let in here for good. Its admin server answers from now on. */
		if (admin)
			admin->close();
		admin.reset();
		for (auto &each : now.open) {
			each->retire();
			now.retired.push_back(std::move(each));
		}
		now.open.clear();
		reap(now);
	}
	for (const auto *doors : {&now.open, &now.retired})
		for (const auto &each : *doors)
			each->stop();
	for (const auto *doors : {&now.open, &now.retired})
		for (const auto &each : *doors)
			each->close();
	drain(all);
	cut(all);
	const bool watching_is_over = end_watching(now);
	if (admin)
		admin->close();
	if (all.access_log)
		all.access_log->close();
	if (!watching_is_over)
		leave();
	return EXIT_SUCCESS;
}

} // namespace relay
