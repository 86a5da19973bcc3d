/* SPDX-License-Identifier: MIT */
#include "backends/agent_state.hpp"

#include "base/text.hpp"

#include <sennit/sennit.hpp>

#include <utility>

namespace relay
{
namespace
{

/* Texts of the agent are cut to so many bytes: they are for people. */
constexpr std::size_t longest_description = 200;
constexpr std::size_t longest_ignored = 40;

/* How the agent keeps clients away: the stronger reason if there are two, or empty if there is
 * none. */
std::string words_of(const agent_effect &its)
{
	if (its.health != agent_health::up)
		return its.health == agent_health::down
			       ? "down by its agent"
			       : std::string("down by its agent (") + to_string(its.health) + ')';
	if (its.admin == agent_admin::maint)
		return "drained by its agent (maintenance)";
	if (its.admin == agent_admin::drain)
		return "drained by its agent";
	return its.percent == 0 ? "drained by its agent (weight 0%)" : "";
}

} // namespace

bool agent_state::is_of(const agent_id &agent) const noexcept
{
	return of_ && agent && *of_ == *agent;
}

void agent_state::reset() noexcept
{
	effect_.store({}, std::memory_order_relaxed);
	contact_ = agent_contact::none;
	description_.clear();
	ignored_.clear();
	error_.clear();
}

void agent_state::belongs_to(const agent_id &agent) noexcept
{
	const std::lock_guard lock(lock_);
	if (!is_of(agent))
		reset();
	of_ = agent;
}

void agent_state::forget() noexcept
{
	const std::lock_guard lock(lock_);
	reset();
}

agent_state::change agent_state::heard(const agent_id &agent, const agent_answer &answer)
{
	auto description = to_printable(answer.description.substr(0, longest_description));
	auto ignored = to_printable(answer.ignored.substr(0, longest_ignored));
	change made;
	made.description = description;

	const std::lock_guard lock(lock_);
	if (!is_of(agent))
		return made;
	made.counts = true;
	made.answers_again = contact_ == agent_contact::lost;
	made.before = effect();
	made.after = made.before;
	made.after.admin = answer.admin.value_or(made.after.admin);
	made.after.health = answer.health.value_or(made.after.health);
	made.after.percent =
		static_cast<std::uint16_t>(answer.percent.value_or(made.after.percent));
	made.after.limit = answer.limit.value_or(made.after.limit);
	if (answer.admin || answer.health)
		description_.swap(description);
	ignored_.swap(ignored);
	error_.clear();
	contact_ = agent_contact::good;
	if (made.after.is_down() && !made.before.is_down())
		down_since_.store(sn_now(), std::memory_order_relaxed);
	effect_.store(made.after, std::memory_order_release);
	return made;
}

bool agent_state::missed(const agent_id &agent, std::string why) noexcept
{
	const std::lock_guard lock(lock_);
	if (!is_of(agent))
		return false;
	error_.swap(why);
	return std::exchange(contact_, agent_contact::lost) != agent_contact::lost;
}

void agent_state::read(agent_snapshot &into) const
{
	const std::lock_guard lock(lock_);
	const auto its = effect();
	into.is_there = of_ != nullptr;
	into.contact = contact_;
	into.percent = its.percent;
	into.limit = its.limit;
	into.admin = to_string(its.admin);
	into.health = to_string(its.health);
	into.description = description_;
	into.words = words_of(its);
	if (!into.words.empty() && !description_.empty())
		into.words += ": " + description_;
	const auto add = [&into](const std::string &more) {
		into.words += (into.words.empty() ? "" : "; ") + more;
	};
	if (contact_ == agent_contact::lost)
		add("its agent does not answer: " + error_);
	if (!ignored_.empty())
		add("its agent says \"" + ignored_ + "\", which is unknown");
}

} // namespace relay
