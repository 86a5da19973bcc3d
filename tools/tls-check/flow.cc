/* SPDX-License-Identifier: MIT */
#include "flow.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace checking
{
namespace
{

/* A function is given up if it needs more visits per block than this. */
constexpr std::size_t most_visits = 1000;
constexpr std::size_t most_blocks = 200000;
constexpr std::size_t most_slots = 4096;

/* Where paths meet, a later tag replaces an earlier one, so that a value that may be stale is
 * never lost. */
enum class tag {
	stack,      /* number, from the stack pointer at the beginning, or where it was realigned */
	constant,   /* number */
	function,   /* number: a name */
	descriptor, /* the descriptor function of a thread-local */
	unknown,
	fresh,
	stale,
};

struct value {
	tag what = tag::unknown;
	std::int64_t number = 0;
	address base =
		0; /* stack: 0, or the instruction that has moved it by an unknown distance */
	kind found = kind::none;
	address found_at = 0;
	address call_at = 0;
	holder kept{};

	bool thread() const { return what == tag::fresh || what == tag::stale; }
	auto order() const { return std::make_tuple(what, found_at, call_at, kept.reg, kept.slot); }
	bool operator==(const value &other) const
	{
		return order() == other.order() && number == other.number && base == other.base &&
		       found == other.found;
	}
};

/* The lower address wins, so that the order does not depend on the order of visits. */
bool replaces(const value &a, const value &b)
{
	if (a.what != b.what)
		return a.what > b.what;
	return std::make_tuple(a.found_at, a.call_at, a.kept.reg, a.kept.slot) <
	       std::make_tuple(b.found_at, b.call_at, b.kept.reg, b.kept.slot);
}

/* The value to assume if it may be either of both. */
value either(const value &a, const value &b)
{
	if (a == b)
		return a;
	if (a.thread() || b.thread())
		return !b.thread() || (a.thread() && replaces(a, b)) ? a : b;
	return {};
}

using slot = std::pair<address, std::int64_t>; /* base, distance */

struct state {
	value registers[register_count];
	std::map<slot, value> slots; /* the slots of which something is known */

	/* Merges another path's state into this one. Returns whether this one has changed. */
	bool join(const state &other)
	{
		bool changed = false;
		for (int i = 0; i < register_count; i++) {
			const auto joined = either(registers[i], other.registers[i]);
			changed |= !(joined == registers[i]);
			registers[i] = joined;
		}
		for (auto each = slots.begin(); each != slots.end();) {
			const auto there = other.slots.find(each->first);
			const auto joined = either(
				each->second, there == other.slots.end() ? value{} : there->second);
			changed |= !(joined == each->second);
			if (joined.what == tag::unknown) {
				each = slots.erase(each);
				continue;
			}
			each->second = joined;
			++each;
		}
		for (const auto &[where, what] : other.slots)
			if (what.thread() && slots.emplace(where, what).second)
				changed = true;
		return changed;
	}
};

class follower
{
public:
	follower(const image &in, const function &from, const judge &calls)
	    : image_(in), function_(from), calls_(calls), cpu_(in.cpu())
	{
	}

	flow_result run();

private:
	const instruction &read(address at);
	void find_leaders();
	void arrive(address at, const state &with);
	void walk(address from, state now);
	void do_step(const instruction &whole, const step &each, state &now);
	bool do_call(const instruction &call, state &now);
	void leave(const instruction &jump, const state &now, bool returns);
	void resolve(const instruction &at, const state &now, referred &to, bool &known) const;
	void dereference(const instruction &at, const operand &memory, const state &now);
	void used(const value &what, const instruction &at, use how);
	std::optional<slot> slot_of(const operand &memory, const state &now) const;
	value load(const operand &memory, const state &now) const;
	void store(const operand &memory, const value &what, state &now);
	bool same_function(const instruction &jump, address target, const state &now) const;

	const image &image_;
	const function &function_;
	const judge &calls_;
	machine &cpu_;
	std::unordered_map<address, std::pair<instruction, bool>> read_;
	std::set<address> leaders_;
	std::vector<address> loose_; /* where computed jumps may lead */
	std::map<address, state> states_;
	std::map<address, std::size_t> visits_;
	std::set<address> waiting_;
	std::map<address, finding> found_;
	std::map<address, referred> called_;
	bool reporting_ = false;
	flow_result result_;
};

const instruction &follower::read(address at)
{
	auto [found, made] = read_.try_emplace(at);

	if (made)
		found->second.second = image_.read(at, found->second.first);
	return found->second.first;
}

/* Finds where the jumps of the function lead, and the places to which only a computed jump can
 * lead. */
void follower::find_leaders()
{
	std::vector<address> after;
	bool ended = false;

	for (address at = function_.begin; at < function_.end;) {
		const auto &each = read(at);
		if (ended && !each.padding) {
			after.push_back(at);
			ended = false;
		}
		if (each.next == going::jump || each.next == going::branch) {
			if (each.has_target && each.target >= function_.begin &&
			    each.target < function_.end)
				leaders_.insert(each.target);
		}
		if (each.next == going::jump || each.next == going::ret || each.next == going::stop)
			ended = true;
		if (each.next == going::call && calls_.ends(each.name, each.target))
			ended = true;
		at = each.end();
	}
	for (const auto at : after)
		if (leaders_.insert(at).second)
			loose_.push_back(at);
}

void follower::arrive(address at, const state &with)
{
	const auto [found, made] = states_.try_emplace(at, with);

	if (!made && !found->second.join(with))
		return;
	leaders_.insert(at);
	if (++visits_[at] > most_visits || states_.size() > most_blocks) {
		result_.complete = false;
		return;
	}
	waiting_.insert(at);
}

void follower::used(const value &what, const instruction &at, use how)
{
	if (!reporting_ || what.what != tag::stale)
		return;
	/* A look at an address does not use the memory there. A look at a thread's identity is
	 * usually a comparison, which is a use. */
	if (how == use::looked_at && what.found != kind::self)
		return;
	const finding made{.what = what.found,
			   .found_at = what.found_at,
			   .found_by = called_[what.found_at],
			   .call_at = what.call_at,
			   .called = called_[what.call_at],
			   .kept = what.kept,
			   .used_at = at.at,
			   .how = how};
	const auto [known, first] = found_.try_emplace(what.found_at, made);
	/* Prefers the first use after the call, as people read the code. */
	const auto order = [](const finding &each) {
		return std::make_tuple(each.used_at < each.call_at, each.used_at, each.call_at);
	};
	if (!first && order(made) < order(known->second))
		known->second = made;
}

void follower::dereference(const instruction &at, const operand &memory, const state &now)
{
	for (const int reg : {memory.base, memory.index})
		if (reg != none)
			used(now.registers[reg], at, use::dereferenced);
}

std::optional<slot> follower::slot_of(const operand &memory, const state &now) const
{
	if (memory.base == none || memory.index != none || memory.of_thread)
		return std::nullopt;
	const auto &base = now.registers[memory.base];
	if (base.what != tag::stack)
		return std::nullopt;
	return slot{base.base,
		    static_cast<std::int64_t>(static_cast<std::uint64_t>(base.number) +
					      static_cast<std::uint64_t>(memory.displacement))};
}

value follower::load(const operand &memory, const state &now) const
{
	if (const auto where = slot_of(memory, now)) {
		const auto known = now.slots.find(*where);
		return known == now.slots.end() ? value{} : known->second;
	}
	if (memory.of_thread || memory.index != none)
		return {};
	auto at = static_cast<std::uint64_t>(memory.displacement);
	if (!memory.fixed) {
		if (memory.base == none || now.registers[memory.base].what != tag::constant)
			return {};
		at += static_cast<std::uint64_t>(now.registers[memory.base].number);
	}
	const auto *const word = image_.word(at);
	if (!word)
		return {};
	value made;
	if (word->descriptor)
		made.what = tag::descriptor;
	else if (word->name != none)
		made = {.what = tag::function, .number = word->name + 1};
	else if (word->target != 0)
		made = {.what = tag::constant, .number = static_cast<std::int64_t>(word->target)};
	return made;
}

void follower::store(const operand &memory, const value &what, state &now)
{
	const auto where = slot_of(memory, now);

	if (!where)
		return;
	const auto width = static_cast<std::int64_t>(memory.width == 0 ? 8 : memory.width);
	auto from = now.slots.lower_bound({where->first, where->second - 7});
	while (from != now.slots.end() && from->first.first == where->first &&
	       from->first.second < where->second + width)
		from = now.slots.erase(from);
	if (what.what != tag::unknown && width == 8 && now.slots.size() < most_slots)
		now.slots[*where] = what;
}

void follower::do_step(const instruction &whole, const step &each, state &now)
{
	const auto get = [&](int reg) { return reg == none ? value{} : now.registers[reg]; };
	value made;

	if (each.what == act::load || each.what == act::store || each.what == act::touch)
		dereference(whole, each.memory, now);
	switch (each.what) {
	case act::touch:
		used(load(each.memory, now), whole, use::looked_at);
		return;
	case act::look:
		used(get(each.from), whole, use::looked_at);
		return;
	case act::store: {
		const auto what = get(each.from);
		if (!slot_of(each.memory, now))
			used(what, whole, use::stored);
		store(each.memory, what, now);
		return;
	}
	case act::forget:
		break;
	case act::copy:
		made = get(each.from);
		break;
	case act::constant:
		made = {.what = tag::constant, .number = each.number};
		break;
	case act::function:
		made = {.what = tag::function, .number = each.number};
		break;
	case act::add:
		made = get(each.from);
		if (made.what == tag::stack || made.what == tag::constant)
			made.number =
				static_cast<std::int64_t>(static_cast<std::uint64_t>(made.number) +
							  static_cast<std::uint64_t>(each.number));
		else if (!made.thread())
			made = {};
		break;
	case act::mix: {
		made = get(each.from);
		const auto other = get(each.other);
		if (made.thread() || other.thread())
			made = either(made, other);
		else
			made = {};
		break;
	}
	case act::load:
		made = load(each.memory, now);
		break;
	case act::thread:
		/* A thread pointer plus an offset that a descriptor gave before a park stays
		 * wrong. */
		made = get(each.from);
		if (made.what != tag::stale)
			made = {.what = tag::fresh, .found = kind::thread, .found_at = whole.at};
		break;
	case act::realign:
		made = {.what = tag::stack, .base = whole.at};
		break;
	}
	if (each.to != none)
		now.registers[each.to] = made;
}

/* Finds the target of a call or a jump by the values of the registers. */
void follower::resolve(const instruction &at, const state &now, referred &to, bool &known) const
{
	known = at.has_target || at.name != none;
	to.name = at.name;
	to.target = at.target;
	to.descriptor = at.descriptor;
	if (known || to.descriptor || !at.via.known)
		return;
	value where = at.via.reg != none ? now.registers[at.via.reg] : load(at.via.memory, now);
	/* The descriptor of a thread-local begins with its function: call *(%rax). */
	if (where.what == tag::descriptor)
		to.descriptor = true;
	if (where.what == tag::function) {
		to.name = static_cast<int>(where.number - 1);
		known = true;
	} else if (where.what == tag::constant &&
		   image_.section_at(static_cast<address>(where.number))) {
		to.target = static_cast<address>(where.number);
		known = true;
	}
}

/* Applies a call to the state. Returns false if the call does not return. */
bool follower::do_call(const instruction &call, state &now)
{
	referred to;
	bool known = false;
	value result;

	resolve(call, now, to, known);
	called_[call.at] = to;
	if (to.descriptor) {
		/* A descriptor's function changes no register but the result. */
		now.registers[cpu_.result] = {
			.what = tag::fresh, .found = kind::variable, .found_at = call.at};
		return true;
	}
	const auto found = calls_.returns(to.name, to.target);
	if (found == kind::none)
		for (const int reg : cpu_.arguments)
			used(now.registers[reg], call, use::passed);

	const auto &sp = now.registers[cpu_.stack_pointer];
	if (sp.what == tag::stack)
		for (auto each = now.slots.lower_bound({sp.base, INT64_MIN});
		     each != now.slots.end() && each->first.first == sp.base &&
		     each->first.second < sp.number;)
			each = now.slots.erase(each);
	if (calls_.may_park(to.name, to.target)) {
		for (int i = 0; i < register_count; i++) {
			auto &each = now.registers[i];
			if (each.what != tag::fresh || !(cpu_.kept & 1u << i))
				continue;
			each.what = tag::stale;
			each.call_at = call.at;
			each.kept = {.reg = i};
		}
		for (auto &[where, each] : now.slots) {
			if (each.what != tag::fresh)
				continue;
			const bool near = sp.what == tag::stack && sp.base == where.first;
			each.what = tag::stale;
			each.call_at = call.at;
			each.kept = {.slot = near ? where.second - sp.number : where.second,
				     .known_slot = near};
		}
	}
	if (found != kind::none)
		result = {.what = tag::fresh, .found = found, .found_at = call.at};
	for (int i = 0; i < register_count; i++)
		if (!(cpu_.kept & 1u << i))
			now.registers[i] = {};
	now.registers[cpu_.result] = result;
	return !calls_.ends(to.name, to.target);
}

/* Looks at the values that leave the function by a return, or by a jump to another function. */
void follower::leave(const instruction &jump, const state &now, bool returns)
{
	if (returns) {
		const auto &result = now.registers[cpu_.result];
		used(result, jump, use::returned);
		if (result.thread())
			result_.returns = result.found;
		return;
	}
	referred to;
	bool known = false;
	resolve(jump, now, to, known);
	const auto found = calls_.returns(to.name, to.target);
	if (found != kind::none) {
		result_.returns = found;
		return;
	}
	for (const int reg : cpu_.arguments)
		used(now.registers[reg], jump, use::passed);
}

/* Whether a jump out of the function's range stays in the function, because it leads to its cold
 * part, which is placed elsewhere. This is assumed if the stack is not empty, or by the name. */
bool follower::same_function(const instruction &jump, address target, const state &now) const
{
	if (target >= function_.begin && target < function_.end)
		return true;
	const auto *const there = image_.function_around(target);
	if (there && there->name.find(".cold") != std::string::npos)
		return true;
	if (!image_.section_at(target) || image_.section_at(target)->stubs || jump.name != none)
		return false;
	const auto &sp = now.registers[cpu_.stack_pointer];
	return sp.what != tag::stack || sp.base != 0 || sp.number != 0;
}

void follower::walk(address at, state now)
{
	const auto from = at;

	for (;;) {
		if (at != from && leaders_.count(at) != 0)
			return arrive(at, now);
		const auto &each = read(at);
		if (!read_.at(at).second && cpu_.unknown_stops)
			return;
		for (std::size_t i = 0; i < each.count; i++)
			do_step(each, each.steps[i], now);
		switch (each.next) {
		case going::on:
			break;
		case going::stop:
			return;
		case going::ret:
			return leave(each, now, true);
		case going::call:
			if (!do_call(each, now))
				return;
			break;
		case going::branch:
		case going::jump: {
			if (each.has_target) {
				if (each.target != 0 && same_function(each, each.target, now))
					arrive(each.target, now);
				else
					leave(each, now, false);
			} else {
				const auto &sp = now.registers[cpu_.stack_pointer];
				const bool empty =
					sp.what == tag::stack && sp.base == 0 && sp.number == 0;
				/* A virtual function that is called by a tail call. */
				const bool method = empty && each.via.reg == none &&
						    each.via.memory.index == none;
				if (empty)
					leave(each, now, false);
				if (!method)
					for (const auto where : loose_)
						arrive(where, now);
			}
			if (each.next == going::jump)
				return;
			break;
		}
		}
		/* After the last instruction another function begins, so the instruction was a
		 * call that does not return, although nothing says so. */
		const auto *const around = image_.function_around(at);
		at = each.end();
		if ((around && at >= around->end) || !image_.section_at(at))
			return;
	}
}

flow_result follower::run()
{
	state first;

	find_leaders();
	first.registers[cpu_.stack_pointer] = {.what = tag::stack};
	arrive(function_.begin, first);
	while (!waiting_.empty() && result_.complete) {
		const auto at = *waiting_.begin();
		waiting_.erase(waiting_.begin());
		walk(at, states_.at(at));
	}
	/* Now the state at the beginning of each block is known. */
	reporting_ = true;
	const auto states = states_;
	for (const auto &[at, with] : states)
		walk(at, with);
	for (const auto &[at, each] : found_)
		result_.findings.push_back(each);
	return std::move(result_);
}

} // namespace

flow_result follow(const image &in, const function &from, const judge &calls)
{
	return follower(in, from, calls).run();
}

} // namespace checking
