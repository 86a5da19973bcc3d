/* SPDX-License-Identifier: MIT */
#include "handover.hpp"

#include <sennit/sennit.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
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

/* A slow name service at the start may take this long. */
constexpr auto patience = 60s;

int start(const program &what, const std::vector<handed_listener> &listeners, int ready, pid_t &pid)
{
	std::vector<std::string> words;
	for (char **each = environ; *each; each++)
		words.emplace_back(*each);
	words.push_back(std::string(handover_variable) + '=' + to_handover(ready, listeners));
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
	/* dup2 onto itself: the descriptor stays open in the new process, and only there. */
	int err = posix_spawn_file_actions_adddup2(&actions, ready, ready);
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
}

/* Whether the new process reports that it serves. */
bool await_ready(int pipe, std::string &why)
{
	auto end = sn::stream::adopt(pipe);
	if (!end) {
		::close(pipe);
		why = end.error().message();
		return false;
	}
	end->set_read_deadline(sn::after(patience));
	char byte;
	const auto n = end->read(&byte, 1);
	if (n && *n == 1)
		return true;
	why = n ? "the new process has ended" : "the new process: " + n.error().message();
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

pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		std::string &why)
{
	int ready[2];
	if (pipe2(ready, O_CLOEXEC) < 0) {
		why = std::generic_category().message(errno);
		return -1;
	}
	pid_t pid = -1;
	const int err = sn::blocking([&] { return start(what, listeners, ready[1], pid); });
	::close(ready[1]);
	if (err) {
		::close(ready[0]);
		why = "cannot run " + what.file + ": " + std::generic_category().message(err);
		return -1;
	}
	if (await_ready(ready[0], why))
		return pid;
	sn::blocking([pid] {
		kill(pid, SIGKILL);
		waitpid(pid, nullptr, 0);
	});
	return -1;
}

} // namespace relay
