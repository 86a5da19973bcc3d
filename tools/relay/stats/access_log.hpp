/* SPDX-License-Identifier: MIT */
/*
 * The access log: a line for each connection that has ended (log_line.hpp).
 *
 * write() never waits: the line goes into a bounded queue, from which one task writes. If the queue
 * is full, because the target is too slow or accepts nothing, the line is dropped and counted, and
 * the log reports the number of dropped lines as soon as it can write again. Lines are written
 * whole, in the order of the queue.
 *
 * To a target that is not a file (stderr, a pipe to another process) the log writes only as much as
 * there is room for: the file description may be shared with other processes, so it cannot be made
 * non-blocking. A syslog daemon gets each line as a datagram.
 */
#ifndef RELAY_ACCESS_LOG_HPP
#define RELAY_ACCESS_LOG_HPP

#include "base/sleep.hpp"
#include "stats/counters.hpp"
#include "stats/log_line.hpp"
#include "stats/syslog_socket.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <sched.h>
#include <string>
#include <string_view>
#include <utility>

namespace relay
{

/*
 * Returns why the log's file certainly cannot be opened, such as a missing folder. Opens and makes
 * nothing, and does not check other targets or an empty one. May block on the file system.
 */
std::optional<std::string> log_target_problem(const std::string &target);

class access_log
{
public:
	/*
	 * target: "stderr", "stdout", "fd:N" (an open descriptor, which remains the caller's),
	 * "syslog" or "syslog:/PATH" (a Unix socket), or the path of a file, which is appended to.
	 * On failure, why has the reason. May block on the file system.
	 */
	static std::unique_ptr<access_log> open(const std::string &target, const log_format &format,
						std::string &why, std::size_t queue = 4096);
	access_log(const access_log &) = delete;
	access_log &operator=(const access_log &) = delete;
	~access_log();

	/* Queues the line of a connection. Any task may call; does not park. */
	void write(const access_entry &entry) noexcept;

	/* Starts writing, in a task of its own. Call it once. */
	void start();

	/*
	 * Reopens the file, after it has been renamed; does nothing if the target is not a file. If
	 * that fails, or takes too long (in_time.hpp), the old file stays in use, and the failure
	 * is reported. Does not wait. Any task.
	 */
	void reopen() noexcept;

	/* Writes the lines in the queue, and ends the task. After a second, lines that the target
	 * has no room for are dropped, and counted. Returns false if the task hangs on its file:
	 * then this object must not be destroyed. May park. */
	bool close();

	/* Lines that were dropped. */
	std::uint64_t dropped() const noexcept { return dropped_.get(); }

private:
	access_log(std::string target, int fd, bool owned, const log_format &format,
		   std::size_t queue, std::unique_ptr<syslog_socket> socket = nullptr);
	void run();
	void fill_and_put(std::string &batch);
	std::ptrdiff_t put(std::string_view batch);
	bool may_wait() const noexcept;
	std::size_t write_now(std::string_view piece, int &error);
	std::size_t send_now(std::string_view piece, int &error);
	void open_anew();

	const std::string target_;
	const std::string path_; /* empty: the target is not a file that is opened here */
	const log_format format_;
	const bool owned_;
	const std::unique_ptr<syslog_socket> socket_; /* null: the target is not syslog */
	sn::channel<std::string> queue_;
	counter dropped_;
	/* Used only by the task, once it runs. */
	int fd_;
	bool is_file_;
	std::size_t piece_;          /* most bytes of one write(2) */
	std::string held_;           /* a line taken from the queue for the next batch */
	std::uint64_t reported_ = 0; /* dropped lines that the log has reported */
	sn::deadline give_up_ = sn::no_deadline;
	bool failing_ = false; /* the last batch failed with an error, which was reported */
	std::atomic<bool> reopen_{false};
	std::atomic<bool> closing_{false};
	sn::task<void> writing_;
	friend class current_log;
	std::shared_ptr<access_log> also_hanging_; /* current_log's list */
};

/*
 * The current log, if there is one; a reload may replace it. A task gets the log, writes a line and
 * releases the log without parking in between. A replaced log therefore soon has no other owner,
 * and can be closed without losing a line.
 */
class current_log
{
public:
	/* Whether there is a log. If not, callers can skip work that is only for the log. */
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

	/*
	 * Replaces the log by another one, or by none. Closes the previous log once no other task
	 * holds it. Returns false if a previous log hangs on its file, or if the calling task was
	 * cancelled while it waited for the log's end: then that is never destroyed. Needs no
	 * memory. Only one task may call it. May park.
	 */
	bool exchange(std::shared_ptr<access_log> next) noexcept
	{
		{
			const std::lock_guard lock(lock_);
			log_.swap(next);
			is_there_.store(log_ != nullptr, std::memory_order_relaxed);
		}
		if (!next)
			return true;
		while (next.use_count() > 1) {
			sleep_fully(std::chrono::milliseconds(1));
			/* In a cancelled task the sleep ends immediately, and the others, which
			 * release the log soon, need a processor. */
			static_cast<void>(sn_yield());
			sched_yield();
		}
		std::atomic_thread_fence(std::memory_order_acquire); /* after others' writes */
		const bool is_closed = close(*next);
		const std::lock_guard lock(lock_);
		dropped_before_ += next->dropped();
		if (!is_closed) {
			next->also_hanging_ = std::move(hanging_);
			hanging_ = std::move(next);
		}
		return !hanging_;
	}

	/* All lines that were dropped by any log. The lines of a log that is being closed count
	 * once it is closed. */
	std::uint64_t dropped() const noexcept
	{
		const std::lock_guard lock(lock_);
		return dropped_before_ + (log_ ? log_->dropped() : 0);
	}

private:
	static bool close(access_log &which) noexcept
	try {
		return which.close();
	} catch (const std::exception &) {
		return false;
	}

	mutable std::mutex lock_; /* guards the next three, and writes of is_there_ */
	std::shared_ptr<access_log> log_;
	std::uint64_t dropped_before_ = 0;
	/* The last of the logs whose file hangs. Their tasks continue when the file answers. */
	std::shared_ptr<access_log> hanging_;
	std::atomic<bool> is_there_{false};
};

} // namespace relay

#endif
