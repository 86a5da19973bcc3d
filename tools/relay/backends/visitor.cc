/* SPDX-License-Identifier: MIT */
#include "backends/visitor.hpp"

#include "base/sleep.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The first visits come early, so that a backend that is down does not get clients for long. */
constexpr std::chrono::nanoseconds longest_first_round = 1s;

/* How often the task looks whether a visit that takes longer than the interval has ended. */
constexpr std::chrono::nanoseconds late = 5ms;

/* How soon the task tries again when a visit could not be started for lack of memory. */
constexpr std::chrono::nanoseconds retry_short = 100ms;

void tell_late(const char *what, const std::string &of) noexcept
try {
	emit(event_kind::no_memory, what + (" of " + of) + " are late for lack of memory");
} catch (const std::bad_alloc &) {
	/* Nor is there any for the event. */
}

} // namespace

bool visitor::visit::counts() const noexcept
{
	return !sn::cancelled() && !is_stopped() &&
	       !plan_.is_gone.load(std::memory_order_relaxed) && plan_.is_current();
}

/*
 * The visits of a pool are spread out, so that hundreds of them do not coincide. The first visits
 * are spread over half an interval, or over a second if that is shorter. Each endpoint's second
 * visit follows after half an interval to a whole one; from then on each endpoint has its own place
 * in the interval. The places are multiples of the golden ratio, which are spread evenly for any
 * number of endpoints. Urgent first visits are not spread.
 */
std::shared_ptr<visitor::plan> visitor::make_plan(const std::shared_ptr<endpoint> &of)
{
	constexpr std::uint32_t golden = 0x9e3779b9; /* of 2^32 */
	const auto half = interval_ / 2;
	const auto place = [at = made_.fetch_add(1, std::memory_order_relaxed) *
				 golden](std::chrono::nanoseconds in) {
		return std::chrono::duration_cast<std::chrono::nanoseconds>(
			std::chrono::duration<double, std::nano>(in) * (at * 0x1p-32));
	};
	auto made = std::make_shared<plan>(of);
	made->next = sn::now();
	if (!is_urgent(*of))
		made->next += place(std::min(half, longest_first_round));
	made->pause = half + place(half);
	return made;
}

/* Makes a plan for each new endpoint, and drops those of endpoints that are gone. */
void visitor::follow(plans &known, const endpoint_list &now)
{
	plans next;
	next.reserve(now.size());
	for (const auto &each : now) {
		const auto there = std::ranges::find_if(
			known, [&each](const auto &plan) { return plan->is_of(each.at); });
		next.push_back(there == known.end() ? make_plan(each.at) : *there);
	}
	for (const auto &each : known)
		if (std::ranges::find(next, each) == next.end())
			each->is_gone.store(true, std::memory_order_relaxed);
	known.swap(next);
}

/* Starts the visits that are due. Returns when to look again. */
sn::clock::time_point visitor::start_due(backend &at, sn::scope &visits, const plans &known,
					 const std::atomic<bool> &stopped)
{
	const std::size_t stack = stack_of(at.settings);
	const auto now = sn::now();
	auto next = now + interval_;
	for (const auto &each : known) {
		if (each->next <= now && each->is_under_way.load(std::memory_order_acquire)) {
			next = std::min(next, now + std::max(interval_ / 4, late));
			continue;
		}
		if (each->next <= now) {
			each->is_under_way.store(true, std::memory_order_relaxed);
			try {
				visits.go(
					[this, &at, each, &stopped] {
						visit made(*each, stopped);
						go(at.settings, made);
					},
					{.name = task_name_, .stack_size = stack});
			} catch (...) {
				each->is_under_way.store(false, std::memory_order_relaxed);
				throw;
			}
			each->next = now + std::exchange(each->pause, interval_);
		}
		next = std::min(next, each->next);
	}
	return next;
}

/*
 * Runs until the scope is cancelled, which ends each wait with an exception for the scope. If there
 * is no memory for a visit, or for a wait, visits are late, instead of ending: they would not begin
 * again until the next reload, and failures of the backends would go unnoticed until then.
 */
void visitor::watch(backend &at, const std::atomic<bool> &stopped)
{
	sn::scope visits;
	plans known;
	std::optional<std::uint64_t> followed; /* the changes that `known` has */
	while (!stopped.load(std::memory_order_relaxed)) {
		const auto seen = at.endpoints.changes();
		auto next = sn::after(retry_short);
		try {
			/* Each visit wakes this task, and comparing takes quadratic time. */
			if (followed != seen) {
				follow(known, *at.endpoints.now());
				followed = seen;
			}
			next = start_due(at, visits, known, stopped);
		} catch (const std::exception &) {
			if (sn::cancelled())
				throw;
			tell_late(what_, at.settings.address);
		}
		try {
			at.endpoints.await_change(seen, next);
		} catch (const std::exception &) {
			if (sn::cancelled())
				throw;
			sleep_fully_until(sn::after(retry_short));
		}
	}
}

} // namespace relay
