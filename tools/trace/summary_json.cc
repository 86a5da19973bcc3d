/* SPDX-License-Identifier: MIT */
/* The summary as JSON. docs/tracing.md describes the fields; their names do not change. */
#include "json_parts.hpp"
#include "summary.hpp"

namespace tracing
{
namespace
{

void put(json &to, std::string_view key, const lengths &what)
{
	to.open(key, '{')
		.add("count", what.times)
		.add("total_ns", what.total)
		.add("median_ns", what.median)
		.add("p99_ns", what.p99)
		.add("longest_ns", what.longest)
		.close('}');
}

void put_rows(json &to, std::string_view key, const trace &of, const std::vector<stay_row> &rows,
	      bool with_reason)
{
	to.open(key, '[');
	for (const auto &each : rows) {
		to.open('{').add("group", each.group);
		if (with_reason)
			to.add("kind", to_text(kind_of(each.reason))).add("reason", each.reason);
		to.add("tasks", each.tasks)
			.add("count", each.times)
			.add("total_ns", each.total)
			.add("longest_ns", each.longest->length())
			.add("longest_at_ns", each.longest->begin);
		put_task(to, "longest_task", of, each.longest->task);
		to.close('}');
	}
	to.close(']');
}

void put_stays(json &to, std::string_view key, const trace &of,
	       const std::vector<const stay *> &stays)
{
	to.open(key, '[');
	for (const auto *each : stays) {
		to.open('{').add("at_ns", each->begin).add("duration_ns", each->length());
		put_task(to, "task", of, each->task);
		if (each->processor != none)
			to.add("processor", of.processors[each->processor].number);
		to.close('}');
	}
	to.close(']');
}

void put_counts(json &to, const summary &what)
{
	to.open("counts", '{')
		.add("tasks", what.tasks)
		.add("turns", what.turns)
		.add("wakes", what.wakes)
		.add("spawns", what.spawns)
		.add("steals", what.steals)
		.add("revocations", what.revocations)
		.add("lent", what.lent)
		.close('}');
}

void put_processors(json &to, const summary &what)
{
	to.open("processors", '[');
	for (const auto &each : what.processors)
		to.open('{')
			.add("name", each.name)
			.add("recorded_ns", each.recorded)
			.add("running_ns", each.running)
			.add("idle_ns", each.idle)
			.add("turns", each.turns)
			.add("steals", each.steals)
			.add("revocations", each.revoked)
			.close('}');
	to.close(']');
}

void put_waits(json &to, const trace &of, const summary &what)
{
	put(to, "waits", what.waits);
	to.open("longest_waits", '[');
	for (const auto &each : what.longest_waits) {
		to.open('{').add("at_ns", each.is->begin).add("duration_ns", each.is->length());
		put_task(to, "task", of, each.is->task);
		put_waker(to, of, *each.is);
		if (each.is->processor != none)
			to.add("processor", of.processors[each.is->processor].number);
		put_meanwhile(to, of, *each.is, each.meanwhile);
		to.close('}');
	}
	to.close(']');
}

} // namespace

std::string to_json(const trace &of, const summary &what)
{
	json to;

	to.open('{');
	put_trace(to, of);
	put_counts(to, what);
	put_processors(to, what);
	put_waits(to, of, what);
	put_rows(to, "parks", of, what.parks, true);
	put_rows(to, "longest_parks", of, what.longest_parks, true);
	put_stays(to, "longest_turns", of, what.longest_turns);
	put_rows(to, "runners", of, what.runners, false);
	put(to, "away", what.away);
	put_stays(to, "longest_away", of, what.longest_away);
	to.open("events", '[');
	for (const auto &each : what.events)
		to.open('{')
			.add("name", each.name)
			.add("count", each.times)
			.add("last_at_ns", each.last)
			.close('}');
	to.close(']').close('}');
	return to.text();
}

} // namespace tracing
