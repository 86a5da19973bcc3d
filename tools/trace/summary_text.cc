/* SPDX-License-Identifier: MIT */
/* The summary as text, for people. summary_json.cc has the form for programs. */
#include "summary.hpp"

#include "table.hpp"
#include "units.hpp"

#include <array>
#include <cstddef>
#include <ctime>

namespace tracing
{
namespace
{

constexpr std::size_t name_width = 24;
constexpr std::size_t reason_width = 36;

std::string short_name(const trace &of, std::uint32_t task, std::size_t most = name_width)
{
	return cut(name_of(of, task), most);
}

std::string or_dash(const std::string &text)
{
	return text.empty() ? "-" : text;
}

/* 2026-11-25 15:50:03 UTC */
std::string date_text(std::int64_t ns)
{
	const auto seconds = static_cast<std::time_t>(ns / 1000000000);
	std::tm parts{};
	std::array<char, 64> text{};

	if (!gmtime_r(&seconds, &parts) ||
	    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
		return "";
	return text.data();
}

std::string heading(const trace &of, const summary &what)
{
	std::string text = of.process.empty() ? "a program" : cut(clean(of.process), 32);

	if (of.pid != 0)
		text += ", process " + std::to_string(of.pid);
	text += ": " + duration_text(of.end - of.begin);
	if (of.begin != 0)
		text += ", from " + time_text(of.begin) + " ms on";
	if (of.real_time > 0 && of.real_time < std::numeric_limits<std::int64_t>::max() - of.end)
		text += ", until " + date_text(of.real_time + of.end);
	text += "\n" + count_text(what.tasks) + " tasks, " + count_text(what.turns) + " turns, " +
		count_text(what.wakes) + " wake-ups, " + count_text(what.spawns) + " spawns, " +
		count_text(what.steals) + " steals\n" + count_text(what.revocations) +
		" processors revoked, " + count_text(what.lent) + " lent\n";
	return text;
}

std::string processors_text(const summary &what)
{
	table rows({"processor", ">recorded", ">running", "", ">idle", "", ">turns", ">steals",
		    ">revoked"});

	for (const auto &each : what.processors)
		rows.add({cut(clean(each.name), name_width), duration_text(each.recorded),
			  duration_text(each.running), share_text(each.running, each.recorded),
			  duration_text(each.idle), share_text(each.idle, each.recorded),
			  count_text(each.turns), count_text(each.steals),
			  count_text(each.revoked)});
	return rows.text();
}

std::string waits_text(const trace &of, const summary &what)
{
	table rows({">at", ">waited", "task", "woken by", "ran there meanwhile"});

	for (const auto &each : what.longest_waits)
		rows.add({time_text(each.is->begin), duration_text(each.is->length()),
			  short_name(of, each.is->task), or_dash(cut(waker_of(of, *each.is), 20)),
			  each.is->processor == none && each.is->end == of.end
				  ? "(has not run yet)"
				  : or_dash(to_text(of, *each.is, each.meanwhile, 3))});
	return "\nThe longest waits for a processor, of " + count_text(what.waits.times) +
	       ": half took up to " + duration_text(what.waits.median) + ", 99 % up to " +
	       duration_text(what.waits.p99) + "\n" + rows.text();
}

std::string parks_text(const std::vector<stay_row> &parks)
{
	table rows({">total", ">times", ">longest", ">at", ">tasks", "task", "kind", "parked for"});

	for (const auto &each : parks)
		rows.add({duration_text(each.total), count_text(each.times),
			  duration_text(each.longest->length()), time_text(each.longest->begin),
			  count_text(each.tasks), cut(clean(each.group), name_width),
			  to_text(kind_of(each.reason)), cut(clean(each.reason), reason_width)});
	return rows.text();
}

std::string turns_text(const trace &of, const summary &what)
{
	table rows({">at", ">ran", "task", "on"});

	for (const auto *each : what.longest_turns)
		rows.add({time_text(each->begin), duration_text(each->length()),
			  short_name(of, each->task, 48),
			  each->processor == none ? "-" : processor_text(of, each->processor)});
	return "\nThe longest turns on a processor\n" + rows.text();
}

std::string runners_text(const summary &what)
{
	table rows({">running", "", ">turns", ">longest", ">at", ">tasks", "task"});
	std::int64_t all = 0;

	for (const auto &each : what.processors)
		all = add(all, each.running);
	for (const auto &each : what.runners)
		rows.add({duration_text(each.total), share_text(each.total, all),
			  count_text(each.times), duration_text(each.longest->length()),
			  time_text(each.longest->begin), count_text(each.tasks),
			  cut(clean(each.group), 40)});
	return "\nWho ran, of the time of all processors\n" + rows.text();
}

std::string away_text(const trace &of, const summary &what)
{
	table rows({">at", ">without", "task"});

	for (const auto *each : what.longest_away)
		rows.add({time_text(each->begin), duration_text(each->length()),
			  short_name(of, each->task, 48)});
	return "\nThe longest stays in foreign code after the processor had been revoked, of " +
	       count_text(what.away.times) + "\n" + rows.text();
}

std::string events_text(const summary &what)
{
	table rows({">times", ">last at", "event"});

	for (const auto &each : what.events)
		rows.add({count_text(each.times), time_text(each.last), cut(clean(each.name), 60)});
	return "\nThe program's events (--chain EVENT shows what the slowest one waited for)\n" +
	       rows.text();
}

} // namespace

std::string to_text(const trace &of, const summary &what)
{
	std::string text = heading(of, what) + "\n" + processors_text(what);

	if (!what.longest_waits.empty())
		text += waits_text(of, what);
	if (!what.parks.empty())
		text += "\nParked, by task and reason: the largest totals\n" +
			parks_text(what.parks);
	/* If all rows fit into one list, both would have the same ones. */
	if (what.park_rows > what.parks.size())
		text += "\nParked, by task and reason: the longest single ones\n" +
			parks_text(what.longest_parks);
	if (!what.longest_turns.empty())
		text += turns_text(of, what) + runners_text(what);
	if (!what.longest_away.empty())
		text += away_text(of, what);
	if (!what.events.empty())
		text += events_text(what);
	return text + "\nTimes (\"at\") are in ms since the first event of the trace.\n";
}

} // namespace tracing
