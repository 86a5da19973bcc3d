/* SPDX-License-Identifier: MIT */
/* The relay as a process. */
#include "harness.hpp"

#include "harness_failure.hpp"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <poll.h>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace harness
{

relay_process::relay_process(const std::vector<std::string> &arguments, unsigned descriptors,
			     const std::vector<int> &handed)
{
	int out[2];
	int err[2];
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		fail_errno("pipe");

	std::vector<std::string> command;
	std::istringstream launcher(SENNIT_RELAY_LAUNCHER);
	for (std::string word; launcher >> word;)
		command.push_back(word);
	command.emplace_back(program ? program : SENNIT_RELAY_PROGRAM);
	command.insert(command.end(), arguments.begin(), arguments.end());
	std::vector<char *> argv;
	for (auto &each : command)
		argv.push_back(each.data());
	argv.push_back(nullptr);

	std::vector<char *> environment;
	for (char **each = environ; *each; each++)
		environment.push_back(*each);
	std::string count = "LISTEN_FDS=" + std::to_string(handed.size());
	char pid[32] = "LISTEN_PID=";
	/* Duplicates whose numbers are above those that the child will use, 3 and up. */
	std::vector<int> copies;
	for (const int fd : handed)
		copies.push_back(fcntl(fd, F_DUPFD_CLOEXEC, 100));
	if (!handed.empty()) {
		environment.push_back(count.data());
		environment.push_back(pid);
	}
	environment.push_back(nullptr);

	pid_ = fork();
	if (pid_ < 0)
		fail_errno("fork");
	if (pid_ == 0) {
		/* Only async-signal-safe calls are allowed here, because the parent has other
		 * threads. */
		setpgid(0, 0);
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		if (descriptors) {
			const rlimit limit{descriptors, descriptors};
			if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
				_exit(126);
		}
		for (std::size_t i = 0; i < copies.size(); i++)
			dup2(copies[i], static_cast<int>(3 + i));
		char digits[16];
		int n = 0;
		for (pid_t left = getpid(); left > 0; left /= 10)
			digits[n++] = static_cast<char>('0' + left % 10);
		for (char *at = pid + std::strlen(pid); n > 0;)
			*at++ = digits[--n];
		execvpe(argv[0], argv.data(), environment.data());
		_exit(127);
	}
	::close(out[1]);
	::close(err[1]);
	for (const int fd : copies)
		::close(fd);
	stop_reading_ = eventfd(0, EFD_CLOEXEC);
	output_.fd = out[0];
	errors_.fd = err[0];
	for (stream *each : {&output_, &errors_})
		each->reader = std::thread([this, each] { read_all(*each); });
}

relay_process::~relay_process()
{
	int status = 0;
	const bool left = pid_ > 0;
	if (left) {
		/* If the relay is still there, kills it together with the processes that it has
		 * handed over to. */
		setpgid(pid_, pid_);
		kill(-pid_, SIGKILL);
		waitpid(pid_, &status, 0);
	}
	join_readers();
	/* The test gave up. The reason may be in the relay's stderr, or the relay may have died. */
	if (left)
		std::cerr << "the test left a relay behind, "
			  << (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? "running"
										 : "dead")
			  << "; its stderr:\n"
			  << errors_.text;
	close_pipes();
	::close(stop_reading_);
}

void relay_process::close_pipes()
{
	for (stream *each : {&output_, &errors_})
		if (each->fd >= 0)
			::close(std::exchange(each->fd, -1));
}

void relay_process::join_readers()
{
	for (stream *each : {&output_, &errors_})
		if (each->reader.joinable())
			each->reader.join();
}

void relay_process::stop_reading(bool closed)
{
	const std::uint64_t one = 1;
	if (write(stop_reading_, &one, sizeof one) < 0)
		fail_errno("eventfd");
	join_readers();
	if (closed)
		close_pipes();
}

void relay_process::read_all(stream &from)
{
	char chunk[4096];
	for (;;) {
		pollfd entries[] = {{from.fd, POLLIN, 0}, {stop_reading_, POLLIN, 0}};
		if (again([&] { return poll(entries, 2, -1); }) < 0 || entries[1].revents)
			break;
		const ssize_t n = again([&] { return read(from.fd, chunk, sizeof chunk); });
		if (n <= 0)
			break;
		const std::lock_guard lock(lock_);
		from.text.append(chunk, static_cast<std::size_t>(n));
		arrived_.notify_all();
	}
	const std::lock_guard lock(lock_);
	from.is_over = true;
	arrived_.notify_all();
}

template <class Condition>
void relay_process::await_text(std::unique_lock<std::mutex> &lock, const std::string &otherwise,
			       Condition holds)
{
	bool held = false;
	arrived_.wait_for(lock, patience, [&] {
		held = holds();
		return held || (output_.is_over && errors_.is_over);
	});
	if (!held)
		fail(otherwise +
		     (output_.is_over && errors_.is_over ? ", and says nothing more" : "") +
		     "; its stderr: " + errors_.text);
}

/* The complete lines that begin with `start`, without that prefix. The caller holds the lock. */
std::vector<std::string> relay_process::lines_with(stream &from, std::string_view start)
{
	std::vector<std::string> found;
	std::size_t at = 0;
	for (std::size_t end; (end = from.text.find('\n', at)) != std::string::npos; at = end + 1) {
		const auto line = std::string_view(from.text).substr(at, end - at);
		if (line.starts_with(start))
			found.emplace_back(line.substr(start.size()));
	}
	return found;
}

/* For each event of that name on stderr, the text after the name. The caller holds the lock. */
std::vector<std::string> relay_process::events_of(std::string_view name)
{
	std::vector<std::string> found;
	for (const auto &line : lines_with(errors_, "")) {
		std::istringstream words(line);
		std::string time;
		std::string level;
		std::string word;
		std::string rest;
		if (words >> time >> level >> word && word == name && std::getline(words, rest))
			found.push_back(rest);
	}
	return found;
}

std::string relay_process::address(std::size_t nth)
{
	std::vector<std::string> found;
	std::unique_lock lock(lock_);
	await_text(lock, "the relay did not start", [&] {
		found = lines_with(output_, "listening on ");
		return found.size() > nth;
	});
	return found[nth];
}

std::map<std::string, std::uint64_t> relay_process::counters()
{
	std::vector<std::string> found;
	std::unique_lock lock(lock_);
	const std::size_t before = events_of("counters").size();
	kill(pid_, SIGUSR1);
	await_text(lock, "the relay printed no counters", [&] {
		found = events_of("counters");
		return found.size() > before;
	});

	std::map<std::string, std::uint64_t> counts;
	std::istringstream words(found.back());
	for (std::string word; words >> word;) {
		const auto equals = word.find('=');
		counts[word.substr(0, equals)] = std::stoull(word.substr(equals + 1));
	}
	return counts;
}

std::uint64_t relay_process::counter(const std::string &name)
{
	return counters().at(name);
}

std::string relay_process::admin_address()
{
	std::vector<std::string> found;
	std::unique_lock lock(lock_);
	await_text(lock, "the relay has no admin server", [&] {
		found = lines_with(output_, "admin on ");
		return !found.empty();
	});
	return found.back();
}

std::string relay_process::metrics()
{
	auto admin = peer::connect(admin_address());
	admin.send("GET /metrics?detail=full HTTP/1.1\r\nHost: localhost\r\nConnection: "
		   "close\r\n\r\n");
	return admin.receive_rest().first;
}

std::uint64_t relay_process::metric(const std::string &name)
{
	const std::string page = metrics();
	const std::string start = "\nsennit_relay_" + name + ' ';
	const auto at = page.find(start);
	if (at == page.npos)
		fail("no metric " + name + " in " + page);
	return std::stoull(page.substr(at + start.size()));
}

bool relay_process::reload()
{
	address(); /* wait until it has started, because before main() the signal would end it */
	const auto outcomes = [this] {
		return std::pair(events_of("reloaded").size(), events_of("not_reloaded").size());
	};
	std::unique_lock lock(lock_);
	const auto before = outcomes();
	kill(pid_, SIGHUP);
	await_text(lock, "the relay does not reload", [&] { return outcomes() != before; });
	return outcomes().first != before.first;
}

void relay_process::await_error(const std::string &text)
{
	std::string escaped;
	for (char each : text) {
		if (each == '"')
			escaped += '\\';
		escaped += each;
	}
	std::unique_lock lock(lock_);
	await_text(lock, "the relay did not print \"" + text + '"', [&] {
		return errors_.text.find(text) != std::string::npos ||
		       errors_.text.find(escaped) != std::string::npos;
	});
}

std::string relay_process::next_error(const std::string &text)
{
	std::string rest;
	const auto take = [&] {
		for (std::size_t end;
		     (end = errors_.text.find('\n', taken_)) != std::string::npos;) {
			const auto line = errors_.text.substr(taken_, end - taken_);
			taken_ = end + 1;
			if (const auto at = line.find(text); at != line.npos) {
				rest = line.substr(at + text.size());
				return true;
			}
		}
		return false;
	};
	std::unique_lock lock(lock_);
	await_text(lock, "the relay printed no further line with \"" + text + '"', take);
	return rest.ends_with('"') ? rest.substr(0, rest.size() - 1) : rest;
}

void relay_process::signal(int signum)
{
	kill(pid_, signum);
}

bool relay_process::has_ended() const
{
	siginfo_t info{};
	return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid_;
}

ended relay_process::wait()
{
	int status = 0;
	if (!eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }))
		fail("the relay did not end; its stderr: " + errors());
	pid_ = -1;
	join_readers();
	return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output_.text,
		errors_.text};
}

ended relay_process::stop()
{
	signal(SIGTERM);
	return wait();
}

std::string relay_process::output()
{
	const std::lock_guard lock(lock_);
	return output_.text;
}

std::string relay_process::errors()
{
	const std::lock_guard lock(lock_);
	return errors_.text;
}

bool relay_process::rests(std::chrono::milliseconds most) const
{
	for (int i = 0; i < 10; i++) {
		const auto before = cpu_time();
		std::this_thread::sleep_for(1s);
		if (cpu_time() - before < most)
			return true;
	}
	return false;
}

std::chrono::milliseconds relay_process::cpu_time() const
{
	std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
	std::string text;
	std::getline(file, text);
	/* After the program's name in parentheses, user and system time are the 12th and 13th. */
	std::istringstream fields(text.substr(text.rfind(')') + 1));
	std::string skipped;
	for (int i = 0; i < 11; i++)
		fields >> skipped;
	long user = 0;
	long system = 0;
	fields >> user >> system;
	return std::chrono::milliseconds((user + system) * 1000 / sysconf(_SC_CLK_TCK));
}

bool has_open(pid_t pid, const std::string &file)
{
	std::error_code none;
	const std::string all = "/proc/" + std::to_string(pid) + "/fd";
	for (const auto &each : std::filesystem::directory_iterator(all, none))
		if (std::filesystem::read_symlink(each.path(), none) == file)
			return true;
	return false;
}

std::string served_by(relay_process &relay, int clients)
{
	std::string names;
	for (int i = 0; i < clients; i++) {
		auto client = peer::sending("who", relay.address());
		names += client.receive(1);
	}
	return names;
}

void stop(relay_process &relay)
{
	if (!eventually([&] { return relay.counter("active") == 0; }))
		fail("sessions stay open: " + std::to_string(relay.counter("active")));
	const ended end = relay.stop();
	if (end.status != 0)
		fail("the relay ended with status " + std::to_string(end.status) + ": " +
		     end.errors);
}

} // namespace harness
