/* SPDX-License-Identifier: MIT */
/*
 * Waits for which there is no memory for a timer.
 *
 * While memory is short, a wait with a deadline fails immediately, and a sleep ends after a
 * millisecond at most. If each of a thousand sessions slept that long and looked again, they would
 * use all the processor time of a machine that is in trouble already. One of the tasks that wait
 * therefore keeps the time for all: it sleeps for `tick`, a millisecond at a time, while the others
 * park without a deadline. Then it wakes them. Each of them tries to get a timer again, and if it
 * gets none, waits here again, where the first one keeps the time. So deadlines are late by a tick
 * at most, and everything is as usual as soon as there is memory. If the wait of the one that keeps
 * the time ends before the tick does, it passes the rest of the tick on to one of the others, so
 * that short waits do not wake all at their own rate. The time in which there was no memory is
 * counted as a spell (spell.hpp), which the relay reports (rounds.hpp).
 *
 * None of this needs memory. Rejected: a task of the relay that keeps the time, because it would
 * have to be woken when it is needed, or always run.
 */
#ifndef RELAY_UNTIMED_HPP
#define RELAY_UNTIMED_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <cstdint>

namespace relay
{

class untimed_wait
{
public:
	static constexpr std::chrono::milliseconds tick{100};

	untimed_wait(const untimed_wait &) = delete;
	untimed_wait &operator=(const untimed_wait &) = delete;

	/* Waits until then, or until what the task waits for has happened; for a tick at most. Call
	 * it in a task, after a wait with a deadline has failed with -ENOMEM. May park. */
	void wait(sn::deadline until) noexcept;

	/* How many spells there were since the process started. */
	static std::uint64_t spells() noexcept;

protected:
	untimed_wait() = default;
	~untimed_wait() = default;

private:
	/* Parks until wake() has been called, what the task waits for has happened, or the task is
	 * cancelled. */
	virtual void park() noexcept = 0;
	/* Wakes the task. Does not park. */
	virtual void wake() noexcept = 0;
	/* Whether what the task waits for has happened. */
	virtual bool is_over() noexcept = 0;

	void keep_time(sn::deadline until) noexcept;
	static untimed_wait &take_first() noexcept;

	/* Guarded by the lock (untimed.cc). */
	untimed_wait *previous_ = nullptr;
	untimed_wait *next_ = nullptr;
	bool is_listed_ = false;
	bool is_to_keep_time_ = false; /* taken from the list to do so */
};

} // namespace relay

#endif
