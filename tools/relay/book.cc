/* SPDX-License-Identifier: MIT */
#include "book.hpp"

#include <dirent.h>
#include <memory>
#include <sys/resource.h>

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
	return n > 3 ? n - 3 : 0; /* ".", ".." and the folder's own */
}

void fill_process(snapshot &into)
{
	struct sn_stats runtime = {};
	struct sn_copy_stats copying = {};
	struct rlimit limit = {};
	static_cast<void>(sn_stats(&runtime));
	static_cast<void>(sn_copy_stats(&copying));
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

listener_snapshot read_listener(const listener_counters &of)
{
	listener_snapshot told;
	told.name = of.name;
	told.limit = of.limit;
	told.address = of.address;
	std::uint64_t ended = 0;
	for (std::size_t i = 0; i < terminations; i++)
		ended += told.ended[i] = of.ended[i].get();
	/* Read after those that have ended, each of which was accepted before. */
	told.accepted = of.accepted.get();
	told.active = told.accepted - ended;
	told.to_backend = of.to_backend.read();
	told.to_client = of.to_client.read();
	told.times.connect = of.connect.read();
	told.times.first_byte = of.first_byte.read();
	told.times.duration = of.duration.read();
	return told;
}

backend_snapshot read_backend(const backend_counters &of)
{
	backend_snapshot told;
	told.route = of.group;
	told.address = of.settings.address;
	told.weight = of.settings.weight;
	told.limit = of.settings.max_connections;
	const std::int64_t now = sn_now();
	if (of.settings.weight == 0)
		told.state = health::drained;
	else if (now < of.ejected_until.load(std::memory_order_relaxed))
		told.state = health::ejected;
	else if (now < of.slow_until.load(std::memory_order_relaxed))
		told.state = health::slow;
	told.active = of.active.load(std::memory_order_relaxed);
	told.connected = of.connected.get();
	told.failures = of.failures.get();
	told.to_backend = of.to_backend.read();
	told.to_client = of.to_client.read();
	return told;
}

} // namespace

std::pair<std::uint64_t, std::uint64_t> book::bytes() const noexcept
{
	std::pair<std::uint64_t, std::uint64_t> sum{};
	for (const auto &listener : listeners_) {
		sum.first += listener.to_backend.bytes.get();
		sum.second += listener.to_client.bytes.get();
	}
	return sum;
}

snapshot book::read() const
{
	snapshot now;
	fill_process(now);
	now.ready = ready_.load(std::memory_order_relaxed);
	now.uptime = sn::now() - began_;
	for (const auto &listener : listeners_) {
		now.listeners.push_back(read_listener(listener));
		now.active += now.listeners.back().active;
	}
	for (const auto &backend : backends_)
		now.backends.push_back(read_backend(backend));
	if (fill_)
		fill_(now);
	return now;
}

} // namespace relay
