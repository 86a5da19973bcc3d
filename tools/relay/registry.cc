/* SPDX-License-Identifier: MIT */
#include "registry.hpp"

#include "address.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <memory>
#include <sys/resource.h>
#include <system_error>

namespace relay
{
namespace
{

std::uint64_t open_descriptors()
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir("/proc/self/fd"), closedir);
	std::uint64_t n = 0;
	while (dir && readdir(dir.get()))
		n++;
	return n > 3 ? n - 3 : 0; /* without ".", ".." and the folder's descriptor */
}

void fill_process(snapshot &into)
{
	struct sn_stats runtime = {};
	struct sn_copy_stats copying = {};
	struct rlimit limit = {};
	static_cast<void>(sn_stats_get(&runtime));
	static_cast<void>(sn_copy_stats_get(&copying));
	static_cast<void>(getrlimit(RLIMIT_NOFILE, &limit));
	into.version = sn_version();
	into.time = std::chrono::nanoseconds(sn_walltime());
	into.accept_pauses = runtime.accept_pauses;
	into.tasks = runtime.tasks_alive;
	into.descriptors = sn::blocking(open_descriptors);
	into.descriptor_limit = limit.rlim_cur;
	into.pipes = copying.pipes;
	into.pipes_limit = copying.pipes_limit;
	into.pipes_missed = copying.pipes_missed;
}

both_ways read_waiting(const wait_counters &of)
{
	return {of.now[SN_RELAY_A_TO_B].get(), of.now[SN_RELAY_B_TO_A].get()};
}

} // namespace

std::string check_error_text(int error, std::string_view address)
{
	if (error == EPROTO)
		return "its answer is not the expected one";
	if (error == ENOENT && !is_unix(address))
		return "its name does not resolve";
	return std::generic_category().message(error);
}

listener_snapshot registry::read_listener(const listener_counters &of)
{
	listener_snapshot result;
	result.name = of.name;
	result.limit = of.limit_;
	result.address = of.address_;
	std::uint64_t ended = 0;
	for (std::size_t i = 0; i < terminations; i++)
		ended += result.ended[i] = of.ended[i].get();
	/* Read after `ended`: an ended connection was accepted before, so active is at least 0. */
	result.accepted = of.accepted.get();
	result.active = result.accepted - ended;
	result.retries = of.retries.get();
	result.throttled = of.throttled.times.get();
	result.throttled_time = std::chrono::nanoseconds(of.throttled.ns.get());
	result.throttled_now = read_waiting(of.throttled);
	result.to_backend = of.to_backend.read();
	result.to_client = of.to_client.read();
	result.times.connect = of.connect.read();
	result.times.first_byte = of.first_byte.read();
	result.times.duration = of.duration.read();
	return result;
}

backend_snapshot registry::read_backend(const backend_counters &of)
{
	backend_snapshot result;
	result.route = of.group;
	result.address = of.address;
	result.weight = of.weight_;
	result.limit = of.limit_;
	const std::int64_t now = sn_now();
	if (of.weight_ == 0 || of.gone_)
		result.state = health::drained;
	else if (of.addresses.down() ||
		 (of.is_checked_ && of.check.load(std::memory_order_relaxed) == checked::down))
		result.state = health::down;
	else if (now < of.ejected_until.load(std::memory_order_relaxed))
		result.state = health::ejected;
	else if (now < of.slow_until.load(std::memory_order_relaxed))
		result.state = health::slow;
	else if (of.is_checked_ && of.check.load(std::memory_order_relaxed) == checked::unknown)
		result.state = health::unknown;
	result.is_named = of.addresses.named();
	result.addresses = *of.addresses.now();
	result.resolve_failures = of.addresses.failures();
	result.is_resolve_failing = of.addresses.failing();
	result.checks = of.checks.get();
	result.check_failures = of.check_failures.get();
	result.last_check = std::chrono::nanoseconds(of.last_check.load(std::memory_order_relaxed));
	if (const int error = of.last_error.load(std::memory_order_relaxed))
		result.last_error = check_error_text(error, of.address);
	if (of.addresses.down())
		result.last_error = check_error_text(ENOENT, of.address);
	result.active = of.active.load(std::memory_order_relaxed);
	result.connected = of.connected.get();
	result.failures = of.failures.get();
	result.ejections = of.ejections.get();
	result.throttled = of.throttled.times.get();
	result.throttled_time = std::chrono::nanoseconds(of.throttled.ns.get());
	result.throttled_now = read_waiting(of.throttled);
	result.to_backend = of.to_backend.read();
	result.to_client = of.to_client.read();
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
	if (!found) {
		found = new_listeners_.emplace_back(std::make_shared<listener_counters>(name));
		/* Its first connections may arrive before commit(). */
		set(found->bandwidth, settings.bandwidth, sn_now());
		found->bandwidth_per_connection.set(settings.bandwidth_per_connection);
	}
	listeners_.push_back({found, address, settings.max_connections, settings.bandwidth,
			      settings.bandwidth_per_connection});
	return found;
}

std::shared_ptr<backend_counters> registry::generation::open_backend(const std::string &group,
								     const backend_config &settings,
								     bool is_checked)
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
	}
	if (!found) {
		found = new_backends_.emplace_back(
			std::make_shared<backend_counters>(group, settings.address));
		set(found->bandwidth, settings.bandwidth, sn_now());
	}
	backends_.push_back(
		{found, settings.weight, settings.max_connections, is_checked, settings.bandwidth});
	return found;
}

void registry::generation::commit() noexcept
{
	const std::int64_t now = sn_now();
	const std::lock_guard lock(of_.lock_);
	for (const auto &each : of_.listeners_)
		each->gone_ = true;
	for (const auto &each : of_.backends_)
		each->gone_ = true;
	for (auto &each : listeners_) {
		each.counts->address_.swap(each.address);
		each.counts->limit_ = each.limit;
		set(each.counts->bandwidth, each.bandwidth, now);
		each.counts->bandwidth_per_connection.set(each.bandwidth_per_connection);
		each.counts->gone_ = false;
	}
	for (const auto &each : backends_) {
		each.counts->weight_ = each.weight;
		each.counts->limit_ = each.limit;
		each.counts->is_checked_ = each.is_checked;
		set(each.counts->bandwidth, each.bandwidth, now);
		if (!each.is_checked)
			each.counts->check.store(checked::unknown, std::memory_order_relaxed);
		each.counts->gone_ = false;
	}
	of_.listeners_.splice(of_.listeners_.end(), new_listeners_);
	of_.backends_.splice(of_.backends_.end(), new_backends_);
}

/*
 * Counters that only the lists refer to are in use by no session, and none can begin to use them:
 * that takes a generation, which looks them up under the lock. The fence orders these reads after
 * what sessions counted before they let go.
 */
void registry::forget_gone() const
{
	const auto is_over = [](const auto &each) { return each->gone_ && each.use_count() == 1; };
	std::erase_if(backends_, is_over);
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

snapshot registry::read() const
{
	snapshot now;
	fill_process(now);
	now.ready = ready_.load(std::memory_order_relaxed);
	now.uptime = sn::now() - began_;
	{
		const std::lock_guard lock(lock_);
		forget_gone();
		for (const auto &listener : listeners_) {
			now.listeners.push_back(read_listener(*listener));
			now.active += now.listeners.back().active;
		}
		for (const auto &backend : backends_)
			now.backends.push_back(read_backend(*backend));
	}
	if (fill_)
		fill_(now);
	return now;
}

} // namespace relay
