/* SPDX-License-Identifier: MIT */
#include "backends/watcher.hpp"

#include "base/sleep.hpp"

#include <exception>
#include <utility>

namespace relay
{

watcher::watcher(std::shared_ptr<pool> which, std::unique_ptr<work> what, const char *task_name,
		 std::size_t stack)
    : pool_(std::move(which)), work_(std::move(what)), task_name_(task_name), stack_(stack)
{
	running_ = sn::spawn([this] { run(); }, {.name = task_name_});
}

watcher::~watcher()
{
	stop();
}

void watcher::stop() noexcept
{
	if (stopped_.exchange(true, std::memory_order_relaxed))
		return;
	end_.release();
	if (pool_->leads())
		pool_->end_watching();
}

bool watcher::over(sn::deadline until)
{
	return ends_by(running_, until);
}

void watcher::run()
try {
	sn::scope tasks;
	for (backend &each : pool_->backends())
		if (work_->concerns(each))
			tasks.go([this, &each] { work_->watch(each, stopped_); },
				 {.name = task_name_, .stack_size = stack_});
	end_.acquire();
	/* The end of the scope cancels the tasks and waits for them. */
} catch (const std::exception &error) {
	fail(error.what());
}

void watcher::fail(const char *why) noexcept
try {
	work_->given_up(*pool_);
	work_->tell_ended(*pool_, why);
} catch (const std::exception &) {
	/* There is no memory for the event. */
}

} // namespace relay
