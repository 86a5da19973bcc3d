/* SPDX-License-Identifier: MIT */
#include "history.hpp"

#include "find.hpp"
#include "json_parts.hpp"
#include "table.hpp"
#include "units.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_set>

namespace tracing
{
namespace
{

/* One of the three pointers is set. */
struct row {
	std::int64_t time = 0;
	const stay *is = nullptr;
	const wake *wakes = nullptr;
	const mark *event = nullptr;

	std::uint32_t task() const { return is ? is->task : wakes ? wakes->by : event->task; }
};

std::vector<row> collect(const trace &of, const std::vector<std::uint32_t> &tasks)
{
	const std::unordered_set<std::uint32_t> wanted(tasks.begin(), tasks.end());
	std::vector<row> rows;

	for (const auto task : tasks)
		for (const auto &each : of.of(task))
			rows.push_back({each.begin, &each});
	for (const auto &each : of.wakes)
		if (wanted.contains(each.by) && each.time >= of.begin && each.time <= of.end)
			rows.push_back({each.time, nullptr, &each});
	for (const auto &each : of.marks)
		if (wanted.contains(each.task))
			rows.push_back({each.time, nullptr, nullptr, &each});
	std::ranges::stable_sort(rows, {}, &row::time);
	return rows;
}

std::string text_of(const trace &of, const stay &one)
{
	std::string text;

	switch (one.is) {
	case state::running:
		return one.processor == none ? "ran"
					     : "ran on " + processor_text(of, one.processor);
	case state::waiting:
		text = "waited for a processor";
		if (const auto by = waker_of(of, one); !by.empty())
			text += ", woken by " + by;
		return text;
	case state::parked:
		return "parked for " + clean(of.reason(one));
	case state::away:
		return "in foreign code without a processor";
	}
	return text;
}

std::string text_of(const trace &of, const row &one)
{
	if (one.is)
		return text_of(of, *one.is);
	if (one.wakes)
		return std::string("  ") + (one.wakes->is_spawn ? "spawned " : "woke ") +
		       (one.wakes->task == none ? "a task" : name_of(of, one.wakes->task));
	return "  event \"" + clean(of.names[one.event->name]) +
	       "\" = " + std::to_string(one.event->value);
}

/* Totals over all stays of the tasks. */
struct totals {
	std::array<std::int64_t, 4> time{};
	std::array<std::size_t, 4> times{};

	void add_stay(const stay &one)
	{
		const auto at = static_cast<std::size_t>(one.is);
		time[at] = add(time[at], one.length());
		times[at]++;
	}
};

std::string totals_text(const totals &all)
{
	constexpr std::array<const char *, 4> names = {"ran", "waited for a processor", "parked",
						       "without a processor"};
	std::string text;

	for (std::size_t i = 0; i < names.size(); i++)
		if (all.times[i] > 0)
			text += (text.empty() ? "" : ", ") + std::string(names[i]) + " " +
				duration_text(all.time[i]) + " (" + count_text(all.times[i]) + ")";
	return text.empty() ? "is mentioned, but did nothing" : text;
}

} // namespace

std::string history_text(const trace &of, const std::vector<std::uint32_t> &tasks)
{
	const bool several = tasks.size() > 1;
	std::vector<std::string> headings = {">at", ">took", "what"};
	totals all;

	if (several)
		headings.insert(headings.begin() + 2, "task");
	table rows(headings);
	for (const auto &each : collect(of, tasks)) {
		std::vector<std::string> cells = {time_text(each.time),
						  each.is ? duration_text(each.is->length()) : "",
						  text_of(of, each)};
		if (several)
			cells.insert(cells.begin() + 2, cut(name_of(of, each.task()), 32));
		if (each.is)
			all.add_stay(*each.is);
		rows.add(std::move(cells));
	}
	return cut(several ? count_text(tasks.size()) + " tasks" : name_of(of, tasks.front()),
		   line_width) +
	       "\n" + cut(totals_text(all), line_width) + "\n\n" + rows.text();
}

std::string history_json(const trace &of, const std::vector<std::uint32_t> &tasks)
{
	constexpr std::array<const char *, 4> states = {"running", "waiting", "parked", "away"};
	json to;

	to.open('{');
	put_trace(to, of);
	to.open("tasks", '[');
	for (const auto task : tasks) {
		totals all;
		for (const auto &each : of.of(task))
			all.add_stay(each);
		to.open('{')
			.add("id", of.tasks[task].id)
			.add("name", of.tasks[task].name)
			.add("group", of.tasks[task].group)
			.add("turns", all.times[0])
			.add("running_ns", all.time[0])
			.add("waiting_ns", all.time[1])
			.add("parked_ns", all.time[2])
			.add("away_ns", all.time[3])
			.close('}');
	}
	to.close(']').open("history", '[');
	for (const auto &each : collect(of, tasks)) {
		to.open('{').add("at_ns", each.time).add("id", of.tasks[each.task()].id);
		if (each.is) {
			to.add("what", states[static_cast<std::size_t>(each.is->is)])
				.add("duration_ns", each.is->length());
			if (each.is->processor != none)
				to.add("processor", of.processors[each.is->processor].number);
			if (each.is->is == state::parked)
				to.add("kind", to_text(kind_of(of.reason(*each.is))))
					.add("reason", of.reason(*each.is));
			if (each.is->is == state::waiting)
				put_waker(to, of, *each.is);
		} else if (each.wakes) {
			to.add("what", each.wakes->is_spawn ? "spawns" : "wakes");
			put_task(to, "task", of, each.wakes->task);
		} else {
			to.add("what", "event")
				.add("name", of.names[each.event->name])
				.add("value", each.event->value);
		}
		to.close('}');
	}
	to.close(']').close('}');
	return to.text();
}

} // namespace tracing
