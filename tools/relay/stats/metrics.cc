/* SPDX-License-Identifier: MIT */
#include "stats/metrics.hpp"

#include "base/text.hpp"

#include <array>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

namespace relay
{
namespace
{

using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/*
 * The bounds of the histograms' buckets, from 64 us to 17 minutes by factors of 2, 4 and 16. They
 * are powers of two of microseconds, because those are exact (histogram.hpp). They are few, because
 * each is a time series for each listener.
 */
constexpr unsigned bounds[] = {6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
			       16, 17, 18, 19, 20, 22, 24, 26, 30};

/* The time in seconds, to the millisecond. */
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
		whole_metric(std::string("sennit_relay_").append(name), type, help);
	}

	/* Begins a metric that other programs have as well, so its name does not begin with
	 * "sennit_relay_". */
	void whole_metric(std::string name, std::string_view type, std::string_view help)
	{
		name_ = std::move(name);
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
	one("ready", "gauge", now.ready, "1 while /ready answers 200, else 0.");
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
	one("ejections_total", "counter", now.ejections,
	    "Times that a backend was ejected because connections to it failed.");
	one("check_failures_total", "counter", now.check_failures, "Active checks that failed.");
	one("certificates_left_out_total", "counter", now.certificates_left_out,
	    "PROXY headers to backends into which the client certificate did not fit.");
	one("access_log_dropped_total", "counter", now.log_dropped,
	    "Lines of the access log that were dropped because its target is slow or takes "
	    "nothing.");
	one("descriptors", "gauge", now.descriptors, "Open descriptors.");
	one("descriptors_limit", "gauge", now.descriptor_limit, "The limit of open descriptors.");
	one("pipes", "gauge", now.pipes, "Pipes that exist for copying in the kernel.");
	one("pipes_limit", "gauge", now.pipes_limit,
	    "The limit of pipes for copying in the kernel.");
	one("pipes_missed_total", "counter", now.pipes_missed,
	    "Times that no pipe was available, and bytes went through userspace.");
	one("tasks", "gauge", now.tasks, "Tasks of the runtime.");
	one("processors", "gauge", now.processors, "Processors that the runtime uses.");
	one("threads_blocking", "gauge", now.threads_blocking,
	    "Threads of the runtime that are in a call that blocks.");
	one("thread_limit_hits_total", "counter", now.thread_limit_hits,
	    "Times that a thread was wanted and could not be started.");
	one("revocations_total", "counter", now.revocations,
	    "Processors taken from threads that blocked or computed for long.");
	one("events_suppressed_total", "counter", now.events_suppressed,
	    "Events that were over the limit of their kind.");
	one("events_lost_total", "counter", now.events_lost,
	    "Events that could not be written anywhere.");

	/* These have the names and help texts of Prometheus' own client libraries. */
	const auto use = [&to](std::string name, std::string_view type, std::string_view value,
			       std::string_view help) {
		to.whole_metric(std::move(name), type, help);
		to.sample("", {}, value);
	};
	const auto &its = now.process;
	std::string cpu;
	append_decimal(cpu, static_cast<std::uint64_t>(its.cpu.count()), 6);
	use("process_cpu_seconds_total", "counter", cpu,
	    "Total user and system CPU time spent in seconds.");
	use("process_open_fds", "gauge", std::to_string(its.descriptors),
	    "Number of open file descriptors.");
	use("process_max_fds", "gauge", std::to_string(its.descriptor_limit),
	    "Maximum number of open file descriptors.");
	use("process_resident_memory_bytes", "gauge", std::to_string(its.resident),
	    "Resident memory size in bytes.");
	use("process_virtual_memory_bytes", "gauge", std::to_string(its.address_space),
	    "Virtual memory size in bytes.");
	use("process_start_time_seconds", "gauge", seconds(its.started),
	    "Start time of the process since unix epoch in seconds.");
	use("process_threads", "gauge", std::to_string(its.threads), "Number of OS threads.");
}

/* The metrics of listeners of UDP. */
void add_datagrams(page &to, const snapshot &now)
{
	to.metric("datagrams_total", "counter",
		  "Datagrams passed on, by the side that they were sent to.");
	for (const auto &each : now.listeners)
		if (each.datagrams.are_there) {
			to.sample({{"listener", each.name}, {"to", "backend"}},
				  each.datagrams.to_backend);
			to.sample({{"listener", each.name}, {"to", "client"}},
				  each.datagrams.to_client);
		}
	to.metric("datagrams_dropped_total", "counter",
		  "Datagrams that were not passed on, by reason.");
	for (const auto &each : now.listeners)
		for (std::size_t i = 0; each.datagrams.are_there && i < udp_drops; i++)
			to.sample({{"listener", each.name}, {"reason", udp_drop_names[i]}},
				  each.datagrams.dropped[i]);
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
	to.metric("sources_forgotten_total", "counter",
		  "Sources whose rate or bandwidth was forgotten for lack of room while it "
		  "mattered.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.sources_forgotten);
	to.metric("bandwidth_sources", "gauge",
		  "Sources that have a connection, or whose bandwidth is not forgotten yet.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.bandwidth_sources);
	to.metric("retries_total", "counter",
		  "Further attempts, after one backend could not be connected to.");
	for (const auto &each : now.listeners)
		to.sample({{"listener", each.name}}, each.retries);
	to.metric("tls_handshakes_total", "counter",
		  "TLS handshakes with clients that were complete; resumed sessions are cheaper.");
	for (const auto &each : now.listeners) {
		to.sample({{"listener", each.name}, {"resumed", "no"}}, each.tls_full);
		to.sample({{"listener", each.name}, {"resumed", "yes"}}, each.tls_resumed);
	}
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
	add_datagrams(to, now);
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

void add_certificates(page &to, const snapshot &now)
{
	const auto some = [&to, &now](bool of_listeners, std::string_view owner, bool lists) {
		for (const auto &each : now.certificates)
			if (each.is_listener == of_listeners && each.is_list == lists)
				to.sample("", {{owner, each.owner}, {"name", each.name}},
					  std::to_string(each.not_after.count()));
	};
	to.metric("tls_certificate_not_after_seconds", "gauge",
		  "When a certificate of a listener expires, since 1970.");
	some(true, "listener", false);
	to.metric("tls_client_certificate_not_after_seconds", "gauge",
		  "When a certificate that a group shows to its backends expires, since 1970.");
	some(false, "group", false);
	to.metric("tls_revocation_list_next_update_seconds", "gauge",
		  "When a revocation list for clients of a listener expires, since 1970.");
	some(true, "listener", true);
	to.metric("tls_backend_revocation_list_next_update_seconds", "gauge",
		  "When a revocation list for the backends of a group expires, since 1970.");
	some(false, "group", true);
}

void add_lists(page &to, const snapshot &now)
{
	to.metric("lists_refused", "gauge", "1 if files of lists have changed and cannot be used.");
	to.sample({}, now.lists_refused);
	to.metric("list_entries", "gauge", "Entries of a file of networks or names.");
	for (const auto &each : now.lists)
		to.sample({{"listener", each.listener}, {"key", each.key}, {"file", each.file}},
			  each.entries);
	to.metric("list_read_timestamp_seconds", "gauge",
		  "When the content that is in use was read, since 1970.");
	for (const auto &each : now.lists)
		to.sample("", {{"listener", each.listener}, {"key", each.key}, {"file", each.file}},
			  seconds(each.read));
}

bool is_used(const endpoint_snapshot &of) noexcept
{
	return of.state == health::up || of.state == health::slow ||
	       (of.state == health::unknown && !of.awaits_check) || of.state == health::unchecked;
}

/* Groups have gauges only, because a sum of counters would fall when a reload removes a backend. */
void add_groups(page &to, const snapshot &now)
{
	struct sums {
		std::array<std::uint64_t, health_names.size()> states{};
		std::uint64_t resolve_failing = 0;
	};
	std::map<std::string_view, sums> groups;
	for (const auto &each : now.backends) {
		auto &of = groups[each.route];
		of.states[static_cast<std::size_t>(each.state)]++;
		of.resolve_failing += each.is_resolve_failing;
	}
	to.metric("group_backends", "gauge", "Backends of the group, by state.");
	for (const auto &[group, of] : groups)
		for (std::size_t i = 0; i < health_names.size(); i++)
			to.sample({{"group", group}, {"state", health_names[i]}}, of.states[i]);
	to.metric("group_resolve_failing", "gauge", "Backends whose last name lookup failed.");
	for (const auto &[group, of] : groups)
		to.sample({{"group", group}}, of.resolve_failing);
}

void add_backends(page &to, const snapshot &now, metrics_detail detail)
{
	const auto each_backend = [&to, &now](std::string_view name, std::string_view type,
					      std::string_view help, auto value) {
		to.metric(name, type, help);
		for (const auto &each : now.backends)
			to.sample({{"group", each.route}, {"backend", each.address}}, value(each));
	};
	using b = backend_snapshot;

	each_backend("backend_up", "gauge", "1 when the backend is given connections.",
		     [](const b &each) -> std::uint64_t { return is_used(each); });
	each_backend("backend_connections", "gauge", "Connections to the backend.",
		     [](const b &each) { return each.active; });
	each_backend("backend_connected_total", "counter", "Connections made to the backend.",
		     [](const b &each) { return each.connected; });
	each_backend("backend_failures_total", "counter",
		     "Connections to the backend that could not be made.",
		     [](const b &each) { return each.failures; });
	const auto each_agent = [&to, &now](std::string_view name, std::string_view help,
					    auto value) {
		to.metric(name, "gauge", help);
		for (const auto &each : now.backends)
			if (each.agent.is_there)
				to.sample({{"group", each.route}, {"backend", each.address}},
					  value(each.agent));
	};
	each_agent("backend_agent_answers",
		   "0 if the agent did not answer the last time, otherwise 1.",
		   [](const agent_snapshot &of) -> std::uint64_t {
			   return of.contact != agent_contact::lost;
		   });
	each_agent("backend_agent_weight_percent",
		   "The weight that the agent has set, in percent of the configured one.",
		   [](const agent_snapshot &of) -> std::uint64_t { return of.percent; });
	to.metric("backend_addresses", "gauge",
		  "Addresses that the backend's name resolves to; 0: it does not resolve.");
	for (const auto &each : now.backends)
		if (each.is_named || detail == metrics_detail::full)
			to.sample({{"group", each.route}, {"backend", each.address}},
				  each.addresses.size());
	if (detail != metrics_detail::full)
		return;

	to.metric("backend_state", "gauge", "1 for the state that the backend is in.");
	for (const auto &each : now.backends)
		for (std::size_t i = 0; i < health_names.size(); i++)
			to.sample({{"group", each.route},
				   {"backend", each.address},
				   {"state", health_names[i]}},
				  static_cast<std::size_t>(each.state) == i);
	each_backend("backend_weight", "gauge", "The configured weight.",
		     [](const b &each) -> std::uint64_t { return each.weight; });
	each_backend("backend_connections_limit", "gauge", "Most connections to it; 0: no limit.",
		     [](const b &each) { return each.limit; });
	each_backend("backend_ejections_total", "counter",
		     "Times that the backend was ejected because connections to it failed.",
		     [](const b &each) { return each.ejections; });
	each_backend("backend_throttled_total", "counter",
		     "Times that bytes had to wait for the backend's bandwidth.",
		     [](const b &each) { return each.throttled; });
	to.metric("backend_throttled_seconds_total", "counter",
		  "Time that bytes had to wait for the backend's bandwidth, summed.");
	for (const auto &each : now.backends)
		to.sample("", {{"group", each.route}, {"backend", each.address}},
			  seconds(each.throttled_time));
	to.metric("backend_throttled_connections", "gauge",
		  "Connections whose bytes wait for the backend's bandwidth now.");
	for (const auto &each : now.backends) {
		to.sample({{"group", each.route}, {"backend", each.address}, {"to", "backend"}},
			  each.throttled_now.to_backend);
		to.sample({{"group", each.route}, {"backend", each.address}, {"to", "client"}},
			  each.throttled_now.to_client);
	}
	each_backend("backend_resolve_failing", "gauge",
		     "1 when the last lookup of the backend's name failed.",
		     [](const b &each) { return std::uint64_t{each.is_resolve_failing}; });
	each_backend("backend_resolve_failures_total", "counter",
		     "Lookups of the backend's name that failed.",
		     [](const b &each) { return each.resolve_failures; });
	each_backend("backend_checks_total", "counter", "Active checks that ended.",
		     [](const b &each) { return each.checks; });
	each_backend("backend_check_failures_total", "counter", "Active checks that failed.",
		     [](const b &each) { return each.check_failures; });
	to.metric("backend_last_check_timestamp_seconds", "gauge",
		  "When the last active check ended; 0: none has.");
	for (const auto &each : now.backends)
		to.sample("", {{"group", each.route}, {"backend", each.address}},
			  seconds(each.last_check));
	to.metric("backend_bytes_total", "counter", "Bytes delivered, by the side that got them.");
	for (const auto &each : now.backends) {
		to.sample({{"group", each.route}, {"backend", each.address}, {"to", "backend"}},
			  each.to_backend.bytes);
		to.sample({{"group", each.route}, {"backend", each.address}, {"to", "client"}},
			  each.to_client.bytes);
	}
}

/* The endpoints of backends that are names. There may be a few hundred for each backend, so each
 * has few series: for example, only the state in which it is, and not one series for each state. */
void add_endpoints(page &to, const snapshot &now)
{
	using e = endpoint_snapshot;

	const auto every = [&now](auto &&with) {
		for (const auto &each : now.backends)
			for (const auto &one : each.endpoints)
				with(each, one);
	};
	const auto each_endpoint = [&](std::string_view name, std::string_view type,
				       std::string_view help, auto value) {
		to.metric(name, type, help);
		every([&](const backend_snapshot &of, const e &one) {
			to.sample({{"group", of.route},
				   {"backend", of.address},
				   {"endpoint", one.address}},
				  value(one));
		});
	};

	each_endpoint("endpoint_up", "gauge", "1 when the address is given connections.",
		      [](const e &one) -> std::uint64_t { return is_used(one); });
	to.metric("endpoint_state", "gauge", "The state that the address is in; always 1.");
	every([&](const backend_snapshot &of, const e &one) {
		to.sample({{"group", of.route},
			   {"backend", of.address},
			   {"endpoint", one.address},
			   {"state", to_string(one.state)}},
			  1);
	});
	each_endpoint("endpoint_connections", "gauge", "Connections to the address.",
		      [](const e &one) { return one.active; });
	each_endpoint("endpoint_connected_total", "counter", "Connections made to the address.",
		      [](const e &one) { return one.connected; });
	each_endpoint("endpoint_failures_total", "counter",
		      "Connections to the address that could not be made.",
		      [](const e &one) { return one.failures; });
	each_endpoint("endpoint_ejections_total", "counter",
		      "Times that the address was ejected because connections to it failed.",
		      [](const e &one) { return one.ejections; });
	each_endpoint("endpoint_check_failures_total", "counter",
		      "Active checks of the address that failed.",
		      [](const e &one) { return one.check_failures; });
	const auto each_agent = [&](std::string_view name, std::string_view help, auto value) {
		to.metric(name, "gauge", help);
		every([&](const backend_snapshot &of, const e &one) {
			if (one.agent.is_there)
				to.sample({{"group", of.route},
					   {"backend", of.address},
					   {"endpoint", one.address}},
					  value(one.agent));
		});
	};
	each_agent("endpoint_agent_answers",
		   "0 if the agent of the address did not answer the last time, otherwise 1.",
		   [](const agent_snapshot &of) -> std::uint64_t {
			   return of.contact != agent_contact::lost;
		   });
	each_agent("endpoint_agent_weight_percent",
		   "The weight that the address's agent has set, in percent of the configured one.",
		   [](const agent_snapshot &of) -> std::uint64_t { return of.percent; });
	to.metric("endpoint_bytes_total", "counter", "Bytes delivered, by the side that got them.");
	every([&](const backend_snapshot &of, const e &one) {
		for (const auto &[side, bytes] : {std::pair("backend", one.to_backend.bytes),
						  std::pair("client", one.to_client.bytes)})
			to.sample({{"group", of.route},
				   {"backend", of.address},
				   {"endpoint", one.address},
				   {"to", side}},
				  bytes);
	});
}

void add_queues(page &to, const snapshot &now)
{
	const auto each_group = [&to, &now](std::string_view name, std::string_view type,
					    std::string_view help, auto value) {
		to.metric(name, type, help);
		for (const auto &each : now.groups)
			to.sample({{"group", each.group}}, each.*value);
	};
	using g = group_snapshot;

	each_group("queue_connections", "gauge", "Clients that wait for a place at a backend.",
		   &g::queued);
	each_group("queue_limit", "gauge", "Most clients that may wait; 0: none.", &g::queue_limit);
	each_group("queue_waits_total", "counter", "Clients that had to wait for a place.",
		   &g::queue_waits);
	each_group("queue_full_total", "counter",
		   "Clients that were refused because too many waited.", &g::queue_full);
	each_group("queue_timeouts_total", "counter", "Clients that waited too long.",
		   &g::queue_timeouts);
	each_group("queue_left_total", "counter", "Clients that went away while they waited.",
		   &g::queue_left);
	to.metric("queue_seconds_total", "counter",
		  "Time that clients have waited for a place, summed.");
	for (const auto &each : now.groups)
		to.sample("", {{"group", each.group}}, seconds(each.queue_time));
}

/* Ready connections, only for groups that have them. */
void add_ready(page &to, const snapshot &now)
{
	using g = group_snapshot;
	std::vector<const g *> groups;
	for (const auto &each : now.groups)
		if (each.ready_limit != 0)
			groups.push_back(&each);
	if (groups.empty())
		return;
	const auto each_group = [&](std::string_view name, std::string_view type,
				    std::string_view help, auto value) {
		to.metric(name, type, help);
		for (const g *each : groups)
			to.sample({{"group", each->group}}, each->*value);
	};

	each_group("preconnect_ready", "gauge", "Connections made ahead that wait for a client.",
		   &g::ready);
	each_group("preconnect_hits_total", "counter",
		   "Connections made ahead that a client was given.", &g::ready_hits);
	each_group("preconnect_misses_total", "counter",
		   "Times that no connection made ahead was ready for a client.", &g::ready_misses);
	each_group("preconnect_failures_total", "counter",
		   "Connections that could not be made ahead.", &g::ready_failures);
	to.metric("preconnect_discarded_total", "counter",
		  "Connections made ahead that were closed unused, by reason.");
	for (const g *each : groups)
		for (std::size_t i = 0; i < ready_end_names.size(); i++)
			to.sample({{"group", each->group}, {"reason", ready_end_names[i]}},
				  each->ready_discarded[i]);
}

} // namespace

std::string to_metrics(const snapshot &now, metrics_detail detail)
{
	page to;
	add_process(to, now);
	add_listeners(to, now);
	add_certificates(to, now);
	add_lists(to, now);
	add_groups(to, now);
	add_queues(to, now);
	add_ready(to, now);
	add_backends(to, now, detail);
	if (detail == metrics_detail::full)
		add_endpoints(to, now);
	return to.finish();
}

} // namespace relay
