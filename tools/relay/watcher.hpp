/* SPDX-License-Identifier: MIT */
/*
 * Something that is done again and again for each backend of a pool, such as checking or looking it
 * up: a task for each, so that one that takes long does not delay the others.
 *
 * stop() does not wait, as a look-up in the name service cannot be interrupted, and reloading should
 * not take as long. A watcher has to be kept until it is over(): the destructor waits for its tasks.
 */
#ifndef RELAY_WATCHER_HPP
#define RELAY_WATCHER_HPP

#include "balance.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <functional>
#include <memory>

namespace relay
{

class watcher
{
public:
	/* What is done: until it is stopped, which it asks after each wait; the end of its scope is
	 * thrown from there. */
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
		/* Some task could not be had, or has failed: nothing is done any more. */
		virtual void failed(pool &of, const char *why) = 0;
	};

	/* Begins. In a task. Throws when the first task cannot be started. */
	watcher(std::shared_ptr<pool> which, std::unique_ptr<work> what, const char *task_name);
	watcher(const watcher &) = delete;
	watcher &operator=(const watcher &) = delete;
	~watcher();

	void stop() noexcept;

	/* Whether its tasks have ended; waits for that until then. After stop(). May park. */
	bool over(sn::deadline until);

private:
	void run();

	const std::shared_ptr<pool> pool_;
	const std::unique_ptr<work> work_;
	const char *const task_name_;
	sn::semaphore end_;
	std::atomic<bool> stopped_{false};
	sn::task<void> running_;
};

} // namespace relay

#endif
