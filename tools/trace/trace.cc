/* SPDX-License-Identifier: MIT */
#include "trace.hpp"

#include "packets.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tracing
{
namespace
{

/* Tracks have the numbers that src/debug/trace_replay.c gives them: a processor's counts from the
 * first one, and a task's has its id in the lower bits. */
constexpr std::uint64_t first_processor = 16;
constexpr std::uint64_t id_mask = (std::uint64_t{1} << 48) - 1;
constexpr std::array<std::string_view, 3> state_names = {"running", "waits for a processor",
							 "in foreign code without a processor"};
constexpr std::array<std::string_view, 5> incident_names = {"steals", "timers", "network",
							    "processor revoked", "processor lent"};
constexpr std::string_view loss_name = "earlier records were overwritten";

template <class Texts>
std::optional<std::size_t> place_in(const Texts &texts, std::string_view text)
{
	const auto at = std::ranges::find(texts, text);
	if (at == texts.end())
		return std::nullopt;
	return static_cast<std::size_t>(at - texts.begin());
}

/* The group of a task: "session 17" belongs to "session", and "task 17 of serve" to "serve". */
std::string_view group_of(std::string_view name, std::uint64_t id)
{
	const auto number = std::to_string(id);
	const auto unnamed = "task " + number + " of ";

	if (name.starts_with(unnamed))
		return name.substr(unnamed.size());
	if (name.ends_with(" " + number) && name.size() > number.size() + 1)
		return name.substr(0, name.size() - number.size() - 1);
	return name;
}

class builder
{
public:
	explicit builder(std::string_view bytes) : from_(read_packets(bytes))
	{
		if (from_.count == 0)
			throw not_a_trace{bytes.empty() ? "is empty" : "is not a trace"};
		if (from_.read < bytes.size())
			to_.warnings.push_back("is damaged or cut short after " +
					       std::to_string(from_.read) + " of " +
					       std::to_string(bytes.size()) + " bytes");
		if (from_.damaged > 0)
			to_.warnings.push_back(std::to_string(from_.damaged) + " of " +
					       std::to_string(from_.count) +
					       " packets make no sense");
	}

	trace build()
	{
		find_tracks();
		find_begin();
		to_.names = std::move(from_.names);
		to_.process = from_.process;
		to_.pid = from_.pid;
		if (from_.clock > 0 && from_.real_time > 0)
			to_.real_time = from_.real_time - (from_.clock - begin_);
		split();
		find_wakes();
		std::ranges::stable_sort(to_.marks, {}, &mark::time);
		return std::move(to_);
	}

private:
	struct place {
		std::uint32_t task = none;
		std::uint32_t processor = none;
	};

	void find_tracks()
	{
		std::optional<std::uint64_t> tasks;
		std::optional<std::uint64_t> processors;

		for (const auto &each : from_.tracks) {
			const auto name = from_.names[each.name];
			const place at{static_cast<std::uint32_t>(to_.tasks.size()),
				       static_cast<std::uint32_t>(to_.processors.size())};
			places_.emplace_back();
			if (tasks && each.parent == *tasks) {
				places_.back().task = at.task;
				add_task(each.uuid & id_mask, name);
				task_of_name_.emplace(each.name, at.task);
			} else if (processors && each.parent == *processors) {
				places_.back().processor = at.processor;
				add_processor(each.uuid - first_processor, name);
			} else if (name == "tasks") {
				tasks = each.uuid;
			} else if (name == "processors") {
				processors = each.uuid;
			}
		}
		if (!tasks || !processors)
			throw not_a_trace{"is a trace, but none of sennit's"};
		if (to_.tasks.empty() && to_.processors.empty())
			throw not_a_trace{"is a trace of nothing: it has no task and no processor"};
	}

	void add_processor(std::uint64_t number, std::string_view name)
	{
		auto &made = to_.processors.emplace_back();
		made.name = name;
		made.number = number;
		made.is_real = name.starts_with("processor ");
		if (made.is_real)
			processor_of_number_.emplace(
				number, static_cast<std::uint32_t>(to_.processors.size() - 1));
	}

	void add_task(std::uint64_t id, std::string_view name)
	{
		task_of_id_.emplace(id, static_cast<std::uint32_t>(to_.tasks.size()));
		auto &made = to_.tasks.emplace_back();
		made.id = id;
		made.name = name;
		made.group = group_of(name, id);
	}

	void find_begin()
	{
		std::int64_t last = 0;

		begin_ = most_time;
		for (const auto &each : from_.events) {
			begin_ = std::min(begin_, each.time);
			last = std::max(last, each.time);
		}
		if (from_.events.empty())
			begin_ = 0;
		to_.end = last - begin_;
	}

	/* Sorts the events of each track by time. Events of the same time keep their order. */
	void split()
	{
		const auto &events = from_.events;
		std::vector<std::uint32_t> ends(from_.tracks.size() + 1);
		std::vector<std::uint32_t> order(events.size());

		for (const auto &each : events)
			ends[each.track + 1]++;
		for (std::size_t i = 1; i < ends.size(); i++)
			ends[i] += ends[i - 1];
		for (std::size_t i = 0; i < events.size(); i++)
			order[ends[events[i].track]++] = static_cast<std::uint32_t>(i);
		/* Each end has moved to the beginning of the next track's events. */
		for (std::size_t i = 0, first = 0; i < places_.size(); first = ends[i++]) {
			const auto some = std::span(order).subspan(first, ends[i] - first);
			const auto time = [&](std::uint32_t at) { return events[at].time; };
			if (!std::ranges::is_sorted(some, {}, time))
				std::ranges::stable_sort(some, {}, time);
			if (places_[i].task != none)
				read_task(places_[i].task, some);
			else if (places_[i].processor != none)
				read_processor(places_[i].processor, some);
		}
		from_.events = {};
	}

	using indices = std::unordered_map<std::uint64_t, std::uint32_t, mixed>;

	static std::uint32_t find(const indices &in, std::uint64_t number)
	{
		const auto at = in.find(number);
		return at == in.end() ? none : at->second;
	}
	std::uint32_t find_task(std::uint64_t id) const { return find(task_of_id_, id); }

	bool take_wake(const event &one, std::uint32_t by, std::uint32_t on, std::string_view cause)
	{
		const bool is_spawn = to_.names[one.name] == "spawns";

		if (one.is_users || (!is_spawn && to_.names[one.name] != "wakes"))
			return false;
		wake made;
		made.time = one.time - begin_;
		made.by = by;
		made.on = on;
		made.task = find_task(one.number);
		made.is_spawn = is_spawn;
		made.cause = cause;
		wakes_.emplace_back(made, one.flow);
		return true;
	}

	void take_mark(const event &one, std::uint32_t task)
	{
		if (one.is_users)
			to_.marks.push_back({one.time - begin_, task, one.name,
					     static_cast<std::int64_t>(one.number)});
	}

	void begin_stay(const event &one, std::uint32_t task)
	{
		const auto known = place_in(state_names, to_.names[one.name]);
		stay made;

		made.begin = made.end = one.time - begin_;
		made.task = task;
		made.is = !known        ? state::parked
			  : *known == 0 ? state::running
			  : *known == 1 ? state::waiting
					: state::away;
		if (made.is == state::parked)
			made.name = one.name;
		if (made.is == state::running && one.what == detail::processor)
			made.processor = find(processor_of_number_, one.number);
		if (made.is == state::waiting && one.what == detail::woken_by)
			made.by = find_task(one.number);
		if (one.flow != 0)
			arrows_.emplace_back(one.flow, to_.stays.size());
		to_.stays.push_back(made);
	}

	void read_task(std::uint32_t index, std::span<const std::uint32_t> order)
	{
		const std::size_t first = to_.stays.size();
		bool open = false;

		for (const auto at : order) {
			const auto &one = from_.events[at];
			if (one.type == event_type::instant) {
				if (!take_wake(one, index, none, ""))
					take_mark(one, index);
				continue;
			}
			if (open)
				to_.stays.back().end = one.time - begin_;
			open = one.type == event_type::begin;
			if (open)
				begin_stay(one, index);
		}
		if (open)
			to_.stays.back().end = to_.end;
		to_.tasks[index].first = first;
		to_.tasks[index].count = to_.stays.size() - first;
	}

	void take_incident(const event &one, processor &on, std::string_view &cause)
	{
		const auto kind = place_in(incident_names, to_.names[one.name]);
		incident made;

		if (!kind || one.is_users)
			return;
		made.time = one.time - begin_;
		made.what = static_cast<incident::kind>(*kind);
		made.number = one.number;
		if (one.what == detail::task)
			made.task = find_task(one.number);
		on.incidents.push_back(made);
		/* The wake-ups that follow until a task runs are caused by this. */
		if (made.what == incident::kind::timers || made.what == incident::kind::network)
			cause = incident_names[*kind];
	}

	/* Threads without a processor run no tasks. */
	bool take_loss(const event &one, const processor &on)
	{
		if (one.is_users || to_.names[one.name] != loss_name)
			return false;
		if (on.is_real)
			to_.whole = std::max(to_.whole, one.time - begin_);
		return true;
	}

	void read_processor(std::uint32_t index, std::span<const std::uint32_t> order)
	{
		auto &on = to_.processors[index];
		std::string_view cause;
		bool open = false;

		if (!order.empty())
			on.begin = from_.events[order.front()].time - begin_;
		for (const auto at : order) {
			const auto &one = from_.events[at];
			if (one.type == event_type::instant) {
				if (!take_loss(one, on) && !take_wake(one, none, index, cause)) {
					take_mark(one, none);
					take_incident(one, on, cause);
				}
				continue;
			}
			if (open)
				on.turns.back().end = one.time - begin_;
			open = one.type == event_type::begin;
			if (!open)
				continue;
			cause = "";
			on.turns.push_back({one.time - begin_, one.time - begin_,
					    find(task_of_name_, one.name)});
		}
		if (open)
			on.turns.back().end = to_.end;
	}

	/* Finds the wake-up that led to each turn, and to the wait before it. */
	void find_wakes()
	{
		indices flows;

		std::ranges::stable_sort(wakes_, {},
					 [](const auto &each) { return each.first.time; });
		for (const auto &[each, flow] : wakes_) {
			flows.emplace(flow, static_cast<std::uint32_t>(to_.wakes.size()));
			to_.wakes.push_back(each);
		}
		for (const auto &[flow, at] : arrows_)
			to_.stays[at].wake = find(flows, flow);
		for (std::size_t i = 1; i < to_.stays.size(); i++) {
			const auto &now = to_.stays[i];
			auto &before = to_.stays[i - 1];
			if (now.is != state::running || before.task != now.task ||
			    before.is != state::waiting || before.end != now.begin)
				continue;
			before.wake = now.wake;
			before.processor = now.processor;
		}
	}

	packets from_;
	trace to_;
	std::int64_t begin_ = 0;
	std::vector<place> places_; /* by track */
	indices task_of_id_;
	indices processor_of_number_;
	indices task_of_name_;
	std::vector<std::pair<wake, std::uint64_t>> wakes_;         /* and the arrow of each */
	std::vector<std::pair<std::uint64_t, std::size_t>> arrows_; /* and the stay of each */
};

/* Shortens the item to the limits. Returns false if nothing is left of it. */
template <class T>
bool shorten(T &one, std::int64_t from, std::int64_t until)
{
	if (one.end < from || one.begin > until)
		return false;
	one.begin = std::max(one.begin, from);
	one.end = std::min(one.end, until);
	return true;
}

/* Removes the stays of which the condition is true. */
template <class F>
void erase_stays(trace &of, F is_gone)
{
	std::size_t kept = 0;

	for (auto &each : of.tasks) {
		const std::size_t first = kept;
		for (std::size_t i = each.first; i < each.first + each.count; i++)
			if (!is_gone(of.stays[i]))
				of.stays[kept++] = of.stays[i];
		each.first = first;
		each.count = kept - first;
	}
	of.stays.resize(kept);
}

} // namespace

trace read_trace(std::string_view bytes)
{
	return builder(bytes).build();
}

void limit(trace &to, std::int64_t from, std::int64_t until)
{
	const auto is_outside = [&](const auto &one) {
		return one.time < from || one.time > until;
	};

	erase_stays(to, [&](stay &one) { return !shorten(one, from, until); });
	std::erase_if(to.marks, is_outside);
	for (auto &each : to.processors) {
		std::erase_if(each.turns, [&](auto &one) { return !shorten(one, from, until); });
		std::erase_if(each.incidents, is_outside);
		each.begin = std::clamp(each.begin, from, std::max(from, until));
	}
	to.begin = std::max(to.begin, from);
	to.end = std::min(to.end, until);
}

void forget_what_is_uncertain(trace &in)
{
	erase_stays(in, [&](const stay &one) {
		return one.begin < in.whole && one.is != state::running;
	});
}

} // namespace tracing
