/* SPDX-License-Identifier: MIT */
/*
 * The access log: a line for each connection that has ended. docs/relay-operation.md describes each
 * field.
 *
 * write() never waits: the line goes into a queue of bounded length, from which one task writes.
 * When that is full, because what is written to is too slow or does not take anything, the line is
 * dropped and counted, and the log says so itself as soon as it goes on. Lines are written whole,
 * in the order of the queue.
 *
 * What is not a file (stderr, a pipe to another process) is written to in pieces that it has room
 * for, as its description may be another's too and so is not made non-blocking.
 */
#ifndef RELAY_ACCESS_LOG_HPP
#define RELAY_ACCESS_LOG_HPP

#include "counters.hpp"
#include "termination.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace relay
{

/* What is told of a connection. Empty texts and negative durations are not known, and left out. */
struct access_entry {
	std::chrono::nanoseconds time{}; /* of its end, since 1970 */
	termination cause = termination::client_end;
	std::string_view listener; /* the route's name */
	std::string_view client;   /* whose it is: of the PROXY header when there was one */
	std::string_view peer;     /* the connection's own address when that is another */
	std::string_view backend;  /* the address that was connected */
	std::string_view sni;
	std::string_view error; /* for people: what failed */
	std::chrono::nanoseconds duration{-1};
	std::chrono::nanoseconds connect{-1};
	std::chrono::nanoseconds first_byte{-1};
	std::uint64_t to_backend = 0; /* bytes delivered */
	std::uint64_t to_client = 0;
	std::uint64_t to_backend_splice = 0; /* of those, in the kernel */
	std::uint64_t to_client_splice = 0;
	unsigned tries = 0; /* of backends; told when more than one */
};

enum class log_format : unsigned char { logfmt, json };

/* With its line end. No longer than log_line_most: texts are cut. */
std::string to_log_line(const access_entry &entry, log_format format);
inline constexpr std::size_t log_line_most = 4096; /* PIPE_BUF */

class access_log
{
public:
	/*
	 * target: "stderr", "stdout", "fd:N" (an open descriptor, which stays the caller's), or the
	 * path of a file, which is appended to. On failure explains it in why.
	 */
	static std::unique_ptr<access_log> open(const std::string &target, log_format format,
						std::string &why, std::size_t queue = 4096);
	access_log(const access_log &) = delete;
	access_log &operator=(const access_log &) = delete;
	~access_log();

	/* Any task; does not park. */
	void write(const access_entry &entry) noexcept;

	/* Writes from now on, in a task of its own. Once. */
	void start();

	/* Opens the file anew, for who has renamed it; does nothing for what is none. When that
	 * fails the old one stays in use, and that is reported. Does not wait for it. Any task. */
	void reopen() noexcept;

	/* Writes what is in the queue, for as long as that is quick; ends the task. May park. */
	void close();

	/* Lines that were dropped. */
	std::uint64_t dropped() const noexcept { return dropped_.get(); }

private:
	access_log(std::string path, int fd, bool owned, log_format format, std::size_t queue);
	void run();
	void fill_and_put(std::string &batch);
	std::ptrdiff_t put(std::string_view batch);
	std::size_t write_now(std::string_view piece, int &error) const;
	void open_anew();

	const std::string path_; /* empty: not a file's */
	const log_format format_;
	const bool owned_;
	sn::channel<std::string> queue_;
	counter dropped_;
	/* The task's alone, once it runs. */
	int fd_;
	bool is_file_;
	std::size_t piece_;      /* most bytes of one write(2) */
	std::string held_;       /* taken from the queue, for the next batch */
	std::uint64_t told_ = 0; /* dropped lines that the log has told of */
	sn::deadline give_up_ = sn::no_deadline;
	bool failing_ = false; /* the last batch was lost to an error, which was reported */
	std::atomic<bool> reopen_{false};
	std::atomic<bool> closing_{false};
	sn::task<void> writing_;
};

/*
 * The log that is in effect, if there is one; a reload may exchange it. Any task asks for it, and lets
 * it go when the line is written, without parking in between: so one that was exchanged is soon
 * nobody's, and can be closed with every line in it.
 */
class current_log
{
public:
	/* Whether there is one: what is only for the log need not be found out otherwise. */
	explicit operator bool() const noexcept
	{
		return is_there_.load(std::memory_order_relaxed);
	}

	std::shared_ptr<access_log> get() const noexcept
	{
		if (!*this)
			return nullptr;
		const std::lock_guard lock(lock_);
		return log_;
	}

	/* From now on another one, or none. Closes the one before, when nobody has it any more; in
	 * the one task that exchanges it. May park. */
	void exchange(std::shared_ptr<access_log> next)
	{
		{
			const std::lock_guard lock(lock_);
			log_.swap(next);
			is_there_.store(log_ != nullptr, std::memory_order_relaxed);
		}
		if (!next)
			return;
		while (next.use_count() > 1)
			sn::sleep(std::chrono::milliseconds(1));
		std::atomic_thread_fence(std::memory_order_acquire); /* what they have written */
		next->close();
		const std::lock_guard lock(lock_);
		dropped_before_ += next->dropped();
	}

	/* Lines that were dropped, ever; a log that is being closed is told of when it is. */
	std::uint64_t dropped() const noexcept
	{
		const std::lock_guard lock(lock_);
		return dropped_before_ + (log_ ? log_->dropped() : 0);
	}

private:
	mutable std::mutex lock_;
	std::shared_ptr<access_log> log_;
	std::uint64_t dropped_before_ = 0;
	std::atomic<bool> is_there_{false};
};

} // namespace relay

#endif
