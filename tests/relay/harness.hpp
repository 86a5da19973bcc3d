/* SPDX-License-Identifier: MIT */
/*
 * What the relay's end-to-end tests are made of: the relay as a process, and plain blocking sockets
 * that stand before and behind it. Nothing here uses sennit.
 *
 * Everything that waits gives up after `patience` and throws, which fails the test with a line that
 * says what it waited for; so nothing hangs, and nothing hopes that a fixed sleep was long enough.
 * Sockets may be used from any thread, one at a time.
 *
 * Environment: SENNIT_TEST_SEED repeats a run's random choices, SENNIT_TEST_SCALE is the percentage
 * of the full amounts (bytes, connections) that tests use, 1 to 100; builds that are slow or small
 * (sanitizers, i386) come with a lower one.
 */
#ifndef TESTS_RELAY_HARNESS_HPP
#define TESTS_RELAY_HARNESS_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
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

/* Polls until the condition holds. False when patience ended first. */
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

/* For how long the machine has let this process stand at most, since this was made. */
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

/* The seed of this run; to be shown when a test fails (SCOPED_TRACE). */
std::uint64_t seed();

/* That part of the full amount which this build tests; at least 1. */
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

	/* From that address of the machine, if one is given. */
	static peer connect(const std::string &address, const std::string &from = "");

	void send(std::string_view bytes);
	/* Sends until the other end takes no more for a while; returns how much that was. */
	std::size_t send_until_stuck();

	std::string receive(std::size_t exactly);
	/* Everything up to the end, and how that came. */
	std::pair<std::string, ending> receive_rest();
	/* The end is next: any byte before it throws. */
	ending receive_end();
	/* Waits for a reset without reading, which also one who has read the end can see. */
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

	/* On a free port. With a negative backlog it is only bound: who connects is refused. */
	explicit listener(const std::string &host = "127.0.0.1", int backlog = largest_backlog);
	~listener();

	void listen(int backlog = largest_backlog);
	const std::string &address() const { return address_; }
	peer accept();
	int fd() const { return fd_; }

private:
	int fd_ = -1;
	std::string address_;
};

/* Nobody who connects to it gets an answer. */
class silent_backend
{
public:
	silent_backend();
	const std::string &address() const { return full_.address(); }

private:
	/* When the queue of a listener is full, the system ignores who wants to connect. */
	listener full_{"127.0.0.1", 0};
	std::vector<peer> queue_;
};

/* A file with that text, until it goes. */
class file
{
public:
	explicit file(const std::string &text);
	file(const file &) = delete;
	file &operator=(const file &) = delete;
	~file();

	/* Has another text from now on. */
	void write(const std::string &text);
	const std::string &name() const { return name_; }

private:
	std::string name_;
};

/* A program that has ended. */
struct ended {
	int status; /* 128 + signal when it was killed */
	std::string output;
	std::string errors;
};

/* The relay, with its stdout and stderr being read. */
class relay_process
{
public:
	/*
	 * Starts it, without waiting for anything; with that limit of descriptors, or as many as
	 * this process has. Hands those descriptors down as systemd does.
	 */
	explicit relay_process(const std::vector<std::string> &arguments, unsigned descriptors = 0,
			       const std::vector<int> &handed = {});
	relay_process(const relay_process &) = delete;
	relay_process &operator=(const relay_process &) = delete;
	/* Kills it if it was not waited for, and shows what it said: the test has failed. */
	~relay_process();

	/* The address that its nth listener announced. */
	std::string address(std::size_t nth = 0);

	/* Has it print its counters. */
	std::map<std::string, std::uint64_t> counters();
	std::uint64_t counter(const std::string &name);

	/* Of its admin server's metrics, without "sennit_relay_" and with its labels as they stand
	 * there. Throws when there is no such line. */
	std::uint64_t metric(const std::string &name);
	std::string admin_address(); /* that was announced last */

	/* Has it read its configuration again, and waits until it has; false: it was not taken. */
	bool reload();

	/* Waits until it has said that on stderr. */
	void await_error(const std::string &text);

	void signal(int signum);
	ended wait();
	/* SIGTERM, then wait(). Sessions should be over by then, or it drains. */
	ended stop();

	/* Reads its stdout and stderr no more; closed tells whether the pipes are closed, too. */
	void stop_reading(bool closed);

	/* What it has printed so far. */
	std::string output();
	std::string errors();

	pid_t pid() const { return pid_; }
	/* Processor time that it has used. */
	std::chrono::milliseconds cpu_time() const;
	/* Whether it uses less than that in a second. In one of ten: what it had still to do, or what a
	 * virtual machine has lost, may be in the others. */
	bool rests(std::chrono::milliseconds most) const;

private:
	struct stream {
		int fd = -1;
		std::string text;
		std::thread reader;
	};

	void read_all(stream &from);
	void join_readers();
	void close_pipes();
	std::vector<std::string> lines_with(stream &from, std::string_view start);

	pid_t pid_ = -1;
	std::mutex lock_;
	std::condition_variable arrived_;
	int stop_reading_ = -1; /* an eventfd */
	stream output_;
	stream errors_;
};

} // namespace harness

#endif
