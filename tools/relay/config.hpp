/* SPDX-License-Identifier: MIT */
/*
 * The configuration: everything that the relay is asked to do, in memory, and the TOML reader that
 * produces it. The options of the command line are converted to the same structure.
 *
 * A configuration that read_config() returns is complete and valid: every name in it is known,
 * every number is in range, every address is well formed. Otherwise read_config() returns all
 * errors at once, in the order of the file, each as "FILE:LINE:COLUMN: KEY: what is wrong, and what
 * was expected". Only if the text is not TOML does it return the first error alone, because what
 * follows that error cannot be interpreted. An unknown key is an error, because a misspelt limit
 * would be no limit.
 *
 * Nothing is opened or looked up here: whether an address resolves is found out when it is used. A
 * duration of 0 means no limit unless stated otherwise. docs/relay.md describes every key.
 */
#ifndef RELAY_CONFIG_HPP
#define RELAY_CONFIG_HPP

#include "ip.hpp"

#include <sennit/unstable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
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

/* The largest weight. Sums and products of weights and connection counts stay far below 64 bits. */
inline constexpr std::uint32_t weight_max = 1000;

/* Bytes per second, see bandwidth.hpp. */
struct bandwidth_config {
	std::uint64_t to_backend = 0; /* 0: no limit */
	std::uint64_t to_client = 0;
	std::uint64_t burst = 0; /* in each direction; 0: one second's worth */

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
	std::chrono::milliseconds user_timeout{}; /* 0: as long as the system tries */
};

struct backend_config {
	std::string address;
	std::uint32_t weight = 1;          /* 0: no new connections */
	std::uint64_t max_connections = 0; /* 0: no limit of its own */
	bandwidth_config bandwidth{};
};

/* Active health checks, see checker.hpp. */
struct check_config {
	std::chrono::nanoseconds interval{}; /* 0: no checks */
	std::chrono::nanoseconds timeout = std::chrono::seconds(1);
	std::uint32_t rise = 2; /* consecutive successes after which a down backend is up */
	std::uint32_t fall = 3; /* consecutive failures after which it is down */
	std::string send;       /* sent once connected */
	std::string expect;     /* prefix of the answer; empty: connecting is enough */
};

struct group_config {
	std::string name; /* empty: the listener's, with its actual port */
	balancing balance = balancing::round_robin;
	/* Passive ejection, see balance.hpp. */
	std::uint32_t eject_after = 5; /* 0: never */
	std::chrono::nanoseconds eject_for = std::chrono::seconds(10);
	std::chrono::nanoseconds slow_return = std::chrono::seconds(30);
	/* For backends that are given by name, see names.hpp. */
	std::chrono::nanoseconds resolve = std::chrono::seconds(10);
	std::chrono::nanoseconds resolve_timeout = std::chrono::seconds(5);
	check_config check;
	proxy_sending send_proxy = proxy_sending::none;
	keepalive_config keepalive{};         /* for connections to the backends */
	std::vector<backend_config> backends; /* at least one; addresses are unique */
};

/* The group of TLS clients that ask for this name. */
struct sni_route {
	std::string name; /* lower case; "*.example.org" is stored as ".example.org" */
	std::size_t group = 0;
};

struct listener_config {
	static constexpr std::size_t no_group = SIZE_MAX;

	std::string name; /* empty: its address, with its actual port */
	std::string address;
	int mode = 0; /* permission bits of a Unix socket's file; 0: what the umask allows */
	std::size_t group = no_group; /* index into config::groups; no_group only with sni */
	std::vector<sni_route> sni;   /* empty: hellos are not inspected */
	ip_networks proxy_from;       /* empty: no PROXY headers from there */
	bool proxy_from_unix = false; /* the same of clients of a Unix socket */
	std::chrono::nanoseconds hello_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
	std::chrono::nanoseconds half_close_timeout{};
	std::chrono::nanoseconds lifetime{};
	sn_relay_gather gather = SN_RELAY_GATHER_AUTO;
	keepalive_config keepalive{};                 /* for clients' connections */
	std::uint64_t max_connections = 0;            /* 0: no limit of its own */
	std::uint64_t max_connections_per_source = 0; /* 0: none */
	std::uint64_t accept_rate = 0;                /* per second; 0: no limit */
	std::uint64_t accept_burst = 0;               /* at once; at least 1 if there is a rate */
	bandwidth_config bandwidth{};                 /* all its connections together */
	bandwidth_config bandwidth_per_connection{};
	ip_networks deny;
	ip_networks allow; /* empty: every address that is not denied */

	/* Whether connections must begin with a PROXY header. */
	bool expects_header() const noexcept { return proxy_from_unix || !proxy_from.empty(); }
};

struct config {
	std::vector<listener_config> listeners; /* in the order of the file; at least one */
	std::vector<group_config> groups;
	std::chrono::nanoseconds drain = std::chrono::seconds(10); /* 0: no time */
	std::chrono::nanoseconds stats_interval{};                 /* 0: on SIGUSR1 only */
	/* Empty: none. */
	std::string admin;
	std::string access_log;
	bool access_log_json = false;
};

/* One line per error, without line breaks. At least one. */
using config_errors = std::vector<std::string>;

/* Parses the text. Errors refer to it by the name `file`. */
std::variant<config, config_errors> parse_config(std::string_view text, const std::string &file);

/* Reads the file, at most 4 MiB. Blocks on the file system: do not call it in a task. */
std::variant<config, config_errors> read_config(const std::string &file);

} // namespace relay

#endif
