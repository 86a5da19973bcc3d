/* SPDX-License-Identifier: MIT */
#include "metrics.hpp"

#include "text.hpp"

#include <initializer_list>
#include <string_view>
#include <utility>

namespace relay
{
namespace
{

using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/*
 * The bounds of the histograms' buckets, as powers of two of microseconds, because those are exact
 * (histogram.hpp): from 64 us to 17 minutes by factors of 2, 4 and 16. There are few, because each
 * is a time series for each listener.
 */
constexpr unsigned bounds[] = {6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
			       16, 17, 18, 19, 20, 22, 24, 26, 30};

/* To the millisecond. */
std::string seconds(std::chrono::nanoseconds time)
{
	std::string text;
	append_decimal(text, histogram_counts::microseconds(time) / 1000, 3);
	return text;
}

class page
{
public:
	/* Begins a metric. Its samples follow. */
	void metric(std::string_view name, std::string_view type, std::string_view help)
	{
		name_ = std::string("sennit_relay_").append(name);
		out_ += "# HELP " + name_ + ' ';
		out_.append(help) += "\n# TYPE " + name_ + ' ';
		out_.append(type) += '\n';
	}

	void sample(const labels &by, std::uint64_t value)
	{
		sample("", by, std::to_string(value));
	}

	void sample(std::string_view suffix, const labels &by, std::string_view value)
	{
		out_.append(name_).append(suffix);
		char before = '{';
		for (const auto &[name, text] : by) {
			out_ += before;
			out_.append(name) += "=\"";
			append_label(out_, text);
			out_ += '"';
			before = ',';
		}
		if (before == ',')
			out_ += '}';
		out_ += ' ';
		out_.append(value) += '\n';
	}

	void histogram(std::string_view listener, const histogram_counts &counts)
	{
		for (const unsigned power : bounds) {
			const std::uint64_t us = std::uint64_t{1} << power;
			std::string bound;
			append_decimal(bound, us, 6);
			sample("_bucket", {{"listener", listener}, {"le", bound}},
			       std::to_string(counts.below_us(us)));
		}
		const auto total = std::to_string(counts.total());
		sample("_bucket", {{"listener", listener}, {"le", "+Inf"}}, total);
		std::string sum;
		append_decimal(sum, counts.sum_us, 6);
		sample("_sum", {{"listener", listener}}, sum);
		sample("_count", {{"listener", listener}}, total);
	}

	std::string finish() { return std::move(out_); }

private:
	std::string out_;
	std::string name_;
};

void add_process(page &to, const snapshot &now)
{
	const auto one = [&to](std::string_view name, std::string_view type, std::uint64_t value,
			       std::string_view help) {
		to.metric(name, type, help);
		to.sample({}, value);
	};

	to.metric("info", "gauge", "The running version; always 1.");
	to.sample({{"version", now.version}}, 1);
	one("ready", "gauge", now.ready, "1 while new connections are wanted, 0 while draining.");
	to.metric("uptime_seconds", "gauge", "Time since the relay began to serve.");
	to.sample("", {}, seconds(now.uptime));
	one("sessions", "gauge", now.active, "Connections that are open, over all listeners.");
	one("sessions_limit", "gauge", now.limit,
	    "Connections that the descriptors have room for.");
	one("accept_pauses_total", "counter", now.accept_pauses,
	    "Times that accepting waited for descriptors, memory or room.");
	one("reloads_total", "counter", now.reloads, "Configurations that took effect on reload.");
	one("reload_failures_total", "counter", now.reload_failures,
	    "Configurations that were rejected on reload.");
	one("access_log_dropped_total", "counter", now.log_dropped,
	    "Lines of the access log that were dropped because it was too slow.");
	one("descriptors", "gauge", now.descriptors, "Open descriptors.");
	one("descriptors_limit", "gauge", now.descriptor_limit, "Most open descriptors.");
	one("pipes", "gauge", now.pipes, "Pipes for copying in the kernel that exist.");
	one("pipes_limit", "gauge", now.pipes_limit, "Most such pipes.");
	one("pipes_missed_total", "counter", now.pipes_missed,
	    "Times that no pipe was available, and bytes went through userspace.");
	one("tasks", "gauge", now.tasks, "Tasks of the runtime.");
}

void add_listeners(page &to, const snapshot &now)
{
	to.metric("listener_info", "gauge", "The address of a listener; always 1.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}, {"address", each.address}}, 1);
	to.metric("connections", "gauge", "Connections that are open.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.active);
	to.metric("connections_limit", "gauge", "Most open connections; 0: no limit of its own.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.limit);
	to.metric("connections_accepted_total", "counter", "Connections accepted.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.accepted);
	to.metric("connections_ended_total", "counter", "Connections ended, by cause.");
	for (const auto &each : now.listeners)
		for (std::size_t i = 0; i < terminations; i++)
			to.sample({{"listener", each.name}, {"cause", termination_names[i]}},
				  each.ended[i]);
	to.metric("retries_total", "counter",
		  "Attempts at another backend, after one that could not be connected to.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.retries);
	to.metric("throttled_total", "counter", "Times that bytes had to wait for bandwidth.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.throttled);
	to.metric("throttled_seconds_total", "counter",
		  "Time that bytes had to wait for bandwidth, summed over all connections.");
	for (const auto &each : now.listeners)
		to.sample("", {{"listener", each.name}}, seconds(each.throttled_time));
	to.metric("throttled_connections", "gauge",
		  "Connections whose bytes wait for bandwidth now, by the side that is to get "
		  "them.");
	for (const auto &each : now.listeners) {
		to.sample({{"listener", each.name}, {"to", "backend"}},
			  each.throttled_now.to_backend);
		to.sample({{"listener", each.name}, {"to", "client"}},
			  each.throttled_now.to_client);
	}
	to.metric("bytes_total", "counter", "Bytes delivered, by the side that got them.");
	for (const auto &each : now.listeners) {
		to.sample({{"listener", each.name}, {"to", "backend"}}, each.to_backend.bytes);
		to.sample({{"listener", each.name}, {"to", "client"}}, each.to_client.bytes);
	}
	to.metric("path_bytes_total", "counter", "Bytes of connections that have ended, by path.");
	for (const auto &each : now.listeners)
		for (const auto &[side, way] : {std::pair("backend", &each.to_backend),
						std::pair("client", &each.to_client)}) {
			to.sample({{"listener", each.name}, {"to", side}, {"path", "userspace"}},
				  way->userspace);
			to.sample({{"listener", each.name}, {"to", side}, {"path", "splice"}},
				  way->splice);
		}

	to.metric("connect_seconds", "histogram",
		  "Time to connect to a backend, retries included.");
	for (const auto &each : now.listeners)
		to.histogram(each.name, each.times.connect);
	to.metric("first_byte_seconds", "histogram",
		  "Time from the backend's connection to its first byte.");
	for (const auto &each : now.listeners)
		to.histogram(each.name, each.times.first_byte);
	to.metric("connection_seconds", "histogram",
		  "How long connections with a backend were open.");
	for (const auto &each : now.listeners)
		to.histogram(each.name, each.times.duration);
}

void add_backends(page &to, const snapshot &now)
{
	const auto each_backend = [&to, &now](std::string_view name, std::string_view type,
					      std::string_view help, auto value) {
		to.metric(name, type, help);
		for (const auto &each : now.backends)
			to.sample({{"route", each.route}, {"backend", each.address}}, value(each));
	};
	using b = backend_snapshot;

	each_backend("backend_up", "gauge", "1 when the backend is given connections.",
		     [](const b &each) -> std::uint64_t {
			     return each.state == health::up || each.state == health::slow ||
				    each.state == health::unknown;
		     });
	to.metric("backend_state", "gauge", "1 for the state that the backend is in.");
	for (const auto &each : now.backends)
		for (std::size_t i = 0; i < health_names.size(); i++)
			to.sample({{"route", each.route},
				   {"backend", each.address},
				   {"state", health_names[i]}},
				  static_cast<std::size_t>(each.state) == i);
	each_backend("backend_weight", "gauge", "The configured weight.",
		     [](const b &each) -> std::uint64_t { return each.weight; });
	each_backend("backend_connections", "gauge", "Connections to the backend.",
		     [](const b &each) { return each.active; });
	each_backend("backend_connections_limit", "gauge", "Most connections to it; 0: no limit.",
		     [](const b &each) { return each.limit; });
	each_backend("backend_connected_total", "counter", "Connections made to the backend.",
		     [](const b &each) { return each.connected; });
	each_backend("backend_failures_total", "counter",
		     "Connections to the backend that could not be made.",
		     [](const b &each) { return each.failures; });
	each_backend("backend_ejections_total", "counter",
		     "Times that the backend was ejected because connections to it failed.",
		     [](const b &each) { return each.ejections; });
	each_backend("backend_throttled_total", "counter",
		     "Times that bytes had to wait for the backend's bandwidth.",
		     [](const b &each) { return each.throttled; });
	to.metric("backend_throttled_seconds_total", "counter",
		  "Time that bytes had to wait for the backend's bandwidth, summed.");
	for (const auto &each : now.backends)
		to.sample("", {{"route", each.route}, {"backend", each.address}},
			  seconds(each.throttled_time));
	to.metric("backend_throttled_connections", "gauge",
		  "Connections whose bytes wait for the backend's bandwidth now.");
	for (const auto &each : now.backends) {
		to.sample({{"route", each.route}, {"backend", each.address}, {"to", "backend"}},
			  each.throttled_now.to_backend);
		to.sample({{"route", each.route}, {"backend", each.address}, {"to", "client"}},
			  each.throttled_now.to_client);
	}
	each_backend("backend_addresses", "gauge",
		     "Addresses that the backend's name resolves to; 0: it does not resolve.",
		     [](const b &each) { return std::uint64_t{each.addresses.size()}; });
	each_backend("backend_resolve_failing", "gauge",
		     "1 when the last look-up of the backend's name failed.",
		     [](const b &each) { return std::uint64_t{each.is_resolve_failing}; });
	each_backend("backend_resolve_failures_total", "counter",
		     "Look-ups of the backend's name that failed.",
		     [](const b &each) { return each.resolve_failures; });
	each_backend("backend_checks_total", "counter", "Active checks that ended.",
		     [](const b &each) { return each.checks; });
	each_backend("backend_check_failures_total", "counter", "Active checks that failed.",
		     [](const b &each) { return each.check_failures; });
	to.metric("backend_last_check_timestamp_seconds", "gauge",
		  "When the last active check ended; 0: none has.");
	for (const auto &each : now.backends)
		to.sample("", {{"route", each.route}, {"backend", each.address}},
			  seconds(each.last_check));
	to.metric("backend_bytes_total", "counter", "Bytes delivered, by the side that got them.");
	for (const auto &each : now.backends) {
		to.sample({{"route", each.route}, {"backend", each.address}, {"to", "backend"}},
			  each.to_backend.bytes);
		to.sample({{"route", each.route}, {"backend", each.address}, {"to", "client"}},
			  each.to_client.bytes);
	}
}

} // namespace

std::string to_metrics(const snapshot &now)
{
	page to;
	add_process(to, now);
	add_listeners(to, now);
	add_backends(to, now);
	return to.finish();
}

} // namespace relay
