// SPDX-License-Identifier: MIT
//
// The watchdog: a plain thread that looks every 20 ms at what is due in the runtime, and judges what is late
// by bounds.hpp and by what plain threads got meanwhile (plain.hpp). It calls nothing of sennit's.
#ifndef SENNIT_TESTS_HOSTILE_WATCH_HPP
#define SENNIT_TESTS_HOSTILE_WATCH_HPP

#include <atomic>
#include <cstdint>

#include "hostile/bounds.hpp"

namespace hostile
{

/*
 * Something that is to happen, again and again. expect() says when, met() that it has; in turns, from
 * any thread or task. Registered as long as it lives.
 */
class Slot
{
public:
	explicit Slot(Kind kind);
	~Slot();
	Slot(const Slot &) = delete;
	Slot &operator=(const Slot &) = delete;

	void expect(int64_t due) { due_->store(due); }
	bool expected() const { return due_->load() != 0; }
	// Returns how late it is.
	int64_t met();
	// It will not happen.
	void drop() { due_->store(0); }

private:
	const Kind kind_;
	size_t place_;              // in a table that stays
	std::atomic<int64_t> *due_; // there
};

// Starts the thread. Once, before the runtime.
void watch_start();

// How much work may be ahead of a task from now on: ns of one processor's time. What was said before stays
// in force for as long as it may take.
void watch_queue(int64_t ns);
// More of it, until a time.
void watch_queue_more(int64_t ns, int64_t until);

// Limits of memory are in force from now on, or no more.
void watch_memory_limited(bool limited);

// Something is late, perhaps beyond its bound: a phase goes on for some time, to see whose doing it is.
bool watch_late();

// The time since then as the runtime had it: less what the system kept threads from running.
int64_t watch_counted(int64_t since);

} // namespace hostile

#endif
