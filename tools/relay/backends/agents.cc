/* SPDX-License-Identifier: MIT */
#include "backends/agents.hpp"

#include "backends/agent_probe.hpp"
#include "backends/backend_events.hpp"
#include "backends/down_sessions.hpp"
#include "backends/probe.hpp"
#include "backends/visitor.hpp"
#include "base/descriptors.hpp"
#include "stats/events.hpp"

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

const check_place &place_of(const group_config &group, const backend_config &of) noexcept
{
	return of.agent.is_other() ? of.agent : group.agent.at;
}

const std::string &send_of(const group_config &group, const backend_config &of) noexcept
{
	return of.agent_send ? *of.agent_send : group.agent.send;
}

class asker final : public visitor
{
public:
	asker(pool &of, sessions &of_all, std::chrono::nanoseconds drain)
	    : visitor(of.settings().agent.interval, "agent", "questions to agents"), pool_(of),
	      open_(of, of_all, of.settings().agent.on_down.value_or(of.settings().check.on_down),
		    drain)
	{
	}

	/* The agents are not asked any more, so an endpoint that an agent keeps out of use would
	 * never come back. All answers are therefore forgotten. */
	void given_up(pool &of) noexcept override { of.unheard(); }
	void tell_ended(const pool &of, const char *why) override;

private:
	void go(const backend_config &of, visit &which) override;
	bool ask(const backend_config &of, visit &which);

	pool &pool_;
	const down_sessions open_;
};

/* Asks the agent of the visited endpoint. Returns true if the result counts. */
bool asker::ask(const backend_config &of, visit &which)
try {
	const auto &group = pool_.settings();
	agent_line line;
	std::string why;
	const auto failed =
		ask_agent(probed_address(which.at(), place_of(group, of)), send_of(group, of),
			  sn::after(group.agent.timeout), line, why);
	if (!which.counts())
		return false;
	if (is_shortage(failed))
		return true;
	const auto whose = agent_of(group, of);
	if (!failed)
		tell_agent(pool_, which.at(), pool_.heard(which.at(), whose, line.says));
	else if (which.at().agent.missed(whose, why))
		tell_agent_lost(pool_, which.at(), why);
	return true;
} catch (const std::bad_alloc &) {
	return which.counts();
}

void asker::go(const backend_config &of, visit &which)
{
	const bool counts = ask(of, which);
	which.end();
	if (counts)
		open_.end(which.at(), sn::after(pool_.settings().agent.interval),
			  [&]() -> std::optional<std::int64_t> {
				  const auto &its = which.at().agent;
				  if (which.is_stopped() || !its.effect().is_down())
					  return std::nullopt;
				  return its.down_since();
			  });
}

void asker::tell_ended(const pool &of, const char *why)
{
	emit(event_kind::agents_ended,
	     "the agents of " + of.name() +
		     " are no longer asked, so their answers do not count: " + why,
	     {{"group", of.name()}, {"error", why}});
}

} // namespace

/* Joins the settings with 0 bytes. Only the text to send can contain a 0 byte, so it comes last. */
agent_id agent_of(const group_config &group, const backend_config &of)
{
	if (!group.agent.is_there())
		return nullptr;
	const auto &where = place_of(group, of);
	std::string text = where.address.empty() ? std::to_string(where.port) : where.address;
	text += '\0';
	text += send_of(group, of);
	return std::make_shared<const std::string>(std::move(text));
}

std::unique_ptr<watcher> watch_agents(std::shared_ptr<pool> of, sessions &of_all,
				      std::chrono::nanoseconds drain)
{
	if (!of->settings().agent.is_there())
		return nullptr;
	auto work = std::make_unique<asker>(*of, of_all, drain);
	return std::make_unique<watcher>(std::move(of), std::move(work), "agent");
}

} // namespace relay
