/* SPDX-License-Identifier: MIT */
#include "server.hpp"

#include "admin.hpp"
#include "checker.hpp"
#include "descriptors.hpp"
#include "keepalive.hpp"
#include "listener.hpp"
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
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;
using listeners = std::vector<std::unique_ptr<listener>>;
using watchers = std::vector<std::unique_ptr<watcher>>;

/* What serves now, and what has been replaced but has not ended yet. */
struct serving {
	listeners open;
	listeners retired;
	std::unique_ptr<admin_server> admin; /* may be none */
	std::vector<std::unique_ptr<admin_server>> retired_admins;
	watchers watching; /* checks and look-ups */
	watchers retired_watching;
};

void report_counters(const shared &all)
{
	const auto [to_backend, to_client] = all.registry.bytes();
	report(to_line(all.counters, to_backend, to_client));
}

/* On stdout, for users that ask for port 0. A closed stdout is no reason not to serve. */
void announce(const listeners &opened)
{
	for (const auto &each : opened)
		std::printf("listening on %s\n", each->address().c_str());
	std::fflush(stdout);
}

/* The open listener with these settings; null if there is none. */
listener *find_listener(const listener_config &of, const listeners &among)
{
	const auto found =
		std::ranges::find_if(among, [&of](const auto &each) { return each->serves(of); });
	return found == among.end() ? nullptr : found->get();
}

/*
 * A configuration that is about to take effect. Until commit() has returned, nothing that was there
 * before has changed. A change that is thrown away closes the listeners that it has opened.
 */
class change
{
public:
	change(shared &all, serving &now, std::shared_ptr<const config> settings)
	    : all_(all), serving_(now), open_(now.open), settings_(std::move(settings)),
	      counts_(all.registry), pools_(settings_, counts_)
	{
	}

	/* Opens the missing listeners, and makes a route for each listener. False if one cannot
	 * be opened, which is reported. May park. */
	bool prepare()
	{
		for (const listener_config &each : settings_->listeners) {
			if (listener *const there = find_listener(each, open_)) {
				staying_.emplace_back(there,
						      pools_.make_route(each, there->address()));
				continue;
			}
			std::string why;
			auto next = listener::open(all_, each, why);
			if (!next) {
				report(why);
				return false;
			}
			next->use(pools_.make_route(each, next->address()));
			opened_.push_back(std::move(next));
		}
		open_.reserve(open_.size() + opened_.size());
		return true;
	}

	const listeners &opened() const { return opened_; }

	/*
	 * Starts the new listeners and checks, switches the listeners that stay to this
	 * configuration and retires those that it does not have. Throws if something cannot be
	 * started; those that were started then stop again, as if they had come and gone. May park.
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
	listeners &open_;
	const std::shared_ptr<const config> settings_;
	registry::generation counts_;
	pools pools_;
	listeners opened_;
	std::vector<std::pair<listener *, std::shared_ptr<route>>> staying_;
};

/*
 * The admin server and the access log, of which the process has one each, about to be replaced. As
 * with a change, nothing has changed until the use_ functions are called.
 */
class process_services
{
public:
	/* before: the configuration in effect; null at the start. */
	process_services(shared &all, serving &now, const config *before, const config &next)
	    : all_(all), serving_(now), next_(next),
	      other_admin_(before ? before->admin != next.admin : !next.admin.empty()),
	      other_log_(before ? before->access_log != next.access_log ||
					  before->access_log_json != next.access_log_json
				: !next.access_log.empty())
	{
	}
	process_services(const process_services &) = delete;
	process_services &operator=(const process_services &) = delete;
	~process_services()
	{
		if (is_log_started_)
			log_->close();
		if (is_admin_started_)
			admin_->close();
	}

	/* False if something cannot be opened, which is reported. May park. */
	bool prepare()
	{
		std::string why;
		const bool opened = open_admin(why) && open_log(why);
		if (!opened)
			report(why);
		return opened;
	}

	/* Prints the address of the admin server if it is a new one. */
	void announce() const
	{
		if (!admin_)
			return;
		std::printf("admin on %s\n", admin_->address().c_str());
		std::fflush(stdout);
	}

	/* What is started and not used is closed again. These throw if no task can be started. */
	void start_log()
	{
		if (log_)
			log_->start();
		is_log_started_ = log_ != nullptr;
	}
	void start_admin()
	{
		serving_.retired_admins.reserve(serving_.retired_admins.size() + 1);
		if (admin_)
			admin_->start();
		is_admin_started_ = admin_ != nullptr;
	}

	/* These do not fail. May park. */
	void use_log()
	{
		is_log_started_ = false;
		if (other_log_)
			all_.access_log.exchange(std::move(log_));
	}
	void use_admin()
	{
		is_admin_started_ = false;
		if (!other_admin_)
			return;
		serving_.admin.swap(admin_);
		if (admin_) {
			admin_->retire();
			serving_.retired_admins.push_back(std::move(admin_));
		}
	}

private:
	bool open_admin(std::string &why)
	{
		if (!other_admin_ || next_.admin.empty())
			return true;
		int handed = -1;
		auto taken = all_.inherited.take(admin_listener_name, next_.admin, handed);
		if (!taken)
			admin_ = admin_server::open(all_.registry, next_.admin, why);
		else if (*taken)
			admin_ = std::make_unique<admin_server>(all_.registry, **std::move(taken));
		else
			why = explain_adopting(next_.admin + " for administration", handed,
					       taken->error());
		return admin_ != nullptr;
	}

	bool open_log(std::string &why)
	{
		if (!other_log_ || next_.access_log.empty())
			return true;
		log_ = access_log::open(
			next_.access_log,
			next_.access_log_json ? log_format::json : log_format::logfmt, why);
		return log_ != nullptr;
	}

	shared &all_;
	serving &serving_;
	const config &next_;
	const bool other_admin_;
	const bool other_log_;
	std::unique_ptr<admin_server> admin_;
	std::shared_ptr<access_log> log_;
	bool is_admin_started_ = false;
	bool is_log_started_ = false;
};

bool asks_to_stop(int signum)
{
	return signum == SIGTERM || signum == SIGINT;
}

/* Closes the listeners that have drained their backlog, for which it waits a second at most.
 * Frees the checks and look-ups that have ended. */
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
	std::erase_if(now.retired_admins, [](const auto &each) {
		if (!each->over())
			return false;
		each->close();
		return true;
	});
}

/* On a thread of its own, because the parser's recursion has no known bound. */
std::variant<config, config_errors> read_elsewhere(const std::string &file)
{
	return sn::blocking([&file] {
		return std::async(std::launch::async, [&file] { return read_config(file); }).get();
	});
}

/* True when the file's configuration is in effect. */
bool take_over(shared &all, serving &now)
{
	auto read = read_elsewhere(all.config_file);
	if (const auto *errors = std::get_if<config_errors>(&read)) {
		for (const auto &line : *errors)
			report(line);
		return false;
	}
	const auto next = std::make_shared<const config>(std::move(std::get<config>(read)));
	reap(now); /* the new configuration may want the address of a retired listener */

	const std::size_t listeners_before = now.open.size();
	const auto before = all.settings;
	process_services services(all, now, before.get(), *next);
	change to_next(all, now, next);
	if (!services.prepare() || !to_next.prepare())
		return false;
	services.start_log();
	services.start_admin();
	announce(to_next.opened());
	services.announce();
	to_next.commit();
	services.use_admin();
	services.use_log();
	/* A listener takes as much as a session: its socket, and a client that waits. */
	const std::size_t room = all.sessions.most() + listeners_before;
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
		report("not reloaded: the previous configuration stays in effect");
	}
	notify_ready();
}

/* The signals that do not stop the relay: prints the counters, or reopens the log. */
void answer_signal(shared &all, int signum)
{
	if (signum == SIGUSR1)
		report_counters(all);
	else if (signum != SIGHUP)
		return;
	else if (const auto log = all.access_log.get())
		log->reopen();
}

/* True when a new process has taken over. */
bool hand_over_all(shared &all, serving &now)
try {
	/* The kernel kills every process of a container when its process 1 ends. */
	if (getpid() == 1) {
		report("not handed over: the end of process 1 would end its container, with the "
		       "new process; run the relay under an init such as docker's --init, or "
		       "reload its --config by SIGHUP");
		return false;
	}
	std::vector<handed_listener> listeners;
	for (const auto &each : now.open)
		listeners.push_back(each->to_hand_over());
	if (now.admin)
		listeners.push_back({now.admin->socket(), std::string(admin_listener_name),
				     all.settings->admin});
	files_in_transit files(listeners);
	std::string why;
	const pid_t pid = hand_over(all.program, listeners, why);
	if (pid < 0) {
		report("not handed over: " + why);
		return false;
	}
	files.are_taken();
	notify_main_pid(pid);
	report("handed over to process " + std::to_string(pid));
	return true;
} catch (const std::exception &error) {
	report(std::string("not handed over: ") + error.what());
	return false;
}

/* Settles sessions in a task of its own, until it is destroyed. */
class settling
{
public:
	explicit settling(sessions &which)
	    : running_(sn::spawn([this, &which] { run(which); }, {.name = "settle"}))
	{
	}
	settling(const settling &) = delete;
	settling &operator=(const settling &) = delete;
	/* May park. */
	~settling()
	{
		end_.release();
		running_.join();
	}

private:
	/* Waits for a round. True when the task is to end. */
	bool wait()
	try {
		return end_.try_acquire_for(keepalive_round);
	} catch (const std::exception &) {
		/* No memory to wait with. */
		sn::blocking([] { std::this_thread::sleep_for(keepalive_round); });
		return end_.try_acquire();
	}

	void run(sessions &which)
	{
		while (!wait())
			for (int n = 1; which.settle_next(sn::now()); n++)
				/* Each takes some system calls, so let others run. */
				if (n % 32 == 0)
					sn::yield();
	}

	sn::semaphore end_;
	sn::task<void> running_;
};

/* Serves until a signal asks to stop (true), or until another process has taken over (false). */
bool serve_until_stopped(shared &all, serving &now)
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
			if (hand_over_all(all, now))
				return false;
			continue;
		}
		if (signum && *signum == SIGHUP && !all.config_file.empty()) {
			const auto before = all.settings->stats_interval;
			reload(all, now);
			if (all.settings->stats_interval != before)
				next = next_line();
		}
		/* After the reload: a log that it has replaced must not be reopened. */
		answer_signal(all, signum ? *signum : SIGUSR1);
		if (!signum)
			next = next_line();
	}
}

/* Waits until the sessions have ended, the time is over or another signal asks to stop. */
void drain(shared &all)
{
	const auto until = sn::after(all.settings->drain);
	/* Polling is simple, and does not last long. */
	while (all.sessions.alive() > 0 && sn::now() < until) {
		const auto signum = sn::wait_signal(std::min(until, sn::after(20ms)));
		if (signum && asks_to_stop(*signum))
			return;
		if (signum)
			answer_signal(all, *signum);
	}
}

/*
 * Ends the process without waiting for tasks: those that are still connecting are not interrupted,
 * and one that looks a name up without a thread for that (resolve.h) cannot be. They need no
 * cleanup beyond what the kernel does for every process that ends.
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

/* Ends every watcher. False if a task has not ended after a second. */
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

/* True when every listener is open and serves. */
bool begin(shared &all, serving &now)
{
	all.registry.set_process([&all](snapshot &into) {
		into.accept_pauses += all.counters.accept_holds.get();
		into.limit = all.sessions.most();
		into.reloads = all.counters.reloads.get();
		into.reload_failures = all.counters.reload_failures.get();
		into.log_dropped = all.access_log.dropped();
	});
	change first(all, now, all.settings);
	process_services services(all, now, nullptr, *all.settings);
	if (!first.prepare() || !services.prepare())
		return false;
	if (const std::size_t needed = descriptors_needed(); descriptor_limit() < needed) {
		report("cannot serve: the limit of open files is " +
		       std::to_string(descriptor_limit()) + "; expected at least " +
		       std::to_string(needed) + " (ulimit -n)");
		return false;
	}
	all.sessions.set_most(connections_that_fit(first.opened().size()));
	announce(first.opened());
	services.announce();
	all.registry.set_ready(true);
	/* Before there is a connection to log. */
	services.start_log();
	services.use_log();
	first.commit();
	all.inherited.done();
	/* Now there is something to report. */
	services.start_admin();
	services.use_admin();
	return true;
}

} // namespace

int serve(shared &all)
{
	/* First of all: a signal during startup must end the relay in order. */
	for (const int signum : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP})
		sn::catch_signal(signum).value();

	serving now;
	if (!begin(all, now))
		return EXIT_FAILURE;

	notify_ready();

	std::optional<settling> settler(all.sessions);
	const bool is_end = serve_until_stopped(all, now);

	all.registry.set_ready(false);
	if (is_end) {
		notify_stopping();
	} else {
		/*
		 * The new process accepts from the same backlogs. What it does not take is accepted
		 * here while the listeners retire. Its admin server answers from now on.
		 */
		if (now.admin)
			now.admin->close();
		now.admin.reset();
		for (auto &each : now.open) {
			each->retire();
			now.retired.push_back(std::move(each));
		}
		now.open.clear();
		reap(now);
	}
	for (const auto *all_listeners : {&now.open, &now.retired})
		for (const auto &each : *all_listeners)
			each->stop();
	for (const auto *all_listeners : {&now.open, &now.retired})
		for (const auto &each : *all_listeners)
			each->close();
	drain(all);
	/* Before cut(), which may leave: nothing else removes the file of a Unix socket. */
	if (now.admin)
		now.admin->close();
	for (const auto &each : now.retired_admins)
		each->close();
	cut(all);
	settler.reset();
	const bool watching_is_over = end_watching(now);
	all.access_log.exchange(nullptr);
	if (!watching_is_over)
		leave();
	return EXIT_SUCCESS;
}

} // namespace relay
