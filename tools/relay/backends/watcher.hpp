/* SPDX-License-Identifier: MIT */
/*
 * Work that is repeated for each backend of a pool, such as checking it or looking it up. Each
 * backend has a task, so that a slow one does not delay the others.
 *
 * stop() does not wait, so that a reload does not wait for what a task is doing. Keep a watcher
 * until it is over(): the destructor waits for its tasks.
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
	/* The work itself. It runs until `stopped`, which it reads after each wait; when its
	 * scope ends, the wait throws. */
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
		/* A task could not be started, or has failed: all of the work has ended. */
		virtual void failed(pool &of, const char *why) = 0;
	};

	/* Starts the work. In a task. Throws when the first task cannot be started. stack: of each
	 * backend's task; 0: the usual one. */
	watcher(std::shared_ptr<pool> which, std::unique_ptr<work> what, const char *task_name,
		std::size_t stack = 0);
	watcher(const watcher &) = delete;
	watcher &operator=(const watcher &) = delete;
	~watcher();

	void stop() noexcept;

	/* Waits until then for its tasks; whether they have ended. After stop(). May park. */
	bool over(sn::deadline until);

private:
	void run();

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
