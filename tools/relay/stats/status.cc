/* SPDX-License-Identifier: MIT */
#include "stats/status.hpp"

#include "base/text.hpp"

#include <string_view>

namespace relay
{
namespace
{

/* A writer of JSON that inserts the commas, so that callers need not know which field is the
 * first. */
class json
{
public:
	json &open(char bracket)
	{
		comma();
		out_ += bracket;
		first_ = true;
		return *this;
	}
	json &open(std::string_view key, char bracket)
	{
		name(key);
		out_ += bracket;
		first_ = true;
		return *this;
	}
	json &close(char bracket)
	{
		out_ += bracket;
		first_ = false;
		return *this;
	}

	json &field(std::string_view key, std::uint64_t value)
	{
		name(key);
		out_ += std::to_string(value);
		return *this;
	}
	json &field(std::string_view key, std::string_view value)
	{
		name(key);
		append_json(out_, value);
		return *this;
	}
	json &flag(std::string_view key, bool value)
	{
		name(key);
		out_ += value ? "true" : "false";
		return *this;
	}
	/* Written in milliseconds. */
	json &field(std::string_view key, std::chrono::nanoseconds value)
	{
		return field(key, histogram_counts::microseconds(value) / 1000);
	}
	json &value(std::string_view value)
	{
		comma();
		append_json(out_, value);
		return *this;
	}
	json &value(std::uint64_t value)
	{
		comma();
		out_ += std::to_string(value);
		return *this;
	}

	std::string finish() { return std::move(out_ += '\n'); }

private:
	void comma()
	{
		if (!first_)
			out_ += ',';
		first_ = false;
	}
	void name(std::string_view key)
	{
		comma();
		append_json(out_, key);
		out_ += ':';
	}

	std::string out_;
	bool first_ = true;
};

void add_flow(json &to, std::string_view key, const flow &bytes)
{
	to.open(key, '{')
		.field("bytes", bytes.bytes)
		.field("userspace", bytes.userspace)
		.field("splice", bytes.splice)
		.close('}');
}

void add_both_ways(json &to, std::string_view key, const both_ways &counts)
{
	to.open(key, '{')
		.field("to_backend", counts.to_backend)
		.field("to_client", counts.to_client)
		.close('}');
}

/* The buckets that are not empty, as [end in us, count], so that a reader can subtract an
 * earlier answer and compute the percentiles of the time between. */
void add_histogram(json &to, std::string_view key, const histogram_counts &counts)
{
	to.open(key, '{')
		.field("count", counts.total())
		.field("sum_us", counts.sum_us)
		.field("p50_us", counts.quantile_us(0.5))
		.field("p90_us", counts.quantile_us(0.9))
		.field("p99_us", counts.quantile_us(0.99))
		.field("p999_us", counts.quantile_us(0.999));
	to.open("buckets", '[');
	for (std::size_t i = 0; i < histogram_counts::buckets; i++)
		if (counts.counts[i])
			to.open('[')
				.value(histogram_counts::end_us(i))
				.value(counts.counts[i])
				.close(']');
	to.close(']').close('}');
}

void add_listener(json &to, const listener_snapshot &each)
{
	to.open('{')
		.field("name", each.name)
		.field("address", each.address)
		.field("active", each.active)
		.field("limit", each.limit)
		.field("accepted", each.accepted)
		.field("retries", each.retries)
		.field("tls_full", each.tls_full)
		.field("tls_resumed", each.tls_resumed)
		.field("sources_forgotten", each.sources_forgotten)
		.field("bandwidth_sources", each.bandwidth_sources)
		.field("throttled", each.throttled)
		.field("throttled_ms", each.throttled_time);
	add_both_ways(to, "throttled_now", each.throttled_now);
	to.open("ended", '{');
	for (std::size_t i = 0; i < terminations; i++)
		to.field(termination_names[i], each.ended[i]);
	to.close('}');
	add_flow(to, "to_backend", each.to_backend);
	add_flow(to, "to_client", each.to_client);
	if (each.datagrams.are_there) {
		to.open("datagrams", '{')
			.field("to_backend", each.datagrams.to_backend)
			.field("to_client", each.datagrams.to_client)
			.open("dropped", '{');
		for (std::size_t i = 0; i < udp_drops; i++)
			to.field(udp_drop_names[i], each.datagrams.dropped[i]);
		to.close('}').close('}');
	}
	add_histogram(to, "connect", each.times.connect);
	add_histogram(to, "first_byte", each.times.first_byte);
	add_histogram(to, "duration", each.times.duration);
	to.close('}');
}

void add_agent(json &to, const agent_snapshot &of)
{
	to.open("agent", '{')
		.field("contact", std::string_view(to_string(of.contact)))
		.field("weight_percent", std::uint64_t{of.percent})
		.field("limit", of.limit)
		.field("admin", std::string_view(of.admin))
		.field("health", std::string_view(of.health))
		.field("description", std::string_view(of.description))
		.field("words", std::string_view(of.words))
		.close('}');
}

/* The fields that a backend and each of its endpoints have in common. */
void add_endpoint(json &to, const endpoint_snapshot &each)
{
	to.field("address", each.address)
		.field("state", std::string_view(to_string(each.state)))
		.field("weight", std::uint64_t{each.weight})
		.field("priority", std::uint64_t{each.priority})
		.field("active", each.active)
		.field("limit", each.limit)
		.field("connected", each.connected)
		.field("failures", each.failures)
		.field("ejections", each.ejections)
		.field("throttled", each.throttled)
		.field("throttled_ms", each.throttled_time)
		.field("checks", each.checks)
		.field("check_failures", each.check_failures)
		.field("last_check_ms", each.last_check)
		.field("last_error", std::string_view(each.last_error));
	if (each.agent.is_there)
		add_agent(to, each.agent);
	add_both_ways(to, "throttled_now", each.throttled_now);
	add_flow(to, "to_backend", each.to_backend);
	add_flow(to, "to_client", each.to_client);
}

void add_backend(json &to, const backend_snapshot &each)
{
	to.open('{').field("route", each.route).field("group", each.route); /* the old name, too */
	add_endpoint(to, each);
	to.field("addresses", std::uint64_t{each.addresses.size()})
		.field("resolve_failures", each.resolve_failures)
		.flag("resolve_failing", each.is_resolve_failing)
		.flag("named", each.is_named)
		.open("resolved", '[');
	for (const auto &address : each.addresses)
		to.value(std::string_view(address));
	to.close(']').open("endpoints", '[');
	for (const auto &one : each.endpoints) {
		to.open('{');
		add_endpoint(to, one);
		to.close('}');
	}
	to.close(']').close('}');
}

void add_group(json &to, const group_snapshot &each)
{
	to.open('{')
		.field("group", each.group)
		.field("queued", each.queued)
		.field("queue_limit", each.queue_limit)
		.field("queue_waits", each.queue_waits)
		.field("queue_full", each.queue_full)
		.field("queue_timeouts", each.queue_timeouts)
		.field("queue_left", each.queue_left)
		.field("queue_ms", each.queue_time);
	if (each.ready_limit != 0) {
		to.field("preconnect", each.ready_limit)
			.field("preconnect_ready", each.ready)
			.field("preconnect_hits", each.ready_hits)
			.field("preconnect_misses", each.ready_misses)
			.field("preconnect_failures", each.ready_failures)
			.open("preconnect_discarded", '{');
		for (std::size_t i = 0; i < ready_end_names.size(); i++)
			to.field(ready_end_names[i], each.ready_discarded[i]);
		to.close('}');
	}
	to.close('}');
}

void add_certificate(json &to, const certificate_snapshot &each)
{
	to.open('{')
		.field(each.is_listener ? "listener" : "group", std::string_view(each.owner))
		.field("name", std::string_view(each.name))
		.field("not_after", static_cast<std::uint64_t>(each.not_after.count()))
		.close('}');
}

void add_list(json &to, const list_snapshot &each)
{
	to.open('{')
		.field("listener", std::string_view(each.listener))
		.field("key", std::string_view(each.key))
		.field("file", std::string_view(each.file))
		.field("entries", each.entries)
		.field("read_ms", each.read)
		.close('}');
}

} // namespace

std::string to_json(const snapshot &now)
{
	json to;
	to.open('{')
		.field("version", std::string_view(now.version))
		.field("time_ms", now.time)
		.field("uptime_ms", now.uptime)
		.flag("ready", now.ready)
		.field("active", now.active)
		.field("limit", now.limit)
		.field("accept_pauses", now.accept_pauses)
		.field("reloads", now.reloads)
		.field("reload_failures", now.reload_failures)
		.field("certificates_left_out", now.certificates_left_out)
		.field("log_dropped", now.log_dropped)
		.field("descriptors", now.descriptors)
		.field("descriptor_limit", now.descriptor_limit)
		.field("pipes", now.pipes)
		.field("pipes_limit", now.pipes_limit)
		.field("pipes_missed", now.pipes_missed)
		.field("tasks", now.tasks)
		.field("processors", now.processors)
		.field("threads_blocking", now.threads_blocking)
		.field("thread_limit_hits", now.thread_limit_hits)
		.field("revocations", now.revocations)
		.field("threads", now.process.threads)
		.field("cpu_ms", std::chrono::nanoseconds(now.process.cpu))
		.field("resident_bytes", now.process.resident)
		.field("events_suppressed", now.events_suppressed)
		.field("events_lost", now.events_lost);
	to.open("listeners", '[');
	for (const auto &each : now.listeners)
		add_listener(to, each);
	to.close(']').open("backends", '[');
	for (const auto &each : now.backends)
		add_backend(to, each);
	to.close(']').open("groups", '[');
	for (const auto &each : now.groups)
		add_group(to, each);
	to.close(']').open("certificates", '[');
	for (const auto &each : now.certificates)
		if (!each.is_list)
			add_certificate(to, each);
	to.close(']').open("revocation_lists", '[');
	for (const auto &each : now.certificates)
		if (each.is_list)
			add_certificate(to, each);
	to.close(']').flag("lists_refused", now.lists_refused).open("lists", '[');
	for (const auto &each : now.lists)
		add_list(to, each);
	to.close(']').close('}');
	return to.finish();
}

} // namespace relay
