/* SPDX-License-Identifier: MIT */
#include "server.hpp"

#include "admin.hpp"
#include "descriptors.hpp"
#include "door.hpp"
#include "notify.hpp"
#include "report.hpp"

#include <sennit/sennit.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;
using doors = std::vector<std::unique_ptr<door>>;

void report_counters(const shared &all)
{
	const auto [to_backend, to_client] = all.book.bytes();
	report(to_line(all.counters, to_backend, to_client));
}

/* All or none: what was opened before a failure is closed again by the caller's destructor. */
bool open_doors(shared &all, pools &to, doors &opened)
{
	for (const listener_config &each : all.settings.listeners) {
		std::string why;
		auto next = door::open(all, each, to, why);
		if (!next) {
			report(why);
			return false;
		}
		opened.push_back(std::move(next));
	}
	return true;
}

bool open_admin(shared &all, std::unique_ptr<admin_server> &admin)
{
	if (all.settings.admin.empty())
		return true;
	all.book.set_process([&all](snapshot &now) {
		now.accept_pauses += all.counters.accept_holds.get();
		now.limit = all.sessions.most();
		now.log_dropped = all.access_log ? all.access_log->dropped() : 0;
	});
	std::string why;
	admin = admin_server::open(all.book, all.settings.admin, why);
	if (!admin)
		report(why);
	return admin != nullptr;
}

bool open_log(shared &all)
{
	if (all.settings.access_log.empty())
		return true;
	std::string why;
	all.access_log = access_log::open(
		all.settings.access_log,
		all.settings.access_log_json ? log_format::json : log_format::logfmt, why);
	if (!all.access_log)
		report(why);
	return all.access_log != nullptr;
}

/* On stdout, for those who asked for port 0. A closed stdout is no reason not to serve. */
void announce(const doors &opened)
{
	for (const auto &each : opened)
		std::printf("listening on %s\n", each->address().c_str());
	std::fflush(stdout);
}

bool asks_to_stop(int signum)
{
	return signum == SIGTERM || signum == SIGINT;
}

/* What is neither to stop nor to go on: prints the counters, or opens the log anew. */
void answer_signal(shared &all, int signum)
{
	if (signum != SIGHUP)
		report_counters(all);
	else if (all.access_log)
		all.access_log->reopen();
}

/* Until the first signal that asks to stop. */
void serve_until_told(shared &all)
{
	const auto interval = all.settings.stats_interval;
	const auto next_line = [interval] {
		return interval == 0ns ? sn::no_deadline : sn::after(interval);
	};

	for (auto next = next_line();;) {
		const auto signum = sn::wait_signal(next);
		if (signum && asks_to_stop(*signum))
			return;
		answer_signal(all, signum ? *signum : SIGUSR1);
		if (!signum)
			next = next_line();
	}
}

/* Until the sessions have ended, the time is over or another signal asks to stop. */
void drain(shared &all)
{
	const auto until = sn::after(all.settings.drain);
	/* Looking every so often is simple, and it is not for long. */
	while (all.sessions.alive() > 0 && sn::now() < until) {
		const auto signum = sn::wait_signal(std::min(until, sn::after(20ms)));
		if (signum && asks_to_stop(*signum))
			return;
		if (signum)
			answer_signal(all, *signum);
	}
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
	/*
	 * Sessions that are still connecting cannot be interrupted, and one in the name service can
	 * keep the runtime from ending for long. Nothing of theirs needs more than the kernel does
	 * for every process that ends.
	 */
	std::fflush(nullptr);
	std::_Exit(EXIT_SUCCESS);
}

} // namespace

int serve(shared &all)
{
	/* First of all: a signal during what follows must end the relay in order. */
	for (const int signum : {SIGTERM, SIGINT, SIGUSR1, SIGHUP})
		sn::catch_signal(signum).value();

	pools to(all.settings.groups, all.book);
	doors opened;
	std::unique_ptr<admin_server> admin;
	if (!open_doors(all, to, opened) || !open_admin(all, admin) || !open_log(all))
		return EXIT_FAILURE;
	all.sessions.set_most(connections_that_fit(opened.size()));
	announce(opened);
	if (admin) {
		std::printf("admin on %s\n", admin->address().c_str());
		std::fflush(stdout);
		admin->start();
	}
	if (all.access_log)
		all.access_log->start();
	all.book.set_ready(true);
	for (const auto &each : opened)
		each->start();

	notify_ready();

	serve_until_told(all);

	all.book.set_ready(false);
	notify_stopping();
	for (const auto &each : opened)
		each->stop();
	for (const auto &each : opened)
		each->close();
	drain(all);
	cut(all);
	if (admin)
		admin->close();
	if (all.access_log)
		all.access_log->close();
	return EXIT_SUCCESS;
}

} // namespace relay
