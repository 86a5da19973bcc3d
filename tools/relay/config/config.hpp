/* SPDX-License-Identifier: MIT */
/*
 * The configuration: everything that the relay is asked to do, in memory, and the TOML reader that
 * produces it. The options of the command line are converted to the same structure.
 *
 * A configuration that read_config() returns is complete and valid: every name in it is known,
 * every number is in range, every address is well formed. Otherwise read_config() returns all
 * errors together, in the order of the file, each as "FILE:LINE:COLUMN: KEY: what is wrong, and
 * what was expected". Only if the text is not TOML does it return the first error alone, because
 * the text after that error cannot be interpreted. An unknown key is an error, because a misspelt
 * limit would be no limit.
 *
 * Only files are read here: the configuration and the lists that it names (config_lists.hpp). No
 * name is looked up: whether an address resolves is found out when it is used. A duration of 0
 * means no limit unless stated otherwise. docs/relay-reference.md describes every key.
 */
#ifndef RELAY_CONFIG_HPP
#define RELAY_CONFIG_HPP

#include "base/byte_pattern.hpp"
#include "base/file_stamp.hpp"
#include "base/ip.hpp"
#include "base/regex.hpp"
#include "stats/log_line.hpp"
#include "tls/tls_settings.hpp"

#include <sennit/unstable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace relay
{

/* How a backend is chosen; balance.hpp describes each. */
enum class balancing : unsigned char {
	round_robin,
	least_connections,
	two_choices,
	source_hash,
};

/* Whether connections to a backend begin with a PROXY header that carries the client's address. */
enum class proxy_sending : unsigned char { none, v1, v2 };

/* What a PROXY header of version 2 can carry in addition to the addresses. */
struct proxy_extras {
	bool checksum = false;
	bool unique_id = false;
	bool client_certificate = false; /* of a client whose TLS ends here */
};

/* The largest weight. Sums and products of weights and connection counts stay far below 64 bits. */
inline constexpr std::uint32_t weight_max = 1000;

inline constexpr std::uint32_t priority_max = 1000;

/* Bytes per second, see bandwidth.hpp. */
struct bandwidth_config {
	std::uint64_t to_backend = 0; /* 0: no limit */
	std::uint64_t to_client = 0;
	std::uint64_t burst = 0; /* in each direction; 0: one second's worth */

	bool is_there() const noexcept { return to_backend != 0 || to_client != 0; }

	std::uint64_t burst_of(std::uint64_t per_second) const noexcept
	{
		return burst ? burst : per_second;
	}
};

/* TCP keepalive, see keepalive.hpp. In the kernel's units and ranges. */
struct keepalive_config {
	std::chrono::seconds idle{60}; /* of silence before the first probe; 0: no probes */
	std::chrono::seconds interval{15};
	std::uint32_t count = 4; /* unanswered probes after which the peer is gone */
	std::chrono::milliseconds user_timeout{}; /* 0: the system's own limit */
};

/* Where a check connects to instead of the endpoint itself. At most one field is set. */
struct check_place {
	std::uint16_t port = 0; /* of the endpoint's host */
	std::string address{};  /* an address of its own */

	bool is_other() const noexcept { return port != 0 || !address.empty(); }
};

struct backend_config {
	std::string address;
	std::uint32_t weight = 1;          /* 0: no new connections */
	std::uint64_t max_connections = 0; /* 0: no limit of its own */
	bandwidth_config bandwidth{};
	check_place check{}; /* used instead of the group's */
	/* A backend gets connections only while no backend of a lower value is available. */
	std::uint32_t priority = 0;
	/* Where its agent is, instead of the group's place. */
	check_place agent{};
	std::optional<std::string> agent_send{};
};

/* An inclusive range of HTTP statuses. */
struct status_range {
	std::uint16_t low = 200;
	std::uint16_t high = 399;
};

/* Further attempts when no backend can be connected to, see session.hpp. */
struct retry_config {
	std::uint32_t most = 4;                                          /* 0: none */
	std::chrono::nanoseconds delay = std::chrono::milliseconds(200); /* doubles each time */
};

/* The queue of a group, see queue.hpp. */
struct queue_config {
	std::uint64_t limit = 1000; /* most clients that wait; 0: none waits */
	std::chrono::nanoseconds timeout = std::chrono::seconds(5); /* 0: forever */
	/* Whether a client that has ended its stream counts as gone, see client_wait.hpp. */
	bool leave_by_half_close = false;
};

/* Connections that are made ahead of clients, see ready.hpp. */
struct preconnect_config {
	std::uint32_t most = 0; /* to each endpoint; 0: none */
	std::chrono::nanoseconds age = std::chrono::seconds(10);
};

/* What happens to the open connections of a backend that goes down. */
enum class when_down : unsigned char { keep, drain, cut };

/* Active health checks, see checker.hpp. */
struct check_config {
	std::chrono::nanoseconds interval{}; /* 0: no checks */
	std::chrono::nanoseconds timeout = std::chrono::seconds(1);
	std::uint32_t rise = 2; /* consecutive successes after which a down backend is up */
	std::uint32_t fall = 3; /* consecutive failures after which it is down */
	when_down on_down = when_down::keep;
	bool starts_down = false; /* a backend gets no connections before its first good check */
	std::string send;         /* sent once connected */
	byte_pattern expect; /* prefix of the answer; empty, and no regex: connecting is enough */
	/* Must be found in the answer, or in its body if that is HTTP; null: there is none. */
	std::shared_ptr<const regex> expect_regex{};
	check_place at;
	/* An HTTP request instead: its method and target, such as "GET /health"; empty: none. */
	std::string http;
	std::string host;                     /* its Host header; empty: the address of the check */
	std::vector<status_range> status{{}}; /* statuses of a healthy backend */
	/* Whether the check uses the group's TLS; nothing: only if it connects to the endpoint
	 * itself. */
	std::optional<bool> tls{};
	bool udp = false; /* asks by datagrams, see datagram_probe.hpp; only with send */
};

/* The agents of the backends, see agents.hpp. */
struct agent_config {
	std::chrono::nanoseconds interval{}; /* 0: there are none */
	std::chrono::nanoseconds timeout = std::chrono::seconds(1);
	check_place at;                     /* not set if each backend has its own */
	std::string send;                   /* text to send once connected */
	std::optional<when_down> on_down{}; /* nothing: the checks' setting */

	bool is_there() const noexcept { return interval.count() > 0; }
};

struct group_config {
	std::string name; /* empty: the listener's, with its actual port */
	balancing balance = balancing::round_robin;
	/* Passive ejection, see balance.hpp. */
	std::uint32_t eject_after = 5; /* 0: never */
	std::chrono::nanoseconds eject_for = std::chrono::seconds(10);
	std::chrono::nanoseconds slow_return = std::chrono::seconds(30);
	/* The time to connect to an endpoint while another one is left to try; 0: half of the
	 * remaining time. */
	std::chrono::nanoseconds attempt_timeout{};
	/* The interval and the timeout of name lookups, see names.hpp. */
	std::chrono::nanoseconds resolve = std::chrono::seconds(10);
	std::chrono::nanoseconds resolve_timeout = std::chrono::seconds(5);
	check_config check;
	agent_config agent{};
	retry_config retry{};
	queue_config queue{}; /* for clients when all backends are full */
	preconnect_config preconnect{};
	proxy_sending send_proxy = proxy_sending::none;
	proxy_extras send_proxy_with{};
	std::optional<tls_client_settings> tls{};
	keepalive_config keepalive{};         /* for connections to the backends */
	std::vector<backend_config> backends; /* at least one; addresses are unique */
};

/* Most UDP sessions end by this timeout, see udp_session.hpp. */
inline constexpr std::chrono::seconds udp_idle_timeout{30};

/* The group of TLS clients that ask for this name. */
struct sni_route {
	std::string name; /* lower case; "*.example.org" is stored as ".example.org" */
	std::size_t group = 0;
};

/* The group of TLS clients that offer this protocol (ALPN). */
struct alpn_route {
	std::string protocol;
	std::size_t group = 0;
};

/* A file with entries of `allow`, `deny` or `sni`. */
struct list_file {
	std::string key; /* the key that names the file, such as "deny_file" */
	std::string file;
	std::uint64_t entries = 0;
	file_stamp before{}; /* the file's state before it was read */
};

struct listener_config {
	static constexpr std::size_t no_group = SIZE_MAX;

	std::string name; /* empty: its address, with its actual port */
	std::string address;
	int mode = 0; /* permission bits of a Unix socket's file; 0: what the umask allows */
	std::size_t group = no_group; /* index into config::groups; no_group only with sni */
	std::vector<sni_route> sni;   /* by name; empty: hellos are not inspected */
	std::vector<alpn_route> alpn; /* decide before sni does; empty: none */
	std::optional<tls_server_settings> tls{}; /* nothing: clients' TLS is not ended here */
	ip_networks proxy_from;                   /* proxies that send PROXY headers; empty: none */
	bool proxy_from_unix = false;             /* whether clients of a Unix socket send them */
	std::chrono::nanoseconds hello_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
	/* UDP: the session ends after this many answers to each datagram; 0: no limit. */
	std::uint32_t responses = 0;
	std::chrono::nanoseconds half_close_timeout{};
	std::chrono::nanoseconds lifetime{};
	sn_relay_coalesce coalesce = SN_RELAY_COALESCE_AUTO;
	keepalive_config keepalive{};                 /* for clients' connections */
	std::uint64_t max_connections = 0;            /* 0: no limit of its own */
	std::uint64_t max_connections_per_source = 0; /* 0: none */
	std::uint64_t accept_rate = 0;                /* per second; 0: no limit */
	std::uint64_t accept_burst = 0;               /* together; at least 1 if there is a rate */
	/* The same for each client address. */
	std::uint64_t accept_rate_per_source = 0;
	std::uint64_t accept_burst_per_source = 0;
	bandwidth_config bandwidth{};            /* all its connections together */
	bandwidth_config bandwidth_per_source{}; /* those of each client address together */
	bandwidth_config bandwidth_per_connection{};
	ip_networks deny;
	ip_networks allow;            /* empty: every address that is not denied */
	std::vector<list_file> lists; /* the files of allow, deny and sni */

	/* Whether it has a limit that depends on the client's address, besides the lists. */
	bool limits_sources() const noexcept
	{
		return max_connections_per_source != 0 || accept_rate_per_source != 0 ||
		       bandwidth_per_source.is_there();
	}

	/* Whether the hello of TLS clients is read, and passed on. */
	bool reads_hello() const noexcept { return !tls && !(sni.empty() && alpn.empty()); }

	/* Whether connections must begin with a PROXY header. */
	bool expects_header() const noexcept { return proxy_from_unix || !proxy_from.empty(); }
};

struct config {
	std::vector<listener_config> listeners; /* in the order of the file; at least one */
	std::vector<group_config> groups;
	std::chrono::nanoseconds drain = std::chrono::seconds(10); /* 0: no time */
	/* The drain time of a process that has handed over. Nothing: no limit. */
	std::optional<std::chrono::nanoseconds> handover_drain{};
	std::chrono::nanoseconds stop_delay{};     /* time of listening after /ready says 503 */
	std::chrono::nanoseconds stats_interval{}; /* 0: on SIGUSR1 only */
	/* Empty: none. */
	std::string admin;
	std::vector<std::string> admin_hosts{}; /* names of the admin server, see host_names.hpp */
	std::string control;                    /* address of the control server; empty: none */
	int control_mode = 0600;                /* mode of its Unix socket's file */
	std::string control_token_file;         /* of the clients' token; empty: none */
	std::string access_log;
	log_format access_log_format{};
	std::string events = "stderr"; /* where events go, see events.hpp */
	std::string text;              /* the file's text; empty: made from arguments */
};

/* At least one error, each as one line without a line break. */
struct config_errors {
	std::vector<std::string> lines{};
	/* A list could not be read, so its content is not known to be bad. */
	bool has_unread = false;
};

/* Parses the text. Errors refer to it by the name `file`. Blocks on the file system, if it names
 * lists. */
std::variant<config, config_errors> parse_config(std::string_view text, const std::string &file);

/* Reads the file, at most 4 MiB. Blocks on the file system: do not call it in a task. */
std::variant<config, config_errors> read_config(const std::string &file);

} // namespace relay

#endif
