/* SPDX-License-Identifier: MIT */
#include "find.hpp"

#include "units.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_map>

namespace tracing
{

park_kind kind_of(std::string_view reason)
{
	struct known {
		std::string_view reason;
		park_kind kind;
	};
	/* The reasons that src/ passes to sn_task_waits() and sn_wait_park(). */
	static constexpr std::array<known, 24> all = {{
		{"a mutex", park_kind::lock},
		{"a read-write lock", park_kind::lock},
		{"a semaphore", park_kind::lock},
		{"a once", park_kind::lock},
		{"another task's write", park_kind::lock},
		{"its turn to receive", park_kind::lock},
		{"its turn to send", park_kind::lock},
		{"a channel", park_kind::channel},
		{"one of several channels", park_kind::channel},
		{"a descriptor to be readable", park_kind::io},
		{"a descriptor to be readable, to begin", park_kind::io},
		{"a descriptor to be writable", park_kind::io},
		{"a descriptor of the program's", park_kind::io},
		{"a name to be resolved", park_kind::io},
		{"a signal", park_kind::io},
		{"a time", park_kind::time},
		{"a ticker", park_kind::time},
		{"a task's end", park_kind::tasks},
		{"the tasks of a scope", park_kind::tasks},
		{"a wait group", park_kind::tasks},
		{"a barrier", park_kind::tasks},
		{"a condition", park_kind::tasks},
		{"one of several events", park_kind::other},
		{"an answer to a scan", park_kind::other},
	}};

	for (const auto &each : all)
		if (each.reason == reason)
			return each.kind;
	return park_kind::other;
}

const char *to_text(park_kind kind)
{
	static constexpr std::array<const char *, 6> names = {"lock", "channel", "I/O",
							      "time", "tasks",   "other"};
	return names[static_cast<std::size_t>(kind)];
}

std::vector<std::uint32_t> find_tasks(const trace &in, std::string_view name)
{
	const auto collect = [&](auto is_it) {
		std::vector<std::uint32_t> found;
		for (std::size_t i = 0; i < in.tasks.size(); i++)
			if (is_it(in.tasks[i]))
				found.push_back(static_cast<std::uint32_t>(i));
		return found;
	};

	auto found = collect([&](const task &each) { return std::to_string(each.id) == name; });
	if (found.empty())
		found = collect([&](const task &each) { return each.name == name; });
	if (found.empty())
		found = collect([&](const task &each) { return each.group == name; });
	return found;
}

std::optional<std::size_t> stay_before(const trace &in, std::uint32_t task, std::int64_t time)
{
	const auto stays = in.of(task);
	const auto after = std::ranges::lower_bound(stays, time, {}, &stay::begin);

	if (after == stays.begin())
		return std::nullopt;
	return static_cast<std::size_t>(after - stays.begin()) - 1;
}

std::vector<share> ran_meanwhile(const trace &in, std::uint32_t processor, std::int64_t from,
				 std::int64_t until)
{
	std::unordered_map<std::uint32_t, std::int64_t> times;
	std::vector<share> found;

	if (processor >= in.processors.size())
		return found;
	const auto &turns = in.processors[processor].turns;
	auto at = std::ranges::lower_bound(turns, from, {}, &turn::end);
	for (; at != turns.end() && at->begin < until; ++at) {
		const auto time = std::min(at->end, until) - std::max(at->begin, from);
		if (at->task != none && time > 0)
			times[at->task] += time;
	}
	for (const auto &[task, time] : times)
		found.push_back({task, time});
	std::ranges::sort(found, [](const share &a, const share &b) {
		return a.time != b.time ? a.time > b.time : a.task < b.task;
	});
	return found;
}

std::int64_t nobody_ran(const stay &waited, const std::vector<share> &meanwhile)
{
	std::int64_t rest = waited.length();

	for (const auto &each : meanwhile)
		rest -= each.time;
	return waited.processor == none || rest < 0 ? 0 : rest;
}

std::string to_text(const trace &in, const stay &waited, const std::vector<share> &meanwhile,
		    std::size_t most)
{
	const auto nobody = nobody_ran(waited, meanwhile);
	std::string text;

	for (std::size_t i = 0; i < meanwhile.size() && i < most; i++)
		text += (i > 0 ? ", " : "") + cut(name_of(in, meanwhile[i].task), 20) + " " +
			duration_text(meanwhile[i].time);
	if (meanwhile.size() > most)
		text += ", " + count_text(meanwhile.size() - most) + " more";
	/* A short gap is left out, because there is always one between two turns. */
	if (nobody > waited.length() / 10)
		text += (text.empty() ? "nobody " : ", nobody ") + duration_text(nobody);
	return text;
}

std::string processor_text(const trace &in, std::uint32_t processor)
{
	return "processor " + std::to_string(in.processors[processor].number);
}

std::string name_of(const trace &in, std::uint32_t task)
{
	return task == none ? "" : clean(in.tasks[task].name);
}

std::string root_text(const trace &in, const wake &one)
{
	if (one.cause == "timers")
		return "a timer";
	if (one.cause == "network")
		return "the network";
	if (one.on != none && in.processors[one.on].is_real)
		return "the scheduler";
	return "another thread";
}

std::string waker_of(const trace &in, const stay &one)
{
	if (one.wake != none && in.wakes[one.wake].by == none)
		return root_text(in, in.wakes[one.wake]);
	return name_of(in, one.wake != none ? in.wakes[one.wake].by : one.by);
}

std::size_t p99_rank(std::size_t n)
{
	return n - 1 - n / 100;
}

std::int64_t add(std::int64_t a, std::int64_t b)
{
	return a > std::numeric_limits<std::int64_t>::max() - b
		       ? std::numeric_limits<std::int64_t>::max()
		       : a + b;
}

} // namespace tracing
