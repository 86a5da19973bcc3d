/* SPDX-License-Identifier: MIT */
/*
 * Repeated work for each backend of a pool, such as checking it or looking up its name. Each
 * backend has a task, so that a slow backend does not delay the others.
 *
 * stop() does not wait for what the tasks are doing, so that a reload need not. Call it when the
 * next pool of the group leads; if there is none, nobody does the work for the clients that are
 * left (pool::end_watching()). Keep a watcher until over() returns true, because the destructor
 * waits for its tasks.
 */
#ifndef RELAY_WATCHER_HPP
#define RELAY_WATCHER_HPP

#include "backends/balance.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace relay
{

class watcher
{
public:
	/* The work itself. It runs until `stopped` is true, which it reads after each wait. When
	 * its scope ends, the wait throws. */
	class work
	{
	public:
		work() = default;
		work(const work &) = delete;
		work &operator=(const work &) = delete;
		virtual ~work() = default;

		/* Whether there is anything to do for that backend. */
		virtual bool concerns(const backend &) const { return true; }
		virtual void watch(backend &at, const std::atomic<bool> &stopped) = 0;
		/* Both are called when all of the work has ended, because a task could not be
		 * started or has failed. given_up() brings the pool into a state in which nothing
		 * waits for the work. tell_ended() emits an event, for which there may be no
		 * memory. */
		virtual void given_up(pool &) noexcept {}
		virtual void tell_ended(const pool &of, const char *why) = 0;
	};

	/* Starts the work. Call it in a task. Throws if the first task cannot be started. stack:
	 * the size of each backend's task's stack; 0: the default. */
	watcher(std::shared_ptr<pool> which, std::unique_ptr<work> what, const char *task_name,
		std::size_t stack = 0);
	watcher(const watcher &) = delete;
	watcher &operator=(const watcher &) = delete;
	~watcher();

	void stop() noexcept;

	/* Waits for the tasks until the deadline. Returns whether they have ended. Call it after
	 * stop(). May park. */
	bool over(sn::deadline until);

private:
	void run();
	void fail(const char *why) noexcept;

	const std::shared_ptr<pool> pool_;
	const std::unique_ptr<work> work_;
	const char *const task_name_;
	const std::size_t stack_;
	sn::semaphore end_;
	std::atomic<bool> stopped_{false};
	sn::task<void> running_;
};

} // namespace relay

#endif
