/* SPDX-License-Identifier: MIT */
/*
 * The configuration: everything that the relay is asked to do, in memory, and how it is read from a
 * TOML file. The one-liner of the command line makes the same thing.
 *
 * A configuration that read_config() returns is whole: every name in it is known, every number in
 * its range, every address well formed. Otherwise it returns what is wrong, everything at once and
 * in the order of the file, each "FILE:LINE:COLUMN: KEY: what, and what was expected". Only when the
 * text is no TOML at all is it the first error alone, as what follows it cannot be understood.
 * A key that is not known is an error, as a limit that is misspelt would be no limit.
 *
 * Nothing is opened or looked up here: whether an address resolves is found out when it is used.
 * Durations of 0 are no limit, unless it says otherwise. docs/relay.md tells every key.
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

/* How a backend is chosen; balance.hpp tells what each does. */
enum class balancing : unsigned char {
	round_robin,
	least_connections,
	two_choices,
	source_hash,
};

/* Whether a backend is told whose connection it is, by a PROXY header. */
enum class proxy_sending : unsigned char { none, v1, v2 };

/* The largest weight: so that sums and products of weights and connections fit 64 bits by far. */
inline constexpr std::uint32_t weight_max = 1000;

/* How many bytes a second, see bandwidth.hpp. */
struct bandwidth_config {
	std::uint64_t to_backend = 0; /* 0: no limit */
	std::uint64_t to_client = 0;
	std::uint64_t burst = 0; /* in each direction; 0: what is passed in a second */

	std::uint64_t burst_of(std::uint64_t per_second) const noexcept
	{
		return burst ? burst : per_second;
	}
};

/* Whether a peer is still there, see keepalive.hpp. In the kernel's units and ranges. */
struct keepalive_config {
	std::chrono::seconds idle{60}; /* of silence before the first probe; 0: there is none */
	std::chrono::seconds interval{15};
	std::uint32_t count = 4; /* probes without an answer after which it is gone */
	std::chrono::milliseconds user_timeout{}; /* 0: as long as the system tries */
};

struct backend_config {
	std::string address;
	std::uint32_t weight = 1;          /* 0: no new connections */
	std::uint64_t max_connections = 0; /* 0: no limit of its own */
	bandwidth_config bandwidth{};
};

/* Asking backends whether they are well, see checker.hpp. */
struct check_config {
	std::chrono::nanoseconds interval{}; /* 0: they are not asked */
	std::chrono::nanoseconds timeout = std::chrono::seconds(1);
	std::uint32_t rise = 2; /* good answers in a row after which one that is down is up */
	std::uint32_t fall = 3; /* failures in a row after which it is down */
	std::string send;       /* what to say once connected */
	std::string expect;     /* what the answer begins with; empty: connecting is enough */
};

struct group_config {
	std::string name; /* empty: that of the listener, with the port that it got */
	balancing balance = balancing::round_robin;
	/* Passive ejection, see balance.hpp. */
	std::uint32_t eject_after = 5; /* 0: never */
	std::chrono::nanoseconds eject_for = std::chrono::seconds(10);
	std::chrono::nanoseconds slow_return = std::chrono::seconds(30);
	/* Of backends that are given by name, see names.hpp. */
	std::chrono::nanoseconds resolve = std::chrono::seconds(10);
	std::chrono::nanoseconds resolve_timeout = std::chrono::seconds(5);
	check_config check;
	proxy_sending send_proxy = proxy_sending::none;
	keepalive_config keepalive{};         /* of connections to them */
	std::vector<backend_config> backends; /* at least one; addresses are unique */
};

/* Where TLS clients go that ask for a name. */
struct sni_route {
	std::string name; /* lower case; of "*.example.org" it is ".example.org" */
	std::size_t group = 0;
};

struct listener_config {
	static constexpr std::size_t no_group = SIZE_MAX;

	std::string name; /* empty: its address, with the port that it got */
	std::string address;
	std::size_t group = no_group; /* in config::groups; none only with sni */
	std::vector<sni_route> sni;   /* empty: hellos are not looked at */
	ip_networks proxy_from;       /* empty: there are no PROXY headers */
	std::chrono::nanoseconds hello_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
	std::chrono::nanoseconds half_close_timeout{};
	std::chrono::nanoseconds lifetime{};
	sn_relay_gather gather = SN_RELAY_GATHER_AUTO;
	keepalive_config keepalive{};                 /* of clients' connections */
	std::uint64_t max_connections = 0;            /* 0: no limit of its own */
	std::uint64_t max_connections_per_source = 0; /* 0: none */
	std::uint64_t accept_rate = 0;                /* in a second; 0: no limit */
	std::uint64_t accept_burst = 0;               /* at once; at least 1 with a rate */
	bandwidth_config bandwidth{};                 /* of all its connections together */
	bandwidth_config bandwidth_per_connection{};
	ip_networks deny;
	ip_networks allow; /* empty: everybody who is not denied */
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

/* One error a line, without line breaks. At least one. */
using config_errors = std::vector<std::string>;

/* What the text says; file is how errors name it. */
std::variant<config, config_errors> parse_config(std::string_view text, const std::string &file);

/* Reads the file, at most 4 MiB. Blocks on the file system: not for a task. */
std::variant<config, config_errors> read_config(const std::string &file);

} // namespace relay

#endif
