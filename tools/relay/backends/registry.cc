/* SPDX-License-Identifier: MIT */
#include "backends/registry.hpp"

#include "stats/events.hpp"

#include <algorithm>
#include <memory>

namespace relay
{
namespace
{

void fill_process(snapshot &into)
{
	struct sn_run_stats runtime = {};
	struct sn_copy_stats copying = {};
	static_cast<void>(sn_run_stats(&runtime));
	static_cast<void>(sn_copy_stats(&copying));
	into.version = sn_version();
	into.time = std::chrono::nanoseconds(sn_walltime());
	into.accept_pauses = runtime.accept_pauses;
	into.tasks = runtime.tasks_alive;
	into.processors = runtime.processors;
	into.threads_blocking = runtime.threads_blocking;
	into.thread_limit_hits = runtime.thread_limit_hits;
	into.revocations = runtime.revocations;
	into.process = sn::blocking(read_process_use);
	into.descriptors = into.process.descriptors;
	into.descriptor_limit = into.process.descriptor_limit;
	into.events_suppressed = suppressed_events();
	into.events_lost = lost_events();
	into.pipes = copying.pipes;
	into.pipes_limit = copying.pipes_limit;
	into.pipes_missed = copying.pipes_missed;
}

} // namespace

listener_snapshot registry::read_listener(const listener_counters &of)
{
	listener_snapshot result;
	result.name = of.name;
	result.limit = of.limit_;
	result.address = of.address_;
	std::uint64_t ended = 0;
	for (std::size_t i = 0; i < terminations; i++)
		ended += result.ended[i] = of.ended[i].get();
	/* Read after `ended`: a connection is counted as accepted before it ends, so active is
	 * at least 0. */
	result.accepted = of.accepted.get();
	result.active = result.accepted - ended;
	result.retries = of.retries.get();
	result.tls_full = of.tls_full.get();
	result.tls_resumed = of.tls_resumed.get();
	result.sources_forgotten = of.source_rates.forgotten() + of.source_bandwidths.forgotten();
	result.bandwidth_sources = of.source_bandwidths.known();
	result.throttled = of.throttled.times.get();
	result.throttled_time = std::chrono::nanoseconds(of.throttled.ns.get());
	result.throttled_now = read_waiting(of.throttled);
	result.to_backend = of.to_backend.read();
	result.to_client = of.to_client.read();
	result.datagrams = of.datagrams.read();
	result.times.connect = of.connect.read();
	result.times.first_byte = of.first_byte.read();
	result.times.duration = of.duration.read();
	return result;
}

backend_snapshot registry::read_backend(backend_counters &of)
{
	backend_snapshot result;
	result.route = of.group;
	of.endpoints.read(result, of.gone_ ? 0 : of.weight_, of.limit_, of.is_checked_);
	result.weight = of.weight_;
	result.priority = of.priority_;
	return result;
}

group_snapshot registry::read_group(const group_counters &of)
{
	group_snapshot result;
	result.group = of.name;
	result.queued = of.line.waiting();
	result.queue_limit = of.line.limit();
	result.queue_waits = of.line.waited.get();
	result.queue_full = of.line.full.get();
	result.queue_timeouts = of.line.timeouts.get();
	result.queue_left = of.line.left.get();
	result.queue_time = std::chrono::nanoseconds(of.line.ns.get());
	of.ready.read(result);
	return result;
}

std::shared_ptr<listener_counters>
registry::generation::open_listener(const std::string &name, const std::string &address,
				    const listener_config &settings)
{
	const auto named = [&](const auto &each) { return each->name == name; };
	std::shared_ptr<listener_counters> found;
	{
		const std::lock_guard lock(of_.lock_);
		const auto at = std::ranges::find_if(of_.listeners_, named);
		if (at != of_.listeners_.end())
			found = *at;
	}
	if (!found)
		found = new_listeners_.emplace_back(std::make_shared<listener_counters>(name));
	listeners_.push_back({found, address, settings.max_connections, settings.bandwidth,
			      settings.bandwidth_per_source, settings.bandwidth_per_connection});
	return found;
}

std::shared_ptr<backend_counters> registry::generation::open_backend(const std::string &group,
								     const backend_config &settings,
								     checking how,
								     const agent_id &agent)
{
	const auto named = [&](const auto &each) {
		return each->group == group && each->address == settings.address;
	};
	std::shared_ptr<backend_counters> found;
	{
		const std::lock_guard lock(of_.lock_);
		const auto at = std::ranges::find_if(of_.backends_, named);
		if (at != of_.backends_.end())
			found = *at;
		if (found && found->gone_ && how == checking::starts_down)
			found->endpoints.forget_checks();
		/* The first answers come before commit(). */
		if (found && how != checking::none)
			found->endpoints.use_checks(true);
	}
	if (!found) {
		found = new_backends_.emplace_back(
			std::make_shared<backend_counters>(group, settings.address));
		found->endpoints.limit_bandwidth(settings.bandwidth);
		found->endpoints.use_agent(agent);
		found->endpoints.start_down(how == checking::starts_down);
	}
	backends_.push_back({found, settings.weight, settings.priority, settings.max_connections,
			     how, settings.bandwidth, agent});
	return found;
}

std::shared_ptr<group_counters> registry::generation::open_group(const std::string &name,
								 std::uint64_t limit)
{
	const auto named = [&](const auto &each) { return each->name == name; };
	std::shared_ptr<group_counters> found;
	{
		const std::lock_guard lock(of_.lock_);
		const auto at = std::ranges::find_if(of_.groups_, named);
		if (at != of_.groups_.end())
			found = *at;
	}
	if (!found) {
		found = new_groups_.emplace_back(std::make_shared<group_counters>(name));
		found->line.set_limit(limit);
	}
	groups_.push_back(found);
	return found;
}

void registry::generation::commit() noexcept
{
	const std::int64_t now = sn_now();
	const std::lock_guard lock(of_.lock_);
	static_cast<void>(of_.first_checks_are_over()); /* before there are new groups */
	for (const auto &each : of_.listeners_)
		each->gone_ = true;
	for (const auto &each : of_.backends_)
		each->gone_ = true;
	for (const auto &each : of_.groups_)
		each->gone_ = true;
	for (const auto &each : groups_)
		each->gone_ = false;
	for (auto &each : listeners_) {
		each.counts->address_.swap(each.address);
		each.counts->limit_ = each.limit;
		set(each.counts->bandwidth, each.bandwidth, now);
		each.counts->bandwidth_per_source.set(each.bandwidth_per_source);
		each.counts->bandwidth_per_connection.set(each.bandwidth_per_connection);
		each.counts->gone_ = false;
	}
	for (const auto &each : backends_) {
		each.counts->weight_ = each.weight;
		each.counts->priority_ = each.priority;
		each.counts->limit_ = each.limit;
		each.counts->is_checked_ = each.how != checking::none;
		each.counts->endpoints.limit_bandwidth(each.bandwidth);
		each.counts->endpoints.start_down(each.how == checking::starts_down);
		each.counts->endpoints.use_checks(each.how != checking::none);
		each.counts->endpoints.use_agent(each.agent);
		each.counts->gone_ = false;
	}
	/* Nobody asks the agents of removed backends any more. These backends may return, with
	 * other agents or with none. */
	for (const auto &each : of_.backends_)
		if (each->gone_)
			each->endpoints.use_agent(nullptr);
	of_.listeners_.splice(of_.listeners_.end(), new_listeners_);
	of_.backends_.splice(of_.backends_.end(), new_backends_);
	of_.groups_.splice(of_.groups_.end(), new_groups_);
}

/*
 * Counters to which only the lists refer are in use by no session. None can begin to use them,
 * because only a generation could hand them out, and it looks them up under the lock. The fence
 * orders these reads after the counting that sessions did before they released the counters.
 */
void registry::forget_gone() const
{
	const auto is_over = [](const auto &each) { return each->gone_ && each.use_count() == 1; };
	std::erase_if(backends_, is_over);
	std::erase_if(groups_, is_over);
	std::erase_if(listeners_, [&](const auto &each) {
		if (!is_over(each))
			return false;
		std::atomic_thread_fence(std::memory_order_acquire);
		bytes_of_gone_.first += each->to_backend.bytes.get();
		bytes_of_gone_.second += each->to_client.bytes.get();
		return true;
	});
}

std::pair<std::uint64_t, std::uint64_t> registry::bytes() const
{
	const std::lock_guard lock(lock_);
	auto sum = bytes_of_gone_;
	for (const auto &listener : listeners_) {
		sum.first += listener->to_backend.bytes.get();
		sum.second += listener->to_client.bytes.get();
	}
	return sum;
}

/* Cheaper than a snapshot, because it reads no backend: a name can have hundreds of endpoints. */
void registry::remember()
{
	history_sample now;
	histogram_counts connects;
	now.uptime_ms = histogram_counts::microseconds(sn::now() - began_) / 1000;
	{
		const std::lock_guard lock(lock_);
		/* Also for a process whose snapshots nobody reads. */
		forget_gone();
		now.to_backend = bytes_of_gone_.first;
		now.to_client = bytes_of_gone_.second;
		for (const auto &each : listeners_) {
			for (const auto why : history_failures)
				now.failed += each->ended[static_cast<std::size_t>(why)].get();
			now.accepted += each->accepted.get();
			now.active += each->active.load(std::memory_order_relaxed);
			now.to_backend += each->to_backend.bytes.get();
			now.to_client += each->to_client.bytes.get();
			connects += each->connect.read();
		}
		for (const auto &each : groups_)
			now.queued += each->line.waiting();
	}
	now.connect_p99_us = connects.since(connects_before_).quantile_us(0.99);
	connects_before_ = connects;
	past_.add(now);
}

void registry::forget_sources() noexcept
{
	const std::int64_t now = sn_now();
	const std::lock_guard lock(lock_);
	for (const auto &each : listeners_)
		each->source_bandwidths.forget_full(now);
}

/* Called under the lock. Once true it stays so, and so it does for each group: backends that are
 * new later do not make a process that serves others unready. */
bool registry::first_checks_are_over() const noexcept
{
	if (!first_checks_are_over_)
		first_checks_are_over_ =
			!groups_.empty() && std::ranges::all_of(groups_, [](const auto &each) {
				return each->gone_ || each->line.first_checks_are_over();
			});
	return first_checks_are_over_;
}

/* Called under the lock. */
bool registry::is_ready_now() const noexcept
{
	return first_checks_are_over() && ready();
}

bool registry::is_ready() const noexcept
{
	const std::lock_guard lock(lock_);
	return is_ready_now();
}

snapshot registry::read() const
{
	snapshot now;
	fill_process(now);
	now.uptime = sn::now() - began_;
	{
		const std::lock_guard lock(lock_);
		forget_gone();
		now.ready = is_ready_now();
		for (const auto &listener : listeners_) {
			now.listeners.push_back(read_listener(*listener));
			now.active += now.listeners.back().active;
		}
		for (const auto &backend : backends_)
			now.backends.push_back(read_backend(*backend));
		for (const auto &group : groups_)
			now.groups.push_back(read_group(*group));
	}
	if (fill_)
		fill_(now);
	return now;
}

} // namespace relay
