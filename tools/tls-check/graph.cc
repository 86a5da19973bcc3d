/* SPDX-License-Identifier: MIT */
#include "graph.hpp"

#include <algorithm>
#include <deque>

namespace checking
{

graph::graph(const image &in, const choice &asked) : image_(in), asked_(asked)
{
	nodes_.resize(in.functions().size());
	for (std::size_t i = 0; i < nodes_.size(); i++)
		read(i);
	for (std::size_t i = 0; i < nodes_.size(); i++) {
		for (const auto &each : nodes_[i].edges) {
			const auto to = index_of(each.target);
			if (to < nodes_.size())
				nodes_[to].callers.push_back(i);
		}
	}
	spread();
}

std::size_t graph::index_of(address target) const
{
	const auto *const found = target == 0 ? nullptr : image_.function_around(target);

	return found ? static_cast<std::size_t>(found - image_.functions().data()) : nodes_.size();
}

/* The word of the global offset table that a step reads, if it does. */
const referred *graph::word_of(const step &reads,
			       const std::int64_t (&values)[register_count]) const
{
	if (reads.what != act::load && reads.what != act::touch)
		return nullptr;
	auto from = static_cast<std::uint64_t>(reads.memory.displacement);
	if (!reads.memory.fixed) {
		if (reads.memory.base == none || values[reads.memory.base] == 0)
			return nullptr;
		from += static_cast<std::uint64_t>(values[reads.memory.base]);
	}
	return image_.word(from);
}

/* Reads one function: its calls, its jumps to other functions, and whether it finds something by
 * the thread. */
void graph::read(std::size_t which)
{
	const auto &in = image_.functions()[which];
	auto &of = nodes_[which];
	std::int64_t values[register_count] = {};
	bool whole = true;
	const auto add = [&](int name, address target) {
		of.edges.push_back({name, target});
		of.finds |= returns(name, target) != kind::none;
	};

	for (address at = in.begin; at < in.end;) {
		instruction each;
		whole &= image_.read(at, each);
		at = each.end();
		if (each.descriptor)
			of.finds = true;
		for (std::size_t i = 0; i < each.count; i++) {
			const auto &step = each.steps[i];
			of.finds |= step.what == act::thread;
			if (step.what == act::function)
				add(static_cast<int>(step.number - 1), 0);
			/* The word is read before the register changes, because the register may be
			 * the base of its address. */
			const auto *const word = word_of(step, values);
			if (step.to != none)
				values[step.to] = step.what == act::constant ? step.number : 0;
			if (!word)
				continue;
			if (word->descriptor) {
				of.finds = true;
			} else if (each.next == going::call || each.next == going::jump) {
				each.name = word->name;
				each.target = word->target;
				each.has_target = true;
			} else if (index_of(word->target) < nodes_.size() || word->target == 0) {
				add(word->name, word->target);
			}
		}
		if (each.descriptor)
			continue;
		const bool goes = each.next == going::call || each.next == going::jump ||
				  each.next == going::branch;
		if (each.next == going::ret)
			of.ends = false;
		if (!goes)
			continue;
		const bool inside = each.has_target && each.target >= in.begin &&
				    each.target < in.end && each.target != in.begin;
		if (inside)
			continue;
		if (each.next != going::call)
			of.ends = false;
		/* A computed jump usually stays in the function. */
		if (each.next != going::call && !each.has_target && each.name == none)
			continue;
		add(each.name, each.has_target ? each.target : 0);
	}
	if (!whole) {
		unread_++;
		of.ends = false;
	}
}

/* Goes from the calls that park back to all functions that can reach them, by the shortest path. */
void graph::spread()
{
	std::deque<std::size_t> next;

	for (std::size_t i = 0; i < nodes_.size(); i++) {
		auto &each = nodes_[i];
		for (std::size_t k = 0; k < each.edges.size() && !each.parks; k++) {
			const auto &edge = each.edges[k];
			const auto known = by_name(edge.name, edge.target);
			const bool outside = index_of(edge.target) == nodes_.size();
			if (known != parking::yes &&
			    (known == parking::no || !outside || !unknown_parks(edge.name)))
				continue;
			each.parks = true;
			each.through = k;
		}
		if (each.parks)
			next.push_back(i);
	}
	while (!next.empty()) {
		const auto i = next.front();
		next.pop_front();
		for (const auto caller : nodes_[i].callers) {
			auto &of = nodes_[caller];
			if (of.parks)
				continue;
			const auto by = std::find_if(
				of.edges.begin(), of.edges.end(), [&](const edge &each) {
					return index_of(each.target) == i &&
					       by_name(each.name, each.target) != parking::no;
				});
			if (by == of.edges.end())
				continue;
			of.parks = true;
			of.through = static_cast<std::size_t>(by - of.edges.begin());
			next.push_back(caller);
		}
	}
}

std::vector<std::string> graph::names_of(int name, address target) const
{
	std::vector<std::string> all;

	if (target != 0)
		all = image_.names_of(target);
	if (name != none)
		all.push_back(image_.name(name));
	return all;
}

parking graph::by_name(int name, address target) const
{
	const auto names = names_of(name, target);
	const bool imported = index_of(target) == nodes_.size();
	auto answer = parking::unknown;

	for (const auto &each : names)
		if (asked_.never.count(each) != 0)
			return parking::no;
	for (const auto &each : names)
		if (asked_.parks.count(each) != 0)
			return parking::yes;
	for (const auto &each : names) {
		const auto known = known_parking(each, imported);
		if (known == parking::yes)
			return known;
		if (known == parking::no)
			answer = known;
		if (imported && never_returns(each))
			answer = parking::no;
	}
	return answer;
}

bool graph::unknown_parks(int name) const
{
	return name == none ? asked_.pointers_park : asked_.named_park;
}

bool graph::may_park(int name, address target) const
{
	const auto known = by_name(name, target);
	const auto index = index_of(target);

	if (known != parking::unknown)
		return known == parking::yes;
	return index < nodes_.size() ? nodes_[index].parks : unknown_parks(name);
}

kind graph::returns(int name, address target) const
{
	for (const auto &each : names_of(name, target)) {
		const auto known = found_by(each);
		if (known != kind::none)
			return known;
	}
	const auto *const in = target == 0 ? nullptr : image_.function_at(target);
	return in ? nodes_[index_of(target)].returns : kind::none;
}

bool graph::ends(int name, address target) const
{
	for (const auto &each : names_of(name, target))
		if (never_returns(each))
			return true;
	const auto *const in = target == 0 ? nullptr : image_.function_at(target);
	return in && nodes_[index_of(target)].ends;
}

bool graph::finds(const function &which) const
{
	return nodes_[index_of(which.begin)].finds;
}

std::vector<const function *> graph::set_returns(const function &which, kind what)
{
	auto &of = nodes_[index_of(which.begin)];
	std::vector<const function *> callers;

	if (of.returns == what)
		return callers;
	of.returns = what;
	for (const auto each : of.callers) {
		nodes_[each].finds = true;
		callers.push_back(&image_.functions()[each]);
	}
	return callers;
}

std::string graph::callee_text(int name, address target) const
{
	if (name != none)
		return image_.name(name);
	const auto index = index_of(target);
	if (index == nodes_.size())
		return "";
	const auto &found = image_.functions()[index];
	return found.name.empty() ? "the function at " + image_.text_of(found.begin) : found.name;
}

std::vector<std::string> graph::path(int name, address target) const
{
	std::vector<std::string> all;

	while (by_name(name, target) == parking::unknown && all.size() < 100) {
		const auto index = index_of(target);
		if (index == nodes_.size() || !nodes_[index].parks)
			break;
		const auto &by = nodes_[index].edges[nodes_[index].through];
		name = by.name;
		target = by.target;
		const auto text = callee_text(name, target);
		all.push_back(text.empty() ? "an unknown function" : text);
	}
	return all;
}

} // namespace checking
