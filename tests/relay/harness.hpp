/* SPDX-License-Identifier: MIT */
/*
 * What the relay's end-to-end tests share: the relay as a process, and plain blocking sockets for
 * its clients and backends. Nothing here uses sennit.
 *
 * Every wait gives up after `patience` and throws, which fails the test with a line that says what
 * it waited for. A wait for output of the relay also ends as soon as no process is left that could
 * print it. Therefore no test hangs, and no test depends on a fixed sleep being long enough. A
 * socket may be used from any thread, but only from one at a time.
 *
 * Environment: SENNIT_TEST_SEED repeats a run's random choices. SENNIT_TEST_SCALE is the percentage
 * of the full amounts (bytes, connections) that tests use, 1 to 100; slow or small builds
 * (sanitizers, i386) default to less.
 */
#ifndef TESTS_RELAY_HARNESS_HPP
#define TESTS_RELAY_HARNESS_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

namespace harness
{

using namespace std::chrono_literals;

inline constexpr std::chrono::seconds patience{40};

/* Polls until the condition holds. Returns false if patience runs out first. */
template <class Condition>
bool eventually(Condition holds)
{
	const auto until = std::chrono::steady_clock::now() + patience;
	while (!holds()) {
		if (std::chrono::steady_clock::now() > until)
			return false;
		std::this_thread::sleep_for(3ms);
	}
	return true;
}

/* Measures the longest time for which the machine has stalled this process since the object was
 * created. */
class stops
{
public:
	stops();
	std::chrono::nanoseconds longest() const;

private:
	std::atomic<std::chrono::nanoseconds> longest_{};
	std::atomic<unsigned> looks_{0};
	std::jthread watching_;
};

/* How often the text is in the other one. */
inline std::size_t count_of(std::string_view what, std::string_view in)
{
	std::size_t n = 0;
	for (auto at = in.find(what); at != in.npos; at = in.find(what, at + what.size()))
		n++;
	return n;
}

/* The seed of this run. Show it when a test fails (SCOPED_TRACE). */
std::uint64_t seed();

/* The part of the full amount that this build tests, at least 1. */
std::size_t scaled(std::size_t full);

std::string random_bytes(std::mt19937_64 &random, std::size_t size);

/* How a stream ended. */
enum class ending { fin, reset };

std::ostream &operator<<(std::ostream &out, ending how);

class peer
{
public:
	peer() = default;
	explicit peer(int fd);
	peer(peer &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	peer &operator=(peer &&other) noexcept;
	~peer() { close(); }

	/* A numeric address, or "unix:/path" or "unix:@name". `from`: the local address to connect
	 * from, if given. */
	static peer connect(const std::string &address, const std::string &from = "");

	/* One that has connected and sent these bytes. */
	static peer sending(std::string_view bytes, const std::string &address,
			    const std::string &from = "")
	{
		peer made = connect(address, from);
		made.send(bytes);
		return made;
	}

	void send(std::string_view bytes);
	/* Sends until the other end accepts no more for a while. Returns how much it sent. */
	std::size_t send_until_stuck();

	std::string receive(std::size_t exactly);
	/* Reads everything up to the end of the stream; returns that, and how the stream ended. */
	std::pair<std::string, ending> receive_rest();
	/* Expects the end of the stream next: throws on any byte before it. */
	ending receive_end();
	/* Waits for a reset without reading. Works even after the end of the stream was read. */
	void await_reset();

	void shutdown_write();
	void reset();
	void close();
	int fd() const { return fd_; }

private:
	int fd_ = -1;
};

class listener
{
public:
	static constexpr int largest_backlog = 4096;

	/* Listens on a free port, or at "unix:/path" or "unix:@name"; the file of a path is not
	 * removed. With a negative backlog the socket is only bound, so connections are refused. */
	explicit listener(const std::string &host = "127.0.0.1", int backlog = largest_backlog);
	~listener();

	void listen(int backlog = largest_backlog);
	const std::string &address() const { return address_; }
	std::string port() const { return address_.substr(address_.rfind(':') + 1); }
	peer accept();
	int fd() const { return fd_; }

private:
	int fd_ = -1;
	std::string address_;
};

/* A backend with a thread of its own, which serves one connection after the other by a function. A
 * connection ends when the function returns or throws, as when its client has left. */
class serving
{
public:
	explicit serving(std::function<void(peer &)> serve, const std::string &host = "127.0.0.1");
	serving(const serving &) = delete;
	serving &operator=(const serving &) = delete;
	~serving();
	const std::string &address() const { return door_.address(); }
	std::string port() const { return door_.port(); }

private:
	listener door_;
	const std::function<void(peer &)> serve_;
	std::atomic<bool> over_{false};
	std::thread thread_;
};

/* A backend that does not answer connection attempts. */
class silent_backend
{
public:
	silent_backend();
	const std::string &address() const { return full_.address(); }
	/* Answers from now on. Returns the listener, which may have to accept connections of the
	 * test's own first, which end without a byte. */
	listener &answer();

private:
	/* While a listener's backlog is full, the system ignores further SYNs. */
	listener full_{"127.0.0.1", 0};
	std::vector<peer> queue_;
};

/* A temporary folder. The destructor removes it with all that is in it. */
class folder
{
public:
	folder();
	folder(const folder &) = delete;
	folder &operator=(const folder &) = delete;
	~folder();

	std::string operator/(const std::string &file) const { return name_ + "/" + file; }

private:
	std::string name_;
};

/* The inode number of a file, which distinguishes it from another one at the same path; 0 if there
 * is no file. */
std::uint64_t inode_of(const std::string &file);

/* A temporary file with the given text. The destructor removes it. */
class file
{
public:
	explicit file(const std::string &text);
	file(const file &) = delete;
	file &operator=(const file &) = delete;
	~file();

	/* Replaces the text. */
	void write(const std::string &text);
	const std::string &name() const { return name_; }

private:
	std::string name_;
};

/* A program that has ended. */
struct ended {
	int status; /* 128 + signal if it was killed */
	std::string output;
	std::string errors;
};

/* The relay program to start; null: the one that was built. */
inline const char *program = nullptr;

/* The relay as a process. A thread reads its stdout and stderr. */
class relay_process
{
public:
	/*
	 * Starts the process without waiting for anything. `descriptors` is its RLIMIT_NOFILE; 0
	 * keeps that of this process. It inherits the descriptors in `handed` in the way in which
	 * systemd passes them.
	 */
	explicit relay_process(const std::vector<std::string> &arguments, unsigned descriptors = 0,
			       const std::vector<int> &handed = {});
	relay_process(const relay_process &) = delete;
	relay_process &operator=(const relay_process &) = delete;
	/* If the test did not wait for the process, the test has failed: kills it and shows its
	 * stderr. */
	~relay_process();

	/* The address that its nth listener printed. */
	std::string address(std::size_t nth = 0);

	/* Makes the relay print its counters, and reads them. */
	std::map<std::string, std::uint64_t> counters();
	std::uint64_t counter(const std::string &name);

	/* A value from the metrics of its admin server. The name is without "sennit_relay_" and
	 * with the labels that it has on the page. Throws if there is no such line. */
	std::uint64_t metric(const std::string &name);
	std::string metrics();       /* the page */
	std::string admin_address(); /* the last address that it printed */

	/* Makes the relay read its configuration again, and waits until it has. Returns false if it
	 * refused the configuration. */
	bool reload();

	/* Waits until stderr contains the text; '"' also matches an escaped quote. */
	void await_error(const std::string &text);
	/* Waits for a line of stderr that contains the text, after the last one that this function
	 * has returned. Returns what follows the text in it, up to the closing quote. */
	std::string next_error(const std::string &text);

	void signal(int signum);
	ended wait();
	/* Sends SIGTERM, then calls wait(). The relay drains sessions that are still open. */
	ended stop();

	/* Stops reading its stdout and stderr. `closed`: closes the pipes as well. */
	void stop_reading(bool closed);

	/* Whether it has ended, or was killed. */
	bool has_ended() const;

	/* The output that it has printed so far. */
	std::string output();
	std::string errors();

	pid_t pid() const { return pid_; }
	/* The processor time that it has used. */
	std::chrono::milliseconds cpu_time() const;
	/* Whether the process uses less CPU time than that in one of ten seconds. The other seconds
	 * may contain remaining work, or time that a virtual machine has lost. */
	bool rests(std::chrono::milliseconds most) const;

private:
	struct stream {
		int fd = -1;
		std::string text;
		bool is_over = false;
		std::thread reader;
	};

	void read_all(stream &from);
	/* Waits until the condition holds, which is checked with the lock held. Throws with that
	 * text if it does not. */
	template <class Condition>
	void await_text(std::unique_lock<std::mutex> &lock, const std::string &otherwise,
			Condition holds);
	void join_readers();
	void close_pipes();
	std::vector<std::string> lines_with(stream &from, std::string_view start);
	std::vector<std::string> events_of(std::string_view name);

	pid_t pid_ = -1;
	std::mutex lock_;
	std::condition_variable arrived_;
	int stop_reading_ = -1; /* an eventfd that stops the reading thread */
	stream output_;
	stream errors_;
	std::size_t taken_ = 0; /* how much of stderr next_error() has taken */
};

/* A relay with a configuration file of its own. */
class configured_relay : private file, public relay_process
{
public:
	explicit configured_relay(const std::string &text)
	    : file(text), relay_process({"--config", name()})
	{
	}
	using relay_process::reload;
	/* The same with another configuration. */
	bool reload(const std::string &text)
	{
		write(text);
		return reload();
	}
};

/* Whether the process has the file open. */
bool has_open(pid_t pid, const std::string &file);

/* Lets so many clients connect, one after the other, and returns the names of the backends that
 * served them. */
std::string served_by(relay_process &relay, int clients);

/* Waits until no session is open, then stops the relay, which must exit with status 0. */
void stop(relay_process &relay);

/* A client of the relay, and the connection to a backend that it has caused. */
struct pair {
	pair(relay_process &relay, listener &door)
	    : client(peer::connect(relay.address())), backend(door.accept())
	{
	}

	peer client;
	peer backend;
};

} // namespace harness

#endif
