/* SPDX-License-Identifier: MIT */
#include "config/options.hpp"

#include "base/address.hpp"
#include "base/duration.hpp"
#include "config/keepalive.hpp"
#include "stats/events.hpp"
#include "stats/syslog_socket.hpp"

#include <sennit/sennit.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <string>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

/* Laid out by hand for a terminal of 80 columns. options_test checks the defaults in it. */
constexpr const char *help =
	R"(Usage: sennit-relay [OPTION]... LISTEN BACKEND [LISTEN BACKEND]...
       sennit-relay --config FILE [--check | --supervise]
       sennit-relay ctl COMMAND     ask a running relay, or change it: see
                                    sennit-relay ctl --help

Accepts connections at each LISTEN address, connects to its BACKEND, and
passes bytes on in both directions. Half-closes and resets are passed on too.

Addresses are HOST:PORT or [IPV6]:PORT. LISTEN can also be :PORT, which means
every address of this machine. Port 0 means any free port; stdout has the one
that was chosen. Either can be a Unix socket: unix:/PATH, unix:./PATH, or
unix:@NAME for an abstract name. A socket's file that nobody has open any more
is replaced, and the relay removes its own when it ends. BACKEND can also be
srv:NAME, a service that DNS knows by SRV records. With LISTEN udp:ADDRESS:PORT
datagrams are relayed, in sessions of one client each.

Options:
  --config FILE               read everything from a TOML file, see the manual;
                              no address or other option may be given with it
  --check                     only validate the file, or the other arguments:
                              exit status 0 or 2
  --supervise                 run under a first process, which stays when
                              SIGUSR2 replaces the relay, and passes signals
                              on; process 1 of a container always does so
  --connect-timeout DURATION  give up on a backend that does not answer for
                              this long; 0: when the system does (default 5s)
  --retries N                 how often to try again, after 0.2 s and then twice
                              as long each time, when the backend refuses or
                              cannot be reached; 0: never (default 4)
  --idle-timeout DURATION     close a connection when no byte has moved in
                              either direction for this long; 0: never
                              (default 10m, of UDP 30s)
  --keepalive DURATION        probe a peer that has been silent for this long,
                              and reset the connection if it does not answer;
                              whole seconds; 0: never (default 1m)
  --drain DURATION            the time that open connections have to finish
                              after SIGTERM; 0: none (default 10s)
  --handover-drain DURATION   the same for the old process after SIGUSR2; 0: none
                              (default: no limit)
  --stop-delay DURATION       keep listening for this long after SIGTERM, while
                              /ready already answers 503, so that load
                              balancers can notice (default 0)
  --stats-interval DURATION   report the counters as an event at this interval;
                              0: only on SIGUSR1 (default 0)
  --admin ADDRESS             serve metrics, health and a live web page there
                              over HTTP; use an address that is not public
  --access-log TARGET         write a line for each connection that has ended
                              to a file, stderr, stdout, fd:N, syslog or
                              syslog:/PATH
  --access-log-format FORMAT  logfmt (default), json, or text with {fields}
  --events TARGET             where events go: stderr, json (to stderr), syslog,
                              syslog:/PATH or journal (default stderr)
  --version                   print the version
  --verbose                   with --version: also the kernel's features, and
                              what replaces those that it lacks
  -h, --help                  print this

A DURATION is a whole number and a unit: 500ms, 10s, 2m, 1h. A number alone
means seconds.

Signals:
  SIGTERM, SIGINT  stop accepting, let open connections finish, exit; a second
                   one ends the delay of --stop-delay, or else resets the
                   connections that are still open
  SIGUSR1          report the counters as an event
  SIGUSR2          start the program's file again and hand over the sockets
  SIGHUP           read the file of --config again, and use it if it is valid;
                   reopen the file of --access-log

Exit status: 0 after SIGTERM or SIGINT, 2 if the command line or the
configuration is wrong, 1 if the relay cannot run.

Example: relay port 8080 of this machine to backend:80, and port 8443 of its
IPv6 loopback to 10.0.0.7:443; close connections that are idle for a minute.

  sennit-relay --idle-timeout 1m :8080 backend:80 [::1]:8443 10.0.0.7:443

The same for a program that serves a Unix socket:

  sennit-relay :8080 unix:/run/app.sock
)";

/* An error in the command line, which becomes a `finished` with exit_usage. */
struct usage_error {
	std::string text;
};

std::chrono::nanoseconds read_duration(const char *option, const std::string &text)
{
	if (const auto duration = parse_duration(text))
		return *duration;
	throw usage_error{std::string(option) + ": \"" + text +
			  "\" is not a duration; expected 0 to a year, such as 500ms, 10s, 2m or "
			  "1h"};
}

std::vector<address_pair> pair_up(const std::vector<std::string> &addresses)
{
	if (addresses.empty())
		throw usage_error{"no addresses; expected pairs of LISTEN and BACKEND, such as "
				  "127.0.0.1:8080 backend:80 (see --help)"};
	/* Check this before the count: a word that is not an address is the likelier mistake. */
	for (std::size_t i = 0; i < addresses.size(); i++) {
		const auto use = i % 2 == 0 ? address_use::serve : address_use::backend;
		if (const auto problem = address_problem(addresses[i], use))
			throw usage_error{
				std::string(use == address_use::serve ? "listen" : "backend") +
				" address \"" + addresses[i] + "\": " + *problem};
	}
	if (addresses.size() % 2 != 0)
		throw usage_error{"listen address \"" + addresses.back() +
				  "\" has no backend; expected pairs of LISTEN and BACKEND"};

	std::vector<address_pair> pairs;
	for (std::size_t i = 0; i < addresses.size(); i += 2)
		pairs.push_back({addresses[i], addresses[i + 1]});
	for (const auto &[listen, backend] : pairs)
		if (is_udp(listen) && is_unix(backend))
			throw usage_error{"backend address \"" + backend +
					  "\": a Unix socket takes no datagrams; expected "
					  "HOST:PORT"};
	for (const auto &[listen, backend] : pairs)
		if (leads_back(backend, listen))
			throw usage_error{
				"listen address \"" + listen +
				"\": its connections would come back from the backend \"" +
				backend + "\"; expected another address"};
	return pairs;
}

/* CLI11's error in one line that names the offending argument. */
std::string explain(const CLI::App &app, const CLI::ParseError &error)
{
	if (dynamic_cast<const CLI::ExtrasError *>(&error)) {
		const auto extras = app.remaining();
		return "unknown option \"" + (extras.empty() ? error.what() : extras.front()) +
		       "\"; expected one that --help lists";
	}
	return std::string(error.what()) + " (see --help)";
}

} // namespace

config to_config(const options &parsed)
{
	config made;
	for (const auto &[listen, backend] : parsed.pairs) {
		group_config &group = made.groups.emplace_back();
		group.backends.emplace_back().address = backend;
		group.retry.most = parsed.retries;
		listener_config &listener = made.listeners.emplace_back();
		listener.address = listen;
		listener.group = made.groups.size() - 1;
		listener.connect_timeout = parsed.connect_timeout;
		if (is_udp(listen))
			listener.idle_timeout = udp_idle_timeout;
		if (parsed.idle_timeout)
			listener.idle_timeout = *parsed.idle_timeout;
		listener.keepalive.idle = group.keepalive.idle = parsed.keepalive;
	}
	made.drain = parsed.drain;
	made.handover_drain = parsed.handover_drain;
	made.stop_delay = parsed.stop_delay;
	made.stats_interval = parsed.stats_interval;
	made.admin = parsed.admin;
	made.access_log = parsed.access_log;
	made.access_log_format = parsed.access_log_format;
	made.events = parsed.events;
	return made;
}

std::variant<options, finished> parse_options(int argc, const char *const *argv)
try {
	options parsed;
	std::vector<std::string> addresses;
	std::chrono::nanoseconds handover_drain{};
	std::chrono::nanoseconds idle_timeout{};
	/* Converted after parsing, so that the relay words the messages, and not CLI11. */
	struct {
		const char *name;
		std::chrono::nanoseconds *into;
		std::string text{};
	} durations[] = {
		{"--connect-timeout", &parsed.connect_timeout},
		{"--idle-timeout", &idle_timeout},
		{"--drain", &parsed.drain},
		{"--handover-drain", &handover_drain},
		{"--stop-delay", &parsed.stop_delay},
		{"--stats-interval", &parsed.stats_interval},
	};

	CLI::App app;
	app.set_help_flag("-h,--help");
	app.set_version_flag("--version", std::string("sennit-relay ") + sn_version());
	app.add_option("addresses", addresses);
	for (auto &each : durations)
		app.add_option(each.name, each.text)->type_name("DURATION");

	std::string retries;
	app.add_option("--retries", retries)->type_name("N");

	std::string keepalive;
	app.add_option("--keepalive", keepalive)->type_name("DURATION");

	std::string format = "logfmt";
	app.add_option("--admin", parsed.admin)->type_name("ADDRESS");
	app.add_option("--access-log", parsed.access_log)->type_name("TARGET");
	app.add_option("--access-log-format", format)->type_name("FORMAT");

	app.add_option("--events", parsed.events)->type_name("TARGET");

	app.add_option("--config", parsed.config_file)->type_name("FILE");
	app.add_flag("--check", parsed.check);
	app.add_flag("--supervise", parsed.supervise);
	app.add_flag("--verbose");

	try {
		app.parse(argc, argv);
	} catch (const CLI::CallForHelp &) {
		return finished{0, help};
	} catch (const CLI::CallForVersion &asked) {
		return finished{0, std::string(asked.what()) + "\n", app.count("--verbose") > 0};
	} catch (const CLI::ParseError &error) {
		throw usage_error{explain(app, error)};
	}

	if (app.count("--verbose") > 0)
		throw usage_error{"--verbose: without --version; expected both"};

	if (app.count("--config") > 0) {
		/* The file must contain everything: otherwise one setting could have two
		 * conflicting values. */
		for (const char *other :
		     {"addresses", "--connect-timeout", "--retries", "--idle-timeout",
		      "--keepalive", "--drain", "--handover-drain", "--stop-delay",
		      "--stats-interval", "--admin", "--access-log", "--access-log-format",
		      "--events"})
			if (app.count(other) > 0)
				throw usage_error{std::string(other) +
						  " cannot be combined with --config; "
						  "expected it in the file"};
		if (parsed.config_file.empty())
			throw usage_error{"--config: is empty; expected the name of a file"};
		return parsed;
	}
	for (const auto &each : durations)
		if (app.count(each.name) > 0)
			*each.into = read_duration(each.name, each.text);
	if (app.count("--handover-drain") > 0)
		parsed.handover_drain = handover_drain;
	if (app.count("--idle-timeout") > 0)
		parsed.idle_timeout = idle_timeout;
	if (app.count("--retries") > 0) {
		const char *const end = retries.data() + retries.size();
		const auto [rest, err] = std::from_chars(retries.data(), end, parsed.retries);
		if (err != std::errc{} || rest != end || parsed.retries > 100)
			throw usage_error{"--retries: \"" + retries +
					  "\" is not a number of attempts; expected 0 to 100"};
	}
	if (app.count("--keepalive") > 0) {
		const auto silence = read_duration("--keepalive", keepalive);
		const auto seconds = to_keepalive(silence);
		if (!seconds && silence.count() != 0)
			throw usage_error{
				"--keepalive: \"" + keepalive +
				"\" is not supported; expected whole seconds, 1s to 9h, or "
				"0 for none"};
		parsed.keepalive = seconds.value_or(std::chrono::seconds(0));
	}
	if (app.count("--admin") > 0)
		if (const auto problem = address_problem(parsed.admin, address_use::listen))
			throw usage_error{"--admin: " + *problem};
	std::string why;
	if (auto own = log_format::parse(format, why))
		parsed.access_log_format = *std::move(own);
	else
		throw usage_error{"--access-log-format: " + why};
	if (is_syslog(parsed.access_log))
		if (const auto problem = event_target_problem(parsed.access_log))
			throw usage_error{"--access-log: \"" + parsed.access_log + "\" " +
					  *problem};
	if (const auto problem = event_target_problem(parsed.events))
		throw usage_error{"--events: \"" + parsed.events + "\" " + *problem};
	parsed.pairs = pair_up(addresses);
	for (const auto &pair : parsed.pairs)
		if (parsed.idle_timeout && parsed.idle_timeout->count() == 0 && is_udp(pair.listen))
			throw usage_error{
				"--idle-timeout: is 0, but nothing else ends the sessions of " +
				pair.listen + "; expected more"};
	for (const auto &pair : parsed.pairs)
		if (pair.listen == parsed.admin && !is_any(parsed.admin))
			throw usage_error{"--admin: \"" + parsed.admin +
					  "\" is already a listen address; expected another"};
	return parsed;
} catch (usage_error &error) {
	return finished{exit_usage, std::move(error.text)};
}

} // namespace relay
