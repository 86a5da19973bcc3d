/* SPDX-License-Identifier: MIT */
/* A chain as text and as JSON. docs/tracing.md describes the fields; their names do not change. */
#include "chain.hpp"

#include "json_parts.hpp"
#include "table.hpp"
#include "units.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

namespace tracing
{
namespace
{

constexpr std::size_t name_width = 28;
constexpr std::size_t most_steps = 50;
constexpr std::int64_t worth_a_line = 10000; /* ns; a shorter wait gets no list of what ran */

std::string origin_text(origin from)
{
	switch (from) {
	case origin::records:
		return "its records begin";
	case origin::timer:
		return "a timer was due";
	case origin::network:
		return "something came from the network";
	case origin::scheduler:
		return "the scheduler woke it";
	case origin::thread:
		return "a thread without a processor woke it";
	case origin::spawn:
		return "a thread without a processor spawned it";
	case origin::event:
		return "the event that was asked for";
	case origin::unknown:
		return "it was woken by something that is not on record";
	case origin::longest:
		return "the chain continues, but the rest is not shown";
	}
	return "";
}

std::string state_text(state is)
{
	switch (is) {
	case state::running:
		return "running";
	case state::waiting:
		return "waiting for a processor";
	case state::parked:
		return "parked for ";
	case state::away:
		return "in foreign code without a processor";
	}
	return "";
}

std::string step_text(const trace &in, const step &one)
{
	const auto &is = *one.is;
	std::string text;

	switch (is.is) {
	case state::running:
		return is.processor == none ? "ran" : "ran on " + processor_text(in, is.processor);
	case state::waiting:
		text = "waited for " +
		       (is.processor == none ? "a processor" : processor_text(in, is.processor));
		if (const auto by = waker_of(in, is); !by.empty())
			text += ", woken by " + cut(by, name_width);
		return text;
	case state::parked:
		text = "parked for " + cut(clean(in.reason(is)), 40);
		if (one.by != none)
			text += ", until " + cut(name_of(in, one.by), name_width) + " woke it";
		return text;
	case state::away:
		return state_text(is.is);
	}
	return text;
}

std::string heading(const trace &in, const chosen &what)
{
	const auto &is = what.is;
	const auto name = name_of(in, is.task);
	std::string text;

	if (is.event)
		text = "\"" + clean(in.names[is.event->name]) +
		       "\" = " + std::to_string(is.event->value) + " of " + name;
	else
		text = name;
	text += " at " + time_text(is.end) + " ms, " + duration_text(is.length()) +
		" after the chain's beginning\n";
	if (what.among > 1)
		text += "The slowest of " + count_text(what.among) +
			" such events; half took up to " + duration_text(what.median) +
			", 99 % up to " + duration_text(what.p99) + ".\n";
	return text;
}

/* The part of a stay that belongs to the chain. */
stay part_of(const step &one)
{
	stay part = *one.is;

	part.begin = one.begin;
	part.end = one.end;
	return part;
}

void add_meanwhile(const trace &in, const step &one, table &rows)
{
	if (one.is->is != state::waiting || one.end - one.begin < worth_a_line)
		return;
	const auto part = part_of(one);
	const auto ran = ran_meanwhile(in, part.processor, part.begin, part.end);
	if (const auto text = to_text(in, part, ran, 2); !text.empty())
		rows.add({"", "", "", "  there meanwhile: " + text});
}

std::string released_by(const trace &in, const part &one)
{
	if (one.is != state::parked || one.by == none)
		return "";
	return ", until " + name_of(in, one.by) + (one.is_one ? "" : " or others") + " woke it";
}

std::string sum_text(const trace &in, const chain &of)
{
	std::int64_t rest = of.length();
	std::string text = "Of " + duration_text(of.length()) + ":\n";
	table rows({">time", "", "what"});

	for (const auto &each : add_up(in, of)) {
		rest -= each.time;
		rows.add({duration_text(each.time), share_text(each.time, of.length()),
			  state_text(each.is) + clean(each.reason) + released_by(in, each)});
	}
	if (rest > 0)
		rows.add({duration_text(rest), share_text(rest, of.length()), "not on record"});
	return text + rows.text();
}

const char *origin_name(origin from)
{
	static constexpr std::array<const char *, 9> names = {"records",   "timer",   "network",
							      "scheduler", "thread",  "spawn",
							      "event",     "unknown", "longest"};
	return names[static_cast<std::size_t>(from)];
}

const char *state_name(state is)
{
	static constexpr std::array<const char *, 4> names = {"running", "waiting", "parked",
							      "away"};
	return names[static_cast<std::size_t>(is)];
}

void put_step(json &to, const trace &in, const step &one)
{
	to.open('{')
		.add("at_ns", one.begin)
		.add("duration_ns", one.end - one.begin)
		.add("depth", one.depth)
		.add("state", state_name(one.is->is));
	put_task(to, "task", in, one.is->task);
	if (one.is->is == state::parked) {
		to.add("kind", to_text(kind_of(in.reason(*one.is))))
			.add("reason", in.reason(*one.is));
		put_task(to, "woken_by", in, one.by);
	}
	if (one.is->processor != none)
		to.add("processor", in.processors[one.is->processor].number);
	if (one.is->is == state::waiting) {
		put_waker(to, in, *one.is);
		const auto part = part_of(one);
		put_meanwhile(to, in, part,
			      ran_meanwhile(in, part.processor, part.begin, part.end));
	}
	to.close('}');
}

/* Only the longest steps of a long chain are shown. */
std::int64_t shortest_shown(const chain &of)
{
	std::vector<std::int64_t> all;

	if (of.steps.size() <= most_steps)
		return 0;
	for (const auto &each : of.steps)
		all.push_back(each.end - each.begin);
	std::ranges::nth_element(all, all.begin() + most_steps - 1, std::greater<>());
	return all[most_steps - 1];
}

} // namespace

std::string to_text(const trace &in, const chosen &what)
{
	const auto &is = what.is;
	table rows({">at", ">took", "task", "what"});

	const auto least = shortest_shown(is);
	std::size_t hidden = 0;
	std::size_t room = most_steps;
	const auto note_hidden = [&] {
		if (hidden > 0)
			rows.add({"", "", "", "... " + count_text(hidden) + " shorter steps"});
		hidden = 0;
	};
	for (const auto &each : is.steps) {
		if (each.end - each.begin < least || room == 0) {
			hidden++;
			continue;
		}
		room--;
		note_hidden();
		rows.add({time_text(each.begin), duration_text(each.end - each.begin),
			  std::string(2 * std::min<std::size_t>(each.depth, 4), ' ') +
				  cut(name_of(in, each.is->task), name_width),
			  step_text(in, each)});
		add_meanwhile(in, each, rows);
	}
	note_hidden();
	const auto first = is.steps.empty() ? is.task : is.steps.back().is->task;
	rows.add({time_text(is.begin), "", cut(name_of(in, first), name_width),
		  origin_text(is.from)});
	if (is.parked)
		rows.add({time_text(is.parked->begin), duration_text(is.parked->length()), "",
			  "  before, parked for " + clean(in.reason(*is.parked))});
	return heading(in, what) + "\n" + rows.text() + "\n" + sum_text(in, is);
}

std::string to_json(const trace &in, const chosen &what)
{
	const auto &is = what.is;
	std::int64_t rest = is.length();
	json to;

	to.open('{');
	put_trace(to, in);
	to.open("chain", '{');
	put_task(to, "task", in, is.task);
	if (is.event)
		to.open("event", '{')
			.add("name", in.names[is.event->name])
			.add("value", is.event->value)
			.add("at_ns", is.event->time)
			.add("among", what.among)
			.add("median_ns", what.median)
			.add("p99_ns", what.p99)
			.close('}');
	to.add("begin_ns", is.begin).add("end_ns", is.end).add("duration_ns", is.length());
	to.add("origin", origin_name(is.from));
	if (is.parked)
		to.add("origin_reason", in.reason(*is.parked))
			.add("origin_parked_ns", is.parked->length());
	to.open("parts", '[');
	for (const auto &each : add_up(in, is)) {
		rest -= each.time;
		to.open('{').add("state", state_name(each.is));
		if (each.is == state::parked)
			to.add("reason", each.reason);
		to.add("total_ns", each.time).close('}');
	}
	to.close(']').add("unknown_ns", rest).open("steps", '[');
	for (const auto &each : is.steps)
		put_step(to, in, each);
	to.close(']').close('}').close('}');
	return to.text();
}

} // namespace tracing
