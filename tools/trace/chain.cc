/* SPDX-License-Identifier: MIT */
#include "chain.hpp"

#include "units.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace tracing
{
namespace
{

/* A chain is followed for at most so many stays, and all chains that are compared together for
 * at most so many, because the trace may be anything, and a million requests may each have a
 * long chain. */
constexpr std::size_t longest_chain = 1000;
constexpr std::size_t most_followed = 20000000;

/* A park without a waker that is shorter than this: the wait was already over when the task had
 * been switched out. */
constexpr std::int64_t over_at_once = 10000;

class walker
{
public:
	walker(const trace &in, std::string_view since) : in_(in), since_(since) {}

	chain walk(std::uint32_t task, std::int64_t time)
	{
		made_.task = task;
		made_.end = time_ = time;
		if (jump(task, time))
			made_.end = time_ = std::min(time, stays()[index_].end);
		while (!ended_) {
			if (++followed_ > longest_chain)
				finish(origin::longest);
			else if (!leave_locks())
				take_stay();
		}
		made_.begin = time_;
		return std::move(made_);
	}
	std::size_t followed() const { return followed_; }

private:
	/* A park for a lock, during which another task is followed. */
	struct wanted {
		std::uint32_t task = none;
		std::size_t index = 0;
		std::int64_t begin = 0;
	};

	std::span<const stay> stays() const { return in_.of(task_); }
	/* Nothing before this time belongs to the part of the chain that is followed. */
	std::int64_t floor() const { return locks_.empty() ? in_.begin : locks_.back().begin; }

	/* If nothing more is known of the task that held a lock, the chain shows only the park. */
	void finish(origin from)
	{
		if (!locks_.empty() && from != origin::longest) {
			time_ = floor();
			return;
		}
		made_.from = from;
		ended_ = true;
	}

	/* Moves to the turn in which a task did something at that time. Times are not exact, so
	 * it may have been in the turn before. */
	bool jump(std::uint32_t task, std::int64_t time)
	{
		/* The waker may have acted before the limits of the trace. */
		time = std::max(std::min(time, time_), in_.begin);
		auto at = stay_before(in_, task, time + 1);
		task_ = task;
		while (at && *at > 0 && stays()[*at].is != state::running)
			--*at;
		if (!at || stays()[*at].is != state::running) {
			finish(origin::records);
			return false;
		}
		index_ = *at;
		time_ = time;
		return true;
	}

	/* Leaves the tasks that held locks: what such a task did before another wanted the lock
	 * does not matter. */
	bool leave_locks()
	{
		bool left = false;
		while (!locks_.empty() && time_ <= locks_.back().begin) {
			const auto last = locks_.back();
			locks_.pop_back();
			task_ = last.task;
			time_ = last.begin;
			if (last.index == 0)
				return finish(origin::records), true;
			index_ = last.index - 1;
			left = true;
		}
		return left;
	}

	void add_step(const stay &one, std::uint32_t by = none)
	{
		const auto end = std::max(std::min(one.end, time_), floor());
		time_ = std::min(end, std::max(one.begin, floor()));
		made_.steps.push_back({time_, end, &one, locks_.size(), by});
	}

	void take_stay()
	{
		const auto &one = stays()[index_];
		if (one.is == state::running && find_since(one))
			return;
		add_step(one);
		if (time_ > floor() || locks_.empty())
			go_before();
	}

	/* Whether the event that the chain is to begin with is in this turn. */
	bool find_since(const stay &one)
	{
		if (since_.empty() || !locks_.empty())
			return false;
		const auto end = std::min(one.end, time_);
		auto at = std::ranges::upper_bound(in_.marks, end, {}, &mark::time);
		while (at != in_.marks.begin() && (--at)->time >= one.begin) {
			/* The event at the end of this chain may have the same name, and does
			 * not count. */
			if (at->task != task_ || in_.names[at->name] != since_ ||
			    (at->time == made_.end && made_.steps.empty()))
				continue;
			add_step(one);
			made_.steps.back().begin = time_ = at->time;
			finish(origin::event);
			return true;
		}
		return false;
	}

	/* Moves from a stay to the one before it. */
	void go_before()
	{
		const auto &one = stays()[index_];
		if (index_ == 0)
			return go_to_spawner(one);
		if (stays()[index_ - 1].is == state::parked)
			return go_to_waker(one, stays()[index_ - 1]);
		index_--;
	}

	void go_to_spawner(const stay &one)
	{
		const bool is_known = one.wake != none;
		const auto by = is_known ? in_.wakes[one.wake].by : one.by;
		if (by != none && by != task_)
			jump(by, is_known ? in_.wakes[one.wake].time : one.begin);
		else
			finish(is_known && in_.wakes[one.wake].is_spawn ? origin::spawn
									: origin::records);
	}

	void go_to_waker(const stay &one, const stay &parked)
	{
		const bool is_known = one.wake != none;
		const auto by = is_known ? in_.wakes[one.wake].by : one.by;
		const bool is_lock = kind_of(in_.reason(parked)) == park_kind::lock;

		index_--;
		if (by == none || by == task_)
			return go_through(one, parked);
		if (is_lock) {
			const auto begin = std::max(parked.begin, floor());
			const auto time = std::min(parked.end, time_);
			add_step(parked, by);
			time_ = time;
			locks_.push_back({task_, index_, begin});
		}
		jump(by, is_known ? in_.wakes[one.wake].time : time_);
	}

	/* Passes a park that no task has ended; it is at index_. */
	void go_through(const stay &one, const stay &parked)
	{
		const bool over = one.wake == none && parked.length() <= over_at_once;
		if (!over && locks_.empty() && since_.empty()) {
			made_.parked = &parked;
			return finish(origin_of(one));
		}
		add_step(parked);
		if (time_ > floor() || locks_.empty()) {
			if (index_ == 0)
				finish(origin::records);
			else
				index_--;
		}
	}

	origin origin_of(const stay &one) const
	{
		if (one.wake == none)
			return origin::unknown;
		const auto &from = in_.wakes[one.wake];
		if (from.cause == "timers")
			return origin::timer;
		if (from.cause == "network")
			return origin::network;
		return from.on != none && in_.processors[from.on].is_real ? origin::scheduler
									  : origin::thread;
	}

	const trace &in_;
	std::string_view since_;
	chain made_;
	std::vector<wanted> locks_;
	std::uint32_t task_ = none;
	std::size_t index_ = 0; /* of the present stay of the task */
	std::int64_t time_ = 0; /* the chain is complete from here on */
	std::size_t followed_ = 0;
	bool ended_ = false;
};

chosen choose_event(const trace &in, const std::vector<const mark *> &marks, std::string_view since)
{
	std::vector<std::int64_t> lengths;
	std::size_t followed = 0;
	chosen found;

	for (const auto *each : marks) {
		walker one(in, since);
		auto made = one.walk(each->task, each->time);
		made.event = each;
		lengths.push_back(made.length());
		if (!found.is.event || made.length() > found.is.length())
			found.is = std::move(made);
		if ((followed += one.followed()) > most_followed)
			break;
	}
	const auto at = [&](std::size_t rank) {
		const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(rank);
		std::ranges::nth_element(lengths, place);
		return *place;
	};
	found.among = lengths.size();
	found.median = at((lengths.size() - 1) / 2);
	found.p99 = at(p99_rank(lengths.size()));
	return found;
}

/* The moment at which the chain ends: the time, or the beginning of the task's next turn if the
 * task does not run at that time. */
std::int64_t moment_of(const trace &in, std::uint32_t task, std::optional<std::int64_t> time)
{
	const auto stays = in.of(task);
	const auto at = time ? stay_before(in, task, *time + 1) : std::nullopt;
	std::size_t i = at.value_or(0);

	if (!time)
		return in.end;
	if (!at || stays[i].is == state::running)
		return *time;
	while (i + 1 < stays.size() && stays[i].is != state::running)
		i++;
	return stays[i].is == state::running ? stays[i].begin : *time;
}

} // namespace

chain follow(const trace &in, std::uint32_t task, std::int64_t time, std::string_view since)
{
	return walker(in, since).walk(task, time);
}

std::vector<part> add_up(const trace &in, const chain &of)
{
	std::vector<part> parts;

	for (const auto &each : of.steps) {
		const auto reason =
			each.is->is == state::parked ? in.reason(*each.is) : std::string_view();
		if (each.depth > 0)
			continue;
		auto at = std::ranges::find_if(parts, [&](const part &one) {
			return one.is == each.is->is && one.reason == reason;
		});
		if (at == parts.end())
			at = parts.insert(at, {each.is->is, reason, 0, each.by, true});
		at->time += each.end - each.begin;
		at->is_one = at->is_one && at->by == each.by;
	}
	std::ranges::stable_sort(parts,
				 [](const part &a, const part &b) { return a.time > b.time; });
	return parts;
}

chosen choose(const trace &in, const std::string &what, std::string_view since)
{
	std::string name = what;
	std::optional<std::int64_t> time;
	std::vector<const mark *> marks;

	if (const auto at = what.rfind('@'); at != std::string::npos) {
		time = parse_time(std::string_view(what).substr(at + 1));
		if (time)
			name.resize(at);
	}
	for (const auto &each : in.marks)
		if (each.task != none && in.names[each.name] == name)
			marks.push_back(&each);
	if (time && !marks.empty())
		marks = {*std::ranges::min_element(marks, {}, [&](const mark *each) {
			return each->time < *time ? *time - each->time : each->time - *time;
		})};
	if (!marks.empty())
		return choose_event(in, marks, since);

	const auto tasks = find_tasks(in, name);
	if (tasks.empty())
		throw not_found{"there is no event and no task \"" + name + "\""};
	if (tasks.size() > 1)
		throw not_found{"\"" + name + "\" is the name of " + count_text(tasks.size()) +
				" tasks; expected one with its number, such as \"" +
				std::string(in.tasks[tasks.front()].name) + "\""};
	chosen found;
	found.is = follow(in, tasks.front(), moment_of(in, tasks.front(), time), since);
	if (found.is.steps.empty())
		throw not_found{"no turn of \"" + name + "\" is on record before that time"};
	return found;
}

} // namespace tracing
