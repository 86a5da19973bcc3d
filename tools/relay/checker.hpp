/* SPDX-License-Identifier: MIT */
/*
 * Asks the backends of one pool whether they are well, each from a task of its own, so that a silent
 * one does not delay the others. A question is a connect; with something to expect, also what is
 * sent, and an answer that begins with it. Connect and answer together may take the timeout.
 *
 * The first question is asked at once, the next one an interval after the last one began, or as soon
 * as that is over if it took longer. A shortage of the relay's own (descriptors, memory) is no
 * answer. What an answer means for the backend is the pool's (balance.hpp).
 *
 * stop() does not wait, as a look-up in the name service cannot be interrupted, and reloading should
 * not take as long; an answer that comes after it is not taken. The checker has to be kept until it
 * is over(): the destructor waits for its tasks.
 */
#ifndef RELAY_CHECKER_HPP
#define RELAY_CHECKER_HPP

#include "balance.hpp"
#include "counters.hpp"

#include <sennit/sennit.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <system_error>

namespace relay
{

class checker
{
public:
	/* Begins; the pool has checks. In a task. Throws when the first task cannot be started. */
	checker(std::shared_ptr<pool> which, counters &counts);
	checker(const checker &) = delete;
	checker &operator=(const checker &) = delete;
	~checker();

	void stop() noexcept;

	/* Whether its tasks have ended; waits for that until then. After stop(). May park. */
	bool over(sn::deadline until);

private:
	void run();
	void watch(backend &at);
	std::error_code ask(const backend &at, sn::deadline until) const;
	void take(backend &at, const std::error_code &answer);

	const std::shared_ptr<pool> pool_;
	counters &counts_;
	sn::semaphore end_;
	std::atomic<bool> stopped_{false};
	sn::task<void> running_;
};

} // namespace relay

#endif
