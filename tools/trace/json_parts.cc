/* SPDX-License-Identifier: MIT */
#include "json_parts.hpp"

#include <cstddef>

namespace tracing
{

void put_trace(json &to, const trace &of)
{
	to.open("trace", '{').add("process", of.process).add("pid", of.pid);
	to.add("begin_ns", of.begin).add("end_ns", of.end);
	if (of.real_time > 0)
		to.add("unix_time_ns", of.real_time);
	to.open("warnings", '[');
	for (const auto &each : of.warnings)
		to.value(std::string_view(each));
	to.close(']').close('}');
}

void put_task(json &to, std::string_view key, const trace &of, std::uint32_t task)
{
	if (task == none)
		return;
	to.open(key, '{')
		.add("id", of.tasks[task].id)
		.add("name", of.tasks[task].name)
		.add("group", of.tasks[task].group)
		.close('}');
}

void put_waker(json &to, const trace &of, const stay &one)
{
	if (one.wake != none && of.wakes[one.wake].by == none) {
		const auto &from = of.wakes[one.wake];
		to.add("woken_from", from.cause == "timers"    ? "timer"
				     : from.cause == "network" ? "network"
				     : from.on != none && of.processors[from.on].is_real
					     ? "scheduler"
					     : "thread");
		return;
	}
	put_task(to, "woken_by", of, one.wake != none ? of.wakes[one.wake].by : one.by);
}

void put_meanwhile(json &to, const trace &of, const stay &waited, const std::vector<share> &shares)
{
	constexpr std::size_t most = 10;

	to.open("meanwhile", '[');
	for (std::size_t i = 0; i < shares.size() && i < most; i++) {
		to.open('{').add("running_ns", shares[i].time);
		put_task(to, "task", of, shares[i].task);
		to.close('}');
	}
	to.close(']').add("nobody_ns", nobody_ran(waited, shares));
}

} // namespace tracing
