/* SPDX-License-Identifier: MIT */
#include "harness.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <netdb.h>
#include <netinet/in.h>
#include <ostream>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace harness
{
namespace
{

[[noreturn]] void fail(const std::string &what)
{
	throw std::runtime_error(what);
}

[[noreturn]] void fail_errno(const std::string &what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

std::uint64_t number_in_environment(const char *name, std::uint64_t otherwise)
{
	const char *text = std::getenv(name);
	return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/* Repeats the call after EINTR: calls on sockets with a timeout return it when the process is
 * stopped and continued. */
template <class Call>
ssize_t again(Call call)
{
	ssize_t n = 0;
	do
		n = call();
	while (n < 0 && errno == EINTR);
	return n;
}

bool is_reset(int err)
{
	/* A socket that has already read to the end reports a reset as EPIPE. */
	return err == ECONNRESET || err == EPIPE;
}

/* Waits until poll() reports one of the events, or an error. */
short await(int fd, short events, const char *what)
{
	pollfd entry{fd, events, 0};
	for (;;) {
		const int n = poll(&entry, 1, static_cast<int>(patience / 1ms));
		if (n > 0)
			return entry.revents;
		if (n == 0)
			fail(std::string("waited too long for ") + what);
		if (errno != EINTR)
			fail_errno("poll");
	}
}

/* Numeric addresses only. */
struct resolved {
	explicit resolved(const std::string &address)
	{
		const auto colon = address.rfind(':');
		std::string host = address.substr(0, colon);
		if (host.starts_with('['))
			host = host.substr(1, host.size() - 2);
		addrinfo hints{};
		hints.ai_socktype = SOCK_STREAM;
		hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
		if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &list))
			fail("not a numeric address: " + address);
	}
	resolved(const resolved &) = delete;
	resolved &operator=(const resolved &) = delete;
	~resolved() { freeaddrinfo(list); }

	int make_socket() const
	{
		const int fd = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			fail_errno("socket");
		return fd;
	}

	addrinfo *list = nullptr;
};

/* "unix:/path" or "unix:@name". */
struct unix_address {
	explicit unix_address(const std::string &address)
	{
		const std::string name = address.substr(5);
		if (name.size() >= sizeof to.sun_path)
			fail("too long an address: " + address);
		to.sun_family = AF_UNIX;
		std::memcpy(to.sun_path, name.data(), name.size());
		if (name.starts_with('@'))
			to.sun_path[0] = '\0';
		size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
	}

	const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&to); }

	static int make_socket()
	{
		const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			fail_errno("socket");
		return fd;
	}

	sockaddr_un to{};
	socklen_t size;
};

} // namespace

stops::stops()
    : watching_([this](const std::stop_token &over) {
	      while (!over.stop_requested()) {
		      const auto before = std::chrono::steady_clock::now();
		      std::this_thread::sleep_for(10ms);
		      const auto took = std::chrono::steady_clock::now() - before;
		      longest_ = std::max<std::chrono::nanoseconds>(longest_, took);
		      looks_++;
	      }
      })
{
}

std::chrono::nanoseconds stops::longest() const
{
	/* The look under way may have begun before the stall that the caller saw. */
	const unsigned before = looks_;
	while (looks_ - before < 2)
		std::this_thread::sleep_for(1ms);
	return longest_;
}

std::uint64_t seed()
{
	static const std::uint64_t value =
		number_in_environment("SENNIT_TEST_SEED", std::random_device()());
	return value;
}

std::size_t scaled(std::size_t full)
{
#ifdef SENNIT_TEST_SCALE
	constexpr std::uint64_t of_build = SENNIT_TEST_SCALE;
#else
	constexpr std::uint64_t of_build = 100;
#endif
	const auto percent = number_in_environment("SENNIT_TEST_SCALE", of_build);
	return std::max<std::size_t>(1, static_cast<std::size_t>(full * percent / 100));
}

std::string random_bytes(std::mt19937_64 &random, std::size_t size)
{
	std::string bytes(size, '\0');
	for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
		const std::uint64_t word = random();
		std::memcpy(&bytes[i], &word, std::min(sizeof word, size - i));
	}
	return bytes;
}

std::ostream &operator<<(std::ostream &out, ending how)
{
	return out << (how == ending::fin ? "FIN" : "reset");
}

/* ---- sockets ----------------------------------------------------------------------------- */

peer::peer(int fd) : fd_(fd)
{
	const timeval limit{patience.count(), 0};
	setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

peer &peer::operator=(peer &&other) noexcept
{
	if (this != &other) {
		close();
		fd_ = std::exchange(other.fd_, -1);
	}
	return *this;
}

peer peer::connect(const std::string &address, const std::string &from)
{
	if (address.starts_with("unix:")) {
		const unix_address target(address);
		peer made(unix_address::make_socket());
		if (again([&] { return ::connect(made.fd_, target.get(), target.size); }) < 0)
			fail_errno("connect to " + address);
		return made;
	}
	const resolved target(address);
	peer made(target.make_socket());
	if (!from.empty()) {
		const resolved source(from + ":0");
		if (bind(made.fd_, source.list->ai_addr, source.list->ai_addrlen) < 0)
			fail_errno("bind " + from);
	}
	if (::connect(made.fd_, target.list->ai_addr, target.list->ai_addrlen) < 0) {
		/* An interrupted connect continues in the background. */
		if (errno == EINTR) {
			socklen_t size = sizeof errno;
			await(made.fd_, POLLOUT, "a connection");
			getsockopt(made.fd_, SOL_SOCKET, SO_ERROR, &errno, &size);
		}
		if (errno != 0)
			fail_errno("connect to " + address);
	}
	return made;
}

void peer::send(std::string_view bytes)
{
	while (!bytes.empty()) {
		const ssize_t n = again(
			[&] { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
		if (n < 0)
			fail_errno("send");
		bytes.remove_prefix(static_cast<std::size_t>(n));
	}
}

std::size_t peer::send_until_stuck()
{
	const std::string chunk(65536, 'x');
	std::size_t sent = 0;
	for (;;) {
		pollfd entry{fd_, POLLOUT, 0};
		if (again([&] { return poll(&entry, 1, 500); }) == 0)
			return sent;
		const ssize_t n =
			::send(fd_, chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			fail_errno("send");
		sent += n < 0 ? 0 : static_cast<std::size_t>(n);
	}
}

std::string peer::receive(std::size_t exactly)
{
	std::string bytes(exactly, '\0');
	std::size_t have = 0;
	while (have < exactly) {
		const ssize_t n = again([&] { return recv(fd_, &bytes[have], exactly - have, 0); });
		if (n < 0)
			fail_errno("receive, after " + std::to_string(have) + " bytes");
		if (n == 0)
			fail("the stream ended after " + std::to_string(have) + " of " +
			     std::to_string(exactly) + " bytes");
		have += static_cast<std::size_t>(n);
	}
	return bytes;
}

std::pair<std::string, ending> peer::receive_rest()
{
	std::string bytes;
	std::string chunk(65536, '\0');
	for (;;) {
		const ssize_t n = again([&] { return recv(fd_, chunk.data(), chunk.size(), 0); });
		if (n == 0)
			return {std::move(bytes), ending::fin};
		if (n < 0 && is_reset(errno))
			return {std::move(bytes), ending::reset};
		if (n < 0)
			fail_errno("receive the rest, after " + std::to_string(bytes.size()) +
				   " bytes");
		bytes.append(chunk, 0, static_cast<std::size_t>(n));
	}
}

ending peer::receive_end()
{
	const auto [bytes, how] = receive_rest();
	if (!bytes.empty())
		fail("got " + std::to_string(bytes.size()) +
		     " bytes where the stream was to end: " + bytes.substr(0, 64));
	return how;
}

void peer::await_reset()
{
	if (!(await(fd_, 0, "a reset") & POLLERR))
		fail("the connection ended, but not by a reset");
	int err = 0;
	socklen_t size = sizeof err;
	getsockopt(fd_, SOL_SOCKET, SO_ERROR, &err, &size);
	if (!is_reset(err))
		fail(std::string("expected a reset, got: ") + std::strerror(err));
}

void peer::shutdown_write()
{
	if (shutdown(fd_, SHUT_WR) < 0)
		fail_errno("shutdown");
}

void peer::reset()
{
	const linger none{1, 0};
	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close();
}

void peer::close()
{
	if (fd_ >= 0)
		::close(std::exchange(fd_, -1));
}

listener::listener(const std::string &host, int backlog)
{
	if (host.starts_with("unix:")) {
		const unix_address target(host);
		fd_ = unix_address::make_socket();
		address_ = host;
		if (bind(fd_, target.get(), target.size) < 0) {
			const int err = errno;
			::close(fd_);
			errno = err;
			fail_errno("bind " + host);
		}
		if (backlog >= 0)
			listen(backlog);
		return;
	}
	const resolved target(host + ":0");
	fd_ = target.make_socket();
	sockaddr_storage bound{};
	socklen_t size = sizeof bound;
	if (bind(fd_, target.list->ai_addr, target.list->ai_addrlen) < 0 ||
	    getsockname(fd_, reinterpret_cast<sockaddr *>(&bound), &size) < 0) {
		const int err = errno;
		::close(fd_);
		errno = err;
		fail_errno("bind " + host);
	}
	/* Both families have the port at the same offset. */
	const auto port = ntohs(reinterpret_cast<const sockaddr_in *>(&bound)->sin_port);
	address_ = host + ":" + std::to_string(port);
	if (backlog >= 0)
		listen(backlog);
}

listener::~listener()
{
	::close(fd_);
}

void listener::listen(int backlog)
{
	if (::listen(fd_, backlog) < 0)
		fail_errno("listen");
}

peer listener::accept()
{
	await(fd_, POLLIN, "a connection");
	const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
	if (fd < 0)
		fail_errno("accept");
	return peer(fd);
}

silent_backend::silent_backend()
{
	const resolved target(address());
	for (;;) {
		const int fd = target.make_socket();
		queue_.emplace_back(fd);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		::connect(fd, target.list->ai_addr, target.list->ai_addrlen);
		/* A backlog of 0 still takes one connection. Wait for that one: while it is being
		 * established, others would get through. */
		pollfd entry{fd, POLLOUT, 0};
		const bool is_first = queue_.size() == 1;
		const int longest = is_first ? static_cast<int>(patience / 1ms) : 300;
		if (again([&] { return poll(&entry, 1, longest); }) == 0)
			return;
		if (queue_.size() > 100)
			fail("a listener with a backlog of 0 takes more and more connections");
	}
}

/* ---- files ------------------------------------------------------------------------------- */

folder::folder()
{
	const char *const parent = std::getenv("TMPDIR");
	name_ = std::string(parent ? parent : "/tmp") + "/sennit-relay-XXXXXX";
	if (!mkdtemp(name_.data()))
		fail_errno(name_);
}

folder::~folder()
{
	std::error_code error;
	std::filesystem::remove_all(name_, error);
}

std::uint64_t inode_of(const std::string &file)
{
	struct stat found {
	};
	return lstat(file.c_str(), &found) == 0 ? found.st_ino : 0;
}

file::file(const std::string &text)
{
	const char *const folder = std::getenv("TMPDIR");
	name_ = std::string(folder ? folder : "/tmp") + "/sennit-relay-XXXXXX";
	const int fd = mkstemp(name_.data());
	if (fd < 0)
		fail_errno(name_);
	::close(fd);
	write(text);
}

file::~file()
{
	unlink(name_.c_str());
}

void file::write(const std::string &text)
{
	std::ofstream out(name_, std::ios::trunc);
	out << text << std::flush;
	if (!out)
		fail("cannot write " + name_);
}

/* ---- the relay --------------------------------------------------------------------------- */

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
	command.emplace_back(SENNIT_RELAY_PROGRAM);
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
	/* Copies that are clear of their numbers in the child, 3 and up. */
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
		/* Only what is async-signal-safe: the parent has other threads. */
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
		kill(pid_, SIGKILL);
		waitpid(pid_, &status, 0);
	}
	join_readers();
	/* The test gave up. The reason may be in the relay's stderr, or be that it died. */
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
}

/* The complete lines that begin with `start`, without it. Call with the lock held. */
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

std::string relay_process::address(std::size_t nth)
{
	std::vector<std::string> found;
	std::unique_lock lock(lock_);
	if (!arrived_.wait_for(lock, patience, [&] {
		    found = lines_with(output_, "listening on ");
		    return found.size() > nth;
	    }))
		fail("the relay did not start; its stderr: " + errors_.text);
	return found[nth];
}

std::map<std::string, std::uint64_t> relay_process::counters()
{
	constexpr std::string_view start = "sennit-relay: accepted=";
	std::vector<std::string> found;
	std::unique_lock lock(lock_);
	const std::size_t before = lines_with(errors_, start).size();
	kill(pid_, SIGUSR1);
	if (!arrived_.wait_for(lock, patience, [&] {
		    found = lines_with(errors_, start);
		    return found.size() > before;
	    }))
		fail("the relay printed no counters; its stderr: " + errors_.text);

	std::map<std::string, std::uint64_t> counts;
	std::istringstream words("accepted=" + found.back());
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
	if (!arrived_.wait_for(lock, patience, [&] {
		    found = lines_with(output_, "admin on ");
		    return !found.empty();
	    }))
		fail("the relay has no admin server; its stderr: " + errors_.text);
	return found.back();
}

std::uint64_t relay_process::metric(const std::string &name)
{
	auto admin = peer::connect(admin_address());
	admin.send("GET /metrics HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
	const std::string page = admin.receive_rest().first;
	const std::string start = "\nsennit_relay_" + name + ' ';
	const auto at = page.find(start);
	if (at == page.npos)
		fail("no metric " + name + " in " + page);
	return std::stoull(page.substr(at + start.size()));
}

bool relay_process::reload()
{
	address(); /* wait until it has started: before that, the signal would end it */
	const auto outcomes = [this] {
		const std::lock_guard lock(lock_);
		return std::pair(lines_with(errors_, "sennit-relay: reloaded ").size(),
				 lines_with(errors_, "sennit-relay: not reloaded").size());
	};
	const auto before = outcomes();
	kill(pid_, SIGHUP);
	if (!eventually([&] { return outcomes() != before; }))
		fail("the relay does not reload; its stderr: " + errors());
	return outcomes().first != before.first;
}

void relay_process::await_error(const std::string &text)
{
	std::unique_lock lock(lock_);
	if (!arrived_.wait_for(lock, patience,
			       [&] { return errors_.text.find(text) != std::string::npos; }))
		fail("the relay did not print \"" + text + "\"; its stderr: " + errors_.text);
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

} // namespace harness
