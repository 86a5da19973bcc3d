/* SPDX-License-Identifier: MIT */
#include "summary.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tracing
{
namespace
{

bool is_longer(const stay *a, const stay *b)
{
	return a->length() != b->length() ? a->length() > b->length() : a->begin < b->begin;
}

/* The longest stays of a kind. */
std::vector<const stay *> longest(const trace &of, state kind, std::size_t top)
{
	std::vector<const stay *> found;

	/* Keeps the list short, so that it never has many more rows than are asked for. */
	const auto shrink = [&] {
		if (found.size() <= top)
			return;
		std::ranges::nth_element(found, found.begin() + static_cast<std::ptrdiff_t>(top),
					 is_longer);
		found.resize(top);
	};
	for (const auto &each : of.stays) {
		if (each.is != kind || each.length() == 0)
			continue;
		found.push_back(&each);
		if (found.size() >= 2 * top + 64)
			shrink();
	}
	shrink();
	std::ranges::sort(found, is_longer);
	return found;
}

lengths measure(const trace &of, state kind)
{
	std::vector<std::int64_t> all;
	lengths found;

	for (const auto &each : of.stays) {
		if (each.is != kind)
			continue;
		all.push_back(each.length());
		found.total = add(found.total, each.length());
		found.longest = std::max(found.longest, each.length());
	}
	found.times = all.size();
	const auto at = [&](std::size_t rank) {
		const auto place = all.begin() + static_cast<std::ptrdiff_t>(rank);
		std::ranges::nth_element(all, place);
		return *place;
	};
	if (!all.empty()) {
		found.median = at((all.size() - 1) / 2);
		found.p99 = at(p99_rank(all.size()));
	}
	return found;
}

/* The stays of a kind, by group and reason. */
std::vector<stay_row> grouped(const trace &of, state kind)
{
	/* The last task of each row, because a task's stays come one after another. */
	std::map<std::pair<std::string_view, std::string_view>, std::pair<stay_row, std::uint32_t>>
		rows;
	std::vector<stay_row> found;

	for (const auto &each : of.stays) {
		if (each.is != kind)
			continue;
		const auto group = of.tasks[each.task].group;
		const auto reason = kind == state::parked ? of.reason(each) : std::string_view();
		auto [at, is_new] = rows.try_emplace({group, reason}, stay_row{}, none);
		auto &[row, last] = at->second;
		row.group = group;
		row.reason = reason;
		row.tasks += last != each.task;
		last = each.task;
		row.times++;
		row.total = add(row.total, each.length());
		if (!row.longest || is_longer(&each, row.longest))
			row.longest = &each;
	}
	for (const auto &[key, row] : rows)
		found.push_back(row.first);
	return found;
}

template <class T>
void keep(std::vector<T> &rows, std::size_t top)
{
	if (rows.size() > top)
		rows.resize(top);
}

void sort_by_total(std::vector<stay_row> &rows)
{
	std::ranges::stable_sort(
		rows, [](const stay_row &a, const stay_row &b) { return a.total > b.total; });
}

processor_row sum_up(const trace &of, const processor &one)
{
	processor_row row;

	row.name = one.name;
	row.recorded = std::max<std::int64_t>(0, of.end - one.begin);
	for (const auto &each : one.turns) {
		auto &time = each.task == none ? row.idle : row.running;
		time = add(time, each.end - each.begin);
		row.turns += each.task != none;
	}
	for (const auto &each : one.incidents) {
		row.steals += each.what == incident::kind::steal;
		row.revoked += each.what == incident::kind::revoked;
	}
	return row;
}

void count(const trace &of, summary &to)
{
	for (const auto &each : of.tasks)
		to.tasks += each.count > 0;
	for (const auto &each : of.stays)
		to.turns += each.is == state::running;
	for (const auto &each : of.wakes)
		if (each.time >= of.begin && each.time <= of.end)
			(each.is_spawn ? to.spawns : to.wakes)++;
	for (const auto &each : of.processors) {
		for (const auto &one : each.incidents) {
			to.steals += one.what == incident::kind::steal;
			to.revocations += one.what == incident::kind::revoked;
			to.lent += one.what == incident::kind::lent;
		}
		if (each.is_real)
			to.processors.push_back(sum_up(of, each));
	}
}

std::vector<event_row> count_events(const trace &of)
{
	std::map<std::string_view, event_row> rows;
	std::vector<event_row> found;

	for (const auto &each : of.marks) {
		auto &row = rows[of.names[each.name]];
		row.name = of.names[each.name];
		row.times++;
		row.last = each.time;
	}
	for (const auto &[name, row] : rows)
		found.push_back(row);
	std::ranges::stable_sort(
		found, [](const event_row &a, const event_row &b) { return a.times > b.times; });
	return found;
}

} // namespace

summary summarize(const trace &of, std::size_t top)
{
	summary made;

	count(of, made);
	made.waits = measure(of, state::waiting);
	for (const auto *each : longest(of, state::waiting, top))
		made.longest_waits.push_back(
			{each, ran_meanwhile(of, each->processor, each->begin, each->end)});
	made.parks = grouped(of, state::parked);
	made.park_rows = made.parks.size();
	made.longest_parks = made.parks;
	sort_by_total(made.parks);
	keep(made.parks, top);
	std::ranges::stable_sort(made.longest_parks, [](const stay_row &a, const stay_row &b) {
		return is_longer(a.longest, b.longest);
	});
	keep(made.longest_parks, top);
	made.longest_turns = longest(of, state::running, top);
	made.runners = grouped(of, state::running);
	sort_by_total(made.runners);
	keep(made.runners, top);
	made.longest_away = longest(of, state::away, top);
	made.away = measure(of, state::away);
	made.events = count_events(of);
	keep(made.events, top);
	return made;
}

} // namespace tracing
