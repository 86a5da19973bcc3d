/* SPDX-License-Identifier: MIT */
/*
 * What must hold for sennit-trace, whatever is in the file: it reports that the file is no trace,
 * or answers every question; the stays and events that it has read are in order; and its answers
 * are lines that a terminal can show. Aborts when something does not hold. For libFuzzer and for
 * tests/trace/damage_test.cc.
 */
#ifndef FUZZ_TRACE_TRACE_PROPERTIES_HPP
#define FUZZ_TRACE_TRACE_PROPERTIES_HPP

#include "chain.hpp"
#include "find.hpp"
#include "history.hpp"
#include "summary.hpp"
#include "table.hpp"
#include "trace.hpp"
#include "units.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace properties
{

inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	std::fprintf(stderr, "does not hold: %s\n", what);
	std::abort();
}

/* Checks that a terminal can show the text. sennit-trace's own texts have two characters outside
 * ASCII. */
inline void can_be_shown(std::string text, bool is_table)
{
	for (const std::string_view ours : {"µ", "…"})
		for (std::size_t at = 0; (at = text.find(ours, at)) != std::string::npos;)
			text.replace(at, ours.size(), "x");
	require(text.ends_with('\n'), "a text ends with a line");
	std::size_t begin = 0;
	for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
		require(!is_table || end - begin <= tracing::line_width, "lines fit");
	for (const char c : text)
		require(c == '\n' || (c >= ' ' && c <= '~'), "no character does anything");
}

inline void is_in_order(const tracing::trace &of)
{
	for (std::size_t i = 0; i < of.tasks.size(); i++) {
		std::int64_t last = of.begin;
		for (const auto &each : of.of(static_cast<std::uint32_t>(i))) {
			require(each.task == i, "a stay is that of its task");
			require(each.begin >= last && each.end >= each.begin, "stays are in order");
			require(each.end <= of.end, "stays are in the trace");
			require(each.wake == tracing::none || each.wake < of.wakes.size(),
				"a wake-up is one");
			last = each.end;
		}
	}
	for (const auto &each : of.processors) {
		std::int64_t last = of.begin;
		for (const auto &one : each.turns) {
			require(one.begin >= last && one.end >= one.begin, "turns are in order");
			require(one.end <= of.end, "turns are in the trace");
			last = one.end;
		}
	}
	require(std::ranges::is_sorted(of.marks, {}, &tracing::mark::time), "events are in order");
}

inline void chain_holds(const tracing::trace &of, const tracing::chosen &what)
{
	const auto &is = what.is;
	std::int64_t last = is.end;
	std::int64_t sum = 0;

	require(is.begin <= is.end, "a chain begins before its end");
	for (const auto &each : is.steps) {
		require(each.begin <= each.end, "a step begins before its end");
		if (each.depth > 0)
			continue;
		require(each.end <= last, "the steps of a chain do not overlap");
		last = each.begin;
	}
	for (const auto &each : tracing::add_up(of, is))
		sum += each.time;
	require(sum <= is.length(), "the parts are no more than the whole");
	can_be_shown(tracing::to_text(of, what), false);
	/* A long chain is no different, but would take most of the time. */
	if (is.steps.size() <= 100)
		can_be_shown(tracing::to_json(of, what), false);
}

inline void all_answers_hold(const tracing::trace &of)
{
	constexpr std::size_t some = 3;

	is_in_order(of);
	const auto summary = tracing::summarize(of, 3);
	can_be_shown(tracing::to_text(of, summary), true);
	can_be_shown(tracing::to_json(of, summary), false);
	for (const auto &each : summary.processors)
		require(each.running + each.idle <= each.recorded, "a processor has its time once");
	for (std::size_t i = 0; i < of.tasks.size() && i < some; i++) {
		const auto index = static_cast<std::uint32_t>(i);
		can_be_shown(tracing::history_text(of, {index}), true);
		can_be_shown(tracing::history_json(of, {index}), false);
		for (const std::string_view since : {"", "event"})
			chain_holds(of, {tracing::follow(of, index, of.end, since)});
	}
	for (std::size_t i = 0; i < of.marks.size() && i < some; i++) {
		if (of.marks[i].task == tracing::none)
			continue;
		const std::string name(of.names[of.marks[i].name]);
		chain_holds(of, tracing::choose(of, name, ""));
		chain_holds(of, tracing::choose(of, name, name));
	}
}

inline void trace_file(std::string_view bytes)
{
	/* The copy has exactly that size, so that the address sanitizer notices a byte that is
	 * read beyond it. */
	const std::unique_ptr<char[]> copy(new char[bytes.size()]);
	bytes.copy(copy.get(), bytes.size());
	try {
		auto of = tracing::read_trace({copy.get(), bytes.size()});
		all_answers_hold(of);
		const auto third = (of.end - of.begin) / 3;
		tracing::limit(of, third, 2 * third);
		all_answers_hold(of);
	} catch (const tracing::not_a_trace &error) {
		require(!error.why.empty(), "a reason is given");
	}
}

} // namespace properties

#endif
