/* SPDX-License-Identifier: MIT */
#include "handover/handover.hpp"

#include "base/notify.hpp"
#include "base/owned_fd.hpp"
#include "handover/early_signals.hpp"
#include "handover/supervisor.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <new>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* How long the new process may take to serve; a slow name service can use most of it. */
constexpr auto patience_for_start = 60s;

/* How many new processes are started, if a signal ends each before it can catch it. */
constexpr int most_attempts = 3;

/* Starts the new process. tickets: a descriptor with the TLS ticket keys, or -1. */
int start(const program &what, const std::vector<handed_listener> &listeners, int ready,
	  int tickets, pid_t &pid)
try {
	owned_fd list;
	std::vector<std::string> words;
	for (char **each = environ; *each; each++)
		words.emplace_back(*each);
	const auto add = [&words](std::string_view name, std::string_view value) {
		words.emplace_back(name).append(1, '=').append(value);
	};
	add(handover_variable, to_handover_value(to_handover(ready, listeners), list));
	if (what.link >= 0)
		add(supervisor_variable, std::to_string(what.link));
	if (tickets >= 0)
		add(tickets_variable, std::to_string(tickets));
	std::vector<char *> environment;
	for (auto &each : words)
		environment.push_back(each.data());
	environment.push_back(nullptr);
	auto arguments = what.arguments;
	std::vector<char *> argv;
	for (auto &each : arguments)
		argv.push_back(each.data());
	argv.push_back(nullptr);

	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	if (int err = posix_spawn_file_actions_init(&actions))
		return err;
	if (int err = posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&actions);
		return err;
	}
	/* dup2 onto itself clears close-on-exec for the new process only, where the descriptor
	 * stays open. */
	int err = posix_spawn_file_actions_adddup2(&actions, ready, ready);
	for (const int each : {list.get(), what.link, tickets})
		if (!err && each >= 0)
			err = posix_spawn_file_actions_adddup2(&actions, each, each);
	for (const auto &each : listeners)
		if (!err)
			err = posix_spawn_file_actions_adddup2(&actions, each.fd(), each.fd());
	/* The runtime's threads have signals blocked; the new process must not inherit that. */
	sigset_t none;
	sigemptyset(&none);
	if (!err)
		err = posix_spawnattr_setsigmask(&attributes, &none);
	if (!err)
		err = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	if (!err)
		err = posix_spawn(&pid, what.file.c_str(), &actions, &attributes, argv.data(),
				  environment.data());
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return err;
} catch (const std::bad_alloc &) {
	return ENOMEM; /* before there is anything to destroy */
} catch (const std::system_error &error) {
	return error.code().value(); /* the same */
}

/* A reason that needs memory may have to be left out. The new process is killed all the same. */
void note(std::string &why, const char *text) noexcept
try {
	why = text;
} catch (const std::bad_alloc &) {
	why.clear();
}

/* Waits until the new process reports through the pipe that it serves; false if it does not. stop:
 * the signal that ended the wait, if one did. */
bool await_ready(sn::result<sn::stream> &end, int &stop, std::string &why)
try {
	if (!end) {
		why = end.error().message();
		return false;
	}
	end->set_read_deadline(sn::after(patience_for_start));
	sn::scope waiting;
	waiting.go([&stop] {
		const auto signum = sn::wait_signal({SIGTERM, SIGINT});
		stop = signum ? *signum : 0;
		return signum ? -ECANCELED : 0;
	});
	char byte;
	const auto n = end->read(&byte, 1);
	waiting.cancel();
	static_cast<void>(waiting.join());
	if (n && *n == 1)
		return true;
	if (stop)
		why = "the relay is to stop";
	else
		why = n ? "the new process has ended" : "the new process: " + n.error().message();
	return false;
} catch (const std::exception &error) {
	note(why, error.what());
	return false;
}

} // namespace

program this_program(int argc, const char *const *argv)
{
	program found;
	char file[4096];
	const ssize_t length = readlink("/proc/self/exe", file, sizeof file);
	if (length > 0 && static_cast<std::size_t>(length) < sizeof file)
		found.file.assign(file, static_cast<std::size_t>(length));
	else
		found.file = argv[0];
	found.arguments.assign(argv, argv + argc);
	return found;
}

bool late_reloads::all_know() const noexcept
{
	return is_report_read(link_) && is_notified();
}

void late_reloads::look() noexcept
{
	if (end_ == sn::no_deadline && all_know())
		end_ = sn::after(5s);
}

void late_reloads::pass_on() noexcept
{
	look();
	/* Nobody waits for the child in this process, so its number stays its own. */
	if (!is_over())
		kill(to_, SIGHUP);
}

void late_reloads::pass_on_to_the_end() noexcept
{
	look();
	if (!is_over())
		pass_reloads_on(to_);
}

namespace
{

/* Ends the process. Returns whether a signal had ended it that it catches when it serves. */
bool end_and_see(pid_t pid) noexcept
{
	int status = 0;
	sn::blocking([&] {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	});
	if (!WIFSIGNALED(status))
		return false;
	const int by = WTERMSIG(status);
	return by == SIGHUP || by == SIGUSR1 || by == SIGUSR2;
}

/* A first attempt, or another. is_early: the new process was ended as by end_and_see(). */
pid_t try_to_hand_over(const program &what, const std::vector<handed_listener> &listeners,
		       const tls_tickets &tickets, std::string &why, bool &is_early)
{
	is_early = false;
	int ready[2];
	if (pipe2(ready, O_CLOEXEC) < 0) {
		why = std::generic_category().message(errno);
		return -1;
	}
	pid_t pid = -1;
	const int keys = tickets.to_hand_over();
	const int err = sn::blocking([&] { return start(what, listeners, ready[1], keys, pid); });
	::close(ready[1]);
	if (keys >= 0)
		::close(keys);
	if (err) {
		::close(ready[0]);
		why = "cannot run " + what.file + ": " + std::generic_category().message(err);
		return -1;
	}
	int stop = 0;
	/* Open until the end: a new process that is to be killed must not take its loss for the end
	 * of this process, and serve. */
	auto end = sn::stream::adopt(ready[0]);
	const bool is_ready = await_ready(end, stop, why);
	if (!is_ready)
		is_early = end_and_see(pid) && !stop;
	if (!end)
		::close(ready[0]);
	if (stop) {
		/* The signal came together with the report. If there is a first process, it
		 * passes the signal on itself. */
		if (is_ready && what.link < 0)
			kill(pid, stop);
		kill(getpid(), stop);
	}
	return is_ready ? pid : -1;
}

} // namespace

pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		const tls_tickets &tickets, std::string &why)
{
	for (int left = most_attempts;; left--) {
		bool is_early = false;
		const pid_t pid = try_to_hand_over(what, listeners, tickets, why, is_early);
		if (!is_early || left <= 1)
			return pid;
	}
}

} // namespace relay
